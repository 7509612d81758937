// SPDX-License-Identifier: GPL-2.0-only
//! The settings of `limelight run`: the scheduler's as flags of their own, the policy's from the policy's own table.

use anyhow::{Result, anyhow};
use clap::{Arg, ArgMatches, Args, ValueEnum};
use limelight_daemon::coop::{DEFAULT_PAGES_PER_USER, MAX_PAGES};
use limelight_policy::Settings as PolicySettings;
use limelight_sched::{Policy, Settings};

const POLICY_HEADING: &str = "Settings of the ratings (HuC, section 4)";

/// Which paper's rules are in force.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyName {
    /// HuC's strict hierarchy of classes.
    Huc,
    /// Redline's reservations, and nobody is rated.
    Redline,
    /// HuC's classes with a guaranteed share for everything else, and reservations above them.
    Unified,
}

/// Flags of `limelight run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which paper's rules are in force.
    #[arg(long, value_enum, default_value = "unified")]
    policy: PolicyName,
    /// Full slice of a process that serves the person, in ms, up to 100. Longer saves switches between several of them
    /// and makes them wait longer for each other.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().huc_slice_ns))]
    slice_ms: f64,
    /// Share of each CPU that everything else keeps whatever those who serve the person take, in per cent, 0 to 50.
    /// More of it costs them that much on a loaded machine.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().share_pct)]
    share_pct: u32,
    /// Shortest slice, in ms, 0.1 to 10: how long those who serve the person wait at most when the guaranteed share is
    /// due. Longer saves switches.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().slice_min_ns))]
    slice_min_ms: f64,
    /// CPU, in ms, 0 to 10000, that a process which serves the person only through others may use to answer one key or click
    /// ahead of those that draw; after that it runs beside them. Longer lets what a command started, such as a compilation,
    /// hold up a film for longer. 0, and always with --policy huc: no limit.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().indirect_budget_ns))]
    indirect_budget_ms: f64,
    /// A task that has waited this long, in ms, 50 to 4000, is moved ahead of its class. Longer lets a heavily loaded machine
    /// be more unfair for longer; the kernel ends a scheduler that leaves a task waiting for seconds.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().rescue_after_ns))]
    rescue_after_ms: f64,
    /// Load of reservations (limelight-spec) on one CPU, in per cent, below which one that was taken back is given back (R_lo). Closer to
    /// --load-high-pct gives back sooner, and takes back again more often.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_low_pct)]
    load_low_pct: u32,
    /// Load that no further reservation may bring about, in per cent of one CPU (R_hi). More admits more programs, and leaves less
    /// room for one that wants more than before.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_high_pct)]
    load_high_pct: u32,
    /// Load above which reservations are taken back until it is below --load-high-pct, in per cent of one CPU, up to 94 (R_max). What
    /// is above it is for kernel threads and for everything else.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_max_pct)]
    load_max_pct: u32,
    /// Processes of one user that can be cooperative (libcoop) at once, 0 to 1024; a second copy of the library in a process counts as
    /// another one. More lets one user take what others would have: there are 1024 for all users together. Root has no limit but that.
    /// With 0 only root's can.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_PAGES_PER_USER)]
    coop_pages_per_user: u32,
    /// Also tell what is only of interest to who works on limelight.
    #[arg(long, short)]
    pub verbose: bool,
    /// Values of the flags that [`with_policy_flags`] added, by setting.
    #[arg(skip)]
    of_policy: Vec<(&'static str, String)>,
}

/// Add a flag for each setting of the policy.
pub fn with_policy_flags(run: clap::Command) -> clap::Command {
    let flag = |about: limelight_policy::settings::About| {
        let (least, most) = &about.range;
        let help = format!("{} {least} to {most}, in {}.", about.text, about.unit);
        Arg::new(about.name)
            .long(about.name.replace('_', "-"))
            .value_name("NUMBER")
            .default_value(about.default.clone())
            .help_heading(POLICY_HEADING)
            .help(help)
    };
    run.args(PolicySettings::table().into_iter().map(flag))
}

impl RunArgs {
    /// Keep what the flags of [`with_policy_flags`] were given.
    pub fn take_policy_flags(&mut self, matches: &ArgMatches) {
        let given = |about: limelight_policy::settings::About| {
            matches.get_one::<String>(about.name).map(|value| (about.name, value.clone()))
        };
        self.of_policy = PolicySettings::table().into_iter().filter_map(given).collect();
    }

    /// The scheduler's settings.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn scheduler(&self) -> Result<Settings> {
        let settings = Settings {
            policy: match self.policy {
                PolicyName::Huc => Policy::Huc,
                PolicyName::Redline => Policy::Redline,
                PolicyName::Unified => Policy::Unified,
            },
            huc_slice_ns: ns("--slice-ms", self.slice_ms)?,
            share_pct: self.share_pct,
            slice_min_ns: ns("--slice-min-ms", self.slice_min_ms)?,
            indirect_budget_ns: ns("--indirect-budget-ms", self.indirect_budget_ms)?,
            rescue_after_ns: ns("--rescue-after-ms", self.rescue_after_ms)?,
            load_low_pct: self.load_low_pct,
            load_high_pct: self.load_high_pct,
            load_max_pct: self.load_max_pct,
        };
        settings.check().map_err(|reason| anyhow!(reason))?;
        Ok(settings)
    }

    /// Cooperative processes of each user.
    ///
    /// # Errors
    /// There cannot be so many.
    pub fn coop_pages_per_user(&self) -> Result<u32> {
        match self.coop_pages_per_user {
            number @ 0..=MAX_PAGES => Ok(number),
            number => Err(anyhow!("--coop-pages-per-user={number}: it is 0 to {MAX_PAGES}, which is all there are")),
        }
    }

    /// The policy's settings.
    ///
    /// # Errors
    /// The first that is out of range, or two that contradict each other.
    pub fn ratings(&self) -> Result<PolicySettings> {
        let mut settings = PolicySettings::default();
        for (name, value) in &self.of_policy {
            settings.set(name, value)?;
        }
        // The paper knows no crowds.
        if let PolicyName::Huc = self.policy {
            settings.crowd_weight_pm = 0;
        }
        settings.validate()?;
        Ok(settings)
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn ns(flag: &str, ms: f64) -> Result<u64> {
    // An hour: far above every range that is checked later, and far below what does not fit.
    if !(0.0..=3_600_000.0).contains(&ms) {
        return Err(anyhow!("{flag}={ms}: give a number of milliseconds"));
    }
    Ok((ms * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, command};
    use clap::FromArgMatches;

    fn run(flags: &[&str]) -> RunArgs {
        let matches = command().get_matches_from([&["limelight", "run"], flags].concat());
        let Command::Run(mut run) = Cli::from_arg_matches(&matches).unwrap().command else { panic!("not run") };
        run.take_policy_flags(matches.subcommand().unwrap().1);
        run
    }

    /// Without flags the settings are the defaults of the scheduler and of the policy.
    #[test]
    fn without_flags_the_defaults_hold() {
        assert_eq!(run(&[]).scheduler().unwrap(), Settings::default());
        assert_eq!(run(&[]).ratings().unwrap(), PolicySettings::default());
        assert_eq!(run(&[]).coop_pages_per_user().unwrap(), DEFAULT_PAGES_PER_USER);
    }

    /// Every flag reaches the setting it names.
    #[test]
    fn every_flag_arrives() {
        let flags = [
            "--policy=huc",
            "--slice-ms=5",
            "--share-pct=7",
            "--slice-min-ms=0.25",
            "--indirect-budget-ms=7",
            "--rescue-after-ms=300",
            "--load-low-pct=40",
            "--load-high-pct=50",
            "--load-max-pct=70",
        ];
        let expected = Settings {
            policy: Policy::Huc,
            huc_slice_ns: 5_000_000,
            share_pct: 7,
            slice_min_ns: 250_000,
            indirect_budget_ns: 7_000_000,
            rescue_after_ns: 300_000_000,
            load_low_pct: 40,
            load_high_pct: 50,
            load_max_pct: 70,
        };
        assert_eq!(run(&flags).scheduler().unwrap(), expected);
        assert_eq!(run(&["--coop-pages-per-user=7"]).coop_pages_per_user().unwrap(), 7);
        for about in PolicySettings::table() {
            let flag = format!("--{}={}", about.name.replace('_', "-"), about.range.1);
            let mut expected = PolicySettings::default();
            expected.set(about.name, &about.range.1).unwrap();
            let found = run(&[&flag]).ratings();
            assert_eq!(found.is_ok(), expected.validate().is_ok(), "{flag}");
            assert!(found.is_err() || found.unwrap() == expected, "{flag}");
        }
    }

    /// What is out of range is refused with the flag's or the setting's name and what is allowed.
    #[test]
    fn what_is_out_of_range_is_named() {
        assert!(run(&["--share-pct=80"]).scheduler().unwrap_err().to_string().contains("50"));
        assert!(run(&["--slice-ms=-1"]).scheduler().unwrap_err().to_string().contains("--slice-ms"));
        assert!(run(&["--rescue-after-ms=1"]).scheduler().unwrap_err().to_string().contains("50 ms"));
        assert!(run(&["--indirect-budget-ms=11000"]).scheduler().unwrap_err().to_string().contains("10 s"));
        assert!(run(&["--slice-ms=NaN"]).scheduler().is_err());
        let message = run(&["--coop-pages-per-user=1025"]).coop_pages_per_user().unwrap_err().to_string();
        assert!(message.contains("--coop-pages-per-user=1025") && message.contains("1024"), "{message}");
        let message = run(&["--input-memory-s=0"]).ratings().unwrap_err().to_string();
        assert!(message.contains("1 to 600"), "{message}");
    }
}
