// SPDX-License-Identifier: GPL-2.0-only
//! A reservation was tried: is it enough, too little or too much?

use std::time::Duration;

use super::demand::Demand;
use super::{Finding, Stint, grains, most_of, ns, runtime_for, usual};

/// One period in so many may be missed.
const MISSED_ONE_IN: u64 = 1_000;

/// What a reservation was like while it was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried {
    /// Periods in which it wanted all of C, by the scheduler's count.
    pub periods: u64,
    /// And of these, the ones at whose end it did not have it.
    pub missed: u64,
    /// Windows of T in which it did something.
    pub windows: u64,
    /// And of these, the ones in which it took more than C.
    pub over: u64,
    /// Most that it took in one.
    pub peak: Duration,
}

/// What to do with C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is right.
    Keep,
    /// Too little: try this.
    Raise(Duration),
    /// Too much: try this.
    Lower(Duration),
}

impl Tried {
    /// Was more missed than may be?
    #[must_use]
    pub fn is_short(&self) -> bool {
        (self.missed + self.over) * MISSED_ONE_IN > self.periods.max(self.windows)
    }

    /// What to do with the `runtime` that was tried for `finding`: a quarter more, where too many periods were missed, and what it needs
    /// where it never used half.
    #[must_use]
    pub fn next(&self, finding: &Finding, runtime: Duration) -> Step {
        if self.is_short() {
            let more = grains(ns(runtime) * 5 / 4).min(most_of(finding.period, finding.rhythm.is_some()));
            return if more > runtime { Step::Raise(more) } else { Step::Keep };
        }
        let needed = runtime_for(ns(self.peak));
        if self.windows > 0 && self.peak < runtime / 2 && needed < runtime {
            return Step::Lower(needed);
        }
        Step::Keep
    }
}

/// How often a program took more than `runtime` in a window of `period`, between `from_ns` and `to_ns`: without the scheduler's counts, and
/// without the few windows that stand alone.
#[must_use]
pub fn over(stints: &[Stint], from_ns: u64, to_ns: u64, runtime: Duration, period: Duration) -> Tried {
    let windows = Demand::new(stints, from_ns, to_ns).windows(period);
    let windows = usual(&windows);
    let over = windows.iter().filter(|&&demand_ns| demand_ns > ns(runtime)).count();
    Tried {
        windows: windows.len() as u64,
        over: over as u64,
        peak: Duration::from_nanos(windows.last().copied().unwrap_or(0)),
        ..Tried::default()
    }
}
