// SPDX-License-Identifier: GPL-2.0-only
//! A program's own rhythm: what it does now it did a T ago, and not half a T ago.
//!
//! For a candidate P, take for each burst the work that began P later, up to as much as the burst's own: the share of all work that is met so is 1 for
//! what repeats each P. It is 1 as well for who works all the time; so what is met after half of P and after one and a half is taken off. Multiples
//! of a rhythm are as good as itself, hence of those that are nearly as good as the best, the shortest. Only neighbours are compared, so a rhythm may
//! drift, and stop and go on.

use std::time::Duration;

use super::demand::Burst;

/// The shortest rhythm that is looked for: twice the least T.
const SHORTEST_NS: u64 = 2_000_000;
/// And the longest, a bit above the T of what answers now and then: who types evenly makes no rhythm of the program's, and would wait for a
/// deadline as long as that.
const LONGEST_NS: u64 = 110_000_000;
/// Between candidates, a factor: well inside the tolerance.
const STEP: f64 = 1.01;
/// What is so much off, in per cent of P, is still in it; and the least that is.
const TOLERANCE_PCT: u64 = 5;
const TOLERANCE_LEAST_NS: u64 = 200_000;
/// Less regular than this is no rhythm: the rules of section 3 are better then.
const REGULAR_LEAST: f64 = 0.5;
/// Nearly as good as the best.
const NEARLY: f64 = 0.9;
/// Bursts that are looked at, at most: half a second of work for a machine of today, and ten seconds and more of any program.
const BURSTS_MOST: usize = 20_000;
/// The mean of what is near a candidate is the next one: this often, it has come to rest.
const REFINEMENTS: usize = 4;

/// A program's own rhythm.
#[derive(Debug, Clone, PartialEq)]
pub struct Rhythm {
    /// Its period.
    pub period: Duration,
    /// How regular it is: 0 (not at all) to 1 (all work comes in it).
    pub regular: f64,
}

/// The rhythm of `bursts`, if they have one.
pub fn find(bursts: &[Burst]) -> Option<Rhythm> {
    let bursts = &bursts[..bursts.len().min(BURSTS_MOST)];
    let mut candidates = Vec::new();
    let mut period_ns = SHORTEST_NS as f64;
    while period_ns <= LONGEST_NS as f64 {
        candidates.push((period_ns as u64, regularity(bursts, period_ns as u64)));
        period_ns *= STEP;
    }
    let best = candidates.iter().map(|&(_, regular)| regular).fold(0.0, f64::max);
    if best < REGULAR_LEAST {
        return None;
    }
    let (mut period_ns, mut regular) = candidates.into_iter().find(|&(_, regular)| regular >= NEARLY * best)?;
    for _ in 0..REFINEMENTS {
        period_ns = mean_near(bursts, period_ns);
        regular = regularity(bursts, period_ns).max(regular);
    }
    Some(Rhythm { period: Duration::from_nanos(period_ns), regular })
}

fn regularity(bursts: &[Burst], period_ns: u64) -> f64 {
    let tolerance_ns = tolerance(period_ns);
    let met = |lag_ns| met_after(bursts, lag_ns, tolerance_ns);
    let at_it = met(period_ns);
    if at_it < REGULAR_LEAST {
        return 0.0;
    }
    at_it - (met(period_ns / 2) + met(period_ns * 3 / 2)) / 2.0
}

fn tolerance(period_ns: u64) -> u64 {
    (period_ns * TOLERANCE_PCT / 100).max(TOLERANCE_LEAST_NS)
}

/// The share of the work that is met by as much `lag_ns` later.
fn met_after(bursts: &[Burst], lag_ns: u64, tolerance_ns: u64) -> f64 {
    let (mut met, mut all) = (0_u64, 0_u64);
    let last_ns = bursts.last().map_or(0, |burst| burst.begin_ns);
    near(bursts, lag_ns, tolerance_ns, |burst, later| {
        if burst.begin_ns + lag_ns + tolerance_ns <= last_ns {
            let work: u64 = later.iter().map(|later| later.cost_ns).sum();
            met += work.min(burst.cost_ns);
            all += burst.cost_ns;
        }
    });
    met as f64 / all.max(1) as f64
}

/// The mean distance, by work, of bursts that are about `period_ns` apart.
fn mean_near(bursts: &[Burst], period_ns: u64) -> u64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    near(bursts, period_ns, tolerance(period_ns), |burst, later| {
        for other in later {
            let weight = burst.cost_ns.min(other.cost_ns) as f64;
            sum += (other.begin_ns - burst.begin_ns) as f64 * weight;
            weights += weight;
        }
    });
    if weights > 0.0 { (sum / weights) as u64 } else { period_ns }
}

/// Calls `each` for each burst with those that begin `lag_ns` later, but for the tolerance.
fn near<'a>(bursts: &'a [Burst], lag_ns: u64, tolerance_ns: u64, mut each: impl FnMut(&'a Burst, &'a [Burst])) {
    let (mut first, mut end) = (0, 0);
    for burst in bursts {
        let middle_ns = burst.begin_ns + lag_ns;
        while bursts.get(first).is_some_and(|later| later.begin_ns + tolerance_ns < middle_ns) {
            first += 1;
        }
        end = end.max(first);
        while bursts.get(end).is_some_and(|later| later.begin_ns <= middle_ns + tolerance_ns) {
            end += 1;
        }
        each(burst, &bursts[first..end]);
    }
}
