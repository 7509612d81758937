// SPDX-License-Identifier: GPL-2.0-only
//! Finding displays and starting helpers as their owners. Most of it takes root, as the daemon has.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{PATIENCE, Running, Server, example, have, wait_until};
use limelight_abi::sense::SenseMessage;
use limelight_sense::displays::{Display, DisplayFinder};
use limelight_sense::spawn::{Helper, ReceiveError, SpawnError, spawn_helper};

/// A user without a session: `nobody` on Debian.
const NOBODY: u32 = 65_534;
/// Another: what is done to all processes of a user is not to meet those of other tests.
const NOBODYS_NEIGHBOUR: u32 = 65_432;

fn may_change_users() -> bool {
    let root = nix::unistd::Uid::effective().is_root();
    if !root {
        eprintln!("skipped: starting programs as other users takes root; run as root");
    }
    root
}

/// A directory everybody may enter, with the helper's program in it.
fn public_dir() -> (tempfile::TempDir, PathBuf) {
    assert!(example().exists(), "build it first: cargo build -p limelight-sense --example watch");
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let helper = dir.path().join("limelight");
    // By a process of its own: a child that another test's thread forks while this one has the file open for writing
    // would keep it so, and a program that is open for writing cannot be executed.
    assert!(Command::new("install").args(["-m", "755"]).arg(example()).arg(&helper).status().unwrap().success());
    (dir, helper)
}

fn display_of(server: &Server, uid: u32) -> Display {
    Display { name: server.name(), uid, gid: uid, home: "/".into(), xauthority: None, server_pid: server.pid() }
}

fn next(helper: &mut Helper) -> Result<SenseMessage, ReceiveError> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(message) = helper.receive()? {
            return Ok(message);
        }
        assert!(Instant::now() < until, "the helper said nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status_line(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A helper runs as the owner with nothing of root's, greets, and dies when the daemon lets go of it.
#[test]
fn a_helper_has_nothing_of_roots() {
    if !may_change_users() || !have(&["Xvfb"]) {
        return;
    }
    let (_dir, program) = public_dir();
    let server = Server::start(&[]);
    // Something of the daemon's that must not be passed on, without close-on-exec as a careless library leaves it.
    let leak = fs::File::open("/etc/shadow").unwrap();
    nix::fcntl::fcntl(&leak, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let mut helper = spawn_helper(&display_of(&server, NOBODY), &program).unwrap();
    let hello = next(&mut helper).unwrap();
    assert!(matches!(hello, SenseMessage::Hello { server_pid, .. } if server_pid == Some(server.pid())), "{hello:?}");

    let pid = helper.pid();
    let four = |id: u32| [id.to_string().as_str(); 4].join(" ");
    assert_eq!(status_line(pid, "Uid:"), four(NOBODY));
    assert_eq!(status_line(pid, "Gid:"), four(NOBODY));
    assert_eq!(status_line(pid, "Groups:"), "");
    assert_eq!(status_line(pid, "CapEff:"), "0000000000000000");
    assert_eq!(status_line(pid, "NoNewPrivs:"), "1");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert!(
        limits.lines().any(|line| line.starts_with("Max address space") && !line.contains("unlimited")),
        "{limits}"
    );
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim(), "1000");
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let mut names: Vec<&str> =
        environ.split_terminator('\0').filter_map(|entry| Some(entry.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["DISPLAY", "HOME"]);
    for fd in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let target = fs::read_link(fd.path()).unwrap();
        let number: u32 = fd.file_name().to_str().unwrap().parse().unwrap();
        assert!(number <= 2 || target.to_str().unwrap().starts_with("socket:"), "{number} is {}", target.display());
    }
    let proc = fs::metadata(format!("/proc/{pid}/environ")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&proc), 0, "its memory is open to others of the same user");
    drop(helper);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// Its owner may stop a helper, and keeps nobody waiting by it: neither who starts it nor who ends it.
#[test]
fn a_stopped_helper_keeps_nobody_waiting() {
    if !may_change_users() || !have(&["Xvfb"]) {
        return;
    }
    let (_dir, program) = public_dir();
    let server = Server::start(&[]);
    let mut stopper = Command::new("sh");
    stopper.args(["-c", "while :; do kill -STOP -1; done"]).uid(NOBODYS_NEIGHBOUR).gid(NOBODYS_NEIGHBOUR);
    let stopper = Running::start(&mut stopper);
    let began = Instant::now();
    for _ in 0..50 {
        drop(spawn_helper(&display_of(&server, NOBODYS_NEIGHBOUR), &program).unwrap());
    }
    assert!(began.elapsed() < PATIENCE, "50 helpers took {:?}", began.elapsed());
    drop(stopper);
}

/// A helper ends by itself with its daemon, even when that is killed.
#[test]
fn a_helper_dies_with_its_daemon() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let (_dir, program) = public_dir();
    let uid = nix::unistd::Uid::effective().as_raw();
    let display = display_of(&server, uid);
    // PR_SET_PDEATHSIG follows the thread that started the helper.
    let pid = std::thread::spawn(move || {
        let mut helper = spawn_helper(&display, &program).unwrap();
        next(&mut helper).unwrap();
        let pid = helper.pid();
        std::mem::forget(helper);
        pid
    });
    let pid = pid.join().unwrap();
    wait_until("the helper is dead", || status_line(pid, "State:").starts_with('Z'));
}

/// A program that cannot be started and a display that cannot be watched are told apart, and the daemon hears why.
#[test]
fn failures_to_start_are_told() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let uid = nix::unistd::Uid::effective().as_raw();
    let error = spawn_helper(&display_of(&server, uid), Path::new("/nowhere/limelight")).unwrap_err();
    assert!(matches!(error, SpawnError::Start { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/limelight"), "{error}");
    let (_dir, program) = public_dir();
    let nowhere = Display { name: ":58999".into(), ..display_of(&server, uid) };
    let mut helper = spawn_helper(&nowhere, &program).unwrap();
    let last = next(&mut helper).unwrap();
    assert!(matches!(&last, SenseMessage::Gone { reason } if reason.contains("no X server answers")), "{last:?}");
    assert!(matches!(next(&mut helper), Err(ReceiveError::Ended)));
}

/// A person's own server, with a cookie, is found as theirs with the way in, and watched as them.
#[test]
fn a_persons_display_is_found_and_watched() {
    if !may_change_users() || !have(&["Xvfb", "xauth"]) {
        return;
    }
    let (dir, program) = public_dir();
    let auth = dir.path().join("cookies");
    let add = ["add", ":0", ".", "0123456789abcdef0123456789abcdef"];
    assert!(Command::new("xauth").args(["-q", "-f"]).arg(&auth).args(add).status().unwrap().success());
    chown(&auth, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-auth"]).arg(&auth).uid(NOBODY).gid(NOBODY);
    let server = Server::launch(command);
    let find = |finder: &mut DisplayFinder| finder.find().into_iter().find(|display| display.name == server.name());

    let mut finder = DisplayFinder::default();
    let display = find(&mut finder).expect("the display was not found");
    assert_eq!((display.uid, display.gid, display.server_pid), (NOBODY, NOBODY, server.pid()));
    assert_eq!(display.xauthority.as_ref(), Some(&auth), "from the server's command line");

    // The helper reads its cookie for this very display.
    let mine = dir.path().join("mine");
    let add = ["add", server.name().as_str(), ".", "0123456789abcdef0123456789abcdef"].map(str::to_owned);
    assert!(Command::new("xauth").args(["-q", "-f"]).arg(&mine).args(add).status().unwrap().success());
    chown(&mine, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut session = Command::new("sleep");
    session.arg("1000").env_clear().env("DISPLAY", server.name()).env("XAUTHORITY", &mine).uid(NOBODY).gid(NOBODY);
    let session = Running::start(&mut session);
    finder.forget(&server.name());
    let display = find(&mut finder).expect("the display was not found");
    assert_eq!(display.xauthority.as_ref(), Some(&mine), "from a process of the session");
    let mut helper = spawn_helper(&display, &program).unwrap();
    let hello = next(&mut helper).unwrap();
    assert!(matches!(hello, SenseMessage::Hello { .. }), "{hello:?}");
    drop(session);
}
