// SPDX-License-Identifier: GPL-2.0-only
//! Redline's reservations as the daemon has them: it tells the scheduler which executables have a specification, looks after those who run
//! already, gives back what was taken back when there is room, and takes requests. Who is admitted and who loses a reservation is decided
//! in the scheduler, at once (`sched/bpf/reserve.bpf.h`, `load.bpf.h`).

mod memory;
mod read;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use limelight_abi::sched::{
    LL_RESERVATION_ADMITTED, LL_RESERVATION_REFUSED, LL_RESERVATION_RETIRED, LL_RESERVATION_REVOKED,
    LL_SPEC_BEST_EFFORT, LL_SPEC_INHERITABLE, LL_SPEC_INTERACTIVE_PARENT, LL_SPEC_LOGIN, LL_SPEC_REVOCABLE, ll_file,
    ll_reservation, ll_spec,
};
use limelight_sched::Refusal;
use limelight_spec::{Kind, Places, Spec};
use log::{info, warn};

use crate::kernel::Kernel;
use crate::procfs;
use crate::view::{ReservationStatus, Reservations, ReservedCpu, Shortage};
use crate::worker::Worker;

use read::{Executable, Found, Job, Read, Reader};

/// Between looks for executables that were replaced and for who is in a unit that has a specification: how long the latter wait for theirs.
const LOOK: Duration = Duration::from_secs(2);

/// After a look of some time this many times as long without one.
const REST_FACTOR: u32 = 100;

/// One reservation is given back in each observation window (section 6.1), in passes of a second.
const WINDOW_PASSES: u64 = 4;

/// How many are tried for that: the first may be too large for the room there is.
const TRIED: usize = 16;

/// Complaints that are told one by one; of more than that, how many.
const TOLD: usize = 20;

/// Reservations that one user but root can have asked for at once, and what they may come to, in parts per million of a CPU: so that who
/// asks for much leaves room for the programs of others.
const MAX_REQUESTS: usize = 8;
const MAX_REQUESTED_PPM: u32 = 250_000;

/// The specification of who asked for a reservation: none of the files has it.
const REQUESTED: u32 = 0;

/// A reservation that a process asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The process.
    pub pid: u32,
    /// C.
    pub runtime: Duration,
    /// T.
    pub period: Duration,
}

/// Everything about reservations that is not in the scheduler.
pub struct Reserve {
    worker: Worker<Job, Found>,
    under_way_since: Option<Instant>,
    read_again: bool,
    look_after: Instant,
    /// Specifications in force, by the number that the scheduler knows them by, and these numbers: they stay when the files are read again.
    specs: BTreeMap<u32, Spec>,
    ids: HashMap<String, u32>,
    executables: Vec<Executable>,
    files: HashSet<FileKey>,
    /// Users who asked for a reservation, by process.
    requested: BTreeMap<u32, u32>,
    /// What each reservation had used at the last pass, and what of a CPU since the pass before that, in per cent.
    used: HashMap<(u32, u32), (u64, f64)>,
    /// Who was not given its reservation back at the last try because it has more paged out than is free.
    short: HashMap<(u32, u32), Shortage>,
    /// In which pass each of those that wait was last tried to be given back.
    tried: HashMap<(u32, u32), u64>,
    proc: PathBuf,
    passed_at: Instant,
    complaints: usize,
    passes: u64,
}

type FileKey = (u32, u64, u32);

fn key(file: &ll_file) -> FileKey {
    (file.device, file.inode, file.generation)
}

fn file(key: FileKey) -> ll_file {
    ll_file { device: key.0, inode: key.1, generation: key.2 }
}

impl Reserve {
    /// Reservations by the specifications in `places`, which are read at once.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub fn start(places: Places) -> Result<Self> {
        let mut reader = Reader::new(places);
        let mut reserve = Self {
            worker: Worker::start("specs", 1, move |job| reader.work(job))?,
            under_way_since: None,
            read_again: false,
            look_after: Instant::now(),
            specs: BTreeMap::new(),
            ids: HashMap::new(),
            executables: Vec::new(),
            files: HashSet::new(),
            requested: BTreeMap::new(),
            used: HashMap::new(),
            short: HashMap::new(),
            tried: HashMap::new(),
            proc: procfs::ROOT.into(),
            passed_at: Instant::now(),
            complaints: 0,
            passes: 0,
        };
        reserve.read();
        Ok(reserve)
    }

    /// Read the specifications again. Never waits.
    pub fn read(&mut self) {
        self.read_again = !self.begin(Job::Read);
    }

    fn begin(&mut self, job: Job) -> bool {
        let free = self.under_way_since.is_none() && self.worker.give(job).is_ok();
        if free {
            self.under_way_since = Some(Instant::now());
        }
        free
    }

    /// Something has been read or found: let it take effect.
    ///
    /// # Errors
    /// The thread has ended by itself.
    pub fn check(&mut self, kernel: &impl Kernel) -> Result<()> {
        let Some(found) = self.worker.take()? else { return Ok(()) };
        let took = self.under_way_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        // The search follows a reading at once, whose rest, the longer one, stays.
        if !matches!(found, Found::Running(_)) {
            self.look_after = Instant::now() + LOOK.max(took * REST_FACTOR);
        }
        let is_read = matches!(found, Found::Read(_));
        let done = match found {
            Found::Read(read) => self.put_in_force(kernel, read),
            Found::InCgroups(found) => self.serve_cgroups(kernel, found),
            Found::Running(pids) => self.adopt(kernel, pids),
        };
        if let Err(error) = done {
            warn!("{error:#}");
        }
        if self.read_again {
            self.read();
        } else if is_read {
            self.begin(Job::Run);
        }
        Ok(())
    }

    /// A new scheduler knows nothing: tell it everything.
    ///
    /// # Errors
    /// The scheduler cannot be told.
    pub fn retell(&mut self, kernel: &impl Kernel) -> Result<()> {
        self.files.clear();
        self.used.clear();
        self.short.clear();
        self.tried.clear();
        self.tell_files(kernel)?;
        // Who runs already is looked for anew.
        self.read();
        Ok(())
    }

    fn put_in_force(&mut self, kernel: &impl Kernel, read: Read) -> Result<()> {
        for complaint in read.complaints.iter().take(TOLD) {
            warn!("{complaint}");
        }
        self.complaints = read.complaints.len();
        if self.complaints > TOLD {
            warn!("{} more complaints about specifications: limelight spec check shows all", self.complaints - TOLD);
        }
        let before = self.specs.len();
        self.specs.clear();
        for spec in read.executables.iter().map(|executable| &executable.spec).chain(&read.by_cgroup) {
            let id = self.id(spec);
            self.specs.insert(id, spec.clone());
        }
        self.executables = read.executables;
        self.tell_files(kernel)?;
        for (number, held) in kernel.reservations() {
            let gone = held.spec != REQUESTED && !self.specs.contains_key(&held.spec);
            if gone && held.state != LL_RESERVATION_RETIRED {
                let _ = kernel.retire(number, held.tgid)?;
            }
        }
        if before != self.specs.len() {
            info!("{} specifications are in force", self.specs.len());
        }
        Ok(())
    }

    /// These processes have, by their executables, what the specifications in force say.
    fn adopt(&mut self, kernel: &impl Kernel, running: Vec<u32>) -> Result<()> {
        // As it is now. One that was taken back for good does not come back by itself when its line does.
        let mut held = kernel.reservations();
        held.retain(|(_, held)| held.state != LL_RESERVATION_RETIRED);
        for pid in running.into_iter().filter(|&pid| !self.holds_its_own(&held, pid)) {
            if kernel.adopt(pid)? {
                follow(kernel, pid)?;
            }
        }
        Ok(())
    }

    /// Which executables have which specification.
    fn tell_files(&mut self, kernel: &impl Kernel) -> Result<()> {
        let mut now = HashSet::new();
        for executable in &self.executables {
            let Some(&id) = self.ids.get(&executable.spec.target.to_string()) else { continue };
            let identity = kernel.identify(executable.file.as_fd())?;
            // Of two names of one file the later counts, as of two lines with one name.
            kernel.set_spec(&identity, &entry(&executable.spec, id))?;
            now.insert(key(&identity));
        }
        for &gone in self.files.difference(&now) {
            kernel.remove_spec(&file(gone));
        }
        self.files = now;
        kernel.count_specs(self.files.len())
    }

    /// The number by which the scheduler knows `spec`.
    fn id(&mut self, spec: &Spec) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX - 1) + 1;
        *self.ids.entry(spec.target.to_string()).or_insert(next)
    }

    /// Does `pid` hold, of those `held`, what it asked for, or what its specification says?
    fn holds_its_own(&self, held: &[(u32, ll_reservation)], pid: u32) -> bool {
        held.iter().filter(|(_, held)| held.tgid == pid).any(|(_, held)| {
            let spec = self.specs.get(&held.spec).map(|spec| entry(spec, held.spec));
            held.spec == REQUESTED || spec.is_some_and(|spec| is_as(held, &spec))
        })
    }

    fn serve_cgroups(&mut self, kernel: &impl Kernel, found: Vec<(u32, Spec)>) -> Result<()> {
        let mut held = kernel.reservations();
        held.retain(|(_, held)| held.state != LL_RESERVATION_RETIRED);
        for (pid, spec) in found.into_iter().filter(|(_, spec)| spec.kind == Kind::Interactive) {
            let id = self.id(&spec);
            // Of another specification's it is left alone; of this one's it may have changed.
            let mut its = held.iter().filter(|(_, held)| held.tgid == pid);
            if its.any(|(_, held)| held.spec != id || is_as(held, &entry(&spec, id))) {
                continue;
            }
            if kernel.assign(pid, 0, &entry(&spec, id))?.is_ok() {
                follow(kernel, pid)?;
            }
        }
        Ok(())
    }

    /// Every second: what each used, a look, and one that was taken back may come back.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn pass(&mut self, kernel: &impl Kernel) -> Result<()> {
        self.passes += 1;
        if Instant::now() >= self.look_after {
            self.begin(Job::Look);
        }
        let held = kernel.reservations();
        // Beside much load a pass comes late.
        let passed = std::mem::replace(&mut self.passed_at, Instant::now()).elapsed().as_nanos().max(1) as f64;
        let before = std::mem::take(&mut self.used);
        for (number, held) in &held {
            let id = (*number, held.tgid);
            let was = before.get(&id).map_or(held.used_ns, |&(used_ns, _)| used_ns);
            self.used.insert(id, (held.used_ns, held.used_ns.saturating_sub(was) as f64 * 100.0 / passed));
        }
        self.requested.retain(|pid, _| held.iter().any(|(_, held)| held.tgid == *pid));
        if self.passes.is_multiple_of(WINDOW_PASSES) {
            self.reactivate_one(kernel, &held)?;
        }
        Ok(())
    }

    /// Of those that were refused or taken back, give the one that waits longest what it asks for, if there is room and memory for it; or the next.
    /// Who serves the person comes first: behind two thousand others it would wait for hours, as one is given back in each window. Half of the tries
    /// are for these, so that some that fit nowhere do not keep all others from theirs.
    fn reactivate_one(&mut self, kernel: &impl Kernel, held: &[(u32, ll_reservation)]) -> Result<()> {
        let mut waiting: Vec<_> = held.iter().filter(|(_, held)| waits(held.state)).collect();
        waiting.sort_by_key(|(_, held)| held.since_s);
        let ids: HashSet<_> = waiting.iter().map(|(number, held)| (*number, held.tgid)).collect();
        self.tried.retain(|id, _| ids.contains(id));
        if waiting.len() > TRIED {
            // Who was tried last comes last, or those that fit nowhere would keep all others from theirs for good.
            waiting.sort_by_key(|(number, held)| self.tried.get(&(*number, held.tgid)).copied().unwrap_or_default());
        }
        let (serving, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, held)| held.serves != 0);
        let first = serving.len().min(TRIED / 2);
        waiting = [&serving[..first], &others, &serving[first..]].concat();
        let mut short = HashMap::new();
        let mut tries = TRIED;
        for (number, held) in waiting {
            let id = (*number, held.tgid);
            // Of who is not looked at this time it is as it was. Who lacks memory is no try: however many do, the next is asked about.
            let lacks =
                if tries > 0 { memory::shortage_of(&self.proc, held.tgid) } else { self.short.get(&id).copied() };
            if let Some(lacks) = lacks {
                short.insert(id, lacks);
            } else if tries > 0 {
                self.tried.insert(id, self.passes);
                tries = if kernel.reactivate(*number, held.tgid)?.is_ok() { 0 } else { tries - 1 };
            }
        }
        self.short = short;
        Ok(())
    }

    /// User `uid` asks for a reservation, of a process of theirs.
    ///
    /// # Errors
    /// Why not, for the one who asked.
    pub fn request(&mut self, kernel: &impl Kernel, uid: u32, wish: &Wish) -> Result<ReservationStatus> {
        // First: what is far out of range is told so, and not that it does not fit into a number.
        check_bounds(wish)?;
        let spec = ll_spec {
            runtime_ns: u64::try_from(wish.runtime.as_nanos())?,
            period_ns: u64::try_from(wish.period.as_nanos())?,
            flags: LL_SPEC_REVOCABLE,
            id: REQUESTED,
        };
        self.check_user(kernel, uid, wish)?;
        match kernel.assign(wish.pid, uid, &spec)? {
            Ok(()) => {}
            Err(Refusal::NoRoom) => bail!("there are as many reservations as there can be: try again later"),
            Err(Refusal::Gone) => {
                bail!("there is no process {}: give the number of a process, not of a thread", wish.pid)
            }
            Err(Refusal::NotTheirs) => bail!("process {} is not yours: ask as its user, or as root", wish.pid),
        }
        follow(kernel, wish.pid)?;
        self.requested.insert(wish.pid, uid);
        self.of(kernel, wish.pid).ok_or_else(|| anyhow!("process {} has ended", wish.pid))
    }

    /// User `uid` asks for the end of the reservation that was asked for, of process `pid`. What its executable's specification says is in force again.
    ///
    /// # Errors
    /// It holds none, or not one that `uid` may end.
    pub fn release(&mut self, kernel: &impl Kernel, uid: u32, pid: u32) -> Result<()> {
        let held = kernel.reservations().into_iter().find(|(_, held)| held.tgid == pid && held.spec == REQUESTED);
        let is_theirs = uid == 0 || self.requested.get(&pid) == Some(&uid);
        let Some((number, _)) = held.filter(|_| is_theirs) else {
            bail!("process {pid} holds no reservation that you asked for");
        };
        self.requested.remove(&pid);
        // Where it has ended meanwhile, so has its reservation.
        if kernel.retire(number, pid)?.is_ok() && kernel.adopt(pid)? {
            follow(kernel, pid)?;
        }
        Ok(())
    }

    fn check_user(&self, kernel: &impl Kernel, uid: u32, wish: &Wish) -> Result<()> {
        if uid == 0 {
            return Ok(());
        }
        let theirs = |pid: &u32| *pid != wish.pid && self.requested.get(pid) == Some(&uid);
        let held = kernel.reservations();
        if held.iter().any(|(_, held)| held.tgid == wish.pid && held.spec != REQUESTED) {
            bail!("process {} has a specification of the administrator's: ask as root to change that", wish.pid);
        }
        let held: Vec<u32> =
            held.iter().filter(|(_, held)| theirs(&held.tgid)).map(|(_, held)| held.bandwidth_ppm).collect();
        let sum = held.iter().sum::<u32>() + bandwidth_ppm(wish);
        if held.len() >= MAX_REQUESTS || sum > MAX_REQUESTED_PPM {
            bail!(
                "you would have {} reservations of {} % of a CPU: each user can ask for {MAX_REQUESTS} of {} % together; \
                 end one of those programs, or ask the administrator for a specification (limelight spec)",
                held.len() + 1,
                sum / 10_000,
                MAX_REQUESTED_PPM / 10_000
            );
        }
        Ok(())
    }

    /// Every reservation, and the load.
    #[must_use]
    pub fn view(&self, kernel: &impl Kernel) -> Reservations {
        let seconds = kernel.load_seconds();
        let held = kernel.reservations();
        Reservations {
            specifications: self.specs.len(),
            complaints: self.complaints,
            cpus: kernel.loads().iter().map(ReservedCpu::of).collect(),
            reservations: held.iter().map(|(number, held)| self.status(*number, held, seconds)).collect(),
        }
    }

    fn status(&self, number: u32, held: &ll_reservation, seconds: u64) -> ReservationStatus {
        let used_pct = self.used.get(&(number, held.tgid)).map_or(0.0, |&(_, used)| used);
        let target = match self.specs.get(&held.spec) {
            Some(spec) => spec.target.to_string(),
            None if held.spec == REQUESTED => "as asked for".to_owned(),
            None => "no longer in force".to_owned(),
        };
        let status = ReservationStatus::of(held, target, used_pct, seconds.saturating_sub(held.since_s));
        let short = self.short.get(&(number, held.tgid)).filter(|_| waits(held.state)).copied();
        ReservationStatus { short, ..status }
    }

    /// The reservation that process `pid` holds.
    #[must_use]
    pub fn of(&self, kernel: &impl Kernel, pid: u32) -> Option<ReservationStatus> {
        let held = kernel.reservations().into_iter().find(|(_, held)| held.tgid == pid)?;
        Some(self.status(held.0, &held.1, kernel.load_seconds()))
    }
}

impl AsFd for Reserve {
    /// Readable when there is something to check.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}

/// `spec` as the scheduler has it.
fn entry(spec: &Spec, id: u32) -> ll_spec {
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    ll_spec {
        runtime_ns: ns(spec.runtime),
        period_ns: ns(spec.period),
        flags: flag(spec.inheritable, LL_SPEC_INHERITABLE)
            | flag(spec.revocable, LL_SPEC_REVOCABLE)
            | flag(spec.login, LL_SPEC_LOGIN)
            | flag(spec.interactive_parent, LL_SPEC_INTERACTIVE_PARENT)
            | flag(spec.kind == Kind::BestEffort, LL_SPEC_BEST_EFFORT),
        id,
    }
}

fn is_as(held: &ll_reservation, spec: &ll_spec) -> bool {
    (held.runtime_ns, held.period_ns, held.flags) == (spec.runtime_ns, spec.period_ns, spec.flags)
}

/// Is one of `state` given back when there is room?
fn waits(state: u32) -> bool {
    state == LL_RESERVATION_REVOKED || state == LL_RESERVATION_REFUSED
}

/// The other threads of `pid` hold what it holds.
fn follow(kernel: &impl Kernel, pid: u32) -> Result<()> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Ok(()) };
    let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
    for tid in tids.filter(|&tid| tid != pid) {
        kernel.adopt(tid)?;
    }
    Ok(())
}

fn bandwidth_ppm(wish: &Wish) -> u32 {
    (wish.runtime.as_secs_f64() / wish.period.as_secs_f64() * 1e6) as u32
}

fn check_bounds(wish: &Wish) -> Result<()> {
    use limelight_spec::fields::{PERIOD_LEAST, PERIOD_MOST, RUNTIME_LEAST};
    if wish.period < PERIOD_LEAST || wish.period > PERIOD_MOST {
        bail!("a period of {:?}: it is {PERIOD_LEAST:?} to {PERIOD_MOST:?}", wish.period);
    }
    if wish.runtime < RUNTIME_LEAST || wish.runtime > wish.period {
        bail!(
            "{:?} of CPU in {:?}: it is {RUNTIME_LEAST:?} at least, and no more than the period",
            wish.runtime,
            wish.period
        );
    }
    Ok(())
}

/// In words.
pub fn state_name(state: u32) -> &'static str {
    match state {
        LL_RESERVATION_ADMITTED => "admitted",
        LL_RESERVATION_REFUSED => "refused",
        LL_RESERVATION_REVOKED => "revoked",
        _ => "ended",
    }
}

#[cfg(test)]
mod tests;
