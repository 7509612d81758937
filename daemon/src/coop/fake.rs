// SPDX-License-Identifier: GPL-2.0-only
//! Pages of tests: files in memory, sealed as libcoop wants those that are no BPF maps.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use anyhow::{Result, bail};
use limelight_abi::coop::{COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS, COOP_PAGE_CELLS};
use limelight_sched::Consent;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Mechanism, Page};
use crate::procfs;

/// What a scheduler would hold, shared by all copies.
#[derive(Clone, Default)]
pub struct Pages(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entered: Mutex<Entered>,
    held: Mutex<BTreeSet<u32>>,
    given: AtomicU32,
    made: AtomicU32,
    fails: AtomicBool,
    /// Where this is not so, a grace period does not end.
    ends: Gate,
    /// Users that processes have become.
    became: Mutex<BTreeMap<u32, u32>>,
}

#[derive(Default)]
struct Entered {
    /// By number; none: nobody's.
    pages: BTreeMap<u32, Option<OwnedFd>>,
    /// Numbers by process.
    bound: BTreeMap<u32, u32>,
    /// Groups of others, by number and place.
    consents: BTreeMap<(u32, usize), Consent>,
    /// Numbers whose page was somebody's.
    used: BTreeSet<u32>,
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Pages {
    /// Processes whose page the scheduler would find.
    pub fn pids(&self) -> Vec<u32> {
        self.0.entered.lock().unwrap().bound.keys().copied().collect()
    }

    /// The bytes of a cell of a process's page.
    pub fn cell(&self, pid: u32, index: u32) -> Option<Vec<u8>> {
        let entered = self.0.entered.lock().unwrap();
        let page = File::from(entered.pages[entered.bound.get(&pid)?].as_ref()?.try_clone().unwrap());
        let mut cell = vec![0; COOP_CELL_BYTES as usize];
        page.read_exact_at(&mut cell, u64::from(index * COOP_CELL_BYTES)).unwrap();
        Some(cell)
    }

    /// The groups of others that a process may use.
    pub fn consents(&self, pid: u32) -> Vec<Consent> {
        let entered = self.0.entered.lock().unwrap();
        let number = entered.bound.get(&pid);
        entered.consents.iter().filter(|((of, _), _)| Some(of) == number).map(|(_, consent)| *consent).collect()
    }

    /// How many have been given to a process.
    pub fn given(&self) -> u32 {
        self.0.given.load(Ordering::SeqCst)
    }

    /// How many are entered under a number, those given included.
    pub fn entered(&self) -> usize {
        self.0.entered.lock().unwrap().pages.values().flatten().count()
    }

    /// From now on none can be made; or they can.
    pub fn fail(&self, fails: bool) {
        self.0.fails.store(fails, Ordering::SeqCst);
    }

    /// From now on no grace period ends; or they end.
    pub fn hang(&self, hangs: bool) {
        *self.0.ends.is_shut.lock().unwrap() = hangs;
        self.0.ends.changed.notify_all();
    }

    /// The page of this number stays mapped, whatever becomes of its process; or it does not.
    pub fn hold(&self, id: u32, is_held: bool) {
        let mut held = self.0.held.lock().unwrap();
        let _ = if is_held { held.insert(id) } else { held.remove(&id) };
    }

    /// A process executes a set-user-id program of this user's.
    pub fn become_user(&self, pid: u32, uid: u32) {
        self.0.became.lock().unwrap().insert(pid, uid);
    }
}

impl Mechanism for Pages {
    fn replace(&self, retired: &[u32], blank: &[u32]) -> Result<Vec<Page>> {
        if self.0.fails.load(Ordering::SeqCst) {
            bail!("this failure is part of a test");
        }
        let mut pages = Vec::new();
        {
            let mut entered = self.0.entered.lock().unwrap();
            for number in retired {
                assert!(!entered.bound.values().any(|bound| bound == number), "page {number} is somebody's");
                assert!(matches!(entered.pages.insert(*number, None), Some(Some(_))), "page {number} is not there");
            }
            for number in blank {
                let page = blank_page()?;
                pages.push(Page {
                    fd: page.try_clone()?,
                    id: self.0.made.fetch_add(1, Ordering::SeqCst),
                    number: *number,
                });
                assert!(
                    matches!(entered.pages.insert(*number, Some(page)), None | Some(None)),
                    "page {number} is there"
                );
                entered.used.remove(number);
            }
        }
        let shut = self.0.ends.is_shut.lock().unwrap();
        drop(self.0.ends.changed.wait_while(shut, |is_shut| *is_shut).unwrap());
        Ok(pages)
    }

    fn bind(&self, pid: u32, _uid: u32, number: u32) -> Result<()> {
        let mut entered = self.0.entered.lock().unwrap();
        assert!(entered.pages[&number].is_some() && entered.used.insert(number), "page {number} was somebody's");
        assert!(entered.bound.insert(pid, number).is_none(), "two pages of process {pid}");
        self.0.given.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unbind(&self, pid: u32, number: u32) {
        let mut entered = self.0.entered.lock().unwrap();
        assert_eq!(entered.bound.remove(&pid), Some(number), "of process {pid}");
        entered.consents.retain(|(of, _), _| *of != number);
    }

    fn consent(&self, number: u32, place: usize, consent: Option<Consent>) {
        let mut entered = self.0.entered.lock().unwrap();
        assert!(entered.bound.values().any(|bound| *bound == number), "page {number} is nobody's");
        match consent {
            Some(consent) => entered.consents.insert((number, place), consent),
            None => entered.consents.remove(&(number, place)),
        };
    }

    fn is_held(&self, id: u32) -> bool {
        self.0.held.lock().unwrap().contains(&id)
    }

    fn uid(&self, pid: u32) -> Option<u32> {
        self.0.became.lock().unwrap().get(&pid).copied().or_else(|| procfs::uid(pid))
    }
}

/// A page as a file, with its header.
fn blank_page() -> Result<OwnedFd> {
    let page = File::from(memfd_create(CString::new("page")?.as_c_str(), MFdFlags::MFD_ALLOW_SEALING)?);
    page.set_len(u64::from(COOP_PAGE_CELLS * COOP_CELL_BYTES))?;
    let header = [COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS];
    page.write_all_at(&header.map(u32::to_ne_bytes).concat(), 0)?;
    fcntl(&page, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
    Ok(page.into())
}
