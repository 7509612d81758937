// SPDX-License-Identifier: GPL-2.0-only
//! From when threads ran to what their process wanted, and when.

use std::collections::HashMap;
use std::time::Duration;

use super::{Seen, Stint, ns};

/// Sleeps shorter than this do not end a burst: the least T is twice that, so nothing that is looked for hides in it.
const GAP_NS: u64 = 500_000;

/// What begins in so late a part of a window, in per cent, belongs to the next: it waits no longer than that for its budget, and a rhythm
/// is never exact.
const NEXT_PCT: u64 = 10;

/// A stretch of work: all threads slept before, and all sleep after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Some thread was woken for it.
    pub begin_ns: u64,
    /// All sleep.
    pub end_ns: u64,
    /// CPU time that it took, of all threads.
    pub cost_ns: u64,
}

impl Burst {
    /// How long it would have taken had the CPU been free, and on how many CPUs.
    fn alone(&self) -> (u64, f64) {
        let wall = self.end_ns - self.begin_ns;
        if self.cost_ns <= wall { (self.cost_ns, 1.0) } else { (wall, self.cost_ns as f64 / wall.max(1) as f64) }
    }
}

/// What a process wanted while it was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// In order, and apart from each other.
    pub bursts: Vec<Burst>,
    watched_ns: u64,
}

/// A part of a time in which one thread wanted the CPU, and had it for some of that.
struct Wanted {
    begin_ns: u64,
    end_ns: u64,
    cost_ns: u64,
}

impl Demand {
    /// Of stints between `from_ns` and `to_ns`.
    pub fn new(stints: &[Stint], from_ns: u64, to_ns: u64) -> Self {
        let mut wanted = wanted(stints, from_ns, to_ns);
        wanted.sort_unstable_by_key(|part| part.begin_ns);
        let mut bursts: Vec<Burst> = Vec::new();
        for part in wanted {
            match bursts.last_mut() {
                Some(last) if part.begin_ns < last.end_ns + GAP_NS => {
                    last.end_ns = last.end_ns.max(part.end_ns);
                    last.cost_ns += part.cost_ns;
                }
                _ => bursts.push(Burst { begin_ns: part.begin_ns, end_ns: part.end_ns, cost_ns: part.cost_ns }),
            }
        }
        Self { bursts, watched_ns: to_ns.saturating_sub(from_ns) }
    }

    pub fn seen(&self) -> Seen {
        let watched = self.watched_ns.max(1) as f64;
        let used: u64 = self.bursts.iter().map(|burst| burst.cost_ns).sum();
        let wanted: u64 = self.bursts.iter().map(|burst| burst.end_ns - burst.begin_ns).sum();
        Seen {
            watched: Duration::from_nanos(self.watched_ns),
            bursts: self.bursts.len(),
            used: used as f64 / watched,
            wanted: wanted as f64 / watched,
        }
    }

    /// In how many of the stretches of `period` a burst began.
    pub fn busy_share(&self, period: Duration) -> f64 {
        let period_ns = ns(period);
        let mut stretches: Vec<u64> = self.bursts.iter().map(|burst| burst.begin_ns / period_ns).collect();
        stretches.dedup();
        stretches.len() as f64 * period_ns as f64 / self.watched_ns.max(1) as f64
    }

    /// What it wanted in each window of `period` in which it wanted something, in ns, sorted. A window begins with a burst, as a period of a
    /// reservation does, and the next where that one ends, or with the next burst.
    pub fn windows(&self, period: Duration) -> Vec<u64> {
        let (period_ns, mut windows) = (ns(period).max(1), Vec::new());
        let late_ns = period_ns - period_ns * NEXT_PCT / 100;
        let mut window: Option<(u64, f64)> = None;
        for burst in &self.bursts {
            let (length_ns, rate) = burst.alone();
            let (mut begin_ns, end_ns) = (burst.begin_ns, burst.begin_ns + length_ns);
            if let Some((start_ns, sum)) = window.filter(|(start_ns, _)| begin_ns >= start_ns + late_ns) {
                windows.push(sum as u64);
                // What the burst before has left over into a window that nothing began has been counted, below.
                window = Some((begin_ns.max(start_ns), 0.0));
            }
            loop {
                let (start_ns, sum) = window.unwrap_or((begin_ns, 0.0));
                let until_ns = end_ns.min(start_ns + period_ns);
                let sum = sum + until_ns.saturating_sub(begin_ns) as f64 * rate;
                if end_ns <= start_ns + period_ns {
                    window = Some((start_ns, sum));
                    break;
                }
                windows.push(sum as u64);
                window = Some((start_ns + period_ns, 0.0));
                begin_ns = until_ns.max(begin_ns);
            }
        }
        windows.extend(window.map(|(_, sum)| sum as u64));
        windows.retain(|&demand_ns| demand_ns > 0);
        windows.sort_unstable();
        windows
    }
}

/// Each stint with the wait before it, cut to what was watched.
fn wanted(stints: &[Stint], from_ns: u64, to_ns: u64) -> Vec<Wanted> {
    // Since when a thread waits that had to leave the CPU.
    let mut waits: HashMap<u32, u64> = HashMap::new();
    let mut wanted = Vec::with_capacity(stints.len());
    for stint in stints {
        let woken_ns = Some(stint.woken_ns).filter(|&woken_ns| woken_ns > 0);
        let since_ns = waits.remove(&stint.thread).or(woken_ns).unwrap_or(stint.start_ns).min(stint.start_ns);
        if !stint.slept {
            waits.insert(stint.thread, stint.end_ns);
        }
        let cut = |time_ns: u64| time_ns.clamp(from_ns, to_ns.max(from_ns));
        let (begin_ns, start_ns, end_ns) = (cut(since_ns), cut(stint.start_ns), cut(stint.end_ns));
        if end_ns > begin_ns {
            wanted.push(Wanted { begin_ns, end_ns, cost_ns: end_ns.saturating_sub(start_ns) });
        }
    }
    wanted
}
