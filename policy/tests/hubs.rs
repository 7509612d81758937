// SPDX-License-Identifier: GPL-2.0-only
//! Hubs recognised by fan-out: a message bus nobody named is one; busy parents are not.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use limelight_policy::{Action, ClientPeriod, Edge, Event, GivenKind, HubRole, ProcessId, Settings, State, step};

const CENTRE: u32 = 10;
const FIRST: u32 = 1000;

struct Desk {
    state: State,
    now_ns: u64,
}

impl Desk {
    /// A desk where process 1 receives input all the time.
    fn new() -> Self {
        Desk { state: State::new(Settings::default()).unwrap(), now_ns: 0 }
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        step(&mut self.state, event, self.now_ns)
    }

    /// One second in which process 1 receives input and the pairs wake each other (both ways).
    fn second(&mut self, pairs: &[(u32, u32)]) {
        let both = |&(a, b): &(u32, u32)| [(a, b), (b, a)];
        self.one_way(&pairs.iter().flat_map(both).collect::<Vec<_>>());
    }

    fn one_way(&mut self, pairs: &[(u32, u32)]) {
        let client = ClientPeriod { pid: 1.into(), input: true, changed_pct: 0.0 };
        self.step(Event::Period { display: ":0".into(), clients: vec![client] });
        let edge = |&(from, to): &(u32, u32)| Edge { from: from.into(), to: to.into(), count: 1 };
        self.step(Event::Edges(pairs.iter().map(edge).collect()));
        self.now_ns += 1_000_000_000;
        self.step(Event::Tick);
    }

    fn born(&mut self, pid: u32, parent: u32) {
        let (pid, from) = (ProcessId::from(pid), ProcessId::from(parent));
        self.step(Event::Given { pid, kind: GivenKind::Inherited, from, in_milli: 10_000, out_milli: 0 });
    }

    fn hub(&self, pid: u32) -> Option<HubRole> {
        self.state.explain(pid.into()).and_then(|found| found.hub)
    }

    fn rated(&self, pid: u32) -> bool {
        self.state.explain(pid.into()).is_some_and(|found| found.rating.in_milli > 0)
    }
}

/// Process 1, the centre, and `n` others around it.
fn star(n: u32) -> Vec<(u32, u32)> {
    let mut pairs = vec![(1, CENTRE)];
    pairs.extend((FIRST..FIRST + n).map(|other| (CENTRE, other)));
    pairs
}

/// A bus with 45 clients is a hub after three passes in a row, and from then on ratings end there.
#[test]
fn a_bus_nobody_named_is_recognised() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        desk.second(&star(45));
        assert_eq!(desk.hub(CENTRE), None);
    }
    desk.second(&star(45));
    assert_eq!(desk.hub(CENTRE), Some(HubRole::FanOut));
    for _ in 0..12 {
        desk.second(&star(45));
    }
    assert!(desk.rated(CENTRE), "a hub receives");
    assert!(!desk.rated(FIRST), "and does not pass on");
}

/// Between the two thresholds a hub stays one; below the lower it ends, and ratings travel again.
#[test]
fn a_hub_does_not_flap() {
    let mut desk = Desk::new();
    for _ in 0..3 {
        desk.second(&star(45));
    }
    for _ in 0..5 {
        desk.second(&star(25));
        assert_eq!(desk.hub(CENTRE), Some(HubRole::FanOut));
    }
    desk.second(&star(15));
    desk.second(&star(15));
    assert_eq!(desk.hub(CENTRE), None);
    desk.second(&star(15));
    assert!(desk.rated(FIRST));
}

/// A burst of one or two seconds makes no hub, however often it comes back.
#[test]
fn a_burst_is_no_hub() {
    let mut desk = Desk::new();
    for _ in 0..5 {
        desk.second(&star(60));
        desk.second(&star(60));
        assert_eq!(desk.hub(CENTRE), None);
        desk.second(&star(5));
        desk.second(&star(5));
    }
}

/// A tmux server with 60 busy panes, or a browser's main process with 60 renderers: they are its children, and the
/// person's rating must travel there.
#[test]
fn a_parent_of_many_is_no_hub() {
    let mut desk = Desk::new();
    desk.second(&[(1, CENTRE)]);
    for pane in FIRST..FIRST + 60 {
        desk.born(pane, CENTRE);
    }
    for _ in 0..10 {
        desk.second(&star(60));
        assert_eq!(desk.hub(CENTRE), None);
    }
    assert!(desk.rated(FIRST + 59));
}

/// Descendants of any generation are family: renderers forked by a browser's zygote.
#[test]
fn grandchildren_are_family() {
    let mut desk = Desk::new();
    desk.second(&[(1, CENTRE), (CENTRE, 20)]);
    desk.born(20, CENTRE);
    for renderer in FIRST..FIRST + 60 {
        desk.born(renderer, 20);
    }
    let mut pairs = star(60);
    pairs.push((CENTRE, 20));
    for _ in 0..10 {
        desk.second(&pairs);
        assert_eq!(desk.hub(CENTRE), None);
    }
}

/// A shell whose 50 jobs end, `make -j32` whose compilers end: everybody wakes it, it wakes nobody back.
#[test]
fn being_woken_by_many_is_no_hub() {
    let mut desk = Desk::new();
    for second in 0..10 {
        let jobs = FIRST + 100 * second..FIRST + 100 * second + 64;
        let mut pairs: Vec<_> = jobs.map(|job| (job, CENTRE)).collect();
        pairs.push((1, CENTRE));
        desk.one_way(&pairs);
        assert_eq!(desk.hub(CENTRE), None);
    }
}

/// The window manager of a display is a hub and HUCIN for as long as it is that, whatever its name, and no longer.
#[test]
fn the_window_manager_is_kept_ready() {
    let mut desk = Desk::new();
    let manages = |pid: u32| Event::Manager { display: ":0".into(), manager: pid.into() };
    assert_eq!(desk.step(manages(20)).len(), 1);
    for _ in 0..30 {
        desk.one_way(&[]);
        desk.step(Event::Hub { pid: 20.into(), role: None });
    }
    assert_eq!(desk.hub(20), Some(HubRole::WindowManager));
    assert!(desk.rated(20));
    desk.step(manages(21));
    assert_eq!((desk.hub(20), desk.hub(21)), (None, Some(HubRole::WindowManager)));
    desk.step(Event::DisplayGone { display: ":0".into() });
    for _ in 0..10 {
        desk.one_way(&[]);
    }
    assert_eq!((desk.hub(21), desk.rated(21)), (None, false));
}
