// SPDX-License-Identifier: GPL-2.0-only
//! The command as a person meets it: the real binary on this machine, without a daemon.
//!
//! What takes a kernel with sched_ext is tried in the laboratory (`tests/`), not here.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_limelight");
const NOBODY: u32 = 65_534;

fn limelight(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The reason, after making sure that it failed with one line of plain words.
fn reason(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(text.starts_with("limelight: ") && text.lines().count() == 1, "{text}");
    text
}

/// A copy of the binary that user nobody can reach; `None` where this test may not become nobody.
fn as_nobody(arguments: &[&str]) -> Option<Output> {
    if !is_root() {
        eprintln!("skipped: becoming another user takes root; run as root");
        return None;
    }
    let folder = tempfile::Builder::new().prefix("limelight-test").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("limelight");
    // By a process of its own: while this one writes a program, another test's fork would hold it open, and it could not be run.
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}")).args(["--clear-groups", "--"]);
    Some(command.arg(program).args(arguments).output().unwrap())
}

/// Without root the daemon says that it needs root, and why, how, and what works without.
#[test]
fn without_root_run_says_so() {
    if let Some(output) = as_nobody(&["run"]) {
        let text = reason(&output);
        assert!(text.contains("needs root") && text.contains("sudo limelight run"), "{text}");
        assert!(text.contains("need no root"), "{text}");
    }
}

/// On a kernel without sched_ext the daemon says so, names the option to look for, says what works meanwhile, and leaves nothing behind.
#[test]
fn without_sched_ext_run_says_so() {
    if Path::new("/sys/kernel/sched_ext").exists() || !is_root() {
        eprintln!("skipped: needs root on a kernel without sched_ext");
        return;
    }
    let there = Path::new("/run/limelight").exists();
    let text = reason(&limelight(&["run"]));
    assert!(text.contains("CONFIG_SCHED_CLASS_EXT=y") && text.contains("nothing was changed"), "{text}");
    assert!(
        text.contains("meanwhile the kernel's own scheduler runs the CPUs") && text.contains("spec check"),
        "{text}"
    );
    assert_eq!(Path::new("/run/limelight").exists(), there);
}

/// An option out of its bounds is refused as wrong usage, with its name, what was given and what is allowed; two that contradict each other are
/// both named.
#[test]
fn bad_settings_are_named() {
    for (flag, value, bounds) in [
        ("--share-pct", "80", "0 to 50"),
        ("--slice-ms", "0", "0.1 to 100"),
        ("--slice-min-ms", "NaN", "0.1 to 10"),
        ("--rescue-after-ms", "1", "50 to 4000"),
        ("--input-memory-s", "0", "1 to 600"),
        ("--output-full-pct", "many", "0.01 to 1000"),
        ("--policy", "nonsense", "huc, redline, coop, unified"),
    ] {
        let output = limelight(&["run", &format!("{flag}={value}")]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!([flag, &format!("'{value}'"), bounds].iter().all(|words| text.contains(words)), "{text}");
    }
    for (given, other) in
        [("--hub-leave=50", "--hub-enter 40"), ("--slice-min-ms=10 --slice-ms=5", "--slice-min-ms 10")]
    {
        let flags: Vec<&str> = given.split(' ').collect();
        let text = reason(&limelight(&[&["run"], &flags[..]].concat()));
        assert!(text.contains(&flags[flags.len() - 1].replace('=', " ")) && text.contains(other), "{text}");
    }
}

/// Without a daemon every view says that none answers and how to start one.
#[test]
fn without_a_daemon_views_say_so() {
    if Path::new(limelight_daemon::control::SOCKET).exists() {
        eprintln!("skipped: a daemon runs on this machine");
        return;
    }
    for view in [&["status"][..], &["status", "--json"], &["explain", "1"], &["graph"]] {
        let text = reason(&limelight(view));
        assert!(text.contains("no limelight daemon") && text.contains("limelight run"), "{text}");
    }
}

/// The doctor comes to an end on whatever machine this is; text, JSON and exit status agree, and of each fault it says what happens
/// instead, and the remedy.
#[test]
fn the_doctor_examines_this_machine() {
    let json = limelight(&["doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let findings = value["findings"].as_array().unwrap();
    assert!(findings.len() >= 8, "{value:#}");
    for finding in findings.iter().filter(|finding| finding["verdict"] != "good") {
        assert!(finding["instead"].is_string() && finding["fix"].is_string(), "{finding:#}");
    }
    let bad = findings.iter().any(|finding| finding["verdict"] == "bad");
    assert_eq!(value["will_work"], !bad);
    assert_eq!(json.status.code(), Some(i32::from(bad)));
    let text = String::from_utf8(limelight(&["doctor"]).stdout).unwrap();
    assert_eq!(text.contains("will not work here"), bad, "{text}");
}

/// The doctor works for everybody, and says what it could not try.
#[test]
fn the_doctor_sees_patients_without_root() {
    if let Some(output) = as_nobody(&["doctor"]) {
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("rights: not root") && text.contains("fix: sudo limelight doctor"), "{text}");
    }
}

/// `spec check` prints complaints and what is in force on standard output, and its status says whether anything is wrong.
#[test]
fn spec_check_says_whether_anything_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spec.tab");
    let check = |content: &str| {
        fs::write(&file, content).unwrap();
        let output = limelight(&["spec", "check", file.to_str().unwrap()]);
        assert!(output.stderr.is_empty(), "{output:?}");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = check("/bin/sh:Iact:5:30:IR:-:-\n");
    assert!(code == Some(0) && text.contains("in force: 1, ") && text.contains("complaints: 0"), "{text}");
    let (code, text) = check("/bin/sh:Iact:5:30:IR:-:-\n/x:Iact:5:4:IR:-:-\n");
    assert!(code == Some(1) && text.contains("spec.tab:2: C: ") && text.contains("in force: 1, "), "{text}");
}

/// To watch a program takes root, and the kernel's description of itself; without either it is said, and nothing is started.
#[test]
fn spec_suggest_says_what_it_needs() {
    if let Some(output) = as_nobody(&["spec", "suggest", "true"]) {
        assert!(reason(&output).contains("needs root"), "{output:?}");
    }
    if is_root() && !Path::new("/sys/kernel/btf/vmlinux").exists() {
        assert!(reason(&limelight(&["spec", "suggest", "true"])).contains("CONFIG_DEBUG_INFO_BTF=y"));
    }
    for wrong in [
        &[][..],
        &["--pid=1", "true"],
        &["--seconds=2", "true"],
        &["--recorded=x", "true"],
        &["--recorded=x", "--pid=1"],
        &["--recorded=x", "--pid=0", "true"],
        &["--recorded=x", "--pid=1", "--seconds=9", "true"],
        &["--recorded=x", "--pid=1", "true", "argument"],
        &["true", "--recorded", "x", "--pid=1"],
        &["true", "--recorded=x"],
    ] {
        let output = limelight(&[&["spec", "suggest"], wrong].concat());
        assert!(output.status.code() == Some(2) && output.stderr.starts_with(b"error: "), "{wrong:?}: {output:?}");
    }
}

/// A recording needs no root and no daemon: of one, from a file or standard input, the line is printed, which a check finds nothing wrong with, and it is
/// said that nothing was tried; no time of an event is in what is said. Of one that says nothing of the process the file and the reason are named.
#[test]
fn spec_suggest_reads_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let mut text = String::from("# tracer: nop\n#\n");
    for n in 0..500 {
        let (from, to) = (777_000 + n * 40, 777_000 + n * 40 + 5);
        let time = |ms: u32| format!("{}.{:03}000", ms / 1_000, ms % 1_000);
        text += &format!(
            "  <idle>-0  (-------) [000] d..2. {}: sched_switch: swapper/0:0 [120] R ==> film:70 [120]\n",
            time(from)
        );
        text += &format!(
            "    film-70 (     70) [000] d..2. {}: sched_switch: film:70 [120] S ==> swapper/0:0 [120]\n",
            time(to)
        );
    }
    fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    let output = limelight(&["spec", "suggest", "--recorded", path, "--pid=70", "/nowhere/film"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/nowhere/film:Iact:5.5:40:R:-:-\n");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("not tried: it was recorded") && !told.contains("777") && told.contains("not installed"),
        "{told}"
    );

    let mut command = Command::new(PROGRAM);
    command.args(["spec", "suggest", "--json", "--recorded", "-", "--pid=70", "/nowhere/film"]);
    let output = command.stdin(fs::File::open(&file).unwrap()).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        value["untried"] == "it was recorded"
            && value["unread"] == 0
            && value["recorded"] == true
            && value["attempts"] == serde_json::json!([])
    );

    let nobody = reason(&limelight(&["spec", "suggest", "--recorded", path, "--pid=71", "/nowhere/film"]));
    assert!(nobody.contains(path) && nobody.contains("process 71") && nobody.contains("70 (film)"), "{nobody}");
    let two = limelight(&["spec", "suggest", "--recorded", path, "--pid=70", "/nowhere/film\n/usr/bin/env"]);
    assert!(reason(&two).contains("no line can name the program /nowhere/film?/usr/bin/env"), "{two:?}");
    let folder = reason(&limelight(&["spec", "suggest", "--recorded", "/", "--pid=71", "/nowhere/film"]));
    assert!(folder.contains("it is a folder"), "{folder}");
    let none = reason(&limelight(&["spec", "suggest", "--recorded", "/nowhere/x", "--pid=71", "/nowhere/film"]));
    assert!(none.contains("/nowhere/x") && none.contains("No such file"), "{none}");
}

/// The helper's command, typed by hand, says that it is the daemon's.
#[test]
fn watch_by_hand_is_refused() {
    for fd in ["77", "1", "-1"] {
        let text = reason(&limelight(&["watch", "--display=:0", &format!("--report-fd={fd}")]));
        assert!(text.contains("the daemon starts this command by itself"), "{text}");
    }
}

/// Who stops reading early is not told of an error.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(PROGRAM)
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Where not even the error can be written, the status still tells of it.
#[test]
fn a_full_stderr_keeps_the_status() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let arguments = ["watch", "--display=:0", "--report-fd=77"];
    assert_eq!(Command::new(PROGRAM).args(arguments).stderr(full).status().unwrap().code(), Some(1));
}

/// Installing puts every part where it belongs, uninstalling takes every part away, and bad arguments change nothing.
#[test]
fn install_and_uninstall() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/install");
    let top = tempfile::tempdir().unwrap();
    let install = |arguments: &[&str], prefix: &str| {
        let mut command = Command::new(&script);
        command.args(["--binary", PROGRAM]).args(arguments).env("DESTDIR", top.path()).env("PREFIX", prefix);
        command.output().unwrap()
    };
    assert!(!install(&["--frobnicate"], "/usr").status.success());
    assert!(!install(&[], "usr").status.success());
    assert!(
        !Command::new(&script)
            .args(["--binary", "/nonexistent"])
            .env("DESTDIR", top.path())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0);
    assert!(install(&[], "/usr").status.success());
    let unit = fs::read_to_string(top.path().join("usr/lib/systemd/system/limelight.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/limelight run"), "{unit}");
    for part in [
        "bin/limelight",
        "share/man/man1/limelight.1",
        "share/man/man1/limelight-explain.1",
        "share/bash-completion/completions/limelight",
        "share/zsh/site-functions/_limelight",
        "share/fish/vendor_completions.d/limelight.fish",
        "share/limelight/spec.d/10-display.toml",
    ] {
        assert!(top.path().join("usr").join(part).is_file(), "{part}");
    }
    assert!(install(&["--uninstall"], "/usr").status.success());
    let left = Command::new("find").arg(top.path()).args(["-type", "f"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}
