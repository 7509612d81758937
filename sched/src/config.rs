// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's settings, and how they become the BPF program's constants. Pure: no I/O.
//!
//! The text of each field is the one that `--help` and the man page show.

/// Which paper's rules are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// HuC's strict hierarchy of classes (tech report, section 5.1), but for 1 % of what HuC processes take.
    Huc,
    /// Redline's reservations (section 6), and nobody is rated.
    Redline,
    /// Cooperative polling: releases, groups and one fair class; nobody is rated and nothing is reserved.
    Coop,
    /// HuC's classes with a guaranteed share for class OTHER (section 5.2), and reservations above them.
    #[default]
    Unified,
}

impl Policy {
    /// As in `--policy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Huc => "huc",
            Policy::Redline => "redline",
            Policy::Coop => "coop",
            Policy::Unified => "unified",
        }
    }

    /// The least slice of class OTHER where none is asked for: the paper's (cooperative polling, section 3.2) under its own policy. With that one a build
    /// loses more in switches than anybody gains.
    #[must_use]
    pub fn fair_slice_min_ns(self) -> u64 {
        match self {
            Policy::Coop => 100_000,
            Policy::Huc | Policy::Redline | Policy::Unified => 500_000,
        }
    }
}

/// What can be set. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which paper's rules are in force.
    pub policy: Policy,
    /// Full slice of a HuC process. Longer saves switches between several HuC processes and makes them wait longer for each other.
    pub huc_slice_ns: u64,
    /// Guaranteed share of class OTHER, in per cent of each CPU that HuC processes take, 0 to 50. 0 leaves 1 %, as [`Policy::Huc`] does.
    pub share_pct: u32,
    /// The minimum slice: how long HuC processes wait at most when the guaranteed share is due.
    pub slice_min_ns: u64,
    /// CPU for which a process that is HUCIN only through others answers one key or click; HUCOUT afterwards. 0: no limit, as in the paper.
    pub indirect_budget_ns: u64,
    /// A task that has waited this long is moved ahead of its class.
    pub rescue_after_ns: u64,
    /// R_lo (Redline, section 6.1): below this load of reservations, in per cent of a CPU, one that was taken back is given back.
    pub load_low_pct: u32,
    /// R_hi: no reservation is admitted that would bring the load there.
    pub load_high_pct: u32,
    /// R_max: above this load reservations are taken back until it is below R_hi.
    pub load_max_pct: u32,
    /// The period of fair sharing (cooperative polling, section 3.1; 20 ms there): everybody in class OTHER runs once in it, as far as
    /// [`Self::fair_slice_min_ns`] lets them.
    pub period_ns: u64,
    /// The least slice of class OTHER, before what more than one CPU adds, but under [`Policy::Coop`] (cooperative polling, section 3.2; 0.1 ms there).
    pub fair_slice_min_ns: u64,
    /// `coop_slack`: how long a cooperative thread may run on after the slice that it was told (section 3.2; 1 ms there).
    pub coop_slack_ns: u64,
    /// How far ahead of its class, beyond its slice, a thread may be whose releases are kept (section 3.2: "order of ms").
    pub coop_ahead_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Unified,
            huc_slice_ns: 20_000_000,
            share_pct: 5,
            slice_min_ns: 500_000,
            indirect_budget_ns: 30_000_000,
            rescue_after_ns: 600_000_000,
            load_low_pct: 60,
            load_high_pct: 80,
            load_max_pct: 90,
            period_ns: 20_000_000,
            fair_slice_min_ns: Policy::default().fair_slice_min_ns(),
            coop_slack_ns: 1_000_000,
            coop_ahead_ns: 4_000_000,
        }
    }
}

/// What is left to class OTHER under strict classes, or with a share of 0, in thousandths of what HuC classes run. The paper leaves it nothing (section 5.1); this
/// much lets the daemon work, and keeps the kernel's watchdog from ejecting the scheduler.
const STRICT_SHARE_PM: u32 = 10;

/// What each setting may be. Times are in nanoseconds.
pub mod bounds {
    use std::ops::RangeInclusive;

    /// The full slice; it is not below the minimum slice either.
    pub const HUC_SLICE_NS: RangeInclusive<u64> = 100_000..=100_000_000;
    /// The guaranteed share, in per cent.
    pub const SHARE_PCT: RangeInclusive<u32> = 0..=50;
    /// The minimum slice.
    pub const SLICE_MIN_NS: RangeInclusive<u64> = 100_000..=10_000_000;
    /// The budget of indirect ratings.
    pub const INDIRECT_BUDGET_NS: RangeInclusive<u64> = 0..=10_000_000_000;
    /// The wait after which a task is moved ahead.
    pub const RESCUE_AFTER_NS: RangeInclusive<u64> = 50_000_000..=4_000_000_000;
    /// The period of fair sharing; it is not below the least slice either.
    pub const PERIOD_NS: RangeInclusive<u64> = 1_000_000..=100_000_000;
    /// The least slice of class OTHER.
    pub const FAIR_SLICE_MIN_NS: RangeInclusive<u64> = 100_000..=5_000_000;
    /// The slack of cooperative threads.
    pub const COOP_SLACK_NS: RangeInclusive<u64> = 100_000..=10_000_000;
    /// How far ahead cooperative threads may be.
    pub const COOP_AHEAD_NS: RangeInclusive<u64> = 1_000_000..=100_000_000;
    /// Loads of reservations, in per cent. What remains of a CPU is for kernel threads, which come before them, and for the guaranteed share.
    pub const LOAD_PCT: RangeInclusive<u32> = 1..=94;
}

impl Settings {
    /// What class OTHER earns, in thousandths of what HuC classes run.
    ///
    /// A fifth more than the share itself, because the account may stand at its limit at the end of any second (`share.bpf.h`).
    #[must_use]
    pub fn share_pm(&self) -> u32 {
        match self.policy {
            Policy::Huc => STRICT_SHARE_PM,
            Policy::Redline | Policy::Coop | Policy::Unified => (self.share_pct * 12).max(STRICT_SHARE_PM),
        }
    }

    /// [`Self::indirect_budget_ns`] as the policy has it: the paper knows no such limit.
    #[must_use]
    pub fn effective_indirect_budget_ns(&self) -> u64 {
        match self.policy {
            Policy::Huc => 0,
            Policy::Redline | Policy::Coop | Policy::Unified => self.indirect_budget_ns,
        }
    }

    /// Says which setting is out of range, by the option that sets it, and what is allowed.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), String> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let times = [
            ("slice-min-ms", self.slice_min_ns, bounds::SLICE_MIN_NS),
            ("slice-ms", self.huc_slice_ns, bounds::HUC_SLICE_NS),
            ("indirect-budget-ms", self.indirect_budget_ns, bounds::INDIRECT_BUDGET_NS),
            ("rescue-after-ms", self.rescue_after_ns, bounds::RESCUE_AFTER_NS),
            ("period-ms", self.period_ns, bounds::PERIOD_NS),
            ("fair-slice-min-ms", self.fair_slice_min_ns, bounds::FAIR_SLICE_MIN_NS),
            ("coop-slack-ms", self.coop_slack_ns, bounds::COOP_SLACK_NS),
            ("coop-ahead-ms", self.coop_ahead_ns, bounds::COOP_AHEAD_NS),
        ];
        for (option, value, allowed) in times {
            if !allowed.contains(&value) {
                let (least, most) = (ms(*allowed.start()), ms(*allowed.end()));
                return Err(format!("--{option} {}: give a number from {least} to {most}, in ms", ms(value)));
            }
        }
        if !bounds::SHARE_PCT.contains(&self.share_pct) {
            let (least, most) = bounds::SHARE_PCT.into_inner();
            return Err(format!("--share-pct {}: give a number from {least} to {most}, in per cent", self.share_pct));
        }
        if self.huc_slice_ns < self.slice_min_ns {
            let (slice, least) = (ms(self.huc_slice_ns), ms(self.slice_min_ns));
            return Err(format!(
                "--slice-ms {slice} is below --slice-min-ms {least}: raise the one or lower the other"
            ));
        }
        if self.period_ns < self.fair_slice_min_ns {
            let (period, least) = (ms(self.period_ns), ms(self.fair_slice_min_ns));
            return Err(format!(
                "--period-ms {period} is below --fair-slice-min-ms {least}, so that a slice would be longer than the period: raise the one or lower the other"
            ));
        }
        let (low, high, max) = (self.load_low_pct, self.load_high_pct, self.load_max_pct);
        if !(bounds::LOAD_PCT.contains(&low) && low < high && high < max && bounds::LOAD_PCT.contains(&max)) {
            return Err(format!(
                "--load-low-pct {low}, --load-high-pct {high}, --load-max-pct {max}: give numbers from {} to {}, each above the one before",
                bounds::LOAD_PCT.start(),
                bounds::LOAD_PCT.end()
            ));
        }
        Ok(())
    }

    /// Are there reservations?
    #[must_use]
    pub fn reserves(&self) -> bool {
        matches!(self.policy, Policy::Redline | Policy::Unified)
    }

    /// Is anybody rated?
    #[must_use]
    pub fn rates(&self) -> bool {
        matches!(self.policy, Policy::Huc | Policy::Unified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are valid and guarantee the 5 % of the design's promise 5.
    #[test]
    fn defaults_are_valid() {
        let settings = Settings::default();
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.share_pm(), 60);
    }

    /// A setting out of range is named, with what is allowed.
    #[test]
    fn a_setting_out_of_range_is_named() {
        let set = Settings::default;
        for (wrong, words) in [
            (Settings { share_pct: 51, ..set() }, "--share-pct 51: give a number from 0 to 50, in per cent"),
            (Settings { slice_min_ns: 1, ..set() }, "--slice-min-ms 0.000001: give a number from 0.1 to 10, in ms"),
            (Settings { huc_slice_ns: 0, ..set() }, "--slice-ms 0: give a number from 0.1 to 100, in ms"),
            (
                Settings { huc_slice_ns: 200_000, ..set() },
                "--slice-ms 0.2 is below --slice-min-ms 0.5: raise the one or lower the other",
            ),
            (
                Settings { rescue_after_ns: 1_000_000, ..set() },
                "--rescue-after-ms 1: give a number from 50 to 4000, in ms",
            ),
            (Settings { period_ns: 0, ..set() }, "--period-ms 0: give a number from 1 to 100, in ms"),
            (
                Settings { fair_slice_min_ns: 6_000_000, ..set() },
                "--fair-slice-min-ms 6: give a number from 0.1 to 5, in ms",
            ),
            (
                Settings { period_ns: 2_000_000, fair_slice_min_ns: 3_000_000, ..set() },
                "--period-ms 2 is below --fair-slice-min-ms 3",
            ),
            (Settings { coop_slack_ns: 0, ..set() }, "--coop-slack-ms 0: give a number from 0.1 to 10, in ms"),
            (Settings { coop_ahead_ns: 0, ..set() }, "--coop-ahead-ms 0: give a number from 1 to 100, in ms"),
            (
                Settings { load_high_pct: 95, ..set() },
                "--load-high-pct 95, --load-max-pct 90: give numbers from 1 to 94, each above the one before",
            ),
        ] {
            let message = wrong.check().unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }

    /// Strict classes, and a share of 0, leave class OTHER 1 %, whatever is asked for.
    #[test]
    fn nothing_is_a_per_cent() {
        let strict = Settings { policy: Policy::Huc, share_pct: 50, ..Settings::default() };
        assert_eq!(strict.share_pm(), 10);
        assert_eq!(Settings { share_pct: 0, ..Settings::default() }.share_pm(), 10);
    }

    /// Each policy has its paper's rules alone, and unified all of them.
    #[test]
    fn a_policy_is_one_papers() {
        let rules = |policy| {
            let settings = Settings { policy, ..Settings::default() };
            (settings.rates(), settings.reserves())
        };
        assert_eq!(rules(Policy::Huc), (true, false));
        assert_eq!(rules(Policy::Redline), (false, true));
        assert_eq!(rules(Policy::Coop), (false, false));
        assert_eq!(rules(Policy::Unified), (true, true));
    }
}
