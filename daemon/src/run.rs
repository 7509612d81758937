// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's loop: one thread owns everything, waits for whatever comes next, and handles it. What may take long (the search for displays)
//! has a thread of its own, which owns nothing of the loop's.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use limelight_policy as policy;
use limelight_sched::{Exit, Scheduler, Settings, has_server};
use limelight_spec::Places;
use log::{error, info, warn};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::answers::{Answers, Held, Question};
use crate::control::{Control, SOCKET, refuse};
use crate::coop::{self, Coop};
use crate::core::{Core, Memory, report};
use crate::helpers::{Change, Helpers};
use crate::kernel::Kernel;
use crate::reserve::{Reserve, Wish};
use crate::search::Search;
use crate::stats::{self, Shared};
use crate::view::{Request, Status};

/// One rating pass a second, as HuC has it (section 4.1.1).
const PASS: Duration = Duration::from_secs(1);

/// What `limelight run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scheduler's settings.
    pub settings: Settings,
    /// The policy's settings.
    pub policy: policy::Settings,
    /// Cooperative processes that each user but root can have at once, up to [`coop::MAX_PAGES`].
    pub coop_pages_per_user: u32,
    /// The `limelight` binary, which the helpers run.
    pub program: PathBuf,
}

/// Run until told to stop.
///
/// # Errors
/// The scheduler cannot be loaded, another daemon runs, or the scheduler was ended for a fault.
pub fn run(options: &Options) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "limelight run needs root: it loads a scheduler into the kernel. Try: sudo limelight run; meanwhile the CPUs are scheduled as before, \
             and limelight doctor and spec check need no root"
        );
    }
    let signals = block_signals()?;
    coop::make_room_for_descriptors();
    let mut control = Control::bind(Path::new(SOCKET))?;
    let result = serve(options, &signals, &mut control);
    // Both sockets are ours: leave nothing behind, however this ends.
    let _ = fs::remove_file(SOCKET);
    let _ = fs::remove_file(stats::SOCKET);
    result
}

/// Have the daemon's pages stay in memory. Whoever decides whom the person waits for must not wait for the disk itself: a backup that
/// thrashes it, or a browser that takes all the memory, is when it is wanted.
fn keep_in_memory() {
    if let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE) {
        warn!(
            "cannot keep the daemon's memory from being paged out ({error}): it may answer late when memory is short; give it CAP_IPC_LOCK"
        );
    }
}

/// Have khugepaged pass over the daemon and its helpers. It holds the lock of the memory that it looks at, and is of nice value 19: with nobody at the desk it goes
/// by its weight, and beside forty busy processes a page fault of the daemon's waited for it for more than 5 s.
fn keep_from_khugepaged() {
    if let Err(errno) = prctl::set_thp_disable(true) {
        warn!("cannot have khugepaged pass over the daemon ({errno}): it may answer late on a loaded machine");
    }
}

/// Why the loop ended.
enum End {
    /// A signal asked for it.
    Asked(Signal),
    /// The kernel took the scheduler off.
    Ejected,
}

fn serve(options: &Options, signals: &SignalFd, control: &mut Control) -> Result<()> {
    let mut memory = Memory::new(policy::State::new(options.policy.clone())?);
    let mut helpers = Helpers::new(Search::start()?);
    let mut answers = Answers::start()?;
    let mut reserve = if options.settings.reserves() { Some(Reserve::start(Places::standard())?) } else { None };
    let shared = Shared::default();
    let _server = stats::serve(&shared).context("cannot serve scx_stats")?;
    loop {
        let mut object = MaybeUninit::uninit();
        let scheduler = Scheduler::load(&options.settings, &mut object).context(
            "the scheduler cannot be loaded, and the CPUs are scheduled without limelight (limelight doctor tells what is missing)",
        )?;
        keep_in_memory();
        keep_from_khugepaged();
        let mut coop = Coop::start(coop::socket(), options.coop_pages_per_user, scheduler.coop_pages())?;
        info!("limelight {} runs the CPUs, policy {}", env!("CARGO_PKG_VERSION"), options.settings.policy.name());
        let mut session = Session {
            options,
            core: Core::new(scheduler, memory)?,
            helpers: &mut helpers,
            answers: &mut answers,
            coop: &mut coop,
            reserve: reserve.as_mut(),
            shared: &shared,
        };
        let end = session.run(signals, control)?;
        let (scheduler, kept) = session.core.into_parts();
        memory = kept;
        // Nobody is handed a page that no scheduler reads.
        drop(coop);
        let exit = scheduler.unload();
        match end {
            End::Asked(signal) => {
                info!("{signal}: the kernel's own scheduler runs the CPUs again");
                return Ok(());
            }
            End::Ejected if exit.restart => info!("the set of CPUs changed: loading the scheduler again"),
            End::Ejected => return ejected(&exit),
        }
    }
}

fn ejected(exit: &Exit) -> Result<()> {
    let reason = exit.reason.trim();
    if exit.by_administrator {
        info!("the administrator took the scheduler off ({reason}): the kernel's own scheduler runs the CPUs again");
        return Ok(());
    }
    error!("the kernel took the scheduler off: {reason}");
    if reason.contains("stall") && !has_server().unwrap_or(true) {
        error!("perhaps a real-time process that never sleeps: before Linux 7.0 that ends every sched_ext scheduler");
    }
    bail!(
        "the scheduler was ended for a fault; the kernel's own scheduler runs the CPUs again, nothing else was changed"
    )
}

fn block_signals() -> Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// What woke the loop.
#[derive(Clone)]
enum Wake {
    Signal,
    Pass,
    Search,
    Answered,
    Coop,
    Specs,
    Control,
    Helper(String),
}

struct Session<'a, K> {
    options: &'a Options,
    core: Core<K>,
    helpers: &'a mut Helpers,
    answers: &'a mut Answers,
    coop: &'a mut Coop,
    /// None where the policy has no reservations.
    reserve: Option<&'a mut Reserve>,
    shared: &'a Shared,
}

impl<K: Kernel> Session<'_, K> {
    fn run(&mut self, signals: &SignalFd, control: &mut Control) -> Result<End> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        timer.set(
            Expiration::IntervalDelayed(
                TimeSpec::from_duration(Duration::from_millis(1)),
                TimeSpec::from_duration(PASS),
            ),
            TimerSetTimeFlags::empty(),
        )?;
        for pid in self.helpers.pids().collect::<Vec<_>>() {
            report(self.core.adopt_helper(pid));
        }
        if let Some(reserve) = &mut self.reserve {
            report(reserve.retell(self.core.scheduler()));
        }
        loop {
            for wake in self.wait(signals, &timer, control)? {
                match wake {
                    Wake::Signal => {
                        if let Some(signal) = read_signal(signals)? {
                            if signal != Signal::SIGHUP || is_of_terminal() {
                                return Ok(End::Asked(signal));
                            }
                            self.reload();
                        }
                    }
                    Wake::Pass => {
                        timer.wait()?;
                        self.pass();
                    }
                    Wake::Search => {
                        let (changes, events) = self.helpers.found(&self.options.program)?;
                        self.take(changes, events);
                    }
                    Wake::Answered => self.answers.check()?,
                    Wake::Coop => self.coop.check()?,
                    Wake::Specs => {
                        if let Some(reserve) = &mut self.reserve {
                            reserve.check(self.core.scheduler())?;
                        }
                    }
                    Wake::Control => control.serve(|request, caller, stream| self.ask(&request, caller, stream)),
                    Wake::Helper(display) => {
                        let (changes, events) = self.helpers.read(&display);
                        self.take(changes, events);
                    }
                }
            }
            report(self.core.travel());
            if self.core.scheduler().has_exited() {
                return Ok(End::Ejected);
            }
        }
    }

    fn wait(&self, signals: &SignalFd, timer: &TimerFd, control: &Control) -> Result<Vec<Wake>> {
        let helpers: Vec<(&str, BorrowedFd<'_>)> = self.helpers.sockets().collect();
        let mut fixed =
            vec![signals.as_fd(), timer.as_fd(), self.helpers.search(), self.answers.as_fd(), self.coop.as_fd()];
        let mut wakes = vec![Wake::Signal, Wake::Pass, Wake::Search, Wake::Answered, Wake::Coop];
        if let Some(reserve) = &self.reserve {
            fixed.push(reserve.as_fd());
            wakes.push(Wake::Specs);
        }
        wakes.extend(helpers.iter().map(|(display, _)| Wake::Helper((*display).to_owned())));
        let sources = fixed.into_iter().chain(helpers.iter().map(|(_, fd)| *fd)).chain(control.sockets());
        let mut fds: Vec<PollFd<'_>> = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        let wake = |index: usize| wakes.get(index).cloned().unwrap_or(Wake::Control);
        Ok(fds.iter().enumerate().filter(|(_, fd)| ready(fd)).map(|(index, _)| wake(index)).collect())
    }

    fn pass(&mut self) {
        if self.options.settings.rates() {
            let changes = self.helpers.refresh(&self.options.program);
            self.take(changes, Vec::new());
        }
        report(self.core.pass());
        if let Some(reserve) = &mut self.reserve {
            report(reserve.pass(self.core.scheduler()));
        }
        let mut metrics = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.rated = self.core.rated();
        metrics.tracking = self.core.tracking().into();
        metrics.cooperative = self.coop.status().users.iter().map(|user| u64::from(user.processes)).sum();
        metrics.uptime_s = self.core.uptime_s();
        metrics.counters = self.core.counters();
    }

    fn take(&mut self, changes: Vec<Change>, events: Vec<policy::Event>) {
        for change in changes {
            match change {
                Change::Started(pid) => report(self.core.adopt_helper(pid)),
                Change::Ended(pid) => self.core.dismiss_helper(pid),
            }
        }
        for event in events {
            report(self.core.handle(event));
        }
    }

    /// Have a question answered; what is refused is refused here.
    fn ask(&mut self, request: &Request, caller: u32, stream: UnixStream) {
        match self.question(request, caller) {
            Ok(question) => self.answers.give(question, caller, stream),
            Err(error) => refuse(&stream, &format!("{error:#}")),
        }
    }

    fn question(&mut self, request: &Request, caller: u32) -> Result<Question> {
        let kernel = self.core.scheduler();
        match *request {
            Request::Status => Ok(Question::Status(Box::new(self.status()), self.core.snapshot()?)),
            Request::Explain { pid } => {
                let reservation = self.reserve.as_ref().and_then(|reserve| reserve.of(kernel, pid));
                // Without it, in want of descriptors say, the rest can be told.
                let standing = kernel.standing_reader().ok();
                let held = Held { reservation, login_left_ns: kernel.login_left_ns(pid), standing };
                Ok(Question::Explain(pid, Box::new(self.core.state().clone()), held))
            }
            Request::Graph if caller == 0 => Ok(Question::Graph(Box::new(self.core.state().clone()))),
            Request::Graph => bail!("the graph spans all users: ask as root (sudo limelight graph)"),
            Request::Reservations => {
                Ok(Question::Reservations(Box::new(reserving(&mut self.reserve, &self.options.settings)?.view(kernel))))
            }
            Request::Reserve { pid, runtime_us, period_us } => {
                let (runtime, period) = (Duration::from_micros(runtime_us), Duration::from_micros(period_us));
                let wish = Wish { pid, runtime, period };
                Ok(Question::Reserved(Box::new(
                    reserving(&mut self.reserve, &self.options.settings)?.request(kernel, caller, &wish)?,
                )))
            }
            Request::Release { pid } => {
                reserving(&mut self.reserve, &self.options.settings)?.release(kernel, caller, pid)?;
                Ok(Question::Released(pid))
            }
            Request::Reload if caller == 0 => {
                reserving(&mut self.reserve, &self.options.settings)?.read();
                Ok(Question::Reloading)
            }
            Request::Reload => {
                bail!("specifications are the administrator's: ask as root (sudo limelight spec reload)")
            }
        }
    }

    fn reload(&mut self) {
        match reserving(&mut self.reserve, &self.options.settings) {
            Ok(reserve) => reserve.read(),
            Err(error) => warn!("nothing to read again: {error:#}"),
        }
    }

    /// All but the processes.
    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION"),
            policy: self.options.settings.policy.name(),
            uptime_s: self.core.uptime_s(),
            tracking: self.core.tracking(),
            displays: self.helpers.status(),
            cooperative: self.coop.status(),
            processes: Vec::new(),
            counters: self.core.counters(),
        }
    }
}

fn reserving<'a>(reserve: &'a mut Option<&mut Reserve>, settings: &Settings) -> Result<&'a mut Reserve> {
    let policy = settings.policy.name();
    reserve
        .as_deref_mut()
        .ok_or_else(|| anyhow!("there are no reservations with --policy {policy}: start limelight run without it"))
}

/// Was the daemon started in a terminal? Then SIGHUP says that this has gone, and from others it asks for the files to be read again, as is usual.
fn is_of_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

fn read_signal(signals: &SignalFd) -> Result<Option<Signal>> {
    let Some(info) = signals.read_signal()? else { return Ok(None) };
    Ok(i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok()))
}

#[cfg(test)]
mod tests;
