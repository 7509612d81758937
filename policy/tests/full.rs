// SPDX-License-Identifier: GPL-2.0-only
//! A table that one user's processes have filled still takes in whom another person uses.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::collections::BTreeSet;

use limelight_policy::{Action, ClientPeriod, Event, HubRole, Settings, State, step};

/// The table, and the scheduler's, have room for so many processes: 1 to 16,384.
const MOST: u32 = 16_384;
/// The one that shows least, a hub that shows nothing at all, and one that has input but shows nothing.
const LEAST: u32 = 500;
const HUB: u32 = 600;
const USED: u32 = 700;

/// A table full of processes that draw, and whom the scheduler has an entry of.
fn full() -> (State, BTreeSet<u32>) {
    let mut state = State::new(Settings::default()).unwrap();
    let mut held = BTreeSet::new();
    let client = |pid: u32| ClientPeriod {
        pid: pid.into(),
        input: pid == USED,
        changed_pct: match pid {
            LEAST => 1.0,
            HUB | USED => 0.0,
            _ => 50.0,
        },
    };
    apply(&mut held, &step(&mut state, Event::Hub { pid: HUB.into(), role: Some(HubRole::MessageBus) }, 0));
    let clients = (1..=MOST).map(client).collect();
    apply(&mut held, &step(&mut state, Event::Period { display: ":1".into(), clients }, 0));
    apply(&mut held, &step(&mut state, Event::Tick, 1_000_000_000));
    assert_eq!((held.len() as u32, state.refused()), (MOST, 0));
    (state, held)
}

fn apply(held: &mut BTreeSet<u32>, actions: &[Action]) {
    for action in actions {
        match action {
            Action::Set { pid, .. } => held.insert(pid.tgid),
            Action::Clear { pid } => held.remove(&pid.tgid),
        };
        assert!(held.len() as u32 <= MOST, "the scheduler has no room for {action:?}");
    }
}

fn used(pids: impl Iterator<Item = u32>) -> Event {
    let clients = pids.map(|pid| ClientPeriod { pid: pid.into(), input: true, changed_pct: 0.0 }).collect();
    Event::Period { display: ":0".into(), clients }
}

/// The first key for a program reaches it at once; who shows least leaves, before it comes, and nobody else.
#[test]
fn input_gets_in_and_the_least_rated_leaves() {
    let (mut state, mut held) = full();
    let actions = step(&mut state, Event::Input { pid: 20_000.into(), display: ":0".into() }, 0);
    let [Action::Clear { pid: left }, Action::Set { pid: came, rating }] = actions[..] else { panic!("{actions:?}") };
    assert_eq!((left.tgid, came.tgid, rating.in_milli), (LEAST, 20_000, 10_000));
    apply(&mut held, &actions);
    assert_eq!(state.refused(), 0);
    // Output still has to wait until somebody leaves by itself.
    assert!(
        step(&mut state, Event::Output { pid: 20_001.into(), display: ":0".into(), changed_pct: 50.0 }, 0).is_empty()
    );
    assert_eq!(state.refused(), 1);
}

/// However many come with input, hubs and others with input keep their places; when only those are left, one more is
/// refused.
#[test]
fn hubs_and_those_with_input_stay() {
    let (mut state, mut held) = full();
    let mut now_ns = 1_000_000_000;
    for come in [300, MOST - 302] {
        let first = if come == 300 { 20_000 } else { 20_300 };
        apply(&mut held, &step(&mut state, used(first..first + come), now_ns));
        now_ns += 1_000_000_000;
        apply(&mut held, &step(&mut state, Event::Tick, now_ns));
    }
    assert_eq!(state.refused(), 0);
    let expected: BTreeSet<u32> = [HUB, USED].into_iter().chain(20_000..20_000 + MOST - 2).collect();
    assert!(held == expected, "{:?}", held.symmetric_difference(&expected).take(9).collect::<Vec<_>>());
    assert!(step(&mut state, Event::Input { pid: 60_000.into(), display: ":0".into() }, now_ns).is_empty());
    assert_eq!(state.refused(), 1);
}
