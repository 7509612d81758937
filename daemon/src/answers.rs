// SPDX-License-Identifier: GPL-2.0-only
//! Answers to who asks by the control socket, off the loop: with 16,000 rated processes `explain` lets a copy of the policy's state age, which
//! takes 50 ms, and `status` reads two files and a map for each. Meanwhile a key for a client that is not rated yet must not wait. The loop
//! makes a copy of what the question is about, and the thread does the rest, the writing too.
//!
//! Bad at: who asks for a long answer (some 900 processes of their own) and does not read it has others wait for theirs, [`WRITE_WITHIN`] each time.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Result;
use limelight_abi::sched::ll_proc_stats;
use limelight_policy::{ProcessId, Rating, State, Step, Why};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::procfs;
use crate::view::{
    CooperativeProcess, ExplainView, ProcessStatus, ReservationStatus, Reservations, Response, Status,
    wait_percentile_ms,
};
use crate::worker::Worker;

/// Questions that wait for their answer beside the one that has its; each holds a copy of the state (some MB).
const MAX_WAITING: usize = 4;

/// How long an answer that does not fit the socket's buffer (200 kB) may take to be read. With all places taken, the last still has its
/// answer within the 5 s that `limelight` waits.
const WRITE_WITHIN: Duration = Duration::from_millis(900);

/// What the next one is told.
const BUSY: &str = "the daemon has several questions to answer before this one; try again in a second";

/// Reads what a process got.
pub type StatsReader = Box<dyn Fn(u32) -> Option<ll_proc_stats> + Send>;

/// Reads how a process's threads stand, if it is a cooperative one.
pub type StandingReader = Box<dyn Fn(u32) -> Option<CooperativeProcess> + Send>;

/// Rated processes at one moment.
pub struct Snapshot {
    /// What the scheduler was told of each.
    pub told: BTreeMap<u32, Rating>,
    /// Their CPU time in the last second, in % of one CPU.
    pub cpu_pct: BTreeMap<u32, f64>,
    /// What else they got.
    pub stats: StatsReader,
}

/// A question, with a copy of what it is about.
pub enum Question {
    /// All but the processes is there.
    Status(Box<Status>, Snapshot),
    /// Why is this process in its class?
    Explain(u32, Box<State>, Held),
    /// The dependency graph.
    Graph(Box<State>),
    /// Who holds a reservation.
    Reservations(Box<Reservations>),
    /// To read the specifications again, which has begun.
    Reloading,
    /// One that was asked for has ended, of this process.
    Released(u32),
    /// A reservation that was asked for.
    Reserved(Box<ReservationStatus>),
}

/// What the scheduler holds of a process, beside its rating.
#[derive(Default)]
pub struct Held {
    /// Its reservation.
    pub reservation: Option<ReservationStatus>,
    /// Of a login, or a child of one: for how much CPU it is of class HUCOUT still.
    pub login_left_ns: Option<u64>,
    /// Its cooperation: to be read when its owner is known to ask, for it takes long where there are many threads.
    pub standing: Option<StandingReader>,
}

struct Job {
    question: Question,
    viewer: u32,
    stream: UnixStream,
}

/// The thread that answers.
pub struct Answers {
    worker: Worker<Job, ()>,
}

impl Answers {
    /// Start it.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub fn start() -> Result<Self> {
        let worker = Worker::start("answers", MAX_WAITING, |job: Job| {
            // A client that went away meanwhile is its own problem.
            let _ = write(&job.stream, &answer(job.question, job.viewer), WRITE_WITHIN);
        })?;
        Ok(Self { worker })
    }

    /// Answer `viewer` on `stream`, which does not block, soon. Never waits.
    pub fn give(&self, question: Question, viewer: u32, stream: UnixStream) {
        if let Err(job) = self.worker.give(Job { question, viewer, stream }) {
            let _ = write(&job.stream, &Response::Error(BUSY.to_owned()), Duration::ZERO);
        }
    }

    /// Take note of what has been answered.
    ///
    /// # Errors
    /// The thread has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        while self.worker.take()?.is_some() {}
        Ok(())
    }
}

impl AsFd for Answers {
    /// Readable when there is something to check.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}

/// Write `response` as a line to `stream`, which does not block, and wait no longer than `patience` for its being read.
///
/// # Errors
/// Whoever asked is gone, or does not read.
pub fn write(mut stream: &UnixStream, response: &Response, patience: Duration) -> io::Result<()> {
    let mut text = serde_json::to_vec(response)?;
    text.push(b'\n');
    let until = Instant::now() + patience;
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
                if left.is_zero() || poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)], timeout) == Ok(0) {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn answer(question: Question, viewer: u32) -> Response {
    match question {
        Question::Status(mut status, snapshot) => {
            status.processes = processes(&snapshot, viewer);
            status.cooperative.users.retain(|user| viewer == 0 || user.uid == viewer);
            Response::Status(status)
        }
        Question::Explain(pid, state, held) => match explain(&state, pid, viewer, held) {
            Ok(view) => Response::Explain(Box::new(view)),
            Err(reason) => Response::Error(reason),
        },
        Question::Graph(state) => Response::Graph(Box::new(state.graph())),
        Question::Reservations(mut view) => {
            view.reservations.retain(|held| may_see(held.pid, viewer));
            view.reservations.iter_mut().for_each(name);
            Response::Reservations(view)
        }
        Question::Released(pid) => Response::Released { pid },
        Question::Reloading => Response::Reloading { begun: true },
        Question::Reserved(mut held) => {
            name(&mut held);
            Response::Reserved(held)
        }
    }
}

/// Root sees all processes, others their own.
fn may_see(pid: u32, viewer: u32) -> bool {
    viewer == 0 || procfs::uid(pid) == Some(viewer)
}

fn name(held: &mut ReservationStatus) {
    held.name = procfs::name(held.pid).unwrap_or_else(|| "(gone)".to_owned());
}

/// Every rated process that `viewer` may see, most urgent first.
fn processes(snapshot: &Snapshot, viewer: u32) -> Vec<ProcessStatus> {
    let told = snapshot.told.iter().filter(|(pid, _)| may_see(**pid, viewer));
    let mut rows: Vec<ProcessStatus> = told.map(|(&pid, rating)| process(snapshot, pid, rating)).collect();
    rows.sort_by(|a, b| {
        (a.class, b.input_rating + b.output_rating)
            .partial_cmp(&(b.class, a.input_rating + a.output_rating))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

fn process(snapshot: &Snapshot, pid: u32, rating: &Rating) -> ProcessStatus {
    let stats = (snapshot.stats)(pid).unwrap_or_default();
    ProcessStatus {
        pid,
        name: procfs::name(pid).unwrap_or_else(|| "(gone)".to_owned()),
        class: rating.class(),
        input_rating: f64::from(rating.in_milli) / 1000.0,
        output_rating: f64::from(rating.out_milli) / 1000.0,
        hub: rating.hub,
        cpu_pct: snapshot.cpu_pct.get(&pid).copied().unwrap_or(0.0),
        wakeups: stats.wakeups,
        wait_p50_ms: wait_percentile_ms(&stats, 0.5),
        wait_p99_ms: wait_percentile_ms(&stats, 0.99),
        wait_max_ms: stats.wait_max_ns as f64 / 1e6,
    }
}

/// Why `pid` is in its class, or why `viewer` is not told.
fn explain(state: &State, pid: u32, viewer: u32, held: Held) -> Result<ExplainView, String> {
    let name = procfs::name(pid).ok_or_else(|| format!("there is no process {pid}"))?;
    if !may_see(pid, viewer) {
        return Err(format!("process {pid} is another user's: ask as root (sudo limelight explain {pid})"));
    }
    let explanation = state.explain(ProcessId::from(pid));
    let on_path =
        explanation.iter().flat_map(|explanation| &explanation.path).flat_map(|step| [Some(step.pid), server(step)]);
    let names = on_path.flatten().filter_map(|pid| Some((pid, procfs::name(pid)?))).collect();
    let Held { reservation, login_left_ns, standing } = held;
    let kernel_thread = procfs::kernel_thread(pid);
    Ok(ExplainView {
        pid,
        name,
        explanation,
        real_time: procfs::real_time(pid),
        kernel_thread_nice: kernel_thread.map(|thread| thread.nice),
        kernel_worker: kernel_thread.is_some_and(|thread| thread.works_for_others),
        login_left_ms: login_left_ns.map(|ns| ns.div_ceil(1_000_000)),
        names,
        reservation,
        cooperative: standing.and_then(|standing| standing(pid)),
    })
}

fn server(step: &Step) -> Option<u32> {
    match step.why {
        Why::Input { server, .. } | Why::Output { server, .. } => server,
        Why::Woke { .. } | Why::Inherited | Why::Lent => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A long answer, several times what a socket holds, arrives whole if it is read; from one who does not read the thread comes back.
    #[test]
    fn a_long_answer_arrives_whole() {
        const BYTES: usize = 4 * 1024 * 1024;
        let response = Response::Error("x".repeat(BYTES));
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            theirs.read_to_string(&mut text).map(|_| text.len())
        });
        // Far longer than reading takes.
        write(&ours, &response, Duration::from_secs(20)).unwrap();
        drop(ours);
        assert!(reader.join().unwrap().unwrap() > BYTES);
        let (ours, _silent) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let error = write(&ours, &response, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    /// Each sees their own processes, root sees all; another user's process is not explained.
    #[test]
    fn users_see_their_own() {
        let own = std::process::id();
        let uid = procfs::uid(own).unwrap();
        let told = BTreeMap::from([(own, Rating { in_milli: 5000, ..Rating::default() })]);
        let snapshot = Snapshot { told, cpu_pct: BTreeMap::new(), stats: Box::new(|_| None) };
        assert_eq!(processes(&snapshot, 0).len(), 1);
        assert_eq!(processes(&snapshot, uid).len(), 1);
        assert_eq!(processes(&snapshot, uid + 1).len(), 0);
        let state = State::new(limelight_policy::Settings::default()).unwrap();
        assert!(explain(&state, own, uid, Held::default()).is_ok());
        assert!(explain(&state, own, uid + 1, Held::default()).unwrap_err().contains("another user's"));
    }

    /// How a process's threads stand is read for who may see it, and for nobody else.
    #[test]
    fn a_standing_is_told_to_who_may_see_the_process() {
        let own = std::process::id();
        let uid = procfs::uid(own).unwrap();
        let state = State::new(limelight_policy::Settings::default()).unwrap();
        let two = CooperativeProcess { registered: 2, ..CooperativeProcess::default() };
        let (told, asked) = (two.clone(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&asked);
        let read = move |pid| {
            counted.store(pid, Ordering::Relaxed);
            Some(told.clone())
        };
        let held = |read| Held { standing: Some(read), ..Held::default() };
        assert!(explain(&state, own, uid + 1, held(Box::new(read.clone()))).is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let view = explain(&state, own, uid, held(Box::new(read))).unwrap();
        assert_eq!((view.cooperative, asked.load(Ordering::Relaxed)), (Some(two), own));
    }
}
