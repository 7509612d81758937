// SPDX-License-Identifier: GPL-2.0-only
//! Pages of tests: files in memory, sealed as libcoop wants those that are no BPF maps.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use limelight_abi::coop::{COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS, COOP_PAGE_CELLS};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Mechanism, Page};
use crate::procfs;

/// What a scheduler would hold, shared by all copies.
#[derive(Clone, Default)]
pub struct Pages(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entered: Mutex<BTreeMap<u32, OwnedFd>>,
    held: Mutex<BTreeSet<u32>>,
    made: AtomicU32,
    fails: AtomicBool,
    /// Users that processes have become.
    became: Mutex<BTreeMap<u32, u32>>,
}

impl Pages {
    /// Processes whose page the scheduler would find.
    pub fn pids(&self) -> Vec<u32> {
        self.0.entered.lock().unwrap().keys().copied().collect()
    }

    /// The bytes of a cell of a process's page.
    pub fn cell(&self, pid: u32, index: u32) -> Option<Vec<u8>> {
        let page = File::from(self.0.entered.lock().unwrap().get(&pid)?.try_clone().unwrap());
        let mut cell = vec![0; COOP_CELL_BYTES as usize];
        page.read_exact_at(&mut cell, u64::from(index * COOP_CELL_BYTES)).unwrap();
        Some(cell)
    }

    /// How many have been made.
    pub fn made(&self) -> u32 {
        self.0.made.load(Ordering::SeqCst)
    }

    /// From now on none can be made.
    pub fn fail(&self) {
        self.0.fails.store(true, Ordering::SeqCst);
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
    fn create(&self, pid: u32) -> Result<Page> {
        if self.0.fails.load(Ordering::SeqCst) {
            bail!("this failure is part of a test");
        }
        let page = File::from(memfd_create(CString::new("page")?.as_c_str(), MFdFlags::MFD_ALLOW_SEALING)?);
        page.set_len(u64::from(COOP_PAGE_CELLS * COOP_CELL_BYTES))?;
        let header = [COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_CELL_BYTES, COOP_MAX_SLOTS];
        page.write_all_at(&header.map(u32::to_ne_bytes).concat(), 0)?;
        fcntl(&page, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        let fd = page.as_fd().try_clone_to_owned()?;
        assert!(self.0.entered.lock().unwrap().insert(pid, page.into()).is_none(), "two pages of process {pid}");
        Ok(Page { fd, id: self.0.made.fetch_add(1, Ordering::SeqCst) })
    }

    fn remove(&self, pids: &[u32]) {
        let mut entered = self.0.entered.lock().unwrap();
        pids.iter().for_each(|pid| assert!(entered.remove(pid).is_some(), "process {pid} has no page"));
    }

    fn is_held(&self, id: u32) -> bool {
        self.0.held.lock().unwrap().contains(&id)
    }

    fn uid(&self, pid: u32) -> Option<u32> {
        self.0.became.lock().unwrap().get(&pid).copied().or_else(|| procfs::effective_uid(pid))
    }
}
