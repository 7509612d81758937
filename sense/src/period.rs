// SPDX-License-Identifier: GPL-2.0-only
//! Sums per process over one period (1 s), and what must be told at once instead of at its end.
//!
//! HuC §4.1.2 tells the kernel "whenever a client with zero input ratings receives an input event"; the helper does not
//! know ratings, so it uses what it can know locally: no input in this period or the previous one. The same rule serves
//! output, over two previous periods, because output comes in bursts (a cursor blinks once a second).
//!
//! Pure: the caller says which period it is.

use std::collections::HashMap;

use limelight_abi::sense::{ClientPeriod, MAX_CHANGED_PCT, MAX_CLIENTS};

/// Number of the period, counted from the start of watching.
pub type PeriodNo = u64;

/// After how many silent periods a client's next output is told at once.
const QUIET_OUTPUT_PERIODS: u64 = 2;
/// After how many silent periods a client's next input is told at once.
const QUIET_INPUT_PERIODS: u64 = 1;

#[derive(Debug, Default)]
struct Process {
    input: bool,
    changed_pct: f64,
    last_input: Option<PeriodNo>,
    last_output: Option<PeriodNo>,
}

/// The running sums.
#[derive(Debug, Default)]
pub struct Periods {
    processes: HashMap<u32, Process>,
    something_to_say: bool,
}

impl Periods {
    /// Counts input for `pid`; true if it must be told at once.
    pub fn input(&mut self, pid: u32, now: PeriodNo) -> bool {
        let process = self.processes.entry(pid).or_default();
        process.input = true;
        self.something_to_say = true;
        let last = process.last_input.replace(now);
        last.is_none_or(|last| now.saturating_sub(last) > QUIET_INPUT_PERIODS)
    }

    /// Counts a visible change of `changed_pct` % of the screen by `pid`; true if it must be told at once.
    pub fn output(&mut self, pid: u32, changed_pct: f64, now: PeriodNo) -> bool {
        if changed_pct <= 0.0 {
            return false;
        }
        let process = self.processes.entry(pid).or_default();
        process.changed_pct += changed_pct;
        self.something_to_say = true;
        let last = process.last_output.replace(now);
        last.is_none_or(|last| now.saturating_sub(last) > QUIET_OUTPUT_PERIODS)
    }

    /// Whether the period has anything to tell when it ends.
    #[must_use]
    pub fn something_to_say(&self) -> bool {
        self.something_to_say
    }

    /// Ends period `now`: what each process did in it, and forgets processes silent for so long that they count as new.
    ///
    /// More than [`MAX_CLIENTS`] processes keep those with input and then the largest changes.
    pub fn end(&mut self, now: PeriodNo) -> Vec<ClientPeriod> {
        let mut clients = Vec::new();
        for (pid, process) in &mut self.processes {
            if process.input || process.changed_pct > 0.0 {
                clients.push(ClientPeriod {
                    pid: *pid,
                    input: process.input,
                    changed_pct: round_pct(process.changed_pct),
                });
            }
            process.input = false;
            process.changed_pct = 0.0;
        }
        self.something_to_say = false;
        self.processes.retain(|_, process| {
            let silent = |last: Option<PeriodNo>, limit| last.is_none_or(|last| now.saturating_sub(last) > limit);
            !silent(process.last_input, QUIET_INPUT_PERIODS) || !silent(process.last_output, QUIET_OUTPUT_PERIODS)
        });
        if clients.len() > MAX_CLIENTS {
            clients.sort_by(|a, b| b.input.cmp(&a.input).then(b.changed_pct.total_cmp(&a.changed_pct)));
            clients.truncate(MAX_CLIENTS);
        }
        clients.sort_by_key(|client| client.pid);
        clients
    }
}

/// Six digits after the point: below one pixel of a 1000 × 1000 screen, and short enough for the fullest period.
pub(crate) fn round_pct(changed_pct: f64) -> f64 {
    ((changed_pct * 1e6).round() / 1e6).min(MAX_CHANGED_PCT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: u32, input: bool, changed_pct: f64) -> ClientPeriod {
        ClientPeriod { pid, input, changed_pct }
    }

    /// Input is told at once the first time and after a period without, not while it goes on.
    #[test]
    fn input_is_told_at_once_only_when_new() {
        let mut periods = Periods::default();
        assert!(periods.input(7, 0));
        assert!(!periods.input(7, 0));
        periods.end(0);
        assert!(!periods.input(7, 1), "input in the previous period is not news");
        periods.end(1);
        periods.end(2);
        assert!(periods.input(7, 3), "a whole period without input makes it news");
        assert!(periods.input(8, 3), "another process is news of its own");
    }

    /// Output is told at once after two whole periods without.
    #[test]
    fn output_is_told_at_once_only_when_new() {
        let mut periods = Periods::default();
        assert!(periods.output(7, 1.0, 0));
        periods.end(0);
        periods.end(1);
        assert!(!periods.output(7, 1.0, 2), "one silent period is a blinking cursor");
        periods.end(2);
        periods.end(3);
        periods.end(4);
        assert!(periods.output(7, 1.0, 5));
    }

    /// Changes add up over the period, may exceed the screen, and start from nothing in the next.
    #[test]
    fn a_period_sums_and_restarts() {
        let mut periods = Periods::default();
        for _ in 0..5 {
            periods.output(7, 50.0, 0);
        }
        periods.input(9, 0);
        assert!(periods.something_to_say());
        assert_eq!(periods.end(0), [client(7, false, 250.0), client(9, true, 0.0)]);
        assert!(!periods.something_to_say());
        assert_eq!(periods.end(1), []);
    }

    /// A damage report without a visible pixel is no output.
    #[test]
    fn nothing_visible_says_nothing() {
        let mut periods = Periods::default();
        assert!(!periods.output(7, 0.0, 0));
        assert!(!periods.something_to_say());
        assert_eq!(periods.end(0), []);
    }

    /// Processes that went silent leave no trace, however many came and went.
    #[test]
    fn silent_processes_are_forgotten() {
        let mut periods = Periods::default();
        for pid in 1..10_000 {
            periods.input(pid, 0);
            periods.output(pid, 0.001, 0);
        }
        for now in 0..=3 {
            periods.end(now);
        }
        assert!(periods.processes.is_empty());
    }

    /// Too many processes for one packet: those with input stay, then the largest changes.
    #[test]
    fn a_crowd_keeps_input_and_the_largest_changes() {
        let mut periods = Periods::default();
        for pid in 1..=MAX_CLIENTS as u32 + 1 {
            periods.output(pid, f64::from(pid), 0);
        }
        periods.input(1, 0);
        let clients = periods.end(0);
        assert_eq!(clients.len(), MAX_CLIENTS);
        assert!(clients.iter().any(|client| client.pid == 1), "input outranks size");
        assert!(clients.iter().all(|client| client.pid != 2), "the smallest change is left out");
    }
}
