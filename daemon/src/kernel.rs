// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon needs of a loaded scheduler. A trait, so that the loop and the way from an event to the scheduler run in tests without
//! a kernel: [`fake::Fake`] holds what BPF's maps would, and keeps the order in which it was told.

use anyhow::Result;
use std::os::fd::BorrowedFd;

use limelight_abi::sched::{
    LL_NR_STATS, ll_cpu_load, ll_file, ll_proc_stats, ll_rating, ll_reservation, ll_spec, ll_stat_id,
};
use limelight_sched::{EdgeCount, Refusal, Scheduler};

use crate::answers::{StandingReader, StatsReader};
use crate::standing;

/// The scheduler in the kernel. Errors and units are those of [`Scheduler`].
pub trait Kernel {
    /// See [`Scheduler::has_exited`].
    fn has_exited(&self) -> bool;
    /// See [`Scheduler::set_rating`].
    ///
    /// # Errors
    /// As there.
    fn set_rating(&self, tgid: u32, rating: &ll_rating) -> Result<()>;
    /// See [`Scheduler::clear_rating`].
    fn clear_rating(&self, tgid: u32);
    /// See [`Scheduler::rating`].
    fn rating(&self, tgid: u32) -> Option<ll_rating>;
    /// See [`Scheduler::login_left_ns`].
    fn login_left_ns(&self, tgid: u32) -> Option<u64>;
    /// See [`Scheduler::ratings`].
    ///
    /// # Errors
    /// As there.
    fn ratings(&self) -> Result<Vec<(u32, ll_rating)>>;
    /// See [`Scheduler::publish`].
    ///
    /// # Errors
    /// As there.
    fn publish(&self, tracking: bool, at_once: Option<u32>) -> Result<()>;
    /// See [`Scheduler::is_tracking`].
    fn is_tracking(&self) -> bool;
    /// See [`Scheduler::drain_edges`].
    ///
    /// # Errors
    /// As there.
    fn drain_edges(&self) -> Result<Vec<EdgeCount>>;
    /// See [`Scheduler::process_stats`].
    fn process_stats(&self, tgid: u32) -> Option<ll_proc_stats>;
    /// The same for another thread.
    ///
    /// # Errors
    /// The map cannot be shared.
    fn stats_reader(&self) -> Result<StatsReader>;
    /// See [`Scheduler::standings`].
    ///
    /// # Errors
    /// As there.
    fn standing_reader(&self) -> Result<StandingReader>;
    /// See [`Scheduler::counter`].
    fn counter(&self, stat: ll_stat_id) -> u64;
    /// See [`Scheduler::counters`].
    fn counters(&self) -> [u64; LL_NR_STATS as usize];
    /// See [`Scheduler::identify`].
    ///
    /// # Errors
    /// As there.
    fn identify(&self, file: BorrowedFd<'_>) -> Result<ll_file>;
    /// See [`Scheduler::set_spec`].
    ///
    /// # Errors
    /// As there.
    fn set_spec(&self, file: &ll_file, spec: &ll_spec) -> Result<()>;
    /// See [`Scheduler::remove_spec`].
    fn remove_spec(&self, file: &ll_file);
    /// See [`Scheduler::count_specs`].
    ///
    /// # Errors
    /// As there.
    fn count_specs(&self, count: usize) -> Result<()>;
    /// See [`Scheduler::adopt`].
    ///
    /// # Errors
    /// As there.
    fn adopt(&self, tid: u32) -> Result<bool>;
    /// See [`Scheduler::assign`].
    ///
    /// # Errors
    /// As there.
    fn assign(&self, pid: u32, uid: u32, spec: &ll_spec) -> Result<Result<(), Refusal>>;
    /// See [`Scheduler::reactivate`].
    ///
    /// # Errors
    /// As there.
    fn reactivate(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>>;
    /// See [`Scheduler::retire`].
    ///
    /// # Errors
    /// As there.
    fn retire(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>>;
    /// See [`Scheduler::reservations`].
    fn reservations(&self) -> Vec<(u32, ll_reservation)>;
    /// See [`Scheduler::loads`].
    fn loads(&self) -> Vec<ll_cpu_load>;
    /// See [`Scheduler::load_seconds`].
    fn load_seconds(&self) -> u64;
}

impl Kernel for Scheduler<'_> {
    fn has_exited(&self) -> bool {
        Scheduler::has_exited(self)
    }

    fn set_rating(&self, tgid: u32, rating: &ll_rating) -> Result<()> {
        Scheduler::set_rating(self, tgid, rating)
    }

    fn clear_rating(&self, tgid: u32) {
        Scheduler::clear_rating(self, tgid);
    }

    fn rating(&self, tgid: u32) -> Option<ll_rating> {
        Scheduler::rating(self, tgid)
    }

    fn login_left_ns(&self, tgid: u32) -> Option<u64> {
        Scheduler::login_left_ns(self, tgid)
    }

    fn ratings(&self) -> Result<Vec<(u32, ll_rating)>> {
        Scheduler::ratings(self)
    }

    fn publish(&self, tracking: bool, at_once: Option<u32>) -> Result<()> {
        Scheduler::publish(self, tracking, at_once)
    }

    fn is_tracking(&self) -> bool {
        Scheduler::is_tracking(self)
    }

    fn drain_edges(&self) -> Result<Vec<EdgeCount>> {
        Scheduler::drain_edges(self)
    }

    fn process_stats(&self, tgid: u32) -> Option<ll_proc_stats> {
        Scheduler::process_stats(self, tgid)
    }

    fn standing_reader(&self) -> Result<StandingReader> {
        let standings = self.standings()?;
        Ok(Box::new(move |tgid| standing::of(&standings, tgid)))
    }

    fn stats_reader(&self) -> Result<StatsReader> {
        let stats = Scheduler::shared_process_stats(self)?;
        Ok(Box::new(move |tgid| stats.of(tgid)))
    }

    fn counter(&self, stat: ll_stat_id) -> u64 {
        Scheduler::counter(self, stat)
    }

    fn counters(&self) -> [u64; LL_NR_STATS as usize] {
        Scheduler::counters(self)
    }

    fn identify(&self, file: BorrowedFd<'_>) -> Result<ll_file> {
        Scheduler::identify(self, file)
    }

    fn set_spec(&self, file: &ll_file, spec: &ll_spec) -> Result<()> {
        Scheduler::set_spec(self, file, spec)
    }

    fn remove_spec(&self, file: &ll_file) {
        Scheduler::remove_spec(self, file);
    }

    fn count_specs(&self, count: usize) -> Result<()> {
        Scheduler::count_specs(self, count)
    }

    fn adopt(&self, tid: u32) -> Result<bool> {
        Scheduler::adopt(self, tid)
    }

    fn assign(&self, pid: u32, uid: u32, spec: &ll_spec) -> Result<Result<(), Refusal>> {
        Scheduler::assign(self, pid, uid, spec)
    }

    fn reactivate(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>> {
        Scheduler::reactivate(self, number, tgid)
    }

    fn retire(&self, number: u32, tgid: u32) -> Result<Result<(), Refusal>> {
        Scheduler::retire(self, number, tgid)
    }

    fn reservations(&self) -> Vec<(u32, ll_reservation)> {
        Scheduler::reservations(self)
    }

    fn loads(&self) -> Vec<ll_cpu_load> {
        Scheduler::loads(self)
    }

    fn load_seconds(&self) -> u64 {
        Scheduler::load_seconds(self)
    }
}

/// A scheduler of tests.
#[cfg(test)]
pub mod fake {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use limelight_abi::sched::{LL_RESERVATION_ADMITTED, LL_STAT_edges_recorded, ll_edge};

    use super::*;

    /// What the scheduler was told or asked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Call {
        /// `set_rating`: the process and its input rating.
        Set(u32, u32),
        /// `clear_rating`
        Clear(u32),
        /// `publish` with the process whose waiting tasks change queue.
        Publish(Option<u32>),
        /// `drain_edges`
        Drain,
        /// `adopt`
        Adopt(u32),
        /// `reactivate`
        Reactivate(u32),
    }

    /// What a process got.
    pub type Stats = dyn Fn(u32) -> Option<ll_proc_stats> + Send + Sync;

    /// Maps in memory, shared by all copies, and the calls in their order.
    #[derive(Clone, Default)]
    pub struct Fake {
        /// The map of that name.
        pub ratings: Rc<RefCell<BTreeMap<u32, ll_rating>>>,
        /// The calls so far.
        pub calls: Rc<RefCell<Vec<Call>>>,
        /// What each process got.
        pub stats: Option<Arc<Stats>>,
        /// Whether wake-ups are worth recording.
        pub tracking: Rc<Cell<bool>>,
        /// Whether it has been taken off.
        pub exited: Arc<AtomicBool>,
        /// The map of that name.
        pub edges: Rc<RefCell<Vec<EdgeCount>>>,
        /// The map of that name, by inode.
        pub specs: Rc<RefCell<BTreeMap<u64, ll_spec>>>,
        /// The map of that name.
        pub reservations: Rc<RefCell<BTreeMap<u32, ll_reservation>>>,
        /// Whose processes are.
        pub owners: Rc<RefCell<BTreeMap<u32, u32>>>,
        /// Whether something is given back.
        pub has_room: Rc<Cell<bool>>,
        /// The counter `edges_recorded`.
        pub recorded: Rc<Cell<u64>>,
    }

    impl Fake {
        /// As BPF records it: `from` woke `to`.
        pub fn record(&self, from_tgid: u32, to_tgid: u32) {
            self.edges.borrow_mut().push((ll_edge { from_tgid, to_tgid }, 1));
            self.recorded.set(self.recorded.get() + 1);
        }

        /// The calls since this was last asked.
        pub fn take_calls(&self) -> Vec<Call> {
            self.calls.take()
        }
    }

    impl Kernel for Fake {
        fn has_exited(&self) -> bool {
            self.exited.load(Ordering::Relaxed)
        }

        fn set_rating(&self, tgid: u32, rating: &ll_rating) -> Result<()> {
            self.calls.borrow_mut().push(Call::Set(tgid, rating.in_milli));
            self.ratings.borrow_mut().insert(tgid, *rating);
            Ok(())
        }

        fn clear_rating(&self, tgid: u32) {
            self.calls.borrow_mut().push(Call::Clear(tgid));
            self.ratings.borrow_mut().remove(&tgid);
        }

        fn rating(&self, tgid: u32) -> Option<ll_rating> {
            self.ratings.borrow().get(&tgid).copied()
        }

        fn login_left_ns(&self, _tgid: u32) -> Option<u64> {
            None
        }

        fn ratings(&self) -> Result<Vec<(u32, ll_rating)>> {
            Ok(self.ratings.borrow().iter().map(|(&tgid, &rating)| (tgid, rating)).collect())
        }

        fn publish(&self, tracking: bool, at_once: Option<u32>) -> Result<()> {
            self.tracking.set(tracking);
            self.calls.borrow_mut().push(Call::Publish(at_once));
            Ok(())
        }

        fn is_tracking(&self) -> bool {
            self.tracking.get()
        }

        fn drain_edges(&self) -> Result<Vec<EdgeCount>> {
            self.calls.borrow_mut().push(Call::Drain);
            Ok(self.edges.take())
        }

        fn process_stats(&self, _tgid: u32) -> Option<ll_proc_stats> {
            None
        }

        fn standing_reader(&self) -> Result<StandingReader> {
            Ok(Box::new(|_| None))
        }

        fn stats_reader(&self) -> Result<StatsReader> {
            let stats = self.stats.clone();
            Ok(Box::new(move |tgid| stats.as_ref().and_then(|stats| stats(tgid))))
        }

        fn counter(&self, stat: ll_stat_id) -> u64 {
            if stat == LL_STAT_edges_recorded { self.recorded.get() } else { 0 }
        }

        fn counters(&self) -> [u64; LL_NR_STATS as usize] {
            let mut counters = [0; LL_NR_STATS as usize];
            counters[LL_STAT_edges_recorded as usize] = self.recorded.get();
            counters
        }

        /// Its number in the file system is good enough here.
        fn identify(&self, file: BorrowedFd<'_>) -> Result<ll_file> {
            let stat = nix::sys::stat::fstat(file)?;
            Ok(ll_file { inode: stat.st_ino, device: u32::try_from(stat.st_dev)?, generation: 0 })
        }

        fn set_spec(&self, file: &ll_file, spec: &ll_spec) -> Result<()> {
            self.specs.borrow_mut().insert(file.inode, *spec);
            Ok(())
        }

        fn remove_spec(&self, file: &ll_file) {
            self.specs.borrow_mut().remove(&file.inode);
        }

        fn count_specs(&self, _count: usize) -> Result<()> {
            Ok(())
        }

        fn adopt(&self, tid: u32) -> Result<bool> {
            self.calls.borrow_mut().push(Call::Adopt(tid));
            Ok(true)
        }

        fn assign(&self, pid: u32, uid: u32, spec: &ll_spec) -> Result<Result<(), Refusal>> {
            if !self.owners.borrow().get(&pid).is_none_or(|&owner| uid == 0 || uid == owner) {
                return Ok(Err(Refusal::NotTheirs));
            }
            let held = ll_reservation {
                tgid: pid,
                state: LL_RESERVATION_ADMITTED,
                runtime_ns: spec.runtime_ns,
                period_ns: spec.period_ns,
                flags: spec.flags,
                spec: spec.id,
                bandwidth_ppm: u32::try_from(spec.runtime_ns * 1_000_000 / spec.period_ns)?,
                ..ll_reservation::default()
            };
            let mut reservations = self.reservations.borrow_mut();
            reservations.retain(|_, held| held.tgid != pid);
            reservations.insert(pid, held);
            Ok(Ok(()))
        }

        fn reactivate(&self, number: u32, _tgid: u32) -> Result<Result<(), Refusal>> {
            self.calls.borrow_mut().push(Call::Reactivate(number));
            Ok(if self.has_room.get() { Ok(()) } else { Err(Refusal::NoRoom) })
        }

        fn retire(&self, number: u32, _tgid: u32) -> Result<Result<(), Refusal>> {
            self.reservations.borrow_mut().remove(&number);
            Ok(Ok(()))
        }

        fn reservations(&self) -> Vec<(u32, ll_reservation)> {
            self.reservations.borrow().iter().map(|(&number, &held)| (number, held)).collect()
        }

        fn loads(&self) -> Vec<ll_cpu_load> {
            vec![ll_cpu_load::default()]
        }

        fn load_seconds(&self) -> u64 {
            0
        }
    }
}
