// SPDX-License-Identifier: GPL-2.0-only
//! What processes say about displays in their environment and arguments.
//!
//! An environment is what a process was started with and anybody can start one with anything in it: it is a hint to be
//! checked, never a proof.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Largest environment or command line read, in bytes: the kernel's limit for one string.
const MAX_BYTES: u64 = 128 * 1024;

/// Longest path, in bytes: the kernel opens no longer one (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// Processes of one user that are heard about one display, the oldest first. Each may name another file, as long as a path can be: who starts
/// 30,000 of them must not have the daemon remember, and open, them all.
const MAX_WITNESSES: usize = 256;

/// A process, told apart from a later one of the same pid by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start: u64,
}

/// A process that was started with a display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witness {
    /// Which process.
    pub id: ProcessId,
    /// Whose it is.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The display's number.
    pub display: u32,
    /// Its `XAUTHORITY`, or `.Xauthority` in its `HOME`.
    pub xauthority: Option<PathBuf>,
}

/// Processes of ordinary users (and other non-root ones) that were started with one of these local displays, oldest pid first, some of each
/// user and display.
pub(crate) fn witnesses(proc: &Path, displays: &HashSet<u32>) -> Vec<Witness> {
    let Ok(entries) = std::fs::read_dir(proc) else { return Vec::new() };
    let mut pids: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect();
    pids.sort_unstable();
    let mut heard: HashMap<(u32, u32), usize> = HashMap::new();
    let mut is_heard = |witness: &Witness| {
        let count = heard.entry((witness.uid, witness.display)).or_default();
        *count += 1;
        displays.contains(&witness.display) && *count <= MAX_WITNESSES
    };
    pids.into_iter().filter_map(|pid| witness(proc, pid)).filter(|witness| is_heard(witness)).collect()
}

fn witness(proc: &Path, pid: u32) -> Option<Witness> {
    let dir = proc.join(pid.to_string());
    let owner = std::fs::metadata(&dir).ok()?;
    if owner.uid() == 0 {
        return None;
    }
    let environ = read(&dir.join("environ"))?;
    let display = local_display(variable(&environ, b"DISPLAY=")?)?;
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let xauthority = match variable(&environ, b"XAUTHORITY=").filter(|value| !value.is_empty()) {
        Some(value) => Some(path(value)),
        None => variable(&environ, b"HOME=").map(|home| path(home).join(".Xauthority")),
    }
    .filter(|path| path.as_os_str().len() < MAX_PATH_BYTES);
    let start = start_of(proc, pid)?;
    Some(Witness { id: ProcessId { pid, start }, uid: owner.uid(), gid: owner.gid(), display, xauthority })
}

/// When the process with this pid started; `None` if there is none.
pub(crate) fn start_of(proc: &Path, pid: u32) -> Option<u64> {
    let stat = read(&proc.join(pid.to_string()).join("stat"))?;
    // The name is in brackets and may hold anything, brackets and spaces included.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = String::from_utf8_lossy(&stat[after_name..]);
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The user that the process with this pid acts as; `None` if there is none.
pub(crate) fn user_of(proc: &Path, pid: u32) -> Option<u32> {
    let status = read(&proc.join(pid.to_string()).join("status"))?;
    let uids = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    // Real, effective, saved, of the file system.
    std::str::from_utf8(uids).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The argument after `-auth` on a server's command line.
pub(crate) fn auth_argument(proc: &Path, pid: u32) -> Option<PathBuf> {
    let cmdline = read(&proc.join(pid.to_string()).join("cmdline"))?;
    let mut arguments = cmdline.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"-auth")?;
    arguments.next().filter(|path| !path.is_empty()).map(|path| std::ffi::OsStr::from_bytes(path).into())
}

fn variable<'a>(environ: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    environ.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name))
}

/// The number in a local display's name: `:0`, `:0.0`, `unix:0`.
fn local_display(name: &[u8]) -> Option<u32> {
    let name = std::str::from_utf8(name).ok()?;
    let number = name.strip_prefix("unix").unwrap_or(name).strip_prefix(':')?;
    display_number(number.split_once('.').map_or(number, |(number, _screen)| number))
}

/// The highest number of a display: its TCP port is 6000 more.
pub(crate) const LAST_DISPLAY: u32 = 65_535 - 6_000;

/// A display's number, as X servers write it: no sign, no leading zero.
pub(crate) fn display_number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number <= LAST_DISPLAY && number.to_string() == text).then_some(number)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Local displays are told from remote ones and from nonsense.
    #[test]
    fn display_names() {
        for (name, number) in [(":0", Some(0)), (":10.1", Some(10)), ("unix:3", Some(3)), (":59535", Some(59_535))] {
            assert_eq!(local_display(name.as_bytes()), number, "{name}");
        }
        for name in ["", ":", "0", "host:0", "localhost:10.0", ":-1", ":+1", ":00", ":59536", ":1x", "wayland-0"] {
            assert_eq!(local_display(name.as_bytes()), None, "{name}");
        }
    }

    /// A process whose name holds brackets and spaces is still told by its start.
    #[test]
    fn a_process_may_be_called_anything() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let stat = "7 (a) S 1) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        std::fs::write(dir.path().join("7/stat"), stat).unwrap();
        assert_eq!(start_of(dir.path(), 7), Some(4242));
        assert_eq!(start_of(dir.path(), 8), None);
        assert_eq!(start_of(Path::new("/proc"), std::process::id()).map(|start| start > 0), Some(true));
    }

    /// A user's processes by the thousand, each with a name of its own for the longest file, are heard up to a bound, others behind them too;
    /// and none about a display that is not there.
    #[test]
    fn crowds_of_witnesses_are_cut_off() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: giving files to other users takes root; run as root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: u32, uid: u32, display: u32, file: String| {
            let process = dir.path().join(pid.to_string());
            std::fs::create_dir(&process).unwrap();
            let stat = format!("{pid} (a) S {} 20", "0 ".repeat(18));
            std::fs::write(process.join("stat"), stat).unwrap();
            let environ = format!("DISPLAY=:{display}\0XAUTHORITY=/{file}\0");
            std::fs::write(process.join("environ"), environ).unwrap();
            std::os::unix::fs::chown(process, Some(uid), None).unwrap();
        };
        let crowd = u32::try_from(MAX_WITNESSES).unwrap() + 50;
        (1..=crowd).for_each(|pid| process(pid, 1001, 0, format!("{pid}")));
        process(crowd + 1, 1000, 0, "cookies".to_owned());
        process(crowd + 2, 1001, 1, "another display".to_owned());
        process(crowd + 3, 1002, 0, "x".repeat(MAX_PATH_BYTES));
        process(crowd + 4, 1001, 2, "no such display".to_owned());
        let heard = witnesses(dir.path(), &HashSet::from([0, 1]));
        let of = |uid, display| heard.iter().filter(|witness| (witness.uid, witness.display) == (uid, display)).count();
        assert_eq!([of(1001, 0), of(1000, 0), of(1001, 1), of(1002, 0)], [MAX_WITNESSES, 1, 1, 1]);
        assert_eq!(heard.len(), MAX_WITNESSES + 3);
        assert!(
            heard.iter().all(|witness| witness.uid != 1002 || witness.xauthority.is_none()),
            "too long a path is kept"
        );
    }

    /// A server's cookie file is the argument after -auth, if there is one.
    #[test]
    fn a_servers_cookie_file_is_on_its_command_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        for (cmdline, path) in [
            ("Xorg\0:0\0-auth\0/run/cookies\0vt7\0", Some("/run/cookies")),
            ("Xorg\0:0\0-auth\0", None),
            ("Xvfb\0:0\0", None),
        ] {
            std::fs::write(dir.path().join("7/cmdline"), cmdline).unwrap();
            assert_eq!(auth_argument(dir.path(), 7).as_deref(), path.map(Path::new));
        }
    }
}
