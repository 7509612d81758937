// SPDX-License-Identifier: GPL-2.0-only
//! The little that the daemon asks `/proc` about a process. Every answer is `None` where the process is gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where it is. Tests of what is decided by its figures have one of their own.
pub const ROOT: &str = "/proc";

/// No login session: what `/proc/PID/loginuid` shows for a process that no login started.
const NO_LOGIN: u32 = u32::MAX;

/// The name the process shows: `comm`, at most 15 bytes.
#[must_use]
pub fn name(pid: u32) -> Option<String> {
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(comm.trim_ascii_end()).into_owned())
}

/// The file name of its executable, which it cannot choose; `None` for kernel threads too.
#[must_use]
pub fn executable(pid: u32) -> Option<String> {
    let path: PathBuf = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy();
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

/// The user whose rights it has: its directory is the effective user's, also where nothing in it is, because it may not be dumped.
#[must_use]
pub fn uid(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

/// The user who logged in, whoever the process runs as since.
#[must_use]
pub fn login_uid(pid: u32) -> Option<u32> {
    let uid = fs::read_to_string(format!("/proc/{pid}/loginuid")).ok()?.trim().parse().ok()?;
    (uid != NO_LOGIN).then_some(uid)
}

/// What of its memory is paged out, in kB, by the `/proc` at `proc`; none of a kernel thread, too, which has no memory of its own.
#[must_use]
pub fn paged_out_kb(proc: &Path, pid: u32) -> Option<u64> {
    kb_in(&proc.join(pid.to_string()).join("status"), "VmSwap:")
}

/// Memory that programs can have without anything being paged out, in kB, by the `/proc` at `proc`; none where that cannot be told.
#[must_use]
pub fn available_kb(proc: &Path) -> Option<u64> {
    kb_in(&proc.join("meminfo"), "MemAvailable:")
}

fn kb_in(path: &Path, field: &str) -> Option<u64> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Its threads, the oldest first, up to `most` of them.
#[must_use]
pub fn threads(pid: u32, most: usize) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).take(most).collect()
}

/// Is `pid` a process, and not a thread of one? `/proc` answers for both, but ratings are for processes: to each of its
/// threads a process could otherwise have a rating of its own and fill the table.
#[must_use]
pub fn is_process(pid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    tgid.and_then(|tgid| tgid.trim().parse().ok()) == Some(pid)
}

/// A thread of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelThread {
    /// Its nice value.
    pub nice: i8,
    /// Is it a worker, or one that belongs to its CPU? As `works_for_others()` in `rating.bpf.h` has it.
    pub works_for_others: bool,
}

/// A kernel thread whose CPUs nobody may choose (`PF_NO_SETAFFINITY`).
const NO_SETAFFINITY: u32 = 0x0400_0000;

/// Is it a thread of the kernel's, and of which kind? `None` for everybody else.
#[must_use]
pub fn kernel_thread(pid: u32) -> Option<KernelThread> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let kthread =
        String::from_utf8_lossy(&status).lines().find_map(|line| Some(line.strip_prefix("Kthread:")?.trim() == "1"));
    if kthread != Some(true) {
        return None;
    }
    let flags: u32 = stat(pid, 9)?;
    Some(KernelThread { nice: stat(pid, 19)?, works_for_others: flags & NO_SETAFFINITY != 0 })
}

/// The kernel's class above limelight's that it is in, by its name there.
#[must_use]
pub fn real_time(pid: u32) -> Option<&'static str> {
    match stat(pid, 41)? {
        1_u32 => Some("SCHED_FIFO"),
        2 => Some("SCHED_RR"),
        6 => Some("SCHED_DEADLINE"),
        _ => None,
    }
}

/// When it began, in clock ticks since the boot.
#[must_use]
pub fn began(pid: u32) -> Option<u64> {
    stat(pid, 22)
}

/// Value `number` of `/proc/PID/stat`, counted from 1 as in its manual.
fn stat<T: std::str::FromStr>(pid: u32, number: usize) -> Option<T> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name, which may hold blanks and brackets, is the second; what follows its bracket is the third.
    stat.rsplit_once(')')?.1.split_whitespace().nth(number - 3)?.parse().ok()
}

/// May somebody who owns a display of user `owner` report on process `pid`?
///
/// Their own processes, those of their login whatever they run as by now, and root's: to rate one of root's processes gains
/// nobody anything, and root's programs are seen on users' displays. Never another user's, and never a single thread.
#[must_use]
pub fn belongs_to(pid: u32, owner: u32) -> bool {
    (uid(pid).is_some_and(|uid| uid == owner || uid == 0) || login_uid(pid) == Some(owner)) && is_process(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This very process is found, with its name and its owner; process 0 is not there.
    #[test]
    fn this_process_is_found() {
        let me = std::process::id();
        assert!(name(me).is_some() && executable(me).is_some());
        assert!(uid(me).is_some_and(|owner| belongs_to(me, owner)));
        assert_eq!(uid(me), Some(nix::unistd::geteuid().as_raw()));
        assert_eq!((name(0), uid(0)), (None, None));
        assert!(!belongs_to(0, 12345));
        let proc = Path::new(ROOT);
        assert!(available_kb(proc).unwrap() > paged_out_kb(proc, me).unwrap(), "or it would not run");
        assert_eq!(paged_out_kb(proc, 0), None);
    }

    /// kthreadd, of nice value 0, is known by its kind; this process is none of the kernel's.
    #[test]
    fn a_kernel_thread_is_told_from_a_process() {
        if name(2).as_deref() == Some("kthreadd") {
            assert_eq!(kernel_thread(2), Some(KernelThread { nice: 0, works_for_others: false }));
        }
        assert_eq!((kernel_thread(std::process::id()), kernel_thread(0)), (None, None));
        assert_eq!((real_time(std::process::id()), real_time(0)), (None, None));
    }

    /// A thread has a directory in `/proc` with the owner of its process, and is no process all the same.
    #[test]
    fn a_thread_is_no_process() {
        let thread = || {
            let link = fs::read_link("/proc/thread-self").unwrap();
            let tid: u32 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (tid, uid(tid), belongs_to(tid, uid(tid).unwrap()))
        };
        let (tid, owner, belongs) = std::thread::spawn(thread).join().unwrap();
        let me = std::process::id();
        assert_ne!(tid, me);
        assert_eq!(owner, uid(me), "/proc answers for the thread as for its process");
        assert!(!belongs && is_process(me));
    }
}
