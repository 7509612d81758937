// SPDX-License-Identifier: GPL-2.0-only
//! Real X servers, real programs and the watching code beside them.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use limelight_abi::sense::{ClientPeriod, MAX_PACKET_BYTES, SenseMessage};
use limelight_sense::{WatchError, WatchOptions, watch};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};

/// Longer than anything here takes on a machine that is busy with other builds.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the programs a test needs are installed; says so if not. `LIMELIGHT_NEED_PROGRAMS` makes that a failure.
pub fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !there(program)).collect();
    if missing.is_empty() {
        return true;
    }
    let hint = "apt-get install xvfb openbox xterm xdotool xcompmgr picom xauth";
    assert!(std::env::var_os("LIMELIGHT_NEED_PROGRAMS").is_none(), "{missing:?} missing: {hint}");
    eprintln!("skipped: {} missing ({hint})", missing.join(", "));
    false
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("a program of the test could not be started"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Has the process stand still, or go on.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An X server of 1000 × 800 pixels without a monitor.
pub struct Server {
    process: Running,
    pub number: u32,
}

impl Server {
    /// Starts one on a display that is free.
    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1"]).args(options);
        Self::launch(command)
    }

    /// Starts one on this display, which must be free.
    pub fn start_at(number: u32, options: &[&str]) -> Self {
        let mut command = Command::new("Xvfb");
        command.arg(format!(":{number}")).args(["-displayfd", "1"]).args(options);
        Self::launch(command)
    }

    pub fn launch(mut command: Command) -> Self {
        command.args(["-screen", "0", "1000x800x24", "-noreset"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Running::start(&mut command);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let number = line.trim().parse().expect("the X server did not start");
        Self { process, number }
    }

    pub fn name(&self) -> String {
        format!(":{}", self.number)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A program on this display.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", self.name()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Running {
        Running::start(self.command(program).args(arguments))
    }

    /// xdotool with these arguments, to its end.
    pub fn xdotool(&self, arguments: &str) {
        let status = self.command("xdotool").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "xdotool {arguments} failed");
    }

    /// Waits for a program that says when it is ready by owning a selection or by setting a root property.
    pub fn wait_for_window_manager(&self) {
        wait_until("the window manager is ready", || {
            let out = self.command("xprop").args(["-root", "_NET_SUPPORTING_WM_CHECK"]).stdout(Stdio::piped()).output();
            String::from_utf8_lossy(&out.unwrap().stdout).contains("window id")
        });
    }
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The watching code on a thread, and the daemon's end of its socket.
pub struct Watcher {
    socket: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<(), WatchError>>>,
}

impl Watcher {
    /// Starts watching and waits for the greeting.
    pub fn start(display: &str) -> Self {
        let mut watcher = Self::start_silently(display);
        watcher.wait_for("a greeting", |message| matches!(message, SenseMessage::Hello { .. }));
        watcher
    }

    pub fn start_silently(display: &str) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, report) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let display = display.to_owned();
        let thread = std::thread::spawn(move || watch(WatchOptions { display, report, owner: None }));
        Self { socket: Some(ours), thread: Some(thread) }
    }

    /// The next message within `patience`; `None` after that.
    pub fn next(&mut self, patience: Duration) -> Option<SenseMessage> {
        let socket = self.socket.as_ref().unwrap();
        let timeout = PollTimeout::try_from(patience.as_millis()).unwrap();
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, timeout).unwrap() == 0 {
            return None;
        }
        let mut packet = vec![0; MAX_PACKET_BYTES];
        let bytes = recv(socket.as_raw_fd(), &mut packet, MsgFlags::empty()).unwrap();
        (bytes > 0).then(|| SenseMessage::decode(&packet[..bytes]).unwrap())
    }

    /// The first message that `is_it`; what came before is dropped.
    pub fn wait_for(&mut self, what: &str, mut is_it: impl FnMut(&SenseMessage) -> bool) -> SenseMessage {
        let until = Instant::now() + PATIENCE;
        while let Some(message) = self.next(until.saturating_duration_since(Instant::now())) {
            if is_it(&message) {
                return message;
            }
        }
        panic!("waited in vain for {what}");
    }

    /// Everything said in the next `time`.
    pub fn listen(&mut self, time: Duration) -> Heard {
        let until = Instant::now() + time;
        let mut heard = Heard::default();
        while let Some(message) = self.next(until.saturating_duration_since(Instant::now())) {
            heard.0.push(message);
        }
        heard
    }

    /// Closes the daemon's end; what the watching code returns then.
    pub fn finish(mut self) -> Result<(), WatchError> {
        self.socket = None;
        self.thread.take().unwrap().join().unwrap()
    }

    /// What the watching code returns by itself.
    pub fn result(mut self) -> Result<(), WatchError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.socket = None;
        // A test that failed may have left the watching code stuck; the failure must be told all the same.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _ = thread.join();
        }
    }
}

/// Messages over some time.
#[derive(Debug, Default)]
pub struct Heard(pub Vec<SenseMessage>);

impl Heard {
    fn clients(&self) -> impl Iterator<Item = &ClientPeriod> {
        self.0.iter().flat_map(|message| match message {
            SenseMessage::Period { clients } => clients.as_slice(),
            _ => &[],
        })
    }

    /// Processes that received input.
    pub fn input(&self) -> HashSet<u32> {
        let periods = self.clients().filter(|client| client.input).map(|client| client.pid);
        let at_once = self.0.iter().filter_map(|message| match message {
            SenseMessage::Input { pid } => Some(*pid),
            _ => None,
        });
        periods.chain(at_once).collect()
    }

    /// Processes whose change was told at once.
    pub fn output_at_once(&self) -> HashSet<u32> {
        let told = self.0.iter().filter_map(|message| match message {
            SenseMessage::Output { pid, .. } => Some(*pid),
            _ => None,
        });
        told.collect()
    }

    /// The window manager last told of.
    pub fn manager(&self) -> Option<u32> {
        let told = |message: &SenseMessage| match message {
            SenseMessage::Manager { pid } => Some(*pid),
            _ => None,
        };
        self.0.iter().rev().find_map(told)
    }

    /// What `pid` changed, summed over the periods, in % of the screen.
    pub fn changed_pct(&self, pid: u32) -> f64 {
        self.clients().filter(|client| client.pid == pid).map(|client| client.changed_pct).sum()
    }
}

/// The example program, which can be a helper.
pub fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples/watch")
}
