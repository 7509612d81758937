// SPDX-License-Identifier: GPL-2.0-only
//! Pages for cooperative processes (libcoop): who asks at [`COOP_SOCKET_PATH`] is handed memory that it shares with the scheduler (`coop_abi.h`).
//!
//! A thread of its own serves there ([`serve`]), because anybody may come, as often as they like; what it decides is in [`door`], and in [`consent`] for groups of
//! several users. It hands out pages that
//! are in the scheduler's map already ([`pool`]): to enter one the kernel waits for every reader of RCU, seconds where one of them is preempted on a loaded
//! machine, and another thread waits for that. They serve for one loaded scheduler: with the next one the socket is made anew, all
//! connections end, and libcoop asks again. Where they cannot be started the daemon does without, and says so.
//!
//! The promise: a page is found under the number of the process that asked, as long as that process lives, is of the same user and holds its connection,
//! and under no other number. It is bound to that number before it is handed out, and unbound as soon as its end is heard of; a scheduler's callback that
//! was looking at it just then may do so until it returns, some microseconds. What has been one process's is never another's: a page is handed out once, and
//! its number again after two grace periods. Every client lies, is silent, floods us or dies at the worst moment; that is its own loss.
//!
//! Bad at: a flood of connections, of which no more than [`serve::MAX_ACCEPTED_PER_SECOND`] are looked at. While it lasts others may find the queue full, and libcoop comes
//! again every second. Who has a page does not notice. And a crowd: of more processes than [`pool::READY`] at once the others wait for a grace period.

mod client;
mod consent;
mod door;
#[cfg(test)]
pub mod fake;
mod pool;
mod serve;

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use limelight_abi::coop::{COOP_MAX_PAGES, COOP_SOCKET_PATH};
use limelight_sched::{Consent, CoopPages};
use log::{info, warn};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use client::ask_for_page;
use door::{Door, Limits, MAX_NEWCOMERS};
use pool::READY;
use serve::Server;

use crate::procfs;
use crate::view::{CooperativeStatus, CooperativeUser};

/// Cooperative processes that one user can have, by default: a sixteenth of all.
pub const DEFAULT_PAGES_PER_USER: u32 = COOP_MAX_PAGES / 16;

/// And at most: there is room for no more of all users.
pub const MAX_PAGES: u32 = COOP_MAX_PAGES;

/// The thread's stack, in bytes: what is large is on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Descriptors that each page takes at most (its connection, its process, the page), those of a newcomer, and the rest of the daemon's. A page that is
/// ready, or being made, takes one, and for a moment another one.
const DESCRIPTORS_PER_PAGE: u64 = 3;
const DESCRIPTORS_PER_NEWCOMER: u64 = 2;
const DESCRIPTORS_PER_READY: u64 = 2;
const OTHER_DESCRIPTORS: u64 = 512;
/// Of all that are no page's.
const DESCRIPTORS_BESIDE_PAGES: u64 =
    DESCRIPTORS_PER_NEWCOMER * MAX_NEWCOMERS as u64 + DESCRIPTORS_PER_READY * READY as u64 + OTHER_DESCRIPTORS;
const MOST_DESCRIPTORS: u64 = DESCRIPTORS_PER_PAGE * MAX_PAGES as u64 + DESCRIPTORS_BESIDE_PAGES;

/// Where libcoop asks.
#[must_use]
pub fn socket() -> &'static Path {
    let path = std::str::from_utf8(COOP_SOCKET_PATH).unwrap_or_default();
    Path::new(path.trim_end_matches('\0'))
}

/// A page, and what it is known by.
pub struct Page {
    /// What is handed out.
    pub fd: OwnedFd,
    /// The kernel's number of it, which no other page ever has while anybody holds this one.
    pub id: u32,
    /// Its place in the scheduler's map, which another page may have later.
    pub number: u32,
}

/// What handing out pages needs of the kernel. A trait, so that it runs in tests without BPF.
pub trait Mechanism: Send + Sync + 'static {
    /// See [`CoopPages::replace`]: the only one that waits.
    ///
    /// # Errors
    /// As there.
    fn replace(&self, retired: &[u32], blank: &[u32]) -> Result<Vec<Page>>;
    /// See [`CoopPages::bind`].
    ///
    /// # Errors
    /// As there.
    fn bind(&self, pid: u32, uid: u32, number: u32) -> Result<()>;
    /// See [`CoopPages::unbind`].
    fn unbind(&self, pid: u32, number: u32);
    /// See [`CoopPages::consent`].
    fn consent(&self, number: u32, place: usize, consent: Option<Consent>);
    /// See [`CoopPages::is_held`].
    fn is_held(&self, id: u32) -> bool;
    /// The user whose rights a process has now.
    fn uid(&self, pid: u32) -> Option<u32>;
}

impl Mechanism for CoopPages {
    fn replace(&self, retired: &[u32], blank: &[u32]) -> Result<Vec<Page>> {
        let pages = CoopPages::replace(self, retired, blank)?;
        Ok(pages.into_iter().map(|page| Page { fd: page.fd, id: page.id, number: page.number }).collect())
    }

    fn bind(&self, pid: u32, uid: u32, number: u32) -> Result<()> {
        CoopPages::bind(self, pid, uid, number)
    }

    fn unbind(&self, pid: u32, number: u32) {
        CoopPages::unbind(self, pid, number);
    }

    fn consent(&self, number: u32, place: usize, consent: Option<Consent>) {
        CoopPages::consent(self, number, place, consent);
    }

    fn is_held(&self, id: u32) -> bool {
        CoopPages::is_held(self, id)
    }

    fn uid(&self, pid: u32) -> Option<u32> {
        procfs::uid(pid)
    }
}

/// What is shown: the thread writes it, the loop reads it.
type Shared = Arc<Mutex<CooperativeStatus>>;

/// Pages are handed out as long as this is there.
pub struct Coop {
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    /// Closed at the other end when the thread ends; closing it ends the thread.
    bell: UnixStream,
    /// The other end, where there is no thread to have it.
    _idle: Option<UnixStream>,
    shared: Shared,
}

impl Coop {
    /// Listen at `path`, and hand out the pages of `mechanism`, up to `per_user` to each user. Where that cannot be, [`Self::status`] says why.
    ///
    /// # Errors
    /// The system has no room for the socket by which the thread is told to end.
    pub fn start(path: &Path, per_user: u32, mechanism: Result<impl Mechanism>) -> Result<Self> {
        Self::start_within(path, room().map(|in_all| Limits { per_user, in_all }), mechanism)
    }

    fn start_within(path: &Path, limits: Result<Limits>, mechanism: Result<impl Mechanism>) -> Result<Self> {
        let (bell, end) = UnixStream::pair().context("cannot make a socket for thread coop")?;
        bell.set_nonblocking(true)?;
        let idle = end.try_clone()?;
        let shared = Shared::default();
        let mut coop = Self { path: path.to_owned(), thread: None, bell, _idle: None, shared: Arc::clone(&shared) };
        let started = mechanism.and_then(|mechanism| {
            let server = Server::new(path, Door::new(limits?), mechanism, end, shared)?;
            let thread = thread::Builder::new().name("coop".to_owned()).stack_size(STACK_BYTES);
            thread.spawn(move || server.run()).context("cannot start thread coop")
        });
        match started {
            Ok(thread) => {
                info!("cooperative processes get their pages at {}", path.display());
                coop.thread = Some(thread);
            }
            Err(error) => {
                warn!("no process can be cooperative: {error:#}; libcoop's programs run without the promise");
                coop.shared.lock().unwrap_or_else(PoisonError::into_inner).problem = Some(format!("{error:#}"));
                coop._idle = Some(idle);
            }
        }
        Ok(coop)
    }

    /// Who is cooperative now.
    #[must_use]
    pub fn status(&self) -> CooperativeStatus {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// To be called when this is readable.
    ///
    /// # Errors
    /// The thread has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        if matches!(self.bell.read(&mut [0]), Ok(0)) {
            bail!(
                "the daemon's thread \"coop\" has ended by itself: that is a fault of limelight's, and the lines above this one say where"
            );
        }
        Ok(())
    }
}

impl AsFd for Coop {
    /// Readable when the thread has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Coop {
    /// Nobody listens any more, and every connection has ended, so that clients ask the next one.
    fn drop(&mut self) {
        let _ = self.bell.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // It waits for nobody, and for no grace period: the thread that does, ends after that by itself. That it panicked was said where it did.
            let _ = thread.join();
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Pages for which there are descriptors: all, but where the system allows the daemon very few.
fn room() -> Result<u32> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot ask how many files may be open")?;
    let allowed = MOST_DESCRIPTORS.min(hard).max(soft);
    if allowed > soft {
        setrlimit(Resource::RLIMIT_NOFILE, allowed, hard).context("cannot have more files open")?;
    }
    let pages = allowed.saturating_sub(DESCRIPTORS_BESIDE_PAGES) / DESCRIPTORS_PER_PAGE;
    if pages == 0 {
        bail!(
            "the daemon may have {hard} files open, and needs {MOST_DESCRIPTORS}: raise its limit (LimitNOFILE= of its unit, ulimit -n)"
        );
    }
    Ok(u32::try_from(pages).unwrap_or(MAX_PAGES).min(MAX_PAGES))
}

/// Has the kernel make the daemon's table of descriptors as large as it will be. To be called while there is one thread: where there are several the kernel
/// waits for a grace period of RCU each time, in which none of them opens anything, and beside busy processes two programs had no page for 3 s.
pub(crate) fn make_room_for_descriptors() {
    let made = room().and_then(|_| {
        let last = getrlimit(Resource::RLIMIT_NOFILE)?.0.min(MOST_DESCRIPTORS) - 1;
        let lowest = std::fs::File::open("/dev/null")?;
        let highest = fcntl(&lowest, FcntlArg::F_DUPFD_CLOEXEC(i32::try_from(last)?))?;
        Ok(nix::unistd::close(highest)?)
    });
    if let Err(error) = made {
        warn!(
            "the table of descriptors grows as it is needed ({error:#}): a program may wait for its page when it does"
        );
    }
}

/// What is shown of users: in the order of their numbers.
fn users(processes: std::collections::BTreeMap<u32, u32>) -> Vec<CooperativeUser> {
    processes.into_iter().map(|(uid, processes)| CooperativeUser { uid, processes }).collect()
}

#[cfg(test)]
mod tests;
