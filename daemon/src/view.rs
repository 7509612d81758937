// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon shows: one description of each field, behind the control socket, `--json` and the text output.

use std::collections::BTreeMap;

use limelight_abi::sched::{
    LL_RESERVATION_REVOKED, LL_SPEC_INHERITABLE, LL_SPEC_INTERACTIVE_PARENT, LL_SPEC_LOGIN, LL_SPEC_REVOCABLE,
    ll_cpu_load, ll_proc_stats, ll_reservation,
};
use limelight_policy::{Class, Explanation, GraphView};
use serde::{Deserialize, Serialize};

use crate::reserve::state_name;

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
    /// Who holds a reservation, and the load.
    Reservations,
    /// A reservation for a process of the caller's.
    Reserve {
        /// The process.
        pid: u32,
        /// C, in microseconds.
        runtime_us: u64,
        /// T, in microseconds.
        period_us: u64,
    },
    /// To end a reservation that was asked for: the process holds what its specification says again, if it has one.
    Release {
        /// The process.
        pid: u32,
    },
    /// Read the specifications again. Root only.
    Reload,
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
    /// To [`Request::Reservations`].
    Reservations(Box<Reservations>),
    /// To [`Request::Reserve`].
    Reserved(Box<ReservationStatus>),
    /// To [`Request::Release`].
    Released {
        /// The process.
        pid: u32,
    },
    /// To [`Request::Reload`].
    Reloading {
        /// It takes effect a moment later.
        begun: bool,
    },
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
    /// Who is cooperative.
    pub cooperative: CooperativeStatus,
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

/// Processes that have a page of the scheduler's (libcoop).
#[derive(Clone, Debug, Default, Serialize)]
pub struct CooperativeStatus {
    /// Why there can be none, where that is so.
    pub problem: Option<String>,
    /// How many there are of each user. Root is shown all users, others themselves.
    pub users: Vec<CooperativeUser>,
    /// How often a page was refused, for a limit or for the version of libcoop, since the scheduler was loaded.
    pub refused: u64,
}

/// One user's cooperative processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CooperativeUser {
    /// The user.
    pub uid: u32,
    /// How many.
    pub processes: u32,
}

/// How the threads of a process that has a page of the scheduler's (libcoop) stand at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CooperativeProcess {
    /// Threads that the scheduler takes for cooperative ones.
    pub registered: u32,
    /// Those of them that are in good standing: their releases are kept.
    pub good: u32,
    /// Those that are demoted until their next call, for one of the next three reasons or several.
    pub demoted: u32,
    /// They ran on after their slice.
    pub overran: u32,
    /// They slept other than by libcoop.
    pub slept: u32,
    /// They are ahead of their share.
    pub ahead: u32,
    /// Those that have not called since they registered.
    pub not_called: u32,
    /// Those that are alone though they name a group, by what the process has written into its page. None where that cannot be read.
    pub ungrouped: Option<u32>,
    /// Threads that have a place in the page, likewise, and are not registered.
    pub not_believed: Option<u32>,
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

/// Who holds a reservation (Redline, OSDI 2008).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reservations {
    /// Specifications in force.
    pub specifications: usize,
    /// What is wrong with the files of specifications: `limelight spec check` tells.
    pub complaints: usize,
    /// The load of each CPU.
    pub cpus: Vec<ReservedCpu>,
    /// Each reservation. Root is shown all, others those of their processes.
    pub reservations: Vec<ReservationStatus>,
}

/// What reservations take of one CPU, in per cent of it.
#[derive(Clone, Debug, Serialize)]
pub struct ReservedCpu {
    /// `R_load`: in the last four seconds.
    pub recent_pct: f64,
    /// `S_load`: what is expected, by what was admitted lately.
    pub expected_pct: f64,
    /// The sum of C / T of all that are admitted, which a real-time system would go by.
    pub admitted_pct: f64,
    /// How many these are.
    pub reservations: u32,
    /// What programs that serve the person took without one in the last four seconds. It is no room for who does not serve the person.
    pub huc_pct: f64,
}

impl ReservedCpu {
    /// As the scheduler has it.
    #[must_use]
    pub fn of(load: &ll_cpu_load) -> Self {
        let pct = |ppm: u32| f64::from(ppm) / 1e4;
        Self {
            recent_pct: pct(load.recent_ppm),
            expected_pct: pct(load.expected_ppm),
            admitted_pct: pct(load.admitted_ppm),
            reservations: load.reservations,
            huc_pct: pct(load.huc_ppm),
        }
    }
}

/// The reservation of one process: what it asked, got and used.
#[derive(Clone, Debug, Serialize)]
pub struct ReservationStatus {
    /// Its thread group id.
    pub pid: u32,
    /// The name it shows; looked up when somebody asks.
    pub name: String,
    /// What its specification is for.
    pub target: String,
    /// C, in ms.
    pub runtime_ms: f64,
    /// T, in ms.
    pub period_ms: f64,
    /// admitted, refused, revoked, or ended: its specification is no longer in force.
    pub state: &'static str,
    /// For how long that has been so, in seconds.
    pub since_s: u64,
    /// The CPU that it is entitled to.
    pub cpu: u32,
    /// What it got on the reservation in the last four seconds, in % of that CPU.
    pub reserved_pct: f64,
    /// What it used altogether in the last second, in % of one CPU.
    pub used_pct: f64,
    /// Periods in which it wanted all of C.
    pub periods: u64,
    /// And those of them at whose end it did not have it.
    pub missed: u64,
    /// A child gets one, too.
    pub inheritable: bool,
    /// It may be taken back.
    pub revocable: bool,
    /// It is a way to log in: root's processes of it, and what they start, are before all best-effort ones for a while.
    pub login: bool,
    /// Its specification is only for who is executed by an interactive process or its child.
    pub interactive_parent: bool,
    /// Whoever of its process ran last serves the person (class HUCIN or HUCOUT): what such programs take without a reservation is room for it, too.
    pub serves: bool,
    /// Of one that was taken back: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judgement>,
    /// Of one that is not given back, though the CPU may have room: the memory that it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<Shortage>,
}

/// What a reservation was judged by when it was taken back, in per cent of its CPU.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Judgement {
    /// `R_load`, before any was taken back.
    pub load_pct: f64,
    /// `R_max`, which that was above.
    pub max_pct: f64,
    /// What this one had got on the reservation in the four seconds before.
    pub use_pct: f64,
}

/// Why a reservation is not given back though the CPU may have room: what is paged out of its process does not fit into the memory that there is for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// What is paged out, in kB.
    pub paged_out_kb: u64,
    /// What programs can have without anything being paged out, in kB; none where that cannot be told.
    pub available_kb: Option<u64>,
}

impl Judgement {
    fn of(held: &ll_reservation) -> Option<Self> {
        let pct = |ppm: u32| f64::from(ppm) / 1e4;
        (held.state == LL_RESERVATION_REVOKED).then(|| Self {
            load_pct: pct(held.judged_load_ppm),
            max_pct: pct(held.judged_max_ppm),
            use_pct: pct(held.judged_use_ppm),
        })
    }
}

impl ReservationStatus {
    /// As the scheduler has it, with what it does not know.
    #[must_use]
    pub fn of(held: &ll_reservation, target: String, used_pct: f64, since_s: u64) -> Self {
        Self {
            pid: held.tgid,
            name: String::new(),
            target,
            runtime_ms: held.runtime_ns as f64 / 1e6,
            period_ms: held.period_ns as f64 / 1e6,
            state: state_name(held.state),
            since_s,
            cpu: held.home,
            reserved_pct: f64::from(held.window_us.iter().sum::<u32>()) / 4e4,
            used_pct,
            periods: held.periods,
            missed: held.missed,
            inheritable: held.flags & LL_SPEC_INHERITABLE != 0,
            revocable: held.flags & LL_SPEC_REVOCABLE != 0,
            login: held.flags & LL_SPEC_LOGIN != 0,
            interactive_parent: held.flags & LL_SPEC_INTERACTIVE_PARENT != 0,
            serves: held.serves != 0,
            judged: Judgement::of(held),
            short: None,
        }
    }
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
    /// Of a process in one of the kernel's classes above limelight's: which. None for everybody else.
    pub real_time: Option<&'static str>,
    /// Of a kernel thread, whose class no rating decides: its nice value. None for everybody else.
    pub kernel_thread_nice: Option<i8>,
    /// Is it a kernel thread whose work others wait for: a worker, or one that belongs to its CPU?
    pub kernel_worker: bool,
    /// Of a login of root's, and what it started, which need no rating: for how much CPU it is of class HUCOUT still, in ms. None for everybody else.
    pub login_left_ms: Option<u64>,
    /// Names of the processes on the path.
    pub names: BTreeMap<u32, String>,
    /// The reservation it holds, which serves it before all classes while it is admitted. A rating is none.
    pub reservation: Option<ReservationStatus>,
    /// Of a cooperative process: how it stands. None for everybody else.
    pub cooperative: Option<CooperativeProcess>,
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
