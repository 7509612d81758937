// SPDX-License-Identifier: GPL-2.0-only
//! What serves one client shares one weight: a compilation in a visible terminal does not outweigh a film.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::collections::BTreeMap;

use limelight_policy::{Action, ClientPeriod, Edge, Event, Rating, Settings, State, step};

const FILM: u32 = 1;
const TERMINAL: u32 = 2;
const MAKE: u32 = 3;

/// One second: the film and the terminal draw, and make and its `compilers` print into the terminal.
fn ratings(settings: Settings, compilers: u32) -> BTreeMap<u32, Rating> {
    let mut state = State::new(settings).unwrap();
    let draws = |pid: u32, changed_pct| ClientPeriod { pid: pid.into(), input: false, changed_pct };
    let wakes = |from: u32, to: u32| Edge { from: from.into(), to: to.into(), count: 3 };
    let mut edges = vec![wakes(MAKE, TERMINAL)];
    for compiler in 10..10 + compilers {
        edges.extend([wakes(MAKE, compiler), wakes(compiler, MAKE)]);
    }
    step(
        &mut state,
        Event::Period { display: ":0".into(), clients: vec![draws(FILM, 500.0), draws(TERMINAL, 50.0)] },
        0,
    );
    step(&mut state, Event::Edges(edges), 0);
    let actions = step(&mut state, Event::Tick, 1_000_000_000);
    let set = |action| match action {
        Action::Set { pid, rating } => Some((pid.tgid, rating)),
        Action::Clear { .. } => None,
    };
    actions.into_iter().filter_map(set).collect()
}

/// However many compilers there are, all of them together weigh no more than their terminal, and the film more than both.
#[test]
fn a_compilation_weighs_no_more_than_its_terminal() {
    for compilers in [1, 7, 40, 1000] {
        let ratings = ratings(Settings::default(), compilers);
        let crowd: u32 = ratings.iter().filter(|(pid, _)| **pid >= MAKE).map(|(_, rating)| rating.weight_pm).sum();
        let (film, terminal) = (ratings[&FILM].weight_pm, ratings[&TERMINAL].weight_pm);
        assert_eq!(film, 1000);
        // One thousandth is the least weight, so a thousand processes may weigh up to 1000.
        assert!(crowd <= terminal.max(compilers + 1), "{crowd} > {terminal}");
        assert!(compilers > 100 || crowd + terminal < film, "{crowd} + {terminal}");
        assert!(ratings[&MAKE].indirect && !ratings[&TERMINAL].indirect);
    }
}

/// With crowd_weight_pm at 0 each has the weight of its own rating, as in the paper.
#[test]
fn without_the_rule_each_weighs_what_it_is_rated() {
    let ratings = ratings(Settings { crowd_weight_pm: 0, ..Settings::default() }, 40);
    assert!(ratings.values().all(|rating| rating.weight_pm == rating.slice_pm));
}
