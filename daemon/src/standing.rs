// SPDX-License-Identifier: GPL-2.0-only
//! How the threads of a cooperative process stand, counted for `limelight explain`.
//!
//! A thread that the scheduler knows is counted by the scheduler's word. That a thread has a place in the page and is not known, or names a group and
//! is in none, is seen by what the process has written there: a lie is about itself, and told to its own user.
//!
//! Bad at: a process of more than [`MAX_THREADS`] threads, of which the youngest are not looked at. It is a moment's view: who is demoted may be so no longer
//! when it is read.

use limelight_sched::{CoopPlace, CoopThread, Standings};

use crate::procfs;
use crate::view::CooperativeProcess;

/// Threads that are looked at: each takes some 5 us, and all of them 20 ms of a thread for which only other questions wait.
const MAX_THREADS: usize = 4096;

/// How process `tgid` stands; none where it has no page.
#[must_use]
pub fn of(standings: &Standings, tgid: u32) -> Option<CooperativeProcess> {
    if !standings.has_page(tgid) {
        return None;
    }
    let threads = procfs::threads(tgid, MAX_THREADS);
    let is_all = threads.len() < MAX_THREADS;
    let threads: Vec<CoopThread> = threads.into_iter().filter_map(|tid| standings.thread(tid)).collect();
    Some(count(&threads, standings.places(tgid).filter(|_| is_all).as_deref()))
}

/// Each registered thread is in good standing, demoted, or has not called.
fn count(threads: &[CoopThread], places: Option<&[CoopPlace]>) -> CooperativeProcess {
    let is_demoted = |thread: &&CoopThread| thread.has_called && (thread.overran || thread.slept || thread.is_ahead);
    let demoted: Vec<&CoopThread> = threads.iter().filter(is_demoted).collect();
    let not_called = threads.iter().filter(|thread| !thread.has_called).count();
    let because = |is: fn(&CoopThread) -> bool| number(demoted.iter().filter(|thread| is(thread)).count());
    let at = |place: &CoopPlace| threads.iter().find(|thread| thread.cell == place.cell);
    let is_alone = |thread: &CoopThread| thread.has_called && !thread.has_group;
    let ungrouped = |place: &&CoopPlace| place.gid != 0 && at(place).is_some_and(is_alone);
    CooperativeProcess {
        registered: number(threads.len()),
        good: number(threads.len() - demoted.len() - not_called),
        demoted: number(demoted.len()),
        overran: because(|thread| thread.overran),
        slept: because(|thread| thread.slept),
        ahead: because(|thread| thread.is_ahead),
        not_called: number(not_called),
        ungrouped: places.map(|places| number(places.iter().filter(ungrouped).count())),
        not_believed: places.map(|places| number(places.iter().filter(|place| at(place).is_none()).count())),
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(cell: u32) -> CoopThread {
        CoopThread { cell, has_called: true, ..CoopThread::default() }
    }

    fn place(cell: u32, gid: u32) -> CoopPlace {
        CoopPlace { cell, gid }
    }

    /// Each thread is good, demoted or has not called; one that is demoted for two reasons is one, and counts for both.
    #[test]
    fn threads_are_counted_by_their_standing() {
        let threads = [
            thread(1),
            CoopThread { has_group: true, ..thread(2) },
            CoopThread { overran: true, ..thread(3) },
            CoopThread { overran: true, slept: true, ..thread(4) },
            CoopThread { is_ahead: true, ..thread(5) },
            CoopThread { has_called: false, slept: true, ..thread(6) },
        ];
        let expected = CooperativeProcess {
            registered: 6,
            good: 2,
            demoted: 3,
            overran: 2,
            slept: 1,
            ahead: 1,
            not_called: 1,
            ungrouped: None,
            not_believed: None,
        };
        assert_eq!(count(&threads, None), expected);
    }

    /// Beside the page it is seen who has a place and is not known, and who names a group and is in none.
    #[test]
    fn what_the_page_says_is_beside_what_is_known() {
        let threads = [
            thread(1),
            thread(2),
            CoopThread { has_group: true, ..thread(3) },
            CoopThread { cell: 4, ..CoopThread::default() },
        ];
        let places = [place(1, 9), place(2, 0), place(3, 9), place(4, 9), place(5, 0), place(6, 9)];
        let counted = count(&threads, Some(&places));
        assert_eq!((counted.registered, counted.ungrouped, counted.not_believed), (4, Some(1), Some(2)));
        let none = count(&[], Some(&[]));
        assert_eq!(
            none,
            CooperativeProcess { ungrouped: Some(0), not_believed: Some(0), ..CooperativeProcess::default() }
        );
    }
}
