// SPDX-License-Identifier: GPL-2.0-only
//! The settings of `limelight run`: the scheduler's as flags of their own, the policy's from the policy's own table.

use anyhow::{Result, anyhow};
use clap::{Arg, ArgMatches, Args, ValueEnum};
use limelight_daemon::coop::{DEFAULT_PAGES_PER_USER, MAX_PAGES};
use limelight_policy::{Settings as PolicySettings, SettingsError};
use limelight_sched::{Policy, Settings, bounds};

use crate::bounds::{millis, number};

const POLICY_HEADING: &str = "Settings of the ratings (HuC, section 4)";

/// Which paper's rules are in force.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyName {
    /// HuC's strict hierarchy of classes, but for 1 % that everything else keeps.
    Huc,
    /// Redline's reservations, and nobody is rated.
    Redline,
    /// Cooperative polling alone: releases, groups and one fair class; nobody is rated and nothing is reserved.
    Coop,
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
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().huc_slice_ns),
        value_parser = millis(&bounds::HUC_SLICE_NS), allow_negative_numbers = true)]
    slice_ms: f64,
    /// Share of each CPU that everything else keeps whatever those who serve the person take, in per cent, 0 to 50.
    /// More of it costs them that much on a loaded machine. With 0, and always with --policy huc, it keeps 1.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().share_pct,
        value_parser = number(bounds::SHARE_PCT, "per cent"), allow_negative_numbers = true)]
    share_pct: u32,
    /// Shortest slice, in ms, 0.1 to 10: how long those who serve the person wait at most when the guaranteed share is
    /// due. Longer saves switches.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().slice_min_ns),
        value_parser = millis(&bounds::SLICE_MIN_NS), allow_negative_numbers = true)]
    slice_min_ms: f64,
    /// CPU, in ms, 0 to 10000, that a process which serves the person only through others may use to answer one key or click
    /// ahead of those that draw; after that it runs beside them. Longer lets what a command started, such as a compilation,
    /// hold up a film for longer. 0, and always with --policy huc: no limit.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().indirect_budget_ns),
        value_parser = millis(&bounds::INDIRECT_BUDGET_NS), allow_negative_numbers = true)]
    indirect_budget_ms: f64,
    /// A task that has waited this long, in ms, 50 to 4000, is moved ahead of its class. Longer lets a heavily loaded machine
    /// be more unfair for longer; the kernel ends a scheduler that leaves a task waiting for seconds.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().rescue_after_ns),
        value_parser = millis(&bounds::RESCUE_AFTER_NS), allow_negative_numbers = true)]
    rescue_after_ms: f64,
    /// Load of reservations (limelight-spec) on one CPU, in per cent, below which one that was taken back is given back (R_lo). Closer to
    /// --load-high-pct gives back sooner, and takes back again more often.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_low_pct,
        value_parser = number(bounds::LOAD_PCT, "per cent"), allow_negative_numbers = true)]
    load_low_pct: u32,
    /// Load that no further reservation may bring about, in per cent of one CPU (R_hi). More admits more programs, and leaves less
    /// room for one that wants more than before.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_high_pct,
        value_parser = number(bounds::LOAD_PCT, "per cent"), allow_negative_numbers = true)]
    load_high_pct: u32,
    /// Load above which reservations are taken back until it is below --load-high-pct, in per cent of one CPU, up to 94 (R_max). What
    /// is above it is for kernel threads and for everything else.
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().load_max_pct,
        value_parser = number(bounds::LOAD_PCT, "per cent"), allow_negative_numbers = true)]
    load_max_pct: u32,
    /// Period of fair sharing, in ms, 1 to 100, and no less than --fair-slice-min-ms: everybody else runs once in it, as far as that
    /// lets them, for a quarter of it at most. Shorter has them wait less for each other, and switches more.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().period_ns),
        value_parser = millis(&bounds::PERIOD_NS), allow_negative_numbers = true)]
    period_ms: f64,
    /// Shortest slice of everybody else, in ms, 0.1 to 5 [default: 0.5, and 0.1 under --policy coop, as in the paper]. On two CPUs it is twice that, on
    /// four three times, on eight or more four times, except under --policy coop. Longer saves switches, and makes a round among many longer than
    /// --period-ms. Slices are shorter all the same where a round would take more than 350 ms: with hundreds waiting on a CPU, or with as few as a
    /// long one takes.
    #[arg(long, value_name = "MS", value_parser = millis(&bounds::FAIR_SLICE_MIN_NS), allow_negative_numbers = true)]
    fair_slice_min_ms: Option<f64>,
    /// How long a cooperative thread (libcoop) may run on after the slice that it was told until it is preempted and its releases are not
    /// kept any more (coop_slack), in ms, 0.1 to 10. Longer forgives longer steps between its calls, and makes others' timers late by as much; shorter demotes who has longer ones.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().coop_slack_ns),
        value_parser = millis(&bounds::COOP_SLACK_NS), allow_negative_numbers = true)]
    coop_slack_ms: f64,
    /// By how much CPU, in ms, 1 to 100, and its slice, a cooperative thread may be ahead of its fair share until its releases are not kept. Longer
    /// keeps those of who has much to do at once, at the expense of everybody else on its CPU for as long; and a thread begins so far ahead, so what
    /// it does beside its releases begins later.
    #[arg(long, value_name = "MS", default_value_t = ms(Settings::default().coop_ahead_ns),
        value_parser = millis(&bounds::COOP_AHEAD_NS), allow_negative_numbers = true)]
    coop_ahead_ms: f64,
    /// Processes of one user that can be cooperative (libcoop) at once, 0 to 1024; a second copy of the library in a process counts as
    /// another one. More lets one user take what others would have: there are 1024 for all users together. Root has no limit but that.
    /// With 0 only root's can.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_PAGES_PER_USER,
        value_parser = number(0..=MAX_PAGES, "processes"), allow_negative_numbers = true)]
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
            .value_parser(of_policy(about.name, about.unit, about.range.clone()))
            .allow_negative_numbers(true)
            .help_heading(POLICY_HEADING)
            .help(help)
    };
    run.args(PolicySettings::table().into_iter().map(flag))
}

/// Takes what a setting of the policy may be, as text.
fn of_policy(
    name: &'static str,
    unit: &'static str,
    (least, most): (String, String),
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| match PolicySettings::default().set(name, text) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err(format!("give a number from {least} to {most}, in {unit}")),
    }
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
        let policy = match self.policy {
            PolicyName::Huc => Policy::Huc,
            PolicyName::Redline => Policy::Redline,
            PolicyName::Coop => Policy::Coop,
            PolicyName::Unified => Policy::Unified,
        };
        let settings = Settings {
            policy,
            huc_slice_ns: ns(self.slice_ms),
            share_pct: self.share_pct,
            slice_min_ns: ns(self.slice_min_ms),
            indirect_budget_ns: ns(self.indirect_budget_ms),
            rescue_after_ns: ns(self.rescue_after_ms),
            load_low_pct: self.load_low_pct,
            load_high_pct: self.load_high_pct,
            load_max_pct: self.load_max_pct,
            period_ns: ns(self.period_ms),
            fair_slice_min_ns: self.fair_slice_min_ms.map_or(policy.fair_slice_min_ns(), ns),
            coop_slack_ns: ns(self.coop_slack_ms),
            coop_ahead_ns: ns(self.coop_ahead_ms),
        };
        settings.check().map_err(|reason| anyhow!(reason))?;
        Ok(settings)
    }

    /// Cooperative processes of each user.
    pub fn coop_pages_per_user(&self) -> u32 {
        self.coop_pages_per_user
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
        settings.validate().map_err(|error| anyhow!(by_options(error)))?;
        Ok(settings)
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// What two settings of the policy have against each other, by the names of their options.
fn by_options(error: SettingsError) -> String {
    let option = |name: &str| format!("--{}", name.replace('_', "-"));
    match error {
        SettingsError::Order { low, low_value, high, high_value } => {
            let (low, high) = (option(low), option(high));
            format!("{low} {low_value} is above {high} {high_value}: lower the one or raise the other")
        }
        other => other.to_string(),
    }
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
        assert_eq!(run(&[]).coop_pages_per_user(), DEFAULT_PAGES_PER_USER);
    }

    /// The paper's least slice is `--policy coop`'s, where another one is not asked for.
    #[test]
    fn the_least_slice_goes_by_the_policy() {
        let least = |flags: &[&str]| run(flags).scheduler().unwrap().fair_slice_min_ns;
        assert_eq!(least(&["--policy=coop"]), 100_000);
        assert_eq!(least(&["--policy=huc"]), 500_000);
        assert_eq!(least(&["--policy=coop", "--fair-slice-min-ms=0.5"]), 500_000);
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
            "--period-ms=30",
            "--fair-slice-min-ms=0.1",
            "--coop-slack-ms=2",
            "--coop-ahead-ms=8",
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
            period_ns: 30_000_000,
            fair_slice_min_ns: 100_000,
            coop_slack_ns: 2_000_000,
            coop_ahead_ns: 8_000_000,
        };
        assert_eq!(run(&flags).scheduler().unwrap(), expected);
        assert_eq!(run(&["--coop-pages-per-user=7"]).coop_pages_per_user(), 7);
        for about in PolicySettings::table() {
            let flag = format!("--{}={}", about.name.replace('_', "-"), about.range.1);
            let mut expected = PolicySettings::default();
            expected.set(about.name, &about.range.1).unwrap();
            let found = run(&[&flag]).ratings();
            assert_eq!(found.is_ok(), expected.validate().is_ok(), "{flag}");
            assert!(found.is_err() || found.unwrap() == expected, "{flag}");
        }
    }

    /// What is out of range is refused with the option, the value, what is allowed, and its unit; so is what is no number.
    #[test]
    fn what_is_out_of_range_is_named() {
        for (option, value, allowed) in [
            ("--slice-ms", "0", "0.1 to 100, in ms"),
            ("--slice-ms", "-1", "0.1 to 100, in ms"),
            ("--slice-ms", "NaN", "0.1 to 100, in ms"),
            ("--slice-min-ms", "11", "0.1 to 10, in ms"),
            ("--share-pct", "51", "0 to 50, in per cent"),
            ("--share-pct", "many", "0 to 50, in per cent"),
            ("--rescue-after-ms", "1", "50 to 4000, in ms"),
            ("--indirect-budget-ms", "11000", "0 to 10000, in ms"),
            ("--load-low-pct", "0", "1 to 94, in per cent"),
            ("--load-high-pct", "95", "1 to 94, in per cent"),
            ("--load-max-pct", "-3", "1 to 94, in per cent"),
            ("--period-ms", "0.5", "1 to 100, in ms"),
            ("--fair-slice-min-ms", "0", "0.1 to 5, in ms"),
            ("--coop-slack-ms", "11", "0.1 to 10, in ms"),
            ("--coop-ahead-ms", "0", "1 to 100, in ms"),
            ("--coop-pages-per-user", "1025", "0 to 1024, in processes"),
            ("--input-memory-s", "0", "1 to 600, in seconds"),
        ] {
            let error = command().try_get_matches_from(["limelight", "run", option, value]).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(&format!("invalid value '{value}' for '{option} ")), "{message}");
            assert!(message.contains(&format!("give a number from {allowed}")), "{message}");
        }
    }

    /// Every option of the policy's is bounded, by what its help says.
    #[test]
    fn every_setting_of_the_policy_is_bounded() {
        for about in PolicySettings::table() {
            let option = format!("--{}", about.name.replace('_', "-"));
            let message = command().try_get_matches_from(["limelight", "run", &option, "-1"]).unwrap_err().to_string();
            let allowed =
                format!("'-1' for '{option} <NUMBER>': give a number from {} to {}, in", about.range.0, about.range.1);
            assert!(message.contains(&allowed), "{message}");
        }
    }

    /// Of two that contradict each other both are named.
    #[test]
    fn what_contradicts_is_named() {
        let message = run(&["--slice-ms=0.2"]).scheduler().unwrap_err().to_string();
        assert!(message.contains("--slice-ms 0.2 is below --slice-min-ms 0.5"), "{message}");
        let message = run(&["--load-low-pct=85"]).scheduler().unwrap_err().to_string();
        assert!(message.contains("--load-low-pct 85, --load-high-pct 80"), "{message}");
        let message = run(&["--hub-leave=41"]).ratings().unwrap_err().to_string();
        assert!(message.contains("--hub-leave 41 is above --hub-enter 40"), "{message}");
    }
}
