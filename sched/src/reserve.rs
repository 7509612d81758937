// SPDX-License-Identifier: GPL-2.0-only
//! Redline's side of the scheduler: which executables have a specification, which processes hold a reservation, and what load those make.

use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use limelight_abi::sched::{
    LL_RESERVATION_NONE, LL_RESERVE_ADOPT, LL_RESERVE_ASSIGN, LL_RESERVE_REACTIVATE, LL_RESERVE_RETIRE,
    LL_RESERVE_SPECS, ll_cpu_load, ll_file, ll_identify_args, ll_reservation, ll_reserve_args, ll_spec,
};
use nix::errno::Errno;

use crate::bytes;
use crate::handle::Scheduler;

/// Bytes of the lock before each reservation in its map.
pub(crate) const LOCK: usize = 8;

/// Why the scheduler did not do what it was asked to about a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No CPU has room for it now.
    NoRoom,
    /// The process has ended, or the reservation is not the one that was meant.
    Gone,
    /// The process has not the rights of the user who asks, or has more.
    NotTheirs,
}

impl Scheduler<'_> {
    /// How the kernel tells the file that `file` stands for from others.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn identify(&self, file: BorrowedFd<'_>) -> Result<ll_file> {
        let mut args = ll_identify_args { fd: u32::try_from(file.as_raw_fd())?, ..ll_identify_args::default() };
        let input = ProgramInput { context_in: Some(bytes::of_mut(&mut args)), ..ProgramInput::default() };
        let output = self.skel.progs.ll_identify.test_run(input).context("cannot identify an executable")?;
        if output.return_value != 0 {
            bail!("cannot identify an executable: {}", failure(output.return_value));
        }
        Ok(args.file)
    }

    /// From its next execution on, `file` has the specification `spec`.
    ///
    /// # Errors
    /// More than `LL_MAX_SPECS` files have one.
    pub fn set_spec(&self, file: &ll_file, spec: &ll_spec) -> Result<()> {
        let map = &self.skel.maps.specs;
        map.update(bytes::of(file), bytes::of(spec), MapFlags::ANY).context("cannot store a specification")
    }

    /// `file` has no specification any more; nothing happens where it has none.
    pub fn remove_spec(&self, file: &ll_file) {
        let _ = self.skel.maps.specs.delete(bytes::of(file));
    }

    /// Say how many executables have a specification: with none, nothing is looked up when one is executed.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn count_specs(&self, count: usize) -> Result<()> {
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        let args = ll_reserve_args { op: LL_RESERVE_SPECS, number, ..ll_reserve_args::default() };
        self.reserve(args)?.map_err(|refusal| anyhow!("cannot count specifications: {refusal:?}"))
    }

    /// Have process `pid` hold what `spec` says, in place of what it held, whatever it executes: admitted, or else refused and to be reactivated.
    /// Asked for by user `uid`: root for any process, others for those with their rights and no more. Its other threads are to be adopted then.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn assign(&self, pid: u32, uid: u32, spec: &ll_spec) -> Result<Result<(), Refusal>> {
        self.reserve(ll_reserve_args { op: LL_RESERVE_ASSIGN, number: pid, uid, spec: *spec, tgid: 0 })
    }

    /// Have the scheduler look at task `tid`, which runs already, as if it had just executed its program. The first thread of a process
    /// comes first. False where it has ended.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn adopt(&self, tid: u32) -> Result<bool> {
        let args = ll_reserve_args { op: LL_RESERVE_ADOPT, number: tid, ..ll_reserve_args::default() };
        Ok(self.reserve(args)?.is_ok())
    }

    /// Submit reservation `number`, of process `tgid`, to admission again.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn reactivate(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>> {
        self.reserve(ll_reserve_args { op: LL_RESERVE_REACTIVATE, number, tgid, ..ll_reserve_args::default() })
    }

    /// Take reservation `number`, of process `tgid`, back for good.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn retire(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>> {
        self.reserve(ll_reserve_args { op: LL_RESERVE_RETIRE, number, tgid, ..ll_reserve_args::default() })
    }

    fn reserve(&self, mut args: ll_reserve_args) -> Result<Result<(), Refusal>> {
        let input = ProgramInput { context_in: Some(bytes::of_mut(&mut args)), ..ProgramInput::default() };
        let output = self.skel.progs.ll_reserve.test_run(input).context("cannot change a reservation")?;
        if output.return_value == 0 {
            return Ok(Ok(()));
        }
        match failure(output.return_value) {
            Errno::EBUSY => Ok(Err(Refusal::NoRoom)),
            Errno::EPERM => Ok(Err(Refusal::NotTheirs)),
            Errno::ESRCH | Errno::EAGAIN | Errno::ENOENT => Ok(Err(Refusal::Gone)),
            error => bail!("cannot change a reservation: {error}"),
        }
    }

    /// Every reservation that a process holds, admitted or not, with its number.
    #[must_use]
    pub fn reservations(&self) -> Vec<(u32, ll_reservation)> {
        let end = self.skel.maps.bss_data.as_ref().map_or(0, |bss| bss.reservations_end);
        (1..end).filter_map(|number| Some((number, self.reservation(number)?))).collect()
    }

    fn reservation(&self, number: u32) -> Option<ll_reservation> {
        let value = self.skel.maps.reservations.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
        let held: ll_reservation = bytes::read(value.get(LOCK..)?)?;
        (held.state != LL_RESERVATION_NONE && held.tgid != 0).then_some(held)
    }

    /// Seconds that the scheduler has counted: what [`ll_reservation::since_s`] is of.
    #[must_use]
    pub fn load_seconds(&self) -> u64 {
        self.skel.maps.bss_data.as_ref().map_or(0, |bss| bss.load_seconds)
    }

    /// What reservations take of each CPU.
    #[must_use]
    pub fn loads(&self) -> Vec<ll_cpu_load> {
        let load = |cpu: usize| {
            let value = self.skel.maps.loads.lookup(&u32::try_from(cpu).ok()?.to_ne_bytes(), MapFlags::ANY).ok()??;
            bytes::read(&value)
        };
        (0..self.nr_cpus).map(|cpu| load(cpu).unwrap_or_default()).collect()
    }
}

fn failure(returned: u32) -> Errno {
    Errno::from_raw(returned.cast_signed().wrapping_neg())
}
