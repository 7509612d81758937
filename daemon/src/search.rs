// SPDX-License-Identifier: GPL-2.0-only
//! The search for displays, off the loop: it probes sockets, looks through all of `/proc` and opens files in people's homes. With
//! 10,000 processes that takes a tenth of a second, with a home on a network that is down it takes for ever; meanwhile a key for a client
//! that is not rated yet must not wait.
//!
//! One search at a time, and none for a while after one that was expensive: whoever makes a display come and go, or a process that names
//! it, would otherwise have all of `/proc` looked through every second.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use limelight_sense::displays::{Display, DisplayFinder};
use log::warn;
use nix::time::{ClockId, clock_gettime};

use crate::worker::Worker;

/// After a search of some CPU time this many times as long without one: it takes a tenth of a CPU at most.
const REST_FACTOR: u32 = 9;

/// A search that takes longer is told about, once.
const SLOW: Duration = Duration::from_secs(10);

/// What a search found, and the CPU time that it took.
struct Found {
    displays: Vec<Display>,
    cpu_time: Duration,
}

/// The thread that searches.
pub struct Search {
    worker: Worker<Vec<String>, Found>,
    under_way_since: Option<Instant>,
    told_slow: bool,
    rest_until: Instant,
    forget: Vec<String>,
}

impl Search {
    /// The search of this machine.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> Result<Self> {
        let mut finder = DisplayFinder::default();
        Self::with(move |forget| {
            forget.iter().for_each(|display| finder.forget(display));
            finder.find()
        })
    }

    /// A search by `find`, which gets the names of the displays to look at anew.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn with(mut find: impl FnMut(&[String]) -> Vec<Display> + Send + 'static) -> Result<Self> {
        let worker = Worker::start("displays", 1, move |forget: Vec<String>| {
            let before = cpu_time();
            let displays = find(&forget);
            Found { displays, cpu_time: cpu_time().saturating_sub(before) }
        })?;
        Ok(Self { worker, under_way_since: None, told_slow: false, rest_until: Instant::now(), forget: Vec::new() })
    }

    /// Begin a search, unless one is under way or the last has not been rested from. Never waits.
    pub fn begin(&mut self) {
        let now = Instant::now();
        if let Some(since) = self.under_way_since {
            if now - since > SLOW && !std::mem::replace(&mut self.told_slow, true) {
                warn!(
                    "the search for displays takes longer than {} s: the file system of somebody's home or cookie file (XAUTHORITY) may \
                     not answer. Until it ends, new displays are not watched",
                    SLOW.as_secs()
                );
            }
            return;
        }
        if now < self.rest_until {
            return;
        }
        match self.worker.give(std::mem::take(&mut self.forget)) {
            Ok(()) => self.under_way_since = Some(now),
            Err(forget) => self.forget = forget,
        }
    }

    /// The displays, if a search has ended.
    ///
    /// # Errors
    /// The thread has ended by itself.
    pub fn take(&mut self) -> Result<Option<Vec<Display>>> {
        let Some(found) = self.worker.take()? else { return Ok(None) };
        (self.under_way_since, self.told_slow) = (None, false);
        self.rest_until = Instant::now() + found.cpu_time * REST_FACTOR;
        Ok(Some(found.displays))
    }

    /// Look at this display anew the next time: a helper was refused, so its cookie may be another.
    pub fn forget(&mut self, display: &str) {
        if !self.forget.iter().any(|name| name == display) {
            self.forget.push(display.to_owned());
        }
    }
}

impl AsFd for Search {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}

/// CPU time of this thread so far; zero where the kernel does not tell.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn next(search: &mut Search) -> Vec<Display> {
        // Far longer than any search of these tests.
        let timeout = PollTimeout::try_from(Duration::from_secs(20)).unwrap();
        poll(&mut [PollFd::new(search.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        search.take().unwrap().expect("the search does not end")
    }

    fn display(name: &str) -> Display {
        Display { name: name.to_owned(), uid: 1000, gid: 1000, home: "/".into(), xauthority: None, server_pid: 1 }
    }

    /// What is to be looked at anew is told to the next search, once.
    #[test]
    fn the_next_search_forgets() {
        let mut search = Search::with(|forget| forget.iter().map(|name| display(name)).collect()).unwrap();
        for expected in [vec![display(":7")], vec![]] {
            if !expected.is_empty() {
                (0..3).for_each(|_| search.forget(":7"));
            }
            // The search before was next to nothing, but its rest may not be over on a busy machine.
            search.rest_until = Instant::now();
            search.begin();
            assert_eq!(next(&mut search), expected);
        }
    }

    /// A search that took the CPU is followed by a rest nine times as long; one that only waited is not.
    #[test]
    fn an_expensive_search_is_rested_from() {
        const WORK: Duration = Duration::from_millis(50);
        let work = |_: &[String]| {
            while cpu_time() < WORK {}
            Vec::new()
        };
        let mut search = Search::with(work).unwrap();
        search.begin();
        assert_eq!(next(&mut search), []);
        let rest = search.rest_until.saturating_duration_since(Instant::now());
        // Some of the rest is over: a second of that would be a very busy machine.
        assert!(rest > (WORK * REST_FACTOR).saturating_sub(Duration::from_millis(400)), "{rest:?}");
        search.begin();
        assert!(search.under_way_since.is_none(), "it searches in its rest");
        let mut search = Search::with(|_| {
            std::thread::sleep(Duration::from_millis(300));
            Vec::new()
        })
        .unwrap();
        search.begin();
        assert_eq!(next(&mut search), []);
        let rest = search.rest_until.saturating_duration_since(Instant::now());
        assert!(rest < Duration::from_millis(300), "it rests from waiting: {rest:?}");
    }
}
