// SPDX-License-Identifier: GPL-2.0-only
//! The pages that cooperative processes share with the scheduler (`bpf/coop.bpf.h`, `coop_abi.h`).
//!
//! A page is an array map of its own, which a process without any right can map because it was handed its descriptor, and which the scheduler
//! finds under the process's number in the map `coop_pages`. Nobody but the daemon writes that map.
//!
//! Bad at: speed. A change of a map of maps waits until no program can still see what was there before, an RCU grace period: milliseconds, and
//! tens of them under load. Not for a thread that must not wait.

use std::mem;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use limelight_abi::coop::{
    COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS, COOP_PAGE_CELLS, coop_header,
};

use crate::bytes;

/// What each page begins with.
const HEADER: coop_header = coop_header {
    magic: COOP_ABI_MAGIC,
    version: COOP_ABI_VERSION,
    cell_bytes: COOP_CELL_BYTES,
    slots: COOP_MAX_SLOTS,
    reserved: [0; 14],
};

/// The pages of a loaded scheduler, for any thread. They outlive the scheduler and are of no use to the next one.
#[derive(Debug)]
pub struct CoopPages {
    /// By thread group id.
    pages: MapHandle,
}

/// A page that was just made.
#[derive(Debug)]
pub struct CoopPage {
    /// To be handed to the process.
    pub fd: OwnedFd,
    /// The kernel's number of it, for [`CoopPages::is_held`].
    pub id: u32,
}

impl CoopPages {
    pub(crate) fn new(pages: MapHandle) -> Self {
        Self { pages }
    }

    /// Make a page and let the scheduler find it under `tgid`. Waits for an RCU grace period.
    ///
    /// # Errors
    /// There is one under that number, there is no room for another one, or the kernel has no memory or descriptor for it.
    pub fn create(&self, tgid: u32) -> Result<CoopPage> {
        let page = blank_page().with_context(|| format!("cannot make a page for process {tgid}"))?;
        let id = page.info().context("cannot ask for the number of a page")?.info.id;
        let fd = page.as_fd().try_clone_to_owned().context("no descriptor left for a page")?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd).to_ne_bytes();
        self.pages
            .update(&tgid.to_ne_bytes(), &number, MapFlags::NO_EXIST)
            .with_context(|| format!("cannot enter the page of process {tgid}"))?;
        Ok(CoopPage { fd, id })
    }

    /// Let the scheduler find the pages of these processes no more; where there is none nothing happens. Waits for one RCU grace period where
    /// all of them have one. Who has mapped a page keeps the memory.
    pub fn remove(&self, tgids: &[u32]) {
        let keys: Vec<u8> = tgids.iter().flat_map(|tgid| tgid.to_ne_bytes()).collect();
        let count = u32::try_from(tgids.len()).unwrap_or(u32::MAX);
        if count == 0 || self.pages.delete_batch(&keys, count, MapFlags::ANY, MapFlags::ANY).is_ok() {
            return;
        }
        // A batch ends at the first that is not there. That, one by one, is no error.
        for tgid in tgids {
            let _ = self.pages.delete(&tgid.to_ne_bytes());
        }
    }

    /// Does anybody still hold the page of this number, mapped or by a descriptor? Without CAP_SYS_ADMIN nobody seems to.
    #[must_use]
    pub fn is_held(&self, id: u32) -> bool {
        MapHandle::from_map_id(id).is_ok()
    }
}

/// Can this kernel make pages, and may the caller?
///
/// # Errors
/// Why not.
pub fn try_page() -> Result<()> {
    blank_page().map(drop)
}

/// A page with its header, which no scheduler knows yet. Its sizes are those of `struct coop_page`, or the map of maps refuses it.
fn blank_page() -> Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: mem::size_of::<bpf_map_create_opts>() as _,
        map_flags: BPF_F_MMAPABLE,
        ..Default::default()
    };
    let page = MapHandle::create(MapType::Array, Some("coop_page"), 4, COOP_CELL_BYTES, COOP_PAGE_CELLS, &options)
        .context("the kernel makes no array that can be mapped")?;
    page.update(&0_u32.to_ne_bytes(), bytes::of(&HEADER), MapFlags::ANY).context("cannot write the page's header")?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// A map of maps like the scheduler's; none where the kernel does not let this test make one.
    fn pages(room: u32) -> Option<CoopPages> {
        let like = match blank_page() {
            Ok(page) => page,
            Err(error) => {
                eprintln!("skipped: {error:#}; run as root on a kernel with BPF");
                return None;
            }
        };
        let options = bpf_map_create_opts {
            sz: mem::size_of::<bpf_map_create_opts>() as _,
            inner_map_fd: like.as_fd().as_raw_fd() as u32,
            ..Default::default()
        };
        Some(CoopPages::new(MapHandle::create(MapType::HashOfMaps, Some("coop_pages"), 4, 4, room, &options).unwrap()))
    }

    fn refusal(result: Result<CoopPage>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    /// A process has one page: a second one under its number is refused, and after the first one's end there can be another. A full map refuses, too.
    #[test]
    fn one_page_for_each_process() {
        let Some(pages) = pages(2) else { return };
        let page = pages.create(100).unwrap();
        assert!(refusal(pages.create(100)).contains("process 100"));
        pages.create(101).unwrap();
        assert!(refusal(pages.create(102)).contains("process 102"));
        // One of these three is not there: the others go all the same.
        pages.remove(&[99, 100, 101]);
        pages.remove(&[]);
        assert_ne!(pages.create(100).unwrap().id, page.id);
    }

    /// A page is held as long as it is entered or somebody has it, and not after that.
    #[test]
    fn a_page_is_held_until_the_last_has_let_go() {
        let Some(pages) = pages(2) else { return };
        let CoopPage { fd, id } = pages.create(100).unwrap();
        assert!(pages.is_held(id));
        drop(fd);
        assert!(pages.is_held(id), "the scheduler's map has it");
        let CoopPage { fd, id } = pages.create(101).unwrap();
        pages.remove(&[100, 101]);
        assert!(pages.is_held(id), "its descriptor is open");
        drop(fd);
        assert!(!pages.is_held(id));
    }

    /// What is handed out begins with the header that `coop_abi.h` promises, and all else is 0.
    #[test]
    fn a_page_begins_with_its_header() {
        let Ok(page) = blank_page() else { return };
        let cell = |index: u32| page.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let expected: Vec<u8> = [0x706f_6f63_u32, 1, 128, 255].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(cell(0)[..16], expected);
        assert!(cell(0)[16..].iter().chain(&cell(1)).chain(&cell(255)).all(|byte| *byte == 0));
        assert_eq!(cell(1).len(), 128);
    }
}
