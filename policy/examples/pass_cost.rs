// SPDX-License-Identifier: GPL-2.0-only
//! How long the work of one second takes with 10,000 processes and 100,000 edges, for graphs of several shapes, with
//! few sources and where every process is a source on both sides: new edges come in, then the rating pass. The budget
//! for both together is 5 ms; how much of it the pass alone takes is said beside it.
//!
//!     cargo run --release -p limelight-policy --example pass_cost
//!
//! The graph is in motion, as a real one is: every second one edge in twenty ends and as many new ones come, between
//! processes drawn anew, and as many others are reported again. Not measured: the first second, in which all edges are
//! new at once, and the displays' reports, which come between the passes.
//!
//! Each second is the shortest of several replays, because whatever else runs on the machine can only add to it; a
//! shape is as slow as its slowest second. To count instructions instead (REPLAYS and SECONDS multiply):
//!
//!     valgrind --tool=callgrind --toggle-collect='*pass_cost::second*' --dump-after='*pass_cost::measure*' \
//!         target/release/examples/pass_cost

use std::time::{Duration, Instant};

use limelight_policy::{ClientPeriod, Edge, Event, HubRole, ProcessId, Settings, SettingsError, State, step};

const PROCESSES: u32 = 10_000;
const EDGES: u32 = 100_000;
/// How long an edge lasts.
const LIFE_S: u32 = 20;
const SECONDS: u32 = 12;
const REPLAYS: u32 = 3;
const BUDGET_MS: f64 = 5.0;

/// A small fixed generator: the shapes are the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// Draws the ends of an edge.
type Draw = fn(&mut Random) -> (u32, u32);

fn any(random: &mut Random) -> (u32, u32) {
    (random.below(PROCESSES), random.below(PROCESSES))
}

fn down(random: &mut Random) -> (u32, u32) {
    let (a, b) = any(random);
    (a.min(b), a.max(b))
}

fn near(random: &mut Random) -> (u32, u32) {
    let from = random.below(PROCESSES - 64);
    (from, from + 1 + random.below(63))
}

fn star(random: &mut Random) -> (u32, u32) {
    let other = 1 + random.below(PROCESSES - 1);
    if random.below(2) == 0 { (0, other) } else { (other, 0) }
}

/// Shapes: name and what it is, how edges are drawn, how many processes are sources, hubs.
const SHAPES: [(&str, Draw, u32, u32); 6] = [
    ("desktop: 20 sources, any edges, a hub", any, 20, 1),
    ("any_all: any edges, all sources", any, PROCESSES, 0),
    ("down_few: no cycles, 20 sources", down, 20, 0),
    ("down_all: no cycles, all sources", down, PROCESSES, 0),
    ("chains_all: no cycles, long chains, all sources", near, PROCESSES, 0),
    ("hub_all: one hub in the middle, all sources", star, PROCESSES, 1),
];

/// How long a second's work took.
#[derive(Clone, Copy, Default)]
struct Took {
    all: Duration,
    /// The pass without the reading in of edges.
    pass: Duration,
}

/// One second's new edges, of a weight that lasts `life_s`.
fn arriving(random: &mut Random, draw: Draw, life_s: u32) -> Vec<Edge> {
    let drawn = std::iter::from_fn(|| Some(draw(random))).filter(|(from, to)| from != to);
    let edge =
        |(from, to)| Edge { from: ProcessId::from(from + 1), to: ProcessId::from(to + 1), count: 1 << (life_s - 1) };
    drawn.take((EDGES / LIFE_S) as usize).map(edge).collect()
}

/// What is measured: what the daemon asks of the policy once a second.
#[inline(never)]
fn second(state: &mut State, edges: Vec<Edge>, now_ns: u64) -> Took {
    let start = Instant::now();
    let at_once = step(state, Event::Edges(edges), now_ns);
    let read_in = start.elapsed();
    let of_pass = step(state, Event::Tick, now_ns);
    let all = start.elapsed();
    std::hint::black_box([at_once, of_pass]);
    Took { all, pass: all - read_in }
}

/// One replay: how long each second took.
fn replay(draw: Draw, sources: u32, hubs: u32) -> Result<Vec<Took>, SettingsError> {
    let mut random = Random(1);
    let mut state = State::new(Settings::default())?;
    for hub in 0..hubs {
        step(&mut state, Event::Hub { pid: ProcessId::from(hub + 1), role: Some(HubRole::MessageBus) }, 0);
    }
    let mut latest = Vec::new();
    for life_s in 1..=LIFE_S {
        latest = arriving(&mut random, draw, life_s);
        step(&mut state, Event::Edges(latest.clone()), 0);
    }
    let mut times = Vec::new();
    for pass in 0..=SECONDS {
        let clients = (0..sources)
            .map(|n| ClientPeriod {
                pid: ProcessId::from(PROCESSES - n),
                input: true,
                changed_pct: 1.0 + f64::from(n % 97),
            })
            .collect();
        let now_ns = u64::from(pass) * 1_000_000_000;
        step(&mut state, Event::Period { display: ":0".into(), clients }, now_ns);
        if pass == 0 {
            step(&mut state, Event::Tick, now_ns);
            continue;
        }
        let news = arriving(&mut random, draw, LIFE_S);
        let again = latest.iter().map(|edge| Edge { count: 1, ..*edge });
        let edges = again.chain(news.iter().copied()).collect();
        times.push(second(&mut state, edges, now_ns));
        latest = news;
    }
    Ok(times)
}

/// The slowest second of a shape.
#[inline(never)]
fn measure(draw: Draw, sources: u32, hubs: u32) -> Result<Took, SettingsError> {
    let mut shortest = replay(draw, sources, hubs)?;
    for _ in 1..REPLAYS {
        for (shortest, took) in shortest.iter_mut().zip(replay(draw, sources, hubs)?) {
            *shortest = Took { all: took.all.min(shortest.all), pass: took.pass.min(shortest.pass) };
        }
    }
    Ok(shortest.into_iter().max_by_key(|took| took.all).unwrap_or_default())
}

fn main() -> Result<(), SettingsError> {
    println!("{PROCESSES} processes, {EDGES} edges, both sides; the slowest of {SECONDS} seconds");
    let mut within = true;
    for (name, draw, sources, hubs) in SHAPES {
        let took = measure(draw, sources, hubs)?;
        let [all_ms, pass_ms] = [took.all, took.pass].map(|took| took.as_secs_f64() * 1e3);
        within &= all_ms <= BUDGET_MS;
        println!("{all_ms:8.2} ms, the pass alone {pass_ms:6.2} ms  {name}");
    }
    if !within {
        println!("over the budget of {BUDGET_MS} ms");
        std::process::exit(1);
    }
    Ok(())
}
