// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon shows: one description of each field, behind the control socket, `--json` and the text output.

use std::collections::BTreeMap;

use limelight_abi::sched::ll_proc_stats;
use limelight_policy::{Class, Explanation, GraphView};
use serde::{Deserialize, Serialize};

/// A question to the daemon, one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Who is rated, and what they get.
    Status,
    /// Why a process is in its class.
    Explain {
        /// The process.
        pid: u32,
    },
    /// The process dependency graph. Root only: it spans all users.
    Graph,
}

/// The answer, one line of JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Explain`].
    Explain(Box<ExplainView>),
    /// To [`Request::Graph`].
    Graph(Box<GraphView>),
    /// Why there is none.
    Error(String),
}

/// The state of the daemon and of every rated process.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: &'static str,
    /// Which paper's rules are in force.
    pub policy: &'static str,
    /// Seconds since the scheduler was loaded.
    pub uptime_s: u64,
    /// Does anybody serve the person now?
    pub tracking: bool,
    /// The displays that are watched, and how that goes.
    pub displays: Vec<DisplayStatus>,
    /// Every rated process, most urgent first.
    pub processes: Vec<ProcessStatus>,
    /// The scheduler's counters since it was loaded.
    pub counters: BTreeMap<&'static str, u64>,
}

/// One display.
#[derive(Clone, Debug, Serialize)]
pub struct DisplayStatus {
    /// Its name, such as `:0`.
    pub name: String,
    /// Whose it is.
    pub uid: u32,
    /// In words: watched, starting, or why not.
    pub state: String,
}

/// One rated process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessStatus {
    /// Its thread group id.
    pub pid: u32,
    /// The name it shows.
    pub name: String,
    /// Its scheduling class.
    pub class: Class,
    /// P_in, on the scale where K is the last input's second.
    pub input_rating: f64,
    /// P_out, on the same scale.
    pub output_rating: f64,
    /// Ratings do not travel through it.
    pub hub: bool,
    /// CPU it got in the last second, in % of one CPU.
    pub cpu_pct: f64,
    /// Times it was dispatched after a wake-up, while rated.
    pub wakeups: u64,
    /// Dispatch latency, median, in ms: the upper end of its bucket.
    pub wait_p50_ms: f64,
    /// Dispatch latency, 99th percentile, in ms: likewise.
    pub wait_p99_ms: f64,
    /// Dispatch latency, worst, in ms.
    pub wait_max_ms: f64,
}

/// Why a process is in its class, with names for people.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainView {
    /// The process.
    pub pid: u32,
    /// The name the process shows.
    pub name: String,
    /// The policy's reasons; none where nothing is known of the process, so that it is of class OTHER.
    pub explanation: Option<Explanation>,
    /// Names of the processes on the path.
    pub names: BTreeMap<u32, String>,
}

/// The latency under which `fraction` of the waits stayed, in ms: the upper end of that bucket, never above the worst.
#[must_use]
pub fn wait_percentile_ms(stats: &ll_proc_stats, fraction: f64) -> f64 {
    let total: u64 = stats.wait_hist.iter().sum();
    let mut seen = 0;
    for (bucket, count) in stats.wait_hist.iter().enumerate() {
        seen += count;
        if total > 0 && seen as f64 >= fraction * total as f64 {
            return ((2_u64 << bucket).min(stats.wait_max_ns)) as f64 / 1e6;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles come from the buckets' upper ends and do not exceed the worst wait.
    #[test]
    fn percentiles_come_from_the_histogram() {
        let mut stats = ll_proc_stats { wait_max_ns: 1_500_000, ..ll_proc_stats::default() };
        stats.wait_hist[15] = 98;
        stats.wait_hist[20] = 2;
        assert!((wait_percentile_ms(&stats, 0.5) - 0.065_536).abs() < 1e-9);
        assert!((wait_percentile_ms(&stats, 0.99) - 1.5).abs() < 1e-9);
        assert!(wait_percentile_ms(&ll_proc_stats::default(), 0.5).abs() < 1e-9);
    }

    /// A request is one line of JSON; an unknown one is refused.
    #[test]
    fn requests_are_json() {
        assert_eq!(
            serde_json::from_str::<Request>(r#"{"request":"explain","pid":7}"#).unwrap(),
            Request::Explain { pid: 7 }
        );
        assert!(serde_json::from_str::<Request>(r#"{"request":"reboot"}"#).is_err());
    }
}
