// SPDX-License-Identifier: GPL-2.0-only
//! The process that is watched: one that runs already, or one that is started, as whoever called sudo, and ended.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, User, getgrouplist, setgroups, setresgid, setresuid};

/// How long a program has to end when it is told to.
const END_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process. Dropping it ends it, if it was started here.
pub struct Process {
    pid: u32,
    /// Its /proc/PID/stat: of this very process, whoever gets its number later.
    stat: File,
    started: Option<Child>,
    /// The file of the program that was to be started, where it can be found.
    asked: Option<PathBuf>,
    executable: Option<PathBuf>,
}

impl Process {
    /// Process `pid`, which runs already.
    ///
    /// # Errors
    /// There is none, or it is a thread, or of the kernel.
    pub fn running(pid: u32) -> Result<Self> {
        let gone = || format!("there is no process {pid}");
        let stat = File::open(format!("/proc/{pid}/stat")).with_context(gone)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(gone)?;
        let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map_or("", str::trim);
        if tgid != pid.to_string() {
            bail!("{pid} is a thread of process {tgid}: give that");
        }
        let mut process = Self { pid, stat, started: None, asked: None, executable: None };
        if !process.is_alive() {
            bail!("process {pid} has ended");
        }
        if process.executable.is_none() {
            bail!("process {pid} has no executable: a kernel thread cannot have a specification by path");
        }
        Ok(process)
    }

    /// Start a program: as whoever called sudo, where somebody did.
    ///
    /// # Errors
    /// It is not there, or cannot be started.
    pub fn start(name: &OsStr, arguments: &[OsString]) -> Result<Self> {
        let mut command = Command::new(name);
        command.args(arguments);
        if let Some(user) = caller()? {
            become_user(&mut command, &user)?;
        }
        let shown = name.to_string_lossy().into_owned();
        let started = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("there is no program {shown}: give its path, or a name that PATH leads to")
            }
            _ => anyhow!(error).context(format!("cannot start {shown}")),
        })?;
        let pid = started.id();
        let stat = File::open(format!("/proc/{pid}/stat")).context("cannot look after the program")?;
        Ok(Self { pid, stat, started: Some(started), asked: found(name), executable: None })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Has it not ended? Notes which program it runs.
    pub fn is_alive(&mut self) -> bool {
        if let Ok(path) = fs::read_link(format!("/proc/{}/exe", self.pid)) {
            self.executable = Some(path);
        }
        let mut bytes = [0; 512];
        let Ok(length) = self.stat.read_at(&mut bytes, 0) else { return false };
        // PID (NAME) STATE: the name may have any character, so what counts is behind the last bracket.
        let text = String::from_utf8_lossy(&bytes[..length]);
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    }

    /// The program that it runs, as the kernel shows it.
    ///
    /// # Errors
    /// It was never seen, or its file is no longer there.
    pub fn executable(&self) -> Result<PathBuf> {
        let path = self.executable.clone().context("it ended before it could be seen which program it is")?;
        if path.to_string_lossy().ends_with(" (deleted)") {
            bail!("its file was replaced or removed since it was started ({}): start it again", path.display());
        }
        Ok(path)
    }

    /// What is to be known about the path: a script shows as what runs it.
    pub fn note(&self) -> Option<String> {
        let (asked, executable) = (self.asked.as_ref()?, self.executable.as_ref()?);
        (asked != executable).then(|| {
            format!(
                "{} is run by {}, and the line is for all that this runs; in TOML a specification can name an app or a unit",
                asked.display(),
                executable.display()
            )
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = &mut self.started else { return };
        let Ok(None) = child.try_wait() else { return };
        let Ok(pid) = i32::try_from(self.pid) else { return };
        // It is our child and has not been waited for, so the number is its own.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        for _ in 0..END_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            sleep(LOOK_EVERY);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The file that `name` means, as the kernel shows it when it runs.
pub fn found(name: &OsStr) -> Option<PathBuf> {
    let file = |path: &Path| fs::canonicalize(path).ok().filter(|file| file.is_file());
    if Path::new(name).components().count() > 1 {
        return file(Path::new(name));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|folder| file(&folder.join(name)))
}

/// Who called sudo; `None`: nobody did.
fn caller() -> Result<Option<User>> {
    let Some(uid) = env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok()) else { return Ok(None) };
    User::from_uid(Uid::from_raw(uid)).context("cannot look up who called sudo")
}

/// Let `command` be `user`'s, with their groups, home and folder for sockets: as root a player would find neither screen nor sound.
fn become_user(command: &mut Command, user: &User) -> Result<()> {
    let (uid, gid): (Uid, Gid) = (user.uid, user.gid);
    let groups = getgrouplist(&CString::new(user.name.clone())?, gid).context("cannot look up the caller's groups")?;
    command.env("HOME", &user.dir).env("USER", &user.name).env("LOGNAME", &user.name);
    let runtime = format!("/run/user/{uid}");
    if env::var_os("XDG_RUNTIME_DIR").is_none() && Path::new(&runtime).is_dir() {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    let become_them = move || {
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        Ok(setresuid(uid, uid, uid)?)
    };
    // SAFETY: system calls only, which are safe between fork and exec; the groups were fetched before.
    unsafe { command.pre_exec(become_them) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(result: Result<Process>) -> String {
        format!("{:#}", result.err().unwrap())
    }

    /// A program is started, seen under the path that the kernel shows, and ended when it is done with.
    #[test]
    fn a_program_is_started_and_ended() {
        let mut process = Process::start(OsStr::new("sleep"), &["600".into()]).unwrap();
        assert!(process.is_alive());
        assert_eq!(Some(process.executable().unwrap()), found(OsStr::new("sleep")));
        assert_eq!(process.note(), None);
        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let mut short = Process::start(OsStr::new("true"), &[]).unwrap();
        let ended = (0..1_000).any(|_| {
            sleep(LOOK_EVERY);
            !short.is_alive()
        });
        assert!(ended);
    }

    /// A script shows as what runs it, and that is said.
    #[test]
    fn a_script_is_what_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        // Written by another process: a test beside this one, which forks while this process has the script open for writing, would keep it so, and what
        // is open for writing cannot be run.
        let text = r#"printf '#!/bin/sh\nwhile :; do :; done\n' >"$0" && chmod 755 "$0""#;
        assert!(Command::new("sh").args(["-c", text]).arg(&script).status().unwrap().success());
        let mut process = Process::start(script.as_os_str(), &[]).unwrap();
        assert!(process.is_alive());
        let note = process.note().unwrap();
        assert!(note.contains("script is run by /") && note.contains("in TOML"), "{note}");
    }

    /// What cannot be watched is named.
    #[test]
    fn what_cannot_be_watched_is_named() {
        let none = error(Process::start(OsStr::new("no-such-program"), &[]));
        assert!(none.contains("no program no-such-program: give its path"), "{none}");
        assert!(error(Process::start(OsStr::new("/etc/passwd"), &[])).contains("cannot start /etc/passwd"));
        assert!(error(Process::start(OsStr::new("/usr"), &[])).contains("cannot start /usr"));
        assert!(error(Process::running(4_194_305)).contains("there is no process 4194305"));
        let mut own = Process::running(std::process::id()).unwrap();
        assert!(own.is_alive());
        let thread = std::thread::spawn(|| {
            let tid = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
            error(Process::running(tid))
        });
        assert!(thread.join().unwrap().contains(&format!("is a thread of process {}", std::process::id())));
    }
}
