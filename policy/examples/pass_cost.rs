// SPDX-License-Identifier: GPL-2.0-only
//! How long one rating pass takes with 10,000 processes and 100,000 edges, for graphs of several shapes, where
//! every process is also a source on both sides. The budget is 5 ms.
//!
//!     cargo run --release -p limelight-policy --example pass_cost

use std::time::{Duration, Instant};

use limelight_policy::{ClientPeriod, Edge, Event, HubRole, ProcessId, Settings, State, step};

const PROCESSES: u32 = 10_000;
const EDGES: u32 = 100_000;
const BUDGET_MS: f64 = 5.0;

/// A small fixed generator: the shapes are the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

fn edge(from: u32, to: u32) -> Edge {
    // Heavy enough to outlast all measured passes.
    Edge { from: ProcessId::from(from + 1), to: ProcessId::from(to + 1), count: 1 << 30 }
}

/// Shapes: name, edges, how many processes are sources, hubs.
fn shapes() -> Vec<(&'static str, Vec<Edge>, u32, u32)> {
    let mut random = Random(1);
    let any = (0..EDGES).map(|_| edge(random.below(PROCESSES), random.below(PROCESSES))).collect::<Vec<_>>();
    let down = (0..EDGES)
        .map(|_| {
            let (a, b) = (random.below(PROCESSES), random.below(PROCESSES));
            edge(a.min(b), a.max(b))
        })
        .collect::<Vec<_>>();
    let near = (0..EDGES)
        .map(|_| {
            let from = random.below(PROCESSES - 64);
            edge(from, from + 1 + random.below(63))
        })
        .collect::<Vec<_>>();
    let star = (1..PROCESSES).flat_map(|other| [edge(0, other), edge(other, 0)]).collect::<Vec<_>>();
    vec![
        ("desktop-like: 20 sources, any edges", any.clone(), 20, 1),
        ("any edges, all sources", any, PROCESSES, 0),
        ("no cycles, 20 sources", down.clone(), 20, 0),
        ("no cycles, all sources", down, PROCESSES, 0),
        ("no cycles, long chains, all sources", near, PROCESSES, 0),
        ("one hub in the middle, all sources", star, PROCESSES, 1),
    ]
}

fn measure(edges: Vec<Edge>, sources: u32, hubs: u32) -> Result<Duration, limelight_policy::SettingsError> {
    let mut state = State::new(Settings::default())?;
    for hub in 0..hubs {
        step(&mut state, Event::Hub { pid: ProcessId::from(hub + 1), role: Some(HubRole::MessageBus) }, 0);
    }
    step(&mut state, Event::Edges(edges), 0);
    let mut times = Vec::new();
    for pass in 1..=15u64 {
        let clients = (0..sources)
            .map(|n| ClientPeriod {
                pid: ProcessId::from(PROCESSES - n),
                input: true,
                changed_pct: 1.0 + f64::from(n % 97),
            })
            .collect();
        step(&mut state, Event::Period { display: ":0".into(), clients }, 0);
        let start = Instant::now();
        let actions = step(&mut state, Event::Tick, pass * 1_000_000_000);
        times.push(start.elapsed());
        std::hint::black_box(actions);
    }
    // The shortest: whatever else runs on the machine can only add to it.
    Ok(times.into_iter().min().unwrap_or_default())
}

fn main() -> Result<(), limelight_policy::SettingsError> {
    println!("{PROCESSES} processes, {EDGES} edges; the shortest of 15 passes, both sides");
    let mut within = true;
    for (name, edges, sources, hubs) in shapes() {
        let ms = measure(edges, sources, hubs)?.as_secs_f64() * 1e3;
        within &= ms <= BUDGET_MS;
        println!("{ms:8.2} ms  {name}");
    }
    if !within {
        println!("over the budget of {BUDGET_MS} ms");
        std::process::exit(1);
    }
    Ok(())
}
