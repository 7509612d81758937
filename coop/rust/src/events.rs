// SPDX-License-Identifier: MIT
//! One thread's events as closures.
//!
//! The C library is lent an event's memory from its submission until it runs or is cancelled. Here it lies in a `Node` that the `Coop`
//! holds for just that time, so that nothing of it can go before: neither by a handle that is dropped, nor in the event's own callback.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::HashMap;
use std::io;
use std::ops::{BitOr, ControlFlow};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::{Time, sys};

/// For what a descriptor is waited for, and what it is ready for: the flags of poll(2), to be joined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness(u32);

impl Readiness {
    /// There is something to read, or the end of it (`POLLIN`).
    pub const READABLE: Self = Readiness(libc::POLLIN as u32);
    /// It can be written (`POLLOUT`).
    pub const WRITABLE: Self = Readiness(libc::POLLOUT as u32);
    /// There is something out of turn (`POLLPRI`).
    pub const PRIORITY: Self = Readiness(libc::POLLPRI as u32);
    /// The other side has stopped writing (`POLLRDHUP`).
    pub const PEER_CLOSED: Self = Readiness(libc::POLLRDHUP as u32);
    /// It is in error (`POLLERR`). Comes unasked, and cannot be asked for.
    pub const ERROR: Self = Readiness(libc::POLLERR as u32);
    /// The other side has gone (`POLLHUP`). Comes unasked, and cannot be asked for.
    pub const HUNG_UP: Self = Readiness(libc::POLLHUP as u32);

    /// Whether all of `other` is in this.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Readiness(self.0 | other.0)
    }
}

/// Runs an event, which it may change; true: submit it again.
type Work = Box<dyn FnMut(&Coop, &mut sys::coop_event) -> bool>;

struct Node {
    event: UnsafeCell<sys::coop_event>,
    /// None while it runs, and once it is done.
    work: RefCell<Option<Work>>,
    is_cancelled: Cell<bool>,
    inner: Weak<Inner>,
}

struct Inner {
    raw: NonNull<sys::coop>,
    /// What is submitted, by the node's own address.
    submitted: RefCell<HashMap<*const Node, Rc<Node>>>,
    /// What went wrong in a callback, for whoever runs the events.
    error: RefCell<Option<io::Error>>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Inner {
    fn submit(&self, node: Rc<Node>) -> io::Result<()> {
        // SAFETY: the node stays where it is, and is held from here on until the library has given the event back.
        sys::check(unsafe { sys::coop_submit(self.raw.as_ptr(), node.event.get()) })?;
        self.submitted.borrow_mut().insert(Rc::as_ptr(&node), node);
        Ok(())
    }

    fn cancel(&self, node: &Node) -> bool {
        // SAFETY: the event is one that was submitted here, or is none of the library's any more, which it tells by itself.
        if unsafe { sys::coop_cancel(self.raw.as_ptr(), node.event.get()) } != 0 {
            return false;
        }
        // Let go outside of the borrow: what the closure owns may cancel events of its own.
        let held = self.submitted.borrow_mut().remove(&std::ptr::from_ref(node));
        held.is_some()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: nobody can reach it any more; what is submitted is given back, and freed after this.
        let result = unsafe { sys::coop_free(self.raw.as_ptr()) };
        debug_assert_eq!(result, 0, "a Coop stays in its thread, and outlives its callbacks");
    }
}

/// One thread's events, and what runs them.
///
/// It stays in its thread, which can have one. A child made by `fork` can do no more with it than drop it.
pub struct Coop {
    inner: Rc<Inner>,
}

impl Coop {
    /// Makes the calling thread's, and asks limelight, where it is there, for what the promise needs: at most 10 ms are spent on that.
    ///
    /// # Errors
    /// EBUSY: this thread has one; ENOMEM; EMFILE, ENFILE: no descriptor left (it needs two).
    pub fn new() -> io::Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: there is a place to put it.
        sys::check(unsafe { sys::coop_new(&mut raw) })?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        let inner = Inner { raw, submitted: RefCell::default(), error: RefCell::default(), panic: RefCell::default() };
        Ok(Coop { inner: Rc::new(inner) })
    }

    /// Calls `callback` when `release` has come, with that release; what it returns is the next one. One in the past is due at once. Due
    /// timers run before everything else, the earliest release first, and equal ones as they were submitted.
    ///
    /// Like all callbacks it should take well below 1 ms, and not block.
    ///
    /// # Errors
    /// `InvalidInput`: the release is never (`u64::MAX`); ENOMEM; ECHILD: in a child made by `fork`. The same, for a release that the
    /// callback returned, ends [`Coop::run`] or [`Coop::dispatch`].
    pub fn timer(
        &self,
        release: Time,
        mut callback: impl FnMut(&Coop, Time) -> Option<Time> + 'static,
    ) -> io::Result<Event> {
        let event = sys::coop_event { type_: sys::COOP_TIMER, release: release.as_nanos(), ..Default::default() };
        self.submit(event, move |coop, event| {
            let next = callback(coop, Time::from_nanos(event.release));
            event.release = next.map_or(event.release, Time::as_nanos);
            next.is_some()
        })
    }

    /// Calls `callback` when no timer is due, the least `user_virtual_time` first: the program's own measure of progress, such as the
    /// number of a frame. What it returns is that of the next piece of work.
    ///
    /// # Errors
    /// As [`Coop::timer`]; `u64::MAX` is no user virtual time.
    pub fn best_effort(
        &self,
        user_virtual_time: u64,
        mut callback: impl FnMut(&Coop) -> Option<u64> + 'static,
    ) -> io::Result<Event> {
        let event = sys::coop_event { type_: sys::COOP_BEST_EFFORT, user_virtual_time, ..Default::default() };
        self.submit(event, move |coop, event| {
            let next = callback(coop);
            event.user_virtual_time = next.unwrap_or(event.user_virtual_time);
            next.is_some()
        })
    }

    /// Calls `callback` when `source` is ready for one of `interest`, with what it is ready for, until that breaks. The source is kept as
    /// long as the event is, and may be exchanged for another one in the callback; a descriptor can be in one event at a time.
    ///
    /// # Errors
    /// As [`Coop::timer`]; `InvalidInput`: the interest is none, or others than those that can be asked for; EEXIST: another event
    /// has the descriptor; `Unsupported` (EOPNOTSUPP): it is always ready, as a regular file is; ENOSPC: too many of this user.
    pub fn descriptor<F: AsFd + 'static>(
        &self,
        mut source: F,
        interest: Readiness,
        mut callback: impl FnMut(&Coop, &mut F, Readiness) -> ControlFlow<()> + 'static,
    ) -> io::Result<Event> {
        let fd = source.as_fd().as_raw_fd();
        let event = sys::coop_event { type_: sys::COOP_DESCRIPTOR, fd, events: interest.0, ..Default::default() };
        self.submit(event, move |coop, event| {
            let goes_on = callback(coop, &mut source, Readiness(event.revents)).is_continue();
            // The callback may have put another one there.
            event.fd = source.as_fd().as_raw_fd();
            goes_on
        })
    }

    fn submit(
        &self,
        event: sys::coop_event,
        work: impl FnMut(&Coop, &mut sys::coop_event) -> bool + 'static,
    ) -> io::Result<Event> {
        let node = Rc::new(Node {
            event: UnsafeCell::new(sys::coop_event { callback: Some(run_event), ..event }),
            work: RefCell::new(Some(Box::new(work))),
            is_cancelled: Cell::new(false),
            inner: Rc::downgrade(&self.inner),
        });
        // SAFETY: nobody else knows the event yet.
        unsafe { (*node.event.get()).user = Rc::as_ptr(&node).cast_mut().cast() };
        self.inner.submit(Rc::clone(&node))?;
        Ok(Event { node })
    }

    /// The group in which this thread's CPU time is pooled, and divided by user virtual time (section 3.1 of the paper). Groups are named within a
    /// user; 0, the default, shares with nobody.
    ///
    /// # Errors
    /// ECHILD: in a child made by `fork`.
    pub fn set_group(&self, group: u32) -> io::Result<()> {
        // SAFETY: it is this thread's, and lives.
        sys::check(unsafe { sys::coop_set_group(self.inner.raw.as_ptr(), group) }).map(drop)
    }

    /// Runs events until [`Coop::stop`]; what is submitted stays so. A callback's panic ends it, and goes on from here.
    ///
    /// # Errors
    /// `NotFound` (ENOENT): nothing is submitted, so that nothing could ever happen; EBUSY: it was called from a callback; ECHILD: in a
    /// child made by `fork`; or what kept an event from being submitted again.
    pub fn run(&self) -> io::Result<()> {
        // SAFETY: as above.
        let result = unsafe { sys::coop_run(self.inner.raw.as_ptr()) };
        self.outcome(result).map(drop)
    }

    /// From a callback: ends [`Coop::run`] or [`Coop::dispatch`] after this event. False: nothing is being run.
    pub fn stop(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::coop_stop(self.inner.raw.as_ptr()) == 0 }
    }

    /// Waits at most `timeout` (zero: not at all; None: as long as it takes) for something to run, and runs what is due: all timers,
    /// ready descriptors, and about 1 ms of best-effort events. Returns how many events ran: 0 after the timeout or a signal.
    ///
    /// # Errors
    /// As [`Coop::run`]; `NotFound` only where it was to wait for ever.
    pub fn dispatch(&self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout_ns = timeout.map_or(-1, |span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
        // SAFETY: as above.
        let result = unsafe { sys::coop_dispatch(self.inner.raw.as_ptr(), timeout_ns) };
        self.outcome(result).map(|ran| usize::try_from(ran).unwrap_or(0))
    }

    /// A descriptor that is readable whenever [`Coop::dispatch`] would find something to run, for a program that has a loop already. It
    /// stays the library's: it is not to be read, changed or closed.
    ///
    /// # Errors
    /// ECHILD: in a child made by `fork`.
    pub fn wait_fd(&self) -> io::Result<BorrowedFd<'_>> {
        // SAFETY: as above.
        let fd = sys::check(unsafe { sys::coop_get_fd(self.inner.raw.as_ptr()) })?;
        // SAFETY: it is open for as long as this lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// What a run came to: first what went wrong in its callbacks.
    fn outcome(&self, result: i32) -> io::Result<i32> {
        let panic = self.inner.panic.borrow_mut().take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        match self.inner.error.borrow_mut().take() {
            Some(error) => Err(error),
            None => sys::check(result),
        }
    }
}

/// What the C library calls. No panic may pass through it.
unsafe extern "C" fn run_event(_: *mut sys::coop, event: *mut sys::coop_event) {
    // SAFETY: `user` is the node, which its Coop holds as long as the event is submitted, as it was until now.
    let node = unsafe { &*(*event).user.cast::<Node>() };
    let Some(inner) = node.inner.upgrade() else { return };
    let Some(node) = inner.submitted.borrow_mut().remove(&std::ptr::from_ref(node)) else { return };
    let coop = Coop { inner };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let Some(mut work) = node.work.borrow_mut().take() else { return Ok(()) };
        // SAFETY: in its callback the event is the caller's, and no other reference to it is made.
        if !work(&coop, unsafe { &mut *event }) || node.is_cancelled.get() {
            return Ok(());
        }
        *node.work.borrow_mut() = Some(work);
        coop.inner.submit(Rc::clone(&node))
    }));
    match ran {
        Ok(Ok(())) => return,
        Ok(Err(error)) => *coop.inner.error.borrow_mut() = Some(error),
        Err(panic) => *coop.inner.panic.borrow_mut() = Some(panic),
    }
    coop.stop();
}

/// A submitted event. Dropping it takes the event back; [`Event::detach`] does not.
#[must_use = "dropping it takes the event back"]
pub struct Event {
    node: Rc<Node>,
}

impl Event {
    /// Takes the event back: it does not run, or not again. False: it was not waiting, because it runs just now, or is done.
    pub fn cancel(&self) -> bool {
        self.node.is_cancelled.set(true);
        self.node.inner.upgrade().is_some_and(|inner| inner.cancel(&self.node))
    }

    /// Leaves it to itself: it runs for as long as it wants to.
    pub fn detach(self) {
        // Only the count of the node's holders goes down.
        let node = Rc::clone(&self.node);
        std::mem::forget(self);
        // SAFETY: the handle that was forgotten held one.
        unsafe { Rc::decrement_strong_count(Rc::as_ptr(&node)) };
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.cancel();
    }
}
