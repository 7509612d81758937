// SPDX-License-Identifier: GPL-2.0-only
//! Figures for a program that has none, from watching it: the tool that Redline's section 7 wishes for.
//!
//! The problem: whoever writes a specification has to know C and T, and nobody knows them. The idea: a program that plays or draws shows
//! its T by its rhythm, and for others section 3 has rules; C is what it takes in a T when it takes much, and a bit more. What it waited for is left out
//! of that: each burst of work is laid where the program wanted it, as if the CPU had been free, so a busy machine changes little.
//!
//! What it is bad at: a program that never gets what it wants shows neither ([`Verdict::Starved`]), what it does once an hour is not seen in
//! 20 seconds, and a program of two rhythms gets the one that takes more.
//!
//! No input or output, and no clock: it gets times and returns figures. No single time leaves it.

mod demand;
mod rhythm;
mod trial;

use std::time::Duration;

use crate::fields::{BANDWIDTH_MOST_PCT, RUNTIME_LEAST};

use demand::Demand;
pub use rhythm::Rhythm;
pub use trial::{Step, Tried, over};

/// One stay of a thread on a CPU. Times in ns of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint {
    /// The thread.
    pub thread: u32,
    /// It was woken for this; 0: it was not, or nobody saw it.
    pub woken_ns: u64,
    /// It came to the CPU.
    pub start_ns: u64,
    /// And left it.
    pub end_ns: u64,
    /// To sleep; else it wanted to run on.
    pub slept: bool,
}

/// Less than this is not enough to tell anything: a T of 100 ms has been seen 30 times then.
pub const WATCH_LEAST: Duration = Duration::from_secs(3);
/// And so few bursts of work have no 99.9th percentile worth the name, nor a rhythm.
pub const BURSTS_LEAST: usize = 20;

/// T of what plays or draws: 30 frames per second (section 3).
const DRAWS: Duration = Duration::from_millis(30);
/// T of what answers now and then: "hundreds of milliseconds" for administrator's tools (section 3), of which one is what a person notices.
const ANSWERS: Duration = Duration::from_millis(100);
/// Who works in so many of the stretches of [`ANSWERS`] plays or draws.
const DRAWS_SHARE: f64 = 0.5;

/// Who wants the CPU for so much of the time, and gets it, is bound by the CPU; who does not get it shows nothing.
const WANTS_ALWAYS: f64 = 0.9;
const GETS_IT: f64 = 0.8;

/// At most one busy window in so many is left out, if it took so many times what all others did.
const UNUSUAL_ONE_IN: usize = 100;
const UNUSUAL_FACTOR: u64 = 2;

/// Of the busy windows, the one whose demand C meets: as many periods as may be missed afterwards.
const WINDOW_PERCENTILE: f64 = 0.999;
/// And so much more, in per cent: modest over-specification costs nothing (section 7), and what was seen is not all there is.
const MARGIN_PCT: u64 = 10;
/// C is a multiple of this.
const RUNTIME_GRAIN_NS: u64 = 100_000;
/// Most that C is of T without a rhythm, in per cent. Such a program works through something long now and then; nobody waits for its end by the
/// millisecond, and a reservation of more leaves no room for another one.
const MOST_WITHOUT_RHYTHM_PCT: u64 = 50;

/// What a program needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// C.
    pub runtime: Duration,
    /// T.
    pub period: Duration,
    /// Its own rhythm, which T follows; `None`: T follows the rules of section 3.
    pub rhythm: Option<Rhythm>,
    /// It would have taken more than C may be of T.
    pub cut: bool,
    /// What was seen.
    pub seen: Seen,
    /// Most that it took in one window of T.
    pub peak: Duration,
    /// Windows of T in which it did something.
    pub windows: usize,
}

impl Finding {
    /// How far to trust it, in a word: good (a clear rhythm, seen often), fair (a rhythm, or many windows) or poor.
    #[must_use]
    pub fn trust(&self) -> &'static str {
        let regular = self.rhythm.as_ref().map_or(0.0, |rhythm| rhythm.regular);
        match (regular, self.windows) {
            (0.9.., 100..) if !self.cut => "good",
            (0.5.., _) | (_, 100..) if !self.cut => "fair",
            _ => "poor",
        }
    }
}

/// What was seen of a program while it was watched.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// For how long.
    pub watched: Duration,
    /// Bursts of work, from a wake-up until all of its threads slept.
    pub bursts: usize,
    /// Share of one CPU that it used; above 1 with several threads.
    pub used: f64,
    /// Share of the time in which it wanted the CPU.
    pub wanted: f64,
}

impl Seen {
    /// Share of what it wanted that it waited.
    #[must_use]
    pub fn waited(&self) -> f64 {
        if self.wanted > 0.0 { (1.0 - self.used / self.wanted).max(0.0) } else { 0.0 }
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// These figures.
    Found(Finding),
    /// It would use any amount: no reservation makes sense.
    CpuBound(Seen),
    /// It wanted the CPU all the time, and had little of it: what it needs does not show.
    Starved(Seen),
    /// It was watched too shortly, or did too little.
    TooLittle(Seen),
}

/// What a program needs whose stints between `from_ns` and `to_ns` are these; what is outside is left out.
#[must_use]
pub fn judge(stints: &[Stint], from_ns: u64, to_ns: u64) -> Verdict {
    let demand = Demand::new(stints, from_ns, to_ns);
    let seen = demand.seen();
    if seen.watched < WATCH_LEAST {
        return Verdict::TooLittle(seen);
    }
    if seen.wanted >= WANTS_ALWAYS {
        return if seen.used >= GETS_IT * seen.wanted { Verdict::CpuBound(seen) } else { Verdict::Starved(seen) };
    }
    if seen.bursts < BURSTS_LEAST {
        return Verdict::TooLittle(seen);
    }
    let rhythm = rhythm::find(&demand.bursts);
    let period = match &rhythm {
        Some(rhythm) => sensible(rhythm.period),
        None if demand.busy_share(ANSWERS) >= DRAWS_SHARE => DRAWS,
        None => ANSWERS,
    };
    let windows = demand.windows(period);
    let wanted = runtime_for(percentile(usual(&windows)));
    let most = most_of(period, rhythm.is_some());
    Verdict::Found(Finding {
        runtime: wanted.min(most),
        period,
        rhythm,
        cut: wanted > most,
        seen,
        peak: Duration::from_nanos(windows.last().copied().unwrap_or(0)),
        windows: windows.len(),
    })
}

/// Most that C may be of T, in whole grains.
fn most_of(period: Duration, has_rhythm: bool) -> Duration {
    let pct = if has_rhythm { u64::from(BANDWIDTH_MOST_PCT) } else { MOST_WITHOUT_RHYTHM_PCT };
    let most = ns(period) * pct / 100;
    Duration::from_nanos(most / RUNTIME_GRAIN_NS * RUNTIME_GRAIN_NS).max(RUNTIME_LEAST)
}

/// C for who takes `demand_ns` in a T.
fn runtime_for(demand_ns: u64) -> Duration {
    let with_margin = demand_ns.saturating_mul(100 + MARGIN_PCT) / 100;
    grains(with_margin).max(RUNTIME_LEAST)
}

/// Rounded up to what C is a multiple of.
fn grains(time_ns: u64) -> Duration {
    Duration::from_nanos(time_ns.div_ceil(RUNTIME_GRAIN_NS).saturating_mul(RUNTIME_GRAIN_NS))
}

/// The sorted `windows` without the few that took more than twice as much as any other: something was read in, or the machine stood still, and
/// with less than a thousand windows that would be the 99.9th percentile.
fn usual(windows: &[u64]) -> &[u64] {
    let few = windows.len() / UNUSUAL_ONE_IN;
    let end = (windows.len() - few..windows.len()).find(|&end| windows[end] / UNUSUAL_FACTOR > windows[end - 1]);
    &windows[..end.unwrap_or(windows.len())]
}

/// The value that [`WINDOW_PERCENTILE`] of the sorted `windows` do not exceed.
fn percentile(windows: &[u64]) -> u64 {
    let rank = (windows.len() as f64 * WINDOW_PERCENTILE).ceil() as usize;
    windows.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// A rhythm as people write a T: rounded down, for what comes more often than T would need twice as much in some of them, in steps of half a
/// millisecond below 10, of one below 100, and of ten above. What is less than a hundredth below a step is on it: clocks differ by that little.
fn sensible(rhythm: Duration) -> Duration {
    let step_us = match rhythm.as_millis() {
        0..10 => 500,
        10..100 => 1_000,
        _ => 10_000,
    };
    let us = ns(rhythm) * 101 / 100 / 1_000;
    Duration::from_micros((us / step_us * step_us).max(step_us))
}

/// A time in ns; what does not fit is far out of every range.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 1_000)
}

#[cfg(test)]
mod tests;
