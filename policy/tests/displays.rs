// SPDX-License-Identifier: GPL-2.0-only
//! Displays come and go; the list of them is bounded and must not stay full.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use limelight_policy::{DisplayId, Event, Settings, State, Why, step};

/// The list has room for so many at once.
const MOST: u32 = 256;

fn named(number: u32) -> DisplayId {
    format!(":{number}").as_str().into()
}

fn open(state: &mut State, number: u32) {
    step(state, Event::Display { display: named(number), server: Some((10_000 + number).into()) }, 0);
}

/// What `limelight explain` says a process's rating came from, and by which server.
fn device(state: &State, pid: u32) -> (DisplayId, Option<u32>) {
    match &state.explain(pid.into()).unwrap().path[0].why {
        Why::Input { display, server } => (display.clone(), *server),
        other => panic!("{other:?}"),
    }
}

/// A thousand displays that were started and stopped, each with a client that exited, leave room for the person's.
#[test]
fn displays_that_are_gone_leave_room() {
    let mut state = State::new(Settings::default()).unwrap();
    let mut now_ns = 0;
    for number in 1000..2000 {
        open(&mut state, number);
        let client = (20_000 + number).into();
        step(&mut state, Event::Input { pid: client, display: named(number) }, now_ns);
        step(&mut state, Event::Exit { pid: client }, now_ns);
        step(&mut state, Event::DisplayGone { display: named(number) }, now_ns);
        step(&mut state, Event::Exit { pid: (10_000 + number).into() }, now_ns);
        if number % 100 == 0 {
            now_ns += 1_000_000_000;
            step(&mut state, Event::Tick, now_ns);
        }
    }
    assert_eq!(state.refused(), 0);
    open(&mut state, 0);
    let actions = step(&mut state, Event::Input { pid: 7.into(), display: named(0) }, now_ns);
    assert!(actions.iter().any(|action| action.pid().tgid == 7), "{actions:?}");
    assert_eq!(device(&state, 7), (named(0), Some(10_000)));
}

/// A rating that came from a display that is closed names that one, whoever came since, for as long as it lasts.
#[test]
fn a_rating_names_the_closed_display_it_came_from() {
    let mut state = State::new(Settings::default()).unwrap();
    open(&mut state, 5);
    step(&mut state, Event::Input { pid: 7.into(), display: named(5) }, 0);
    step(&mut state, Event::DisplayGone { display: named(5) }, 0);
    for second in 1..=12 {
        for number in 0..MOST {
            let number = second * 1000 + number;
            open(&mut state, number);
            step(&mut state, Event::DisplayGone { display: named(number) }, 0);
            step(&mut state, Event::Exit { pid: (10_000 + number).into() }, 0);
        }
        step(&mut state, Event::Tick, u64::from(second) * 1_000_000_000);
        assert_eq!(device(&state, 7), (named(5), None), "after {second} s");
    }
}

/// Displays that are open keep their places: one more is refused, and counted, until one of them goes.
#[test]
fn open_displays_keep_their_places() {
    let mut state = State::new(Settings::default()).unwrap();
    (0..MOST).for_each(|number| open(&mut state, number));
    assert_eq!(state.refused(), 0);
    assert!(step(&mut state, Event::Input { pid: 7.into(), display: named(MOST) }, 0).is_empty());
    assert_eq!(state.refused(), 1);
    step(&mut state, Event::DisplayGone { display: named(3) }, 0);
    step(&mut state, Event::Exit { pid: 10_003.into() }, 0);
    for passes in 1..=10 {
        step(&mut state, Event::Tick, passes * 1_000_000_000);
    }
    step(&mut state, Event::Input { pid: 7.into(), display: named(MOST) }, 0);
    assert_eq!(device(&state, 7), (named(MOST), None));
}
