// SPDX-License-Identifier: GPL-2.0-only
//! Who of a cooperative process is believed, and how they stand, for people to be told: what the scheduler notes of each thread (`struct coop_ctx` of
//! `bpf/task.bpf.h`), and what the process itself has written into its page.
//!
//! The scheduler's notes are read while it changes them, a word at a time: each is right, though two may be of different moments. What stands in the page is
//! the process's word, and of use only beside them: who has a place there, and is not known here, is not believed.

use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use limelight_abi::coop::{
    COOP_DEMOTED_AHEAD, COOP_DEMOTED_OVERRAN, COOP_DEMOTED_SLEPT, COOP_PAGE_CELLS, coop_request, coop_slot,
};
use limelight_abi::sched::ll_page_owner;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::bytes;
use crate::skel::types::{coop_ctx, task_ctx};

/// `PIDFD_THREAD` of the kernel (6.9): a descriptor of one thread. It has the value of `O_EXCL`.
const OF_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(nix::libc::O_EXCL.cast_unsigned());

/// `COOP_HAS_NOT_CALLED` of `bpf/task.bpf.h`.
const HAS_NOT_CALLED: u32 = 1 << 31;

/// A thread that the scheduler takes for a cooperative one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the reasons are independent of each other")]
pub struct CoopThread {
    /// Its place in the page.
    pub cell: u32,
    /// It has called since it registered.
    pub has_called: bool,
    /// It ran on after its slice, and has not called since.
    pub overran: bool,
    /// It slept elsewhere, likewise.
    pub slept: bool,
    /// It is ahead of its class, or was when it last began to wait.
    pub is_ahead: bool,
    /// It is in a group.
    pub has_group: bool,
}

/// A place that is taken in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoopPlace {
    /// Which one.
    pub cell: u32,
    /// The group that is named there; 0: none.
    pub gid: u32,
}

/// The standings of a loaded scheduler's cooperative threads, for any thread of ours.
#[derive(Debug)]
pub struct Standings {
    pub(crate) tasks: MapHandle,
    pub(crate) pages: MapHandle,
    pub(crate) numbers: MapHandle,
    pub(crate) owners: MapHandle,
}

impl Standings {
    /// Has process `tgid` a page?
    #[must_use]
    pub fn has_page(&self, tgid: u32) -> bool {
        self.number(tgid).is_some()
    }

    /// Thread `tid`; none where it is not cooperative, or gone.
    #[must_use]
    pub fn thread(&self, tid: u32) -> Option<CoopThread> {
        let thread = pidfd_open(Pid::from_raw(tid.cast_signed())?, OF_THREAD).ok()?;
        let task = self.tasks.lookup(&thread.as_raw_fd().to_ne_bytes(), MapFlags::ANY).ok()??;
        coop_thread(&task)
    }

    /// Places that are taken in the page of process `tgid`, as it says itself; none where it has no page, or that cannot be read.
    #[must_use]
    pub fn places(&self, tgid: u32) -> Option<Vec<CoopPlace>> {
        let number = self.number(tgid)?;
        let id = bytes::read(&self.pages.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)?;
        let page = MapHandle::from_map_id(id).ok()?;
        let cells = page.lookup_batch(COOP_PAGE_CELLS, MapFlags::ANY, MapFlags::ANY).ok()?;
        let places = cells.filter_map(|(key, slot)| place(bytes::read(&key)?, &slot)).collect();
        // Meanwhile the number may have become another process's.
        (self.number(tgid) == Some(number)).then_some(places)
    }

    /// As `find_number()` of `page.bpf.h`.
    fn number(&self, tgid: u32) -> Option<u32> {
        let number: u32 = bytes::read(&self.numbers.lookup(&tgid.to_ne_bytes(), MapFlags::ANY).ok()??)?;
        let owner = self.owners.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
        (bytes::read::<ll_page_owner>(&owner)?.tgid == tgid).then_some(number)
    }
}

/// What the scheduler notes of a task, if that is a cooperative thread.
fn coop_thread(task: &[u8]) -> Option<CoopThread> {
    let coop = task.get(offset_of!(task_ctx, coop)..)?;
    let word = |offset: usize| bytes::read::<u32>(coop.get(offset..)?.get(..size_of::<u32>())?);
    let cell = word(offset_of!(coop_ctx, cell))?;
    let standing = word(offset_of!(coop_ctx, standing))?;
    let is = |bit: u32| standing & bit != 0;
    (cell != 0).then_some(CoopThread {
        cell,
        has_called: !is(HAS_NOT_CALLED),
        overran: is(COOP_DEMOTED_OVERRAN),
        slept: is(COOP_DEMOTED_SLEPT),
        is_ahead: is(COOP_DEMOTED_AHEAD),
        has_group: word(offset_of!(coop_ctx, group))? != 0,
    })
}

/// A cell of a page, if it is a place that is taken.
fn place(cell: u32, slot: &[u8]) -> Option<CoopPlace> {
    let request = slot.get(offset_of!(coop_slot, request)..)?;
    let word = |offset: usize| bytes::read::<u32>(request.get(offset..)?.get(..size_of::<u32>())?);
    let is_taken = cell != 0 && word(offset_of!(coop_request, tid))? != 0;
    is_taken.then_some(CoopPlace { cell, gid: word(offset_of!(coop_request, gid))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task's notes with these words of its cooperation.
    fn task(words: &[(usize, u32)]) -> Vec<u8> {
        let mut task = vec![0; size_of::<task_ctx>()];
        for (offset, word) in words {
            let at = offset_of!(task_ctx, coop) + offset;
            task[at..at + size_of::<u32>()].copy_from_slice(&word.to_ne_bytes());
        }
        task
    }

    /// Each bit of a thread's standing is read as what it is, and who has no place is not cooperative, whatever else is noted.
    #[test]
    fn a_standing_is_what_is_noted() {
        let of = |standing, group| {
            let words = [
                (offset_of!(coop_ctx, cell), 7),
                (offset_of!(coop_ctx, standing), standing),
                (offset_of!(coop_ctx, group), group),
            ];
            coop_thread(&task(&words)).unwrap()
        };
        let good = CoopThread { cell: 7, has_called: true, ..CoopThread::default() };
        assert_eq!(of(0, 0), good);
        assert_eq!(of(0, 3), CoopThread { has_group: true, ..good });
        assert_eq!(of(COOP_DEMOTED_OVERRAN, 0), CoopThread { overran: true, ..good });
        assert_eq!(of(COOP_DEMOTED_SLEPT, 0), CoopThread { slept: true, ..good });
        assert_eq!(of(COOP_DEMOTED_AHEAD, 0), CoopThread { is_ahead: true, ..good });
        assert_eq!(of(HAS_NOT_CALLED, 0), CoopThread { has_called: false, ..good });
        assert_eq!(coop_thread(&task(&[(offset_of!(coop_ctx, standing), COOP_DEMOTED_SLEPT)])), None);
        assert_eq!(coop_thread(&[0; 8]), None);
    }

    /// A bit of the scheduler's own is what the BPF program has it for.
    #[test]
    fn the_bit_of_who_has_not_called_is_the_programs() {
        let bit = format!("enum {{ COOP_HAS_NOT_CALLED = 1U << {} }};", HAS_NOT_CALLED.trailing_zeros());
        assert!(include_str!("../bpf/task.bpf.h").contains(&bit));
    }

    /// What a process has written into its page is read as long as it has the page: the places that are taken, and the groups named there, not the header.
    #[test]
    fn places_are_read_while_the_page_is_bound() {
        let Some((pages, standings)) = crate::pages::tests::pages_and_standings(2) else { return };
        assert!(!standings.has_page(100));
        let made = pages.replace(&[], &[0, 1]).unwrap();
        pages.bind(100, 1000, 1).unwrap();
        assert!(standings.has_page(100));
        assert_eq!(standings.places(100), Some(vec![]));
        let page = MapHandle::from_map_id(made[1].id).unwrap();
        let write = |cell: u32, tid: u32, gid: u32| {
            let mut slot = [0_u8; size_of::<coop_slot>()];
            slot[offset_of!(coop_request, tid)..][..4].copy_from_slice(&tid.to_ne_bytes());
            slot[offset_of!(coop_request, gid)..][..4].copy_from_slice(&gid.to_ne_bytes());
            page.update(&cell.to_ne_bytes(), &slot, MapFlags::ANY).unwrap();
        };
        write(0, 100, 9);
        write(1, 0, 9);
        write(2, 100, 0);
        write(255, 101, 9);
        let expected = [CoopPlace { cell: 2, gid: 0 }, CoopPlace { cell: 255, gid: 9 }];
        assert_eq!(standings.places(100), Some(expected.to_vec()));
        pages.unbind(100, 1);
        assert!(!standings.has_page(100));
        assert_eq!(standings.places(100), None);
    }
}
