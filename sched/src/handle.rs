// SPDX-License-Identifier: GPL-2.0-only
//! Mechanism only: what the numbers mean is decided in `limelight-policy`.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject, PrintLevel, ProgramInput, set_print};
use limelight_abi::sched::{LL_NR_STATS, ll_edge, ll_proc_stats, ll_publish_args, ll_rating, ll_stat_id};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{Topology, compat, scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited, uei_read};

use crate::bytes;
use crate::config::{Policy, Settings};
use crate::layout;
use crate::pages::CoopPages;
use crate::skel::types::{login_ctx, task_ctx};
use crate::skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use crate::standings::Standings;

/// CPUs the BPF program has room for (`LL_MAX_CPUS` in `main.bpf.c`).
const MAX_CPUS: usize = 1024;

/// How long a task may wait before the kernel ends the scheduler, where the kernel has no server for `sched_ext` tasks: the most that
/// it allows. Before 7.0, what only one CPU can run gets nothing there while a real-time process holds that CPU, whatever a
/// `sched_ext` scheduler does; 10 s of that (`timeout_ms` in `main.bpf.c`) are no fault of ours.
const TIMEOUT_WITHOUT_SERVER_MS: u32 = 30_000;

/// Parts per million in one per cent.
const PPM_OF_PCT: u32 = 10_000;

/// How many edges or ratings one system call fetches.
const BATCH: u32 = 4096;

/// Wake-ups of one process by another since the last drain.
pub type EdgeCount = (ll_edge, u64);

/// Why the scheduler stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The kernel's words: what happened, and its message where it has one.
    pub reason: String,
    /// Only the set of CPUs changed: load it again.
    pub restart: bool,
    /// Somebody asked the kernel to take it off (SysRq-S): leave it off.
    pub by_administrator: bool,
}

/// A loaded and running scheduler. Dropping it gives the CPUs back to the kernel's own.
pub struct Scheduler<'obj> {
    pub(crate) skel: BpfSkel<'obj>,
    link: Option<Link>,
    pub(crate) nr_cpus: usize,
}

/// What libbpf warns of. What it would tell besides, at each start, is of operations that this kernel does not know and nobody asked for; and that it does
/// not attach the operations, which scx_ops_attach!() does right after: both read like faults.
#[expect(clippy::needless_pass_by_value, reason = "as libbpf-rs has it")]
fn tell(_: PrintLevel, message: String) {
    let message = message.trim_end();
    if message.ends_with("BPF map skeleton link is uninitialized") {
        log::debug!("{message}");
    } else {
        log::warn!("{message}");
    }
}

impl<'obj> Scheduler<'obj> {
    /// Load the scheduler and let it take over every task of the normal scheduling classes.
    ///
    /// # Errors
    /// A setting is out of range, the kernel has no `sched_ext`, another scheduler is loaded, the kernel's BTF is broken,
    /// the caller may not load BPF programs, or a map is of another shape than is read here.
    pub fn load(settings: &Settings, object: &'obj mut MaybeUninit<OpenObject>) -> Result<Self> {
        settings.check().map_err(|message| anyhow!(message))?;
        let topology = Topology::new().context("cannot read the CPU topology from /sys")?;
        check_types().context("cannot read the kernel's BTF")?;
        let options = LibbpfOpts::default().into_bpf_open_opts();
        set_print(Some((PrintLevel::Warn, tell)));
        let mut open = scx_ops_open!(BpfSkelBuilder::default(), object, limelight_ops, options)?;
        layout::check(&open.maps)?;
        // A constant that older kernels do not have; without it they run such tasks before all others.
        open.struct_ops.limelight_ops_mut().flags |= *compat::SCX_OPS_ENQ_MIGRATION_DISABLED;
        if !has_server()? {
            open.struct_ops.limelight_ops_mut().timeout_ms = TIMEOUT_WITHOUT_SERVER_MS;
        }
        write_settings(&mut open, settings)?;
        let nr_cpus = write_topology(&mut open, settings.policy, &topology)?;
        open.maps.release_queues.set_max_entries(u32::try_from(nr_cpus)?)?;
        let mut skel = scx_ops_load!(open, limelight_ops, uei)?;
        // Without the symbol it works, but does not see who writes to a terminal. It is kept from who has not CAP_SYSLOG, or from everybody.
        let found = skel
            .progs
            .ll_find_symbols
            .test_run(ProgramInput::default())
            .context("cannot look for the kernel's symbols")?;
        if found.return_value != 0 {
            log::warn!(
                "the kernel does not say where flush_to_ldisc is ({}): programs in terminals are found late; \
                 give the daemon CAP_SYSLOG, and set kernel.kptr_restrict to 1 or 0",
                std::io::Error::from_raw_os_error(found.return_value.cast_signed().wrapping_neg())
            );
        }
        let link = scx_ops_attach!(skel, limelight_ops)?;
        Ok(Self { skel, link: Some(link), nr_cpus })
    }

    /// Has the kernel, or the scheduler itself, ended it?
    #[must_use]
    pub fn has_exited(&self) -> bool {
        uei_exited!(&self.skel, uei)
    }

    /// Take the scheduler off and learn why it ended.
    pub fn unload(mut self) -> Exit {
        drop(self.link.take());
        let info = uei_read!(&self.skel, uei);
        let restart = info.should_restart();
        // report() prints the kernel's dump, where there is one, and returns the reason of an end that was not wanted.
        let reason = info.report().err().map_or_else(|| "taken off".to_owned(), |error| error.to_string());
        let by_administrator = reason.contains("sysrq");
        Exit { reason, restart, by_administrator }
    }

    /// Write the rating of process `tgid`. It takes effect with the next [`Self::publish`].
    ///
    /// # Errors
    /// More than `LL_MAX_RATED` processes are rated.
    pub fn set_rating(&self, tgid: u32, rating: &ll_rating) -> Result<()> {
        self.skel
            .maps
            .ratings
            .update(&tgid.to_ne_bytes(), bytes::of(rating), MapFlags::ANY)
            .with_context(|| format!("cannot store the rating of process {tgid}"))
    }

    /// Forget the rating of process `tgid` and what it got; nothing happens where it has none.
    pub fn clear_rating(&self, tgid: u32) {
        // The process may have ended and taken its entries along: then there is nothing left to do.
        let _ = self.skel.maps.ratings.delete(&tgid.to_ne_bytes());
        let _ = self.skel.maps.proc_stats.delete(&tgid.to_ne_bytes());
    }

    /// The rating that the scheduler holds for process `tgid`, if any.
    #[must_use]
    pub fn rating(&self, tgid: u32) -> Option<ll_rating> {
        let value = self.skel.maps.ratings.lookup(&tgid.to_ne_bytes(), MapFlags::ANY).ok()??;
        bytes::read(&value)
    }

    /// For how much CPU process `tgid` is still of class HUCOUT as a login, or as a child of one, in nanoseconds; none where it is neither.
    #[must_use]
    pub fn login_left_ns(&self, tgid: u32) -> Option<u64> {
        let process = pidfd_open(Pid::from_raw(tgid.cast_signed())?, PidfdFlags::empty()).ok()?;
        let key = process.as_raw_fd().to_ne_bytes();
        let task = self.skel.maps.task_ctxs.lookup(&key, MapFlags::ANY).ok()??;
        let login = task.get(offset_of!(task_ctx, login)..)?;
        let is_one: u32 = bytes::read(login.get(offset_of!(login_ctx, is_one)..)?.get(..4)?)?;
        let left_ns = bytes::read(login.get(offset_of!(login_ctx, left_ns)..)?.get(..8)?)?;
        (is_one != 0).then_some(left_ns)
    }

    /// Every rating that the scheduler holds, those it gave by itself included.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn ratings(&self) -> Result<Vec<(u32, ll_rating)>> {
        let entries = self.skel.maps.ratings.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let entries = entries.context("cannot read the ratings")?;
        Ok(entries.filter_map(|(key, value)| Some((bytes::read(&key)?, bytes::read(&value)?))).collect())
    }

    /// Let new ratings take effect. The waiting tasks of `at_once`, where given, change queue now.
    ///
    /// `tracking` says whether anybody serves the person: only then are wake-ups recorded.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn publish(&self, tracking: bool, at_once: Option<u32>) -> Result<()> {
        let mut args = ll_publish_args { tracking: tracking.into(), tgid: at_once.unwrap_or(0) };
        let input = ProgramInput { context_in: Some(bytes::of_mut(&mut args)), ..ProgramInput::default() };
        let output = self.skel.progs.ll_publish.test_run(input).context("cannot publish ratings")?;
        if output.return_value != 0 {
            bail!("cannot publish ratings: the scheduler's program returned {}", output.return_value);
        }
        Ok(())
    }

    /// Take the edges of the dependency graph that were recorded since the last call.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn drain_edges(&self) -> Result<Vec<EdgeCount>> {
        let entries = self.skel.maps.edges.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let entries = entries.context("cannot read the dependency graph")?;
        Ok(entries.filter_map(|(key, value)| Some((bytes::read(&key)?, bytes::read(&value)?))).collect())
    }

    /// What process `tgid` got while it was rated.
    #[must_use]
    pub fn process_stats(&self, tgid: u32) -> Option<ll_proc_stats> {
        stats_in(&self.skel.maps.proc_stats, tgid)
    }

    /// The same for another thread, after the scheduler has ended, too.
    ///
    /// # Errors
    /// There is no room for another file descriptor.
    pub fn shared_process_stats(&self) -> Result<ProcessStats> {
        let map = MapHandle::try_from(&self.skel.maps.proc_stats).context("cannot share the map of statistics")?;
        Ok(ProcessStats { map })
    }

    /// The pages of cooperative processes, for other threads, because whoever enters them waits.
    ///
    /// # Errors
    /// There is no room for another file descriptor or page.
    pub fn coop_pages(&self) -> Result<CoopPages> {
        let maps = &self.skel.maps;
        let share = |map| MapHandle::try_from(map).context("cannot share the maps of cooperative pages");
        let consents = share(&maps.coop_consents)?;
        CoopPages::new(share(&maps.coop_pages)?, share(&maps.coop_numbers)?, share(&maps.coop_owners)?, &consents)
    }

    /// How cooperative threads stand, for another thread, because of many it takes long.
    ///
    /// # Errors
    /// There is no room for another file descriptor.
    pub fn standings(&self) -> Result<Standings> {
        let maps = &self.skel.maps;
        let share = |map| MapHandle::try_from(map).context("cannot share the maps of cooperative threads");
        Ok(Standings {
            tasks: share(&maps.task_ctxs)?,
            pages: share(&maps.coop_pages)?,
            numbers: share(&maps.coop_numbers)?,
            owners: share(&maps.coop_owners)?,
        })
    }

    /// Does the scheduler take it that somebody serves the person? It begins to by itself with each rating that it gives.
    #[must_use]
    pub fn is_tracking(&self) -> bool {
        self.skel.maps.bss_data.as_ref().is_some_and(|bss| bss.tracking != 0)
    }

    /// One counter of `LL_STATS`, summed over the CPUs: some nanoseconds for each of them. [`Self::counters`] reads them all.
    #[must_use]
    pub fn counter(&self, stat: ll_stat_id) -> u64 {
        let Some(bss) = self.skel.maps.bss_data.as_ref() else { return 0 };
        bss.cpu_ctxs.iter().take(self.nr_cpus).filter_map(|cpu| cpu.stats.get(stat as usize)).sum()
    }

    /// The counters of `LL_STATS`, summed over the CPUs.
    #[must_use]
    pub fn counters(&self) -> [u64; LL_NR_STATS as usize] {
        let mut sums = [0; LL_NR_STATS as usize];
        let Some(bss) = self.skel.maps.bss_data.as_ref() else { return sums };
        for cpu in bss.cpu_ctxs.iter().take(self.nr_cpus) {
            for (sum, value) in sums.iter_mut().zip(cpu.stats) {
                *sum += value;
            }
        }
        sums
    }
}

/// What processes got while they were rated.
#[derive(Debug)]
pub struct ProcessStats {
    map: MapHandle,
}

impl ProcessStats {
    /// See [`Scheduler::process_stats`].
    #[must_use]
    pub fn of(&self, tgid: u32) -> Option<ll_proc_stats> {
        stats_in(&self.map, tgid)
    }
}

fn stats_in(map: &impl MapCore, tgid: u32) -> Option<ll_proc_stats> {
    let value = map.lookup(&tgid.to_ne_bytes(), MapFlags::ANY).ok()??;
    bytes::read(&value)
}

/// Can the kernel's description of its types be read? Whoever asks `scx_utils` for one of them before panics where it cannot.
///
/// # Errors
/// libbpf's reason why not.
pub fn check_types() -> Result<()> {
    // What it would print is in the error.
    let printed = set_print(None);
    let read = Btf::from_vmlinux().map(drop);
    set_print(printed);
    Ok(read?)
}

/// Does this kernel give `sched_ext` tasks a part of a CPU that real-time tasks hold?
///
/// # Errors
/// The kernel's BTF cannot be read.
pub fn has_server() -> Result<bool> {
    compat::struct_has_field("rq", "ext_server").context("cannot read the kernel's BTF")
}

fn write_settings(open: &mut OpenBpfSkel<'_>, settings: &Settings) -> Result<()> {
    let rodata = open.maps.rodata_data.as_mut().context("the BPF object has no constants")?;
    rodata.huc_slice_ns = settings.huc_slice_ns;
    rodata.slice_min_ns = settings.slice_min_ns;
    rodata.rescue_after_ns = settings.rescue_after_ns;
    rodata.wait_epoch_shift =
        (settings.rescue_after_ns.max(2 * rodata.rescue_period_ns) / 8).next_power_of_two().ilog2();
    rodata.indirect_budget_ns = settings.effective_indirect_budget_ns();
    rodata.share_pm = settings.share_pm();
    // More than what is given at a time, or what is owed would never be as much, or nothing be earned until it is given.
    rodata.share_cap_ns = rodata.share_cap_ns.max(i64::try_from(settings.slice_min_ns)? * 3 / 2);
    rodata.load_low_ppm = settings.load_low_pct * PPM_OF_PCT;
    rodata.load_high_ppm = settings.load_high_pct * PPM_OF_PCT;
    rodata.load_max_ppm = settings.load_max_pct * PPM_OF_PCT;
    rodata.other_period_ns = settings.period_ns;
    rodata.other_slice_min_ns = settings.fair_slice_min_ns;
    rodata.coop_slack_ns = settings.coop_slack_ns;
    rodata.coop_ahead_ns = settings.coop_ahead_ns;
    // There the person's own programs are of class OTHER, and would pay for each login.
    if !settings.rates() {
        rodata.login_first_ns = 0;
    }
    Ok(())
}

/// A slice of class OTHER is no longer than the period by this, so that who wakes beside only one or two others waits for a quarter of it at most.
const SLICES_OF_PERIOD: u64 = 4;

/// By how much the least slice of class OTHER is longer on a machine of `nr_online` CPUs, as the kernel's own base slice is
/// (`sched_tunable_scaling`, logarithmic, up to 8 CPUs): the more CPUs, the sooner another one is free for who waits. The paper's policy has no such thing.
fn slice_factor(policy: Policy, nr_online: u32) -> u32 {
    match policy {
        Policy::Coop => 1,
        Policy::Huc | Policy::Redline | Policy::Unified => 1 + nr_online.clamp(1, 8).ilog2(),
    }
}

/// Tell the BPF program which CPUs there are and which share a last-level cache. Returns the number of CPU ids.
fn write_topology(open: &mut OpenBpfSkel<'_>, policy: Policy, topology: &Topology) -> Result<usize> {
    let rodata = open.maps.rodata_data.as_mut().context("the BPF object has no constants")?;
    let nr_cpus = *scx_utils::NR_CPU_IDS;
    if nr_cpus > MAX_CPUS {
        bail!("this machine has {nr_cpus} CPU ids; the scheduler has room for {MAX_CPUS}");
    }
    rodata.nr_cpus = u32::try_from(nr_cpus)?;
    rodata.nr_online = u32::try_from(topology.all_cpus.len().max(1))?;
    rodata.other_slice_min_ns *= u64::from(slice_factor(policy, rodata.nr_online));
    rodata.other_slice_max_ns = (rodata.other_period_ns / SLICES_OF_PERIOD).max(rodata.other_slice_min_ns);
    rodata.nr_llcs = u32::try_from(topology.all_llcs.len().clamp(1, 256))?;
    for (index, llc) in topology.all_llcs.values().enumerate().take(256) {
        for &cpu in llc.all_cpus.keys().filter(|&&cpu| cpu < MAX_CPUS) {
            rodata.cpu_llc[cpu] = u8::try_from(index)?;
        }
    }
    Ok(nr_cpus)
}

#[cfg(test)]
mod tests {
    use super::{Policy, slice_factor};

    #[test]
    fn the_least_slice_grows_with_the_logarithm_of_the_cpus_up_to_eight() {
        let factors = |policy| [0, 1, 2, 3, 4, 8, 64].map(|nr_online| slice_factor(policy, nr_online));
        assert_eq!(factors(Policy::Unified), [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(factors(Policy::Coop), [1; 7]);
    }
}
