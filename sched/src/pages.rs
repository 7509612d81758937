// SPDX-License-Identifier: GPL-2.0-only
//! The pages that cooperative processes share with the scheduler (`bpf/coop.bpf.h`, `coop_abi.h`).
//!
//! A page is an array map of its own, which a process without any right can map because it was handed its descriptor. It stands under a number
//! in the map `coop_pages`, and the scheduler finds the number under the process's own in the map `coop_numbers`. Nobody but the daemon writes these maps.
//! By the same number it finds the groups of other users that the process may use (`consents`).
//!
//! To bind a page to a process and to unbind it takes microseconds, to enter pages takes long: a change of a map of maps waits until no program can
//! still see what was there before, an RCU grace period. That is milliseconds, tens of them under load, and seconds where a reader of RCU is preempted by
//! who is more urgent. So pages are entered beforehand, by a thread that may wait, and many at once: all of a batch wait for one grace period.
//!
//! Bad at: forgetting at once. A program that was looking at a page as it was unbound may look at it until it returns: microseconds.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use limelight_abi::coop::{
    COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS, COOP_PAGE_CELLS, coop_header,
};
use limelight_abi::sched::ll_page_owner;

use crate::bytes;
use crate::consents::{Consent, Consents};

/// What each page begins with.
const HEADER: coop_header = coop_header {
    magic: COOP_ABI_MAGIC,
    version: COOP_ABI_VERSION,
    cell_bytes: COOP_CELL_BYTES,
    slots: COOP_MAX_SLOTS,
    reserved: [0; 14],
};

/// Who owns a page that is nobody's: no process has this number, and no user that one.
const NOBODY: ll_page_owner = ll_page_owner { tgid: 0, uid: u32::MAX };

/// The pages of a loaded scheduler, for any thread. They outlive the scheduler and are of no use to the next one.
#[derive(Debug)]
pub struct CoopPages {
    /// By number.
    pages: MapHandle,
    /// Numbers by thread group id.
    numbers: MapHandle,
    /// Owners by number.
    owners: MapHandle,
    /// Groups of other users, by number.
    consents: Consents,
    /// What stands under a number whose page was taken out. A program that had read the number may write an answer there, and nobody ever reads it.
    nobodys: MapHandle,
}

/// A page that was just made.
#[derive(Debug)]
pub struct CoopPage {
    /// To be handed to the process.
    pub fd: OwnedFd,
    /// The kernel's number of it, for [`CoopPages::is_held`].
    pub id: u32,
    /// Its number in the scheduler.
    pub number: u32,
}

impl CoopPages {
    pub(crate) fn new(pages: MapHandle, numbers: MapHandle, owners: MapHandle, consents: &MapHandle) -> Result<Self> {
        Ok(Self { pages, numbers, owners, consents: Consents::new(consents)?, nobodys: blank_page()? })
    }

    /// Take out the pages under the numbers `retired`, which must be unbound, and enter new ones under the numbers `blank`. Waits for one RCU grace period,
    /// after which no program knows that a number of `retired` was anybody's. Who has mapped a page keeps the memory.
    ///
    /// Where there is no memory or descriptor for all of them: those there are, under the first of `blank`.
    ///
    /// # Errors
    /// Nothing could be done, or nobody knows what was: then all of the numbers are to be given again.
    pub fn replace(&self, retired: &[u32], blank: &[u32]) -> Result<Vec<CoopPage>> {
        let mut pages = Vec::with_capacity(blank.len());
        for number in blank {
            match self.page(*number) {
                Ok(page) => pages.push(page),
                Err(error) if pages.is_empty() && retired.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        let gone = retired.iter().map(|number| (*number, self.nobodys.as_fd()));
        let entries: Vec<_> = gone.chain(pages.iter().map(|page| (page.number, page.fd.as_fd()))).collect();
        let keys: Vec<u8> = entries.iter().flat_map(|(number, _)| number.to_ne_bytes()).collect();
        let values: Vec<u8> = entries.iter().flat_map(|(_, page)| page.as_raw_fd().to_ne_bytes()).collect();
        if let Ok(count @ 1..) = u32::try_from(entries.len()) {
            let entered = self.pages.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY);
            entered.context("cannot enter pages of cooperative processes")?;
        }
        Ok(pages)
    }

    fn page(&self, number: u32) -> Result<CoopPage> {
        let page = blank_page().context("cannot make a page of a cooperative process")?;
        let id = page.info().context("cannot ask for the number of a page")?.info.id;
        let fd = page.as_fd().try_clone_to_owned().context("no descriptor left for a page")?;
        Ok(CoopPage { fd, id, number })
    }

    /// Let the scheduler find the page under `number`, which must be nobody's, under `tgid`, as that of `uid`: whose groups its threads name. Does not wait.
    ///
    /// # Errors
    /// There is one under `tgid`, or there is no room for another one.
    pub fn bind(&self, tgid: u32, uid: u32, number: u32) -> Result<()> {
        self.own(number, ll_page_owner { tgid, uid })
            .with_context(|| format!("cannot enter the owner of page {number}"))?;
        let bound = self.numbers.update(&tgid.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::NO_EXIST);
        if bound.is_err() {
            let _ = self.own(number, NOBODY);
        }
        bound.with_context(|| format!("cannot enter the page of process {tgid}"))
    }

    /// Let the scheduler find page `number` under `tgid` no more, which it was bound to, nor any consent of its process's. Does not wait: the page stays under
    /// its number for [`Self::replace`].
    pub fn unbind(&self, tgid: u32, number: u32) {
        // Neither fails where it was bound.
        let _ = self.own(number, NOBODY);
        let _ = self.numbers.delete(&tgid.to_ne_bytes());
        self.consents.clear(number);
    }

    /// Of the groups of other users that the process with page `number` may use, the one at `place` (below `LL_MAX_CONSENTS`) is `consent` from now on, or
    /// none. Its threads learn of it at their next call.
    pub fn consent(&self, number: u32, place: usize, consent: Option<Consent>) {
        self.consents.set(number, place, consent);
    }

    fn own(&self, number: u32, owner: ll_page_owner) -> libbpf_rs::Result<()> {
        self.owners.update(&number.to_ne_bytes(), bytes::of(&owner), MapFlags::ANY)
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
pub(crate) mod tests {
    use super::*;
    use crate::standings::Standings;

    const UID: u32 = 1000;

    fn map(of: MapType, value_bytes: usize, room: u32, options: &bpf_map_create_opts) -> MapHandle {
        MapHandle::create(of, Some("test"), 4, value_bytes as u32, room, options).unwrap()
    }

    /// Maps like the scheduler's, with room for so many pages; none where the kernel does not let this test make one.
    fn pages(room: u32) -> Option<CoopPages> {
        Some(pages_and_standings(room)?.0)
    }

    /// And what is read from them, of tasks that the scheduler knows nothing of.
    pub(crate) fn pages_and_standings(room: u32) -> Option<(CoopPages, Standings)> {
        let like = match blank_page() {
            Ok(page) => page,
            Err(error) => {
                eprintln!("skipped: {error:#}; run as root on a kernel with BPF");
                return None;
            }
        };
        let plain = bpf_map_create_opts { sz: mem::size_of::<bpf_map_create_opts>() as _, ..Default::default() };
        let options = bpf_map_create_opts { inner_map_fd: like.as_fd().as_raw_fd() as u32, ..plain };
        let numbers = map(MapType::Hash, 4, room, &plain);
        let owners = map(MapType::Array, mem::size_of::<ll_page_owner>(), room, &plain);
        let consents = crate::consents::tests::map(room).unwrap();
        let pages = map(MapType::ArrayOfMaps, 4, room, &options);
        let share = |map: &MapHandle| MapHandle::from_map_id(map.info().unwrap().info.id).unwrap();
        let standings = Standings {
            tasks: map(MapType::Hash, 4, room, &plain),
            pages: share(&pages),
            numbers: share(&numbers),
            owners: share(&owners),
        };
        Some((CoopPages::new(pages, numbers, owners, &consents).unwrap(), standings))
    }

    /// The kernel's number of the page that the scheduler would find under `tgid`: as number_of_page() of page.bpf.h.
    fn found(pages: &CoopPages, tgid: u32) -> Option<u32> {
        let read = |map: &MapHandle, key: &[u8]| map.lookup(key, MapFlags::ANY).unwrap();
        let number = read(&pages.numbers, &tgid.to_ne_bytes())?;
        if read(&pages.owners, &number)?[..4] != tgid.to_ne_bytes() {
            return None;
        }
        read(&pages.pages, &number).map(|id| u32::from_ne_bytes(id.try_into().unwrap()))
    }

    fn owner(pages: &CoopPages, number: u32) -> ll_page_owner {
        bytes::read(&pages.owners.lookup(&number.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()).unwrap()
    }

    /// A page is found under the number of the process that it is bound to, as long as it is; a process has one.
    #[test]
    fn a_page_is_found_while_it_is_bound() {
        let Some(pages) = pages(4) else { return };
        let made = pages.replace(&[], &[0, 1, 3]).unwrap();
        assert_eq!(made.iter().map(|page| page.number).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(found(&pages, 100), None);
        pages.bind(100, UID, 3).unwrap();
        pages.bind(101, UID, 1).unwrap();
        assert_eq!((found(&pages, 100), found(&pages, 101)), (Some(made[2].id), Some(made[1].id)));
        assert!(format!("{:#}", pages.bind(100, UID, 0).unwrap_err()).contains("process 100"));
        assert_eq!(found(&pages, 100), Some(made[2].id));
        assert_eq!(owner(&pages, 3), ll_page_owner { tgid: 100, uid: UID });
        pages.unbind(100, 3);
        assert_eq!(owner(&pages, 3), NOBODY, "a program that has found the number yet names no user's groups");
        assert_eq!((found(&pages, 100), found(&pages, 101)), (None, Some(made[1].id)));
        pages.bind(100, UID, 0).unwrap();
        assert_eq!(found(&pages, 100), Some(made[0].id));
    }

    /// What a process may use of other users ends with its page: the next one under its number has no consent, and finds another count.
    #[test]
    fn a_consent_ends_with_its_page() {
        let (Some(pages), Some(map)) = (pages(2), crate::consents::tests::map(2)) else { return };
        let pages = CoopPages { consents: Consents::new(&map).unwrap(), ..pages };
        pages.replace(&[], &[0, 1]).unwrap();
        pages.bind(100, UID, 1).unwrap();
        pages.consent(1, 0, Some(Consent { gid: 5, owner: 1000, group: 7 }));
        pages.unbind(100, 1);
        let seen = crate::consents::tests::read(&map, 1);
        assert_eq!((seen.of[0].gid, seen.changes), (0, 2));
    }

    /// A number whose page was taken out has nobody's, and then a new one. There is an end to numbers.
    #[test]
    fn a_number_is_given_a_new_page() {
        let Some(pages) = pages(2) else { return };
        let old = pages.replace(&[], &[0]).unwrap();
        pages.bind(100, UID, 0).unwrap();
        pages.unbind(100, 0);
        let other = pages.replace(&[0], &[1]).unwrap();
        assert!(pages.replace(&[], &[]).unwrap().is_empty());
        let new = pages.replace(&[], &[0]).unwrap();
        pages.bind(101, UID, 0).unwrap();
        assert_eq!(found(&pages, 101), Some(new[0].id));
        assert!(new[0].id != old[0].id && new[0].id != other[0].id);
        assert!(pages.replace(&[], &[2]).is_err());
    }

    /// A page is held as long as it is entered or somebody has it, and not after that.
    #[test]
    fn a_page_is_held_until_the_last_has_let_go() {
        let Some(pages) = pages(2) else { return };
        let [CoopPage { fd, id, .. }, other] = <[_; 2]>::try_from(pages.replace(&[], &[0, 1]).unwrap()).unwrap();
        assert!(pages.is_held(id));
        drop(fd);
        assert!(pages.is_held(id), "the scheduler's map has it");
        pages.replace(&[0, 1], &[]).unwrap();
        assert!(!pages.is_held(id));
        let CoopPage { fd, id, .. } = other;
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
