// SPDX-License-Identifier: GPL-2.0-only
//! Starts a helper as a display's owner, with nothing of root's in it, and reads what it says.
//!
//! The helper gets the owner's uid and gid and no other groups, an environment of three variables, the report socket and
//! the standard descriptors, and cannot gain rights again (`PR_SET_NO_NEW_PRIVS`). It dies with the thread that started
//! it (`PR_SET_PDEATHSIG`), so start helpers from a thread that lives as long as the daemon.
//!
//! The program is begun as root and becomes the owner's by itself ([`Owner::become_owner`]): a process that is the owner's while it is being
//! started could be stopped by the owner, and the daemon would wait for it for good.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use limelight_abi::sense::{MAX_PACKET_BYTES, SenseError, SenseMessage};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};
use nix::unistd::{Gid, Pid, Uid, geteuid, getpid, getppid, setgroups, setresgid, setresuid};

use crate::displays::Display;

/// Why a helper could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The socket pair could not be made.
    #[error("cannot make a socket for the helper of {display}: {source}")]
    Socket {
        /// The display's name.
        display: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program could not be started as the owner.
    #[error("cannot start {helper} for {display} as uid {uid}: {source}; it must be a program")]
    Start {
        /// The helper's program.
        helper: PathBuf,
        /// The display's name.
        display: String,
        /// The owner.
        uid: u32,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why nothing more comes from a helper.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// It ended; why is in its last [`SenseMessage::Gone`], and on the standard error output it shares with the daemon.
    #[error("the display helper ended")]
    Ended,
    /// It said something that is not a message: drop it.
    #[error(transparent)]
    Message(#[from] SenseError),
    /// The socket failed.
    #[error("cannot read from the display helper: {0}")]
    Socket(io::Error),
}

/// Whose helper it is: who owns the display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The owner's user id.
    pub uid: u32,
    /// And group id.
    pub gid: u32,
}

/// Address space of a helper, several times what it needs: a server that answers without end must not take the machine's memory.
const HELPER_BYTES: u64 = 256 << 20;

impl Owner {
    /// Make this process the owner's, for good and with bounded memory. Where the caller is not root, it is the owner already.
    ///
    /// # Errors
    /// The system refuses, or the daemon has ended meanwhile.
    pub fn become_owner(self) -> io::Result<()> {
        setrlimit(Resource::RLIMIT_AS, HELPER_BYTES, HELPER_BYTES)?;
        // Where memory is short all the same, a helper can be started again.
        std::fs::write("/proc/self/oom_score_adj", "1000")?;
        if !geteuid().is_root() {
            return Ok(());
        }
        let parent = getppid();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        // Another user's process forgets it.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
        Ok(())
    }
}

impl fmt::Display for Owner {
    /// `UID:GID`, as [`Owner::from_str`] reads it.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for Owner {
    type Err = String;

    /// `UID:GID`, as it is displayed.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not UID:GID; the daemon starts this command by itself");
        let (uid, gid) = text.split_once(':').ok_or_else(refused)?;
        Ok(Self { uid: uid.parse().map_err(|_| refused())?, gid: gid.parse().map_err(|_| refused())? })
    }
}

/// Helpers that were killed and had not ended yet: one that waits for a network file system does not until that answers.
static ENDING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// How long whoever drops a helper waits for its end, and how often it looks.
const END_WITHIN: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Take note of the helpers that have ended since they were dropped. Never waits.
pub fn reap() {
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    ending.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// A running helper. Dropping it ends the helper.
#[derive(Debug)]
pub struct Helper {
    child: Option<Child>,
    pid: u32,
    socket: OwnedFd,
    packet: Vec<u8>,
    received: usize,
}

impl Helper {
    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How many bytes it has sent since this was last asked.
    pub fn take_received(&mut self) -> usize {
        std::mem::take(&mut self.received)
    }

    /// Its next message; `None` if it has none now. Never waits: poll [`Self::as_fd`].
    ///
    /// # Errors
    /// See [`ReceiveError`]; the helper is of no more use then.
    pub fn receive(&mut self) -> Result<Option<SenseMessage>, ReceiveError> {
        match recv(self.socket.as_raw_fd(), &mut self.packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC) {
            Ok(0) => Err(ReceiveError::Ended),
            Ok(bytes) => {
                self.received = self.received.saturating_add(bytes);
                let packet = self.packet.get(..bytes).ok_or(SenseError::TooLong { bytes })?;
                Ok(Some(SenseMessage::decode(packet)?))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(Errno::ECONNRESET) => Err(ReceiveError::Ended),
            Err(errno) => Err(ReceiveError::Socket(errno.into())),
        }
    }
}

impl AsFd for Helper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // It holds nothing that would need an orderly end. This fails only if it has ended and been waited for.
        let _ = child.kill();
        for _ in 0..END_WITHIN {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        ENDING.lock().unwrap_or_else(PoisonError::into_inner).push(child);
    }
}

/// Starts `helper` (`limelight`) to watch `display` as the display's owner.
///
/// # Errors
/// See [`SpawnError`]. That the helper cannot watch after all shows in [`Helper::receive`].
pub fn spawn_helper(display: &Display, helper: &Path) -> Result<Helper, SpawnError> {
    let socket_failed = |errno: Errno| SpawnError::Socket { display: display.name.clone(), source: errno.into() };
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).map_err(socket_failed)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(socket_failed)?;
    let mut command = command(display, helper, theirs.as_raw_fd());
    let (report, parent) = (theirs.as_raw_fd(), getpid());
    // SAFETY: between fork and exec, `prepare` makes system calls and nothing else: no allocation, no lock.
    unsafe { command.pre_exec(move || prepare(report, parent)) };
    let child = command.spawn().map_err(|source| SpawnError::Start {
        helper: helper.into(),
        display: display.name.clone(),
        uid: display.uid,
        source,
    })?;
    Ok(Helper { pid: child.id(), child: Some(child), socket: ours, packet: vec![0; MAX_PACKET_BYTES], received: 0 })
}

fn command(display: &Display, helper: &Path, report: RawFd) -> Command {
    let mut command = Command::new(helper);
    command
        .args([OsStr::new("watch"), "--display".as_ref(), display.name.as_ref(), "--report-fd".as_ref()])
        .arg(report.to_string())
        .args(["--owner".to_owned(), Owner { uid: display.uid, gid: display.gid }.to_string()])
        .env_clear()
        .env("DISPLAY", &display.name)
        .env("HOME", &display.home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(xauthority) = &display.xauthority {
        command.env("XAUTHORITY", xauthority);
    }
    command
}

/// Runs in the child just before the helper's program.
fn prepare(report: RawFd, parent: Pid) -> io::Result<()> {
    prctl::set_no_new_privs()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(Errno::ESRCH.into());
    }
    // Everything but the standard descriptors closes on exec, then the report socket does not.
    #[allow(clippy::cast_possible_wrap)]
    let flags = nix::libc::CLOSE_RANGE_CLOEXEC as nix::libc::c_int;
    // SAFETY: close_range with this flag changes descriptor flags only; nothing is closed under anybody's hands.
    let changed = unsafe { nix::libc::close_range(3, u32::MAX, flags) };
    Errno::result(changed)?;
    // SAFETY: the descriptor was open in the parent at the fork and nothing has closed it since.
    let report = unsafe { BorrowedFd::borrow_raw(report) };
    fcntl(report, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}
