// SPDX-License-Identifier: GPL-2.0-only
//! What holds whatever happens: random events, honest or not, in any order.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::collections::{BTreeMap, BTreeSet};

use limelight_policy::{
    Action, Class, ClientPeriod, Edge, Event, GivenKind, HubRole, ProcessId, Rating, Settings, State, step,
};
use proptest::prelude::*;

fn pid() -> impl Strategy<Value = ProcessId> {
    (0u32..12, prop::option::weighted(0.3, 0u64..3)).prop_map(|(tgid, start_ns)| ProcessId { tgid, start_ns })
}

fn display() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![":0", ":1"])
}

fn pct() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..300.0f64, Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(1e300)]
}

fn event() -> impl Strategy<Value = Event> {
    let client =
        (pid(), any::<bool>(), pct()).prop_map(|(pid, input, changed_pct)| ClientPeriod { pid, input, changed_pct });
    let edge =
        (pid(), pid(), prop_oneof![0u64..20, Just(u64::MAX)]).prop_map(|(from, to, count)| Edge { from, to, count });
    let kind = prop_oneof![Just(GivenKind::Inherited), Just(GivenKind::Lent)];
    prop_oneof![
        (pid(), display()).prop_map(|(pid, d)| Event::Input { pid, display: d.into() }),
        (pid(), display()).prop_map(|(pid, d)| Event::Reached { pid, display: d.into() }),
        (pid(), display(), pct()).prop_map(|(pid, d, changed_pct)| Event::Output {
            pid,
            display: d.into(),
            changed_pct
        }),
        (display(), prop::option::of(pid())).prop_map(|(d, server)| Event::Display { display: d.into(), server }),
        display().prop_map(|d| Event::DisplayGone { display: d.into() }),
        (display(), prop::collection::vec(client, 0..5))
            .prop_map(|(d, clients)| Event::Period { display: d.into(), clients }),
        prop::collection::vec(edge, 0..8).prop_map(Event::Edges),
        (pid(), kind, pid(), 0u32..20_000, 0u32..20_000)
            .prop_map(|(pid, kind, from, in_milli, out_milli)| Event::Given { pid, kind, from, in_milli, out_milli }),
        pid().prop_map(|pid| Event::Exit { pid }),
        (pid(), prop_oneof![Just(None), Just(Some(HubRole::MessageBus))])
            .prop_map(|(pid, role)| Event::Hub { pid, role }),
        Just(Event::Tick),
        Just(Event::Tick),
        Just(Event::Tick),
    ]
}

/// What the scheduler would hold after these actions.
fn apply(scheduler: &mut BTreeMap<u32, Rating>, actions: &[Action]) {
    for action in actions {
        match action {
            Action::Set { pid, rating } => scheduler.insert(pid.tgid, *rating),
            Action::Clear { pid } => scheduler.remove(&pid.tgid),
        };
    }
}

fn silence(state: &mut State, scheduler: &mut BTreeMap<u32, Rating>, now_ns: &mut u64, seconds: u32) {
    for _ in 0..seconds {
        *now_ns += 1_000_000_000;
        let actions = step(state, Event::Tick, *now_ns);
        apply(scheduler, &actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: at most one action per process and event, all values in range, nobody is rated for ever,
    /// and an explanation of everybody can be given at any time.
    #[test]
    fn anything_goes_and_all_of_it_ends(events in prop::collection::vec(event(), 0..60)) {
        let mut state = State::new(Settings::default()).unwrap();
        let mut scheduler = BTreeMap::new();
        let mut now_ns = 0;
        for event in events {
            if event == Event::Tick {
                now_ns += 1_000_000_000;
            }
            if let Event::Exit { pid } = &event && pid.start_ns.is_none() {
                scheduler.remove(&pid.tgid);
            }
            let actions = step(&mut state, event, now_ns);
            let mut named = BTreeSet::new();
            for action in &actions {
                let (pid, rating) = match action {
                    Action::Set { pid, rating } => (pid, *rating),
                    Action::Clear { pid } => (pid, Rating { slice_pm: 1, ..Rating::default() }),
                };
                prop_assert!(pid.tgid != 0 && named.insert(pid.tgid), "{actions:?}");
                prop_assert!((1..=1000).contains(&rating.slice_pm), "{actions:?}");
            }
            apply(&mut scheduler, &actions);
            for explanation in state.explain_all() {
                prop_assert!(explanation.class != Class::Other || explanation.path.is_empty());
                prop_assert!(explanation.path.last().is_none_or(|step| step.pid == explanation.pid.tgid));
            }
            serde_json::to_string(&state.graph()).unwrap();
        }
        for display in [":0", ":1"] {
            apply(&mut scheduler, &step(&mut state, Event::DisplayGone { display: display.into() }, now_ns));
        }
        silence(&mut state, &mut scheduler, &mut now_ns, 90);
        let rated: Vec<_> = state.explain_all().into_iter().filter(|found| found.class != Class::Other).collect();
        prop_assert!(rated.is_empty(), "{rated:?}");
        prop_assert!(state.graph().edges.is_empty());
    }

    /// What is said about how long a class lasts is what happens when nothing more happens.
    #[test]
    fn seconds_left_come_true(events in prop::collection::vec(event(), 0..40)) {
        let mut state = State::new(Settings::default()).unwrap();
        let mut now_ns = 0;
        for event in events {
            if event == Event::Tick {
                now_ns += 1_000_000_000;
            }
            step(&mut state, event, now_ns);
        }
        let said = state.explain_all();
        // The first tick of all fixes the clock, whatever the time is.
        let mut scheduler = BTreeMap::new();
        for passes in 1..=20u32 {
            silence(&mut state, &mut scheduler, &mut now_ns, 1);
            for before in said.iter().filter(|found| found.class != Class::Other) {
                let now = state.explain(before.pid).map_or(Class::Other, |found| found.class);
                if before.seconds_left.is_none_or(|left| passes < left) {
                    prop_assert_eq!(now, before.class);
                } else if before.seconds_left == Some(passes) {
                    prop_assert_ne!(now, before.class);
                }
            }
        }
    }

    /// The scheduler lends by itself, from ratings a pass old at worst, and as often as it can: the loop still dies
    /// out.
    #[test]
    fn lending_loops_die_out(stale in prop::collection::vec(prop::array::uniform4(prop::bool::weighted(0.99)), 43)) {
        let ring = [2u32, 3, 4, 5];
        let mut state = State::new(Settings::default()).unwrap();
        let mut held: BTreeMap<u32, Rating> = BTreeMap::new();
        apply(&mut held, &step(&mut state, Event::Input { pid: 2.into(), display: ":0".into() }, 0));
        // 3 gets it from 2, and 2 makes room for another process of that number, which has no input of its own.
        let first = held[&2];
        held = BTreeMap::from([(3, first)]);
        let given = Event::Given {
            pid: 3.into(),
            kind: GivenKind::Lent,
            from: 2.into(),
            in_milli: first.in_milli,
            out_milli: 0,
        };
        apply(&mut held, &step(&mut state, given, 0));
        step(&mut state, Event::Exit { pid: 2.into() }, 0);
        let mut before = held.clone();
        for (second, stale) in stale.iter().enumerate() {
            for (place, stale) in stale.iter().enumerate() {
                let (from, to) = (ring[place], ring[(place + 1) % ring.len()]);
                let lender = if *stale { before.get(&from) } else { held.get(&from) };
                let Some(lender) = lender.copied().filter(|_| !held.contains_key(&to)) else { continue };
                held.insert(to, lender);
                let given = Event::Given {
                    pid: to.into(), kind: GivenKind::Lent, from: from.into(), in_milli: lender.in_milli, out_milli: 0,
                };
                apply(&mut held, &step(&mut state, given, 0));
            }
            before = held.clone();
            apply(&mut held, &step(&mut state, Event::Tick, (second as u64 + 1) * 1_000_000_000));
        }
        prop_assert!(held.is_empty(), "{held:?}");
    }
}
