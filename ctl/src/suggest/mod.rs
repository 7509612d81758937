// SPDX-License-Identifier: GPL-2.0-only
//! `limelight spec suggest`: watches a program, finds C and T (`limelight_spec::suggest`), tries them, and says what came out.
//!
//! Or takes a recording of it ([`recorded`]).
//!
//! When the program ran is kept in this process's memory only, and only sums are told: single times would say when somebody did something.

mod process;
pub mod recorded;
mod report;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limelight_daemon::control::{SOCKET, ask};
use limelight_daemon::view::Request;
use limelight_record::{Recorder, Room};
use limelight_spec::suggest::{BURSTS_LEAST, Finding, Seen, Step, Tried, Verdict, WATCH_LEAST, judge, over};
use limelight_spec::{Kind, Source, Spec, Target, printable};
use serde_json::Value;

use process::Process;
pub use report::Suggestion;
use report::{Attempt, tell};
use watch::{Watch, Watched};

/// What a program does at its start is not what it does.
const START: Duration = Duration::from_secs(2);

/// How often C is changed and tried again.
const CHANGES_MOST: usize = 4;

/// What a program is given that never has the CPU it wants, to see what that is: half of one.
const ROOM_TO_SHOW: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(100));

/// Watch process `pid`, or `program`, which is started, and find its specification.
///
/// # Errors
/// Why there is none.
pub fn suggest(pid: Option<u32>, program: &[OsString], seconds: Duration) -> Result<Suggestion> {
    if !nix::unistd::geteuid().is_root() {
        bail!("watching a program needs root, for it takes a BPF program: sudo limelight spec suggest ...");
    }
    let mut room = Room::uninit();
    let recorder = Recorder::load(&mut room)?;
    let (process, settle) = match (pid, program) {
        (Some(pid), _) => (Process::running(pid)?, Duration::ZERO),
        (None, [name, arguments @ ..]) => (Process::start(name, arguments)?, START),
        (None, []) => bail!("give a program, or --pid and a process"),
    };
    let mut watch = Watch::begin(recorder, process)?;
    let suggestion = look(&mut watch, settle, seconds);
    // Where nothing was tried there is nothing to take back, and no daemon perhaps.
    let _ = ask(Path::new(SOCKET), &Request::Release { pid: watch.process.pid() });
    suggestion
}

fn look(watch: &mut Watch<'_>, settle: Duration, seconds: Duration) -> Result<Suggestion> {
    tell(&format!("watching process {} for {} s", watch.process.pid(), (settle + seconds).as_secs()));
    let mut watched = watch.during(settle, seconds)?;
    let mut verdict = judge(&watched.stints, watched.from_ns, watched.to_ns);
    if let (Verdict::Starved(seen), true) = (&verdict, watched.is_alive) {
        let (runtime, period) = ROOM_TO_SHOW;
        reserve(watch.process.pid(), runtime, period).with_context(|| starved(seen))?;
        tell(&format!("{}; it has half of one now, to see what it needs", report::seen(seen)));
        watched = watch.during(Duration::from_secs(1), seconds)?;
        verdict = match judge(&watched.stints, watched.from_ns, watched.to_ns) {
            Verdict::Starved(seen) => Verdict::CpuBound(seen),
            other => other,
        };
    }
    conclude(watch, &watched, verdict, seconds)
}

fn conclude(watch: &mut Watch<'_>, watched: &Watched, verdict: Verdict, seconds: Duration) -> Result<Suggestion> {
    let program = watch.process.executable()?;
    let lost = watch.lost();
    match verdict {
        Verdict::TooLittle(seen) => bail!("{}", too_little(&seen, watched.is_alive)),
        Verdict::Starved(seen) => bail!("{}, and it has ended", starved(&seen)),
        Verdict::CpuBound(seen) => {
            let line = line_of(&program, Kind::BestEffort, Duration::ZERO, Duration::ZERO)?;
            let suggestion = Suggestion { line, program, seen, lost, ..Suggestion::default() };
            tell(&suggestion.told());
            Ok(suggestion)
        }
        Verdict::Found(finding) => {
            tell(&report::found(&finding));
            let trial = if watched.is_alive {
                attempt(watch, &finding, seconds)?
            } else {
                Trial { untried: Some("it has ended".to_owned()), ..Trial::of(&finding) }
            };
            let line = line_of(&program, Kind::Interactive, trial.runtime, finding.period)?;
            let seen = finding.seen;
            let suggestion = Suggestion {
                line,
                program,
                seen,
                lost: watch.lost(),
                unread: 0,
                is_recorded: false,
                finding: Some(Finding { runtime: trial.runtime, ..finding }),
                attempts: trial.attempts,
                untried: trial.untried,
                note: watch.process.note(),
            };
            tell(&suggestion.told());
            Ok(suggestion)
        }
    }
}

/// How the figures were tried, and which C came out.
struct Trial {
    runtime: Duration,
    attempts: Vec<Attempt>,
    untried: Option<String>,
}

impl Trial {
    fn of(finding: &Finding) -> Self {
        Self { runtime: finding.runtime, attempts: Vec::new(), untried: None }
    }
}

fn attempt(watch: &mut Watch<'_>, finding: &Finding, seconds: Duration) -> Result<Trial> {
    let mut trial = Trial::of(finding);
    let mut runtime = finding.runtime;
    for _ in 0..=CHANGES_MOST {
        let before = match reserve(watch.process.pid(), runtime, finding.period) {
            Ok(held) => counts(&held),
            Err(error) => {
                trial.untried = Some(format!("{error:#}"));
                break;
            }
        };
        let watched = watch.during(Duration::from_secs(1), seconds)?;
        let after = held_by(watch.process.pid());
        let (Some(after), true) = (after, watched.is_alive) else {
            trial.untried = Some("it ended, or lost its reservation, while that was tried".to_owned());
            break;
        };
        let seen = over(&watched.stints, watched.from_ns, watched.to_ns, runtime, finding.period);
        let (periods, missed) = counts(&after);
        let tried =
            Tried { periods: periods.saturating_sub(before.0), missed: missed.saturating_sub(before.1), ..seen };
        let attempt = Attempt { runtime, tried };
        tell(&attempt.told(finding.period));
        trial.runtime = runtime;
        trial.attempts.push(attempt);
        match tried.next(finding, runtime) {
            Step::Keep => break,
            Step::Raise(next) | Step::Lower(next) => {
                trial.runtime = next;
                runtime = next;
            }
        }
    }
    Ok(trial)
}

/// Have `pid` hold a reservation; what the daemon says of it.
fn reserve(pid: u32, runtime: Duration, period: Duration) -> Result<Value> {
    let us = |time: Duration| u64::try_from(time.as_micros());
    let request = Request::Reserve { pid, runtime_us: us(runtime)?, period_us: us(period)? };
    let held = ask(Path::new(SOCKET), &request)?;
    if held["state"].as_str() != Some("admitted") {
        bail!("{}", crate::reservations::sentence(&held));
    }
    Ok(held)
}

/// The reservation that `pid` holds, while it is admitted.
fn held_by(pid: u32) -> Option<Value> {
    let view = ask(Path::new(SOCKET), &Request::Reservations).ok()?;
    let mut held = view["reservations"].as_array()?.iter();
    held.find(|held| held["pid"] == pid && held["state"] == "admitted").cloned()
}

/// Periods, and those that were missed.
fn counts(held: &Value) -> (u64, u64) {
    let count = |field: &str| held[field].as_u64().unwrap_or(0);
    (count("periods"), count("missed"))
}

fn line_of(program: &Path, kind: Kind, runtime: Duration, period: Duration) -> Result<String> {
    let spec = Spec {
        target: Target::Path(program.to_owned()),
        kind,
        runtime,
        period,
        inheritable: false,
        revocable: kind == Kind::Interactive,
        login: false,
        interactive_parent: false,
        protect: None,
        io: None,
        estimated: false,
        source: Source { file: PathBuf::new(), line: 0 },
    };
    let shown = printable(&program.to_string_lossy());
    let line = spec.to_tab().with_context(|| format!("{shown} is not UTF-8: no line can name it"))?;
    // A path may end the line and begin another one, or be none that the kernel shows: what is printed has to be read as what was meant.
    let read = limelight_spec::tab::parse(Path::new("suggest"), line.as_bytes());
    let is_meant = |spec: &Spec| matches!(&spec.target, Target::Path(path) if path.as_os_str() == program.as_os_str());
    if !read.complaints.is_empty() || read.specs.len() != 1 || !read.specs.iter().all(is_meant) {
        bail!(
            "no line can name the program {shown}: give its path as the kernel shows it, or name an app or a unit in TOML"
        );
    }
    Ok(line)
}

fn starved(seen: &Seen) -> String {
    format!(
        "{}: what it needs does not show while others take the CPU. End some of them, or start the daemon, which can give it room",
        report::seen(seen)
    )
}

fn too_little(seen: &Seen, is_alive: bool) -> String {
    let what = if is_alive {
        "Let it do what it is for meanwhile, or watch for longer (--seconds)"
    } else {
        "It ended too early; its first 2 s do not count. Let it run longer"
    };
    format!(
        "{} is too little to tell what it needs: {} s and {BURSTS_LEAST} bursts of work are the least. {what}. \
         Programs that it starts are not watched: name them, or use --pid",
        report::seen(seen),
        WATCH_LEAST.as_secs(),
    )
}
