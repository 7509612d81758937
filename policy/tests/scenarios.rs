// SPDX-License-Identifier: GPL-2.0-only
//! Replays `tests/scenarios/*.txt`: one event a line, the expected actions beside it.
//!
//!     # comment
//!     setting NAME VALUE                      before the first event
//!     display :0 server PID | display :0 | gone :0
//!     input :0 PID
//!     output :0 PID PCT
//!     period :0 PID input PID PCT ...         "input": it received some; PCT: it changed so much
//!     edges FROM>TO*COUNT ...
//!     given PID inherited|lent from PID in MILLI out MILLI
//!     exit PID
//!     hub PID ROLE|none
//!     tick [MS]                               so many milliseconds after the last one; 1000 if not said
//!     > set PID in MILLI out MILLI slice PM [hub] [from PID]
//!     > clear PID
//!     explain PID CLASS LEFT: PATH            LEFT: "6 s" or "stays"; PATH as printed by `path_text`
//!
//! A PID is a number, or NUMBER@START where the reporter knows the start time.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::fmt::Write as _;
use std::path::Path;

use limelight_policy::{
    Action, ClientPeriod, DisplayId, Edge, Event, Explanation, GivenKind, HubRole, ProcessId, Settings, State, Why,
    step,
};

fn pid(text: &str) -> ProcessId {
    let (tgid, start) = text.split_once('@').unwrap_or((text, ""));
    ProcessId { tgid: tgid.parse().unwrap(), start_ns: start.parse().ok() }
}

fn role(text: &str) -> Option<HubRole> {
    Some(match text {
        "none" => return None,
        "message_bus" => HubRole::MessageBus,
        "compositor" => HubRole::Compositor,
        "audio_server" => HubRole::AudioServer,
        _ => panic!("no role '{text}'"),
    })
}

fn clients(words: &[&str]) -> Vec<ClientPeriod> {
    let mut clients: Vec<ClientPeriod> = Vec::new();
    let mut words = words.iter();
    while let (Some(process), Some(what)) = (words.next(), words.next()) {
        clients.push(ClientPeriod {
            pid: pid(process),
            input: *what == "input",
            changed_pct: what.parse().unwrap_or(0.0),
        });
    }
    clients
}

fn edge(text: &str) -> Edge {
    let (ends, count) = text.split_once('*').unwrap();
    let (from, to) = ends.split_once('>').unwrap();
    Edge { from: pid(from), to: pid(to), count: count.parse().unwrap() }
}

/// One line to one event.
fn event(words: &[&str]) -> Event {
    let display = || DisplayId::from(words[1]);
    match words[0] {
        "display" => Event::Display { display: display(), server: words.get(3).map(|text| pid(text)) },
        "gone" => Event::DisplayGone { display: display() },
        "input" => Event::Input { pid: pid(words[2]), display: display() },
        "output" => Event::Output { pid: pid(words[2]), display: display(), changed_pct: words[3].parse().unwrap() },
        "period" => Event::Period { display: display(), clients: clients(&words[2..]) },
        "edges" => Event::Edges(words[1..].iter().map(|text| edge(text)).collect()),
        "given" => Event::Given {
            pid: pid(words[1]),
            kind: if words[2] == "lent" { GivenKind::Lent } else { GivenKind::Inherited },
            from: pid(words[4]),
            in_milli: words[6].parse().unwrap(),
            out_milli: words[8].parse().unwrap(),
        },
        "exit" => Event::Exit { pid: pid(words[1]) },
        "hub" => Event::Hub { pid: pid(words[1]), role: role(words[2]) },
        "tick" => Event::Tick,
        other => panic!("no event '{other}'"),
    }
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Set { pid, rating } => {
            let mut text =
                format!("> set {} in {} out {} slice {}", pid.tgid, rating.in_milli, rating.out_milli, rating.slice_pm);
            if rating.hub {
                text += " hub";
            }
            if let Some(from) = rating.from {
                write!(text, " from {from}").unwrap();
            }
            text
        }
        Action::Clear { pid } => format!("> clear {}", pid.tgid),
    }
}

/// "keyboard -> Xorg -> xterm -> vim", in numbers.
fn path_text(explanation: &Explanation) -> String {
    let mut text = match explanation.seconds_left {
        Some(seconds) => format!("{} {} s:", explanation.class.name(), seconds),
        None => format!("{} stays:", explanation.class.name()),
    };
    for step in &explanation.path {
        match &step.why {
            Why::Input { display, server } | Why::Output { display, server } => {
                write!(text, " {display}").unwrap();
                if let Some(server) = server {
                    write!(text, " {server}").unwrap();
                }
                write!(text, " {}", step.pid).unwrap();
            }
            Why::Woke { count } => write!(text, " -{count}-> {}", step.pid).unwrap(),
            Why::Inherited => write!(text, " -fork-> {}", step.pid).unwrap(),
            Why::Lent => write!(text, " -lent-> {}", step.pid).unwrap(),
        }
    }
    text
}

/// Replay a scenario; the result is its own text with the expectations replaced by what happened.
fn replay(text: &str) -> String {
    let mut settings = Settings::default();
    let mut state: Option<State> = None;
    let mut now_ns = 0;
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&">") {
            continue;
        }
        if words.is_empty() || words[0].starts_with('#') {
            writeln!(out, "{line}").unwrap();
            continue;
        }
        if words[0] == "setting" {
            settings.set(words[1], words[2]).unwrap();
            writeln!(out, "{line}").unwrap();
            continue;
        }
        let state = state.get_or_insert_with(|| State::new(settings.clone()).unwrap());
        if words[0] == "explain" {
            let known = state.explain(pid(words[1])).map_or("unknown".to_string(), |found| path_text(&found));
            writeln!(out, "explain {} {known}", words[1]).unwrap();
            continue;
        }
        writeln!(out, "{line}").unwrap();
        if words[0] == "tick" {
            now_ns += words.get(1).map_or(1000, |ms| ms.parse::<u64>().unwrap()) * 1_000_000;
        }
        let mut actions = step(state, event(&words), now_ns);
        actions.sort_by_key(|action| match action {
            Action::Set { pid, .. } | Action::Clear { pid } => *pid,
        });
        for action in &actions {
            writeln!(out, "{}", action_text(action)).unwrap();
        }
    }
    out
}

/// Every scenario gives exactly the actions and explanations written in it.
#[test]
fn every_scenario_gives_the_actions_written_in_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let happened = replay(&text);
        for (number, (expected, happened)) in text.lines().zip(happened.lines()).enumerate() {
            assert_eq!(expected, happened, "{}:{}", path.display(), number + 1);
        }
        assert_eq!(text.lines().count(), happened.lines().count(), "{}: end\n{happened}", path.display());
        replayed += 1;
    }
    assert!(replayed >= 10, "only {replayed} scenarios found");
}

/// Edges that are reported after the input of the client that they lead from carry it on, and halve or raise nobody twice.
#[test]
fn input_travels_over_edges_that_come_after_it() {
    let mut state = State::new(Settings::default()).unwrap();
    let display = || ":0".into();
    let set = |actions: &[Action]| -> Vec<(u32, u32)> {
        let milli = |action: &Action| match action {
            Action::Set { pid, rating } => Some((pid.tgid, rating.in_milli)),
            Action::Clear { .. } => None,
        };
        actions.iter().filter_map(milli).collect()
    };
    let first = set(&step(&mut state, Event::Input { pid: 200.into(), display: display() }, 0));
    assert_eq!(first.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [200]);
    let edges = vec![Edge { from: 200.into(), to: 300.into(), count: 1 }];
    assert!(set(&step(&mut state, Event::Edges(edges), 0)).is_empty());
    let then = set(&step(&mut state, Event::Reached { pid: 200.into(), display: display() }, 0));
    assert_eq!(then, [(300, first[0].1)], "who had none has all of it");
    assert!(step(&mut state, Event::Reached { pid: 200.into(), display: display() }, 0).is_empty(), "and only once");
    assert!(step(&mut state, Event::Reached { pid: 400.into(), display: display() }, 0).is_empty(), "nobody knows 400");
}
