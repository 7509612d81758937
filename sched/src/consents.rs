// SPDX-License-Identifier: GPL-2.0-only
//! Consents to use other users' groups, as the scheduler reads them (`bpf/page.bpf.h`).
//!
//! The map is mapped, because a program reads it while it is changed: stores here are of whole words, in an order in which no name is ever read that the
//! process had no consent for. A system call copies bytes in any order.

use std::mem::size_of;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapHandle};
use limelight_abi::sched::{LL_GROUP_UID_SHIFT, LL_MAX_CONSENTS, ll_consent, ll_consents};
use nix::libc::c_void;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Words of the map for each page, and of these the place of the entries: behind the count of changes.
const WORDS: usize = size_of::<ll_consents>() / size_of::<u64>();
const WORDS_OF_ENTRY: usize = size_of::<ll_consent>() / size_of::<u64>();

/// Another user's group, and what a process calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consent {
    /// What the process calls it; not 0.
    pub gid: u32,
    /// Whose it is.
    pub owner: u32,
    /// And what its owner calls it.
    pub group: u32,
}

impl Consent {
    fn name(self) -> u64 {
        u64::from(self.owner) << LL_GROUP_UID_SHIFT | u64::from(self.group)
    }
}

/// The mapped map. One thread writes, or what another one writes at the same place may be lost.
#[derive(Debug)]
pub(crate) struct Consents {
    memory: NonNull<c_void>,
    bytes: NonZeroUsize,
    /// Changes of all pages.
    changes: AtomicU64,
}

// SAFETY: it is shared memory, which is only read and written by atomics.
unsafe impl Send for Consents {}
// SAFETY: as above.
unsafe impl Sync for Consents {}

impl Consents {
    pub(crate) fn new(map: &MapHandle) -> Result<Self> {
        ensure!(map.value_size() as usize == size_of::<ll_consents>(), "the map of consents is of another shape");
        let bytes = NonZeroUsize::new(map.max_entries() as usize * size_of::<ll_consents>());
        let bytes = bytes.context("the map of consents is empty")?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel finds room for it.
        let memory = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, map.as_fd(), 0) };
        Ok(Self {
            memory: memory.context("cannot map the consents of cooperative processes")?,
            bytes,
            changes: AtomicU64::new(0),
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many bytes are mapped for as long as this is there, aligned to a page, and nobody makes other references to them.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().cast(), self.bytes.get() / size_of::<u64>()) }
    }

    /// The count of changes of page `number`, and its entries; none where there is no such page.
    fn of(&self, number: u32) -> Option<(&AtomicU64, &[AtomicU64])> {
        self.words().chunks_exact(WORDS).nth(number as usize)?.split_first()
    }

    /// Entry `place` of page `number` is `consent` from now on.
    pub(crate) fn set(&self, number: u32, place: usize, consent: Option<Consent>) {
        let Some((changes, entries)) = self.of(number) else { return };
        let Some([gid, name]) = entries.chunks_exact(WORDS_OF_ENTRY).nth(place) else { return };
        gid.store(0, Ordering::SeqCst);
        if let Some(consent) = consent {
            name.store(consent.name(), Ordering::SeqCst);
            gid.store(consent.gid.into(), Ordering::SeqCst);
        }
        // Never one that another page has had: a thread that noted it there would take this for what it knows.
        changes.store(self.changes.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    }

    /// No entry of page `number` is a consent.
    pub(crate) fn clear(&self, number: u32) {
        let Some((_, entries)) = self.of(number) else { return };
        for place in 0..LL_MAX_CONSENTS as usize {
            if entries.get(place * WORDS_OF_ENTRY).is_some_and(|gid| gid.load(Ordering::SeqCst) != 0) {
                self.set(number, place, None);
            }
        }
    }
}

impl Drop for Consents {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more. What has been mapped so can be unmapped.
        let _ = unsafe { munmap(self.memory, self.bytes.get()) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
    use libbpf_rs::{MapFlags, MapType};

    use super::*;
    use crate::bytes;

    /// A map like the scheduler's; none where the kernel does not let this test make one.
    pub(crate) fn map(room: u32) -> Option<MapHandle> {
        let sz = size_of::<bpf_map_create_opts>() as _;
        let options = bpf_map_create_opts { sz, map_flags: BPF_F_MMAPABLE, ..Default::default() };
        MapHandle::create(MapType::Array, Some("test"), 4, size_of::<ll_consents>() as u32, room, &options).ok()
    }

    /// What a program would read of page `number`.
    pub(crate) fn read(map: &MapHandle, number: u32) -> ll_consents {
        bytes::read(&map.lookup(&number.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()).unwrap()
    }

    /// A consent is at its place of its page and nowhere else, under the name that BPF makes of user and number; each change is counted, and what is cleared is
    /// counted on: the next process with that number must not find the count that a thread of the last one has noted.
    #[test]
    fn a_consent_is_where_the_scheduler_looks() {
        let Some(map) = map(3) else { return };
        let consents = Consents::new(&map).unwrap();
        consents.set(1, 7, Some(Consent { gid: 5, owner: 1000, group: 7 }));
        consents.set(3, 0, Some(Consent { gid: 1, owner: 1, group: 1 }));
        consents.set(1, 8, Some(Consent { gid: 1, owner: 1, group: 1 }));
        let seen = read(&map, 1);
        assert_eq!((seen.changes, seen.of[7].gid, seen.of[7].name), (1, 5, 1000 << 32 | 7));
        assert!(seen.of[..7].iter().all(|entry| entry.gid == 0));
        assert_eq!((read(&map, 0), read(&map, 2)), (ll_consents::default(), ll_consents::default()));
        consents.clear(1);
        let seen = read(&map, 1);
        assert_eq!((seen.changes, seen.of[7].gid), (2, 0));
        consents.clear(1);
        assert_eq!(read(&map, 1).changes, 2, "there was nothing to be cleared");
        consents.set(2, 0, Some(Consent { gid: 5, owner: 1000, group: 7 }));
        assert_eq!(read(&map, 2).changes, 3, "no two pages have the same");
    }
}
