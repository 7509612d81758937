// SPDX-License-Identifier: MIT
//! Events with fair and timely scheduling, by cooperative polling (Krasic, Saubhasik, Sinha, Goel: "Fair and Timely Scheduling via
//! Cooperative Polling", EuroSys 2009): libcoop, whose `coop(7)` tells the idea.
//!
//! A [`Coop`] runs one thread's events: timers at their release, descriptors when they are ready, and best-effort work in order of
//! importance while no timer is due. Each is a closure that says what it wants next, and an [`Event`] takes it back when it is
//! dropped. [`promise`] says what the timing rests on; without limelight the same program runs, as timely as the kernel lets it.
//!
//! Errors are the C library's, as [`std::io::Error`] with its `errno`. Times are [`Time`], in ns of `CLOCK_MONOTONIC`.
//!
//! ```
//! use std::time::Duration;
//! let coop = coop::Coop::new()?;
//! let mut ticks = 0;
//! let _tick = coop.timer(coop::Time::now(), move |coop, release| {
//!     ticks += 1;
//!     if ticks == 3 {
//!         coop.stop();
//!     }
//!     Some(release + Duration::from_millis(5))
//! })?;
//! coop.run()?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod events;
mod groups;
mod scheduler;
mod sys;

use std::io;
use std::marker::PhantomData;
use std::ops::{Add, Sub};
use std::time::Duration;

pub use events::{Coop, Event, Readiness};
pub use groups::{Token, join_group, leave_group, share_group, unshare_group};

/// A point in time, in ns of `CLOCK_MONOTONIC`: a release, or now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Now.
    pub fn now() -> Self {
        Time(scheduler::now_ns())
    }

    /// The point that is this many ns after the clock's zero. `u64::MAX` is never, and is refused where an event is submitted.
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns)
    }

    /// Ns since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Where the C library says never, there is none.
    fn of(ns: u64) -> Option<Self> {
        (ns != sys::NEVER).then_some(Time(ns))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Later by `span`; at most some 580 years after the clock's zero.
    fn add(self, span: Duration) -> Time {
        let ns = u64::try_from(span.as_nanos()).unwrap_or(sys::NEVER);
        Time(self.0.saturating_add(ns).min(sys::LATEST))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long after `earlier` this is; zero where it is before.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What a thread can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// No scheduler answered the thread's last call: timing is as good as the kernel's own.
    None,
    /// The thread overran, slept elsewhere or is ahead of its share: an ordinary one until its next call.
    Demoted,
    /// Its releases are kept.
    Kept,
}

/// What the last call of the scheduler by this thread got.
pub fn promise() -> Promise {
    scheduler::promise()
}

/// Why that is [`Promise::None`]; none where it is not.
///
/// By its [`io::Error::raw_os_error`]: `EINPROGRESS`: too early to tell; `ENOTCONN`: limelight is not here; `EPROTONOSUPPORT`: it is of another
/// version; `ENOTSUP`: this process is in a time namespace with another clock; `EDQUOT`, `ENOSPC`: this user, or all together, have as many
/// cooperative processes as may be; `EUSERS`: this process has as many such threads as it may; `ENODATA`: no scheduler answers this thread; and
/// others: `coop_promise_error(3)`.
pub fn promise_error() -> Option<io::Error> {
    scheduler::promise_error()
}

/// What the scheduler answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// When to give up the CPU next: the earliest release among the other threads of its CPU, of its class or a more urgent one, or the end of the
    /// slice. None: there is neither, or no scheduler.
    pub yield_by: Option<Time>,
    /// The least user virtual time among the other threads of the group that wait for this CPU. None: there is none, or no scheduler.
    pub user_virtual_time: Option<u64>,
}

/// The call beneath (section 3.1 of the paper), for programs that keep their events themselves: tells the scheduler this thread's
/// group (0: it shares with nobody), the release of its earliest timer and the user virtual time of its most important best-effort
/// work, and gives up the CPU. With best-effort work, or a release that has come, it yields; without, it sleeps until the release.
///
/// # Errors
/// `InvalidInput` with neither a release nor a user virtual time; `Interrupted` where a signal came before the release; ENOMEM, EMFILE and
/// ENFILE at a thread's first call, or its first sleep.
pub fn poll(group: u32, release: Option<Time>, user_virtual_time: Option<u64>) -> io::Result<Advice> {
    let (yield_by_ns, least) =
        scheduler::poll(group, release.map_or(sys::NEVER, Time::as_nanos), user_virtual_time.unwrap_or(sys::NEVER))?;
    Ok(Advice { yield_by: Time::of(yield_by_ns), user_virtual_time: (least != sys::NEVER).then_some(least) })
}

/// A sleep in a call of the program's own (`poll`, `epoll_wait`, another library's), made a cooperative one: from [`Sleep::until`] to
/// its end, or until it is dropped. It stays in its thread.
#[derive(Debug)]
#[must_use = "the sleep ends where it is dropped"]
pub struct Sleep {
    in_this_thread: PhantomData<*const ()>,
}

impl Sleep {
    /// Says that this thread is about to sleep until `release`; None: until something wakes it.
    ///
    /// # Errors
    /// `ResourceBusy` (EBUSY) where the thread speaks for itself by a [`Coop`]; ENOMEM and EAGAIN at a thread's first call.
    pub fn until(release: Option<Time>) -> io::Result<Self> {
        scheduler::begin_sleep(release.map_or(sys::NEVER, Time::as_nanos))?;
        Ok(Sleep { in_this_thread: PhantomData })
    }

    /// Says that it runs again; returns when to give up the CPU next, as [`Advice::yield_by`].
    pub fn end(self) -> Option<Time> {
        let yield_by = Time::of(scheduler::end_sleep());
        std::mem::forget(self);
        yield_by
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        scheduler::end_sleep();
    }
}
