// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's settings, and how they become the BPF program's constants. Pure: no I/O.
//!
//! The text of each field is the one that `--help` and the man page show.

/// Which paper's rules are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// HuC's strict hierarchy of classes (tech report, section 5.1).
    Huc,
    /// Redline's reservations (section 6), and nobody is rated.
    Redline,
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
            Policy::Unified => "unified",
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
    /// Guaranteed share of class OTHER, in per cent of each CPU that HuC processes take, 0 to 50.
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
        }
    }
}

/// Under strict classes, or with a share of 0, nothing is guaranteed; this much lets the daemon work, and keeps the kernel's
/// watchdog from ejecting the scheduler.
const STRICT_SHARE_PM: u32 = 10;

/// The most that reservations may take of a CPU: what remains is for kernel threads, which come before them, and for the guaranteed share.
const MAX_LOAD_PCT: u32 = 94;

impl Settings {
    /// What class OTHER earns, in thousandths of what HuC classes run.
    ///
    /// A fifth more than the share itself, because the account may stand at its limit at the end of any second (`share.bpf.h`).
    #[must_use]
    pub fn share_pm(&self) -> u32 {
        match self.policy {
            Policy::Huc => STRICT_SHARE_PM,
            Policy::Redline | Policy::Unified => (self.share_pct * 12).max(STRICT_SHARE_PM),
        }
    }

    /// [`Self::indirect_budget_ns`] as the policy has it: the paper knows no such limit.
    #[must_use]
    pub fn effective_indirect_budget_ns(&self) -> u64 {
        match self.policy {
            Policy::Huc => 0,
            Policy::Redline | Policy::Unified => self.indirect_budget_ns,
        }
    }

    /// Says which setting is out of range, and what is allowed.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), String> {
        if self.share_pct > 50 {
            return Err(format!("share of {} %: the guaranteed share is at most 50 %", self.share_pct));
        }
        if !(100_000..=10_000_000).contains(&self.slice_min_ns) {
            return Err(format!("minimum slice of {} ns: it is 0.1 ms to 10 ms", self.slice_min_ns));
        }
        if self.huc_slice_ns < self.slice_min_ns || self.huc_slice_ns > 100_000_000 {
            return Err(format!(
                "slice of {} ns: it is at least the minimum slice and at most 100 ms",
                self.huc_slice_ns
            ));
        }
        if self.indirect_budget_ns > 10_000_000_000 {
            return Err(format!("budget of {} ns for indirect ratings: it is 0 to 10 s", self.indirect_budget_ns));
        }
        if !(50_000_000..=4_000_000_000).contains(&self.rescue_after_ns) {
            return Err(format!("rescue after {} ns: it is 50 ms to 4 s", self.rescue_after_ns));
        }
        let (low, high, max) = (self.load_low_pct, self.load_high_pct, self.load_max_pct);
        if !(0 < low && low < high && high < max && max <= MAX_LOAD_PCT) {
            return Err(format!(
                "loads of {low}, {high} and {max} %: R_lo is above 0, R_hi above R_lo, R_max above R_hi and at most {MAX_LOAD_PCT} %"
            ));
        }
        Ok(())
    }

    /// Are there reservations?
    #[must_use]
    pub fn reserves(&self) -> bool {
        self.policy != Policy::Huc
    }

    /// Is anybody rated?
    #[must_use]
    pub fn rates(&self) -> bool {
        self.policy != Policy::Redline
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
        let message = Settings { share_pct: 80, ..Settings::default() }.check().unwrap_err();
        assert!(message.contains("80 %") && message.contains("50 %"), "{message}");
        let message = Settings { slice_min_ns: 1, ..Settings::default() }.check().unwrap_err();
        assert!(message.contains("minimum slice"), "{message}");
        let message = Settings { load_high_pct: 95, ..Settings::default() }.check().unwrap_err();
        assert!(message.contains("R_max above R_hi"), "{message}");
    }
}
