// SPDX-License-Identifier: GPL-2.0-only
//! The whole loop over a scheduler of the test's own: real sockets and a real timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use limelight_sense::displays::Display;

use super::*;
use crate::control::ask;
use crate::kernel::fake::Fake;

/// Far longer than anything here takes on a busy machine but what is made to hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon's loop on a thread of its own.
struct Loop {
    result: Receiver<Result<()>>,
    exited: Arc<AtomicBool>,
    socket: PathBuf,
}

impl Loop {
    /// Run it, with displays found by `find`.
    fn start(test: &str, find: impl FnMut(&[String]) -> Vec<Display> + Send + 'static) -> Self {
        let folder = std::env::temp_dir().join(format!("limelight-loop-{test}-{}", std::process::id()));
        let socket = folder.join("control.sock");
        let mut control = Control::bind(&socket).unwrap();
        let exited = Arc::new(AtomicBool::new(false));
        let (sender, result) = channel();
        let ejected = Arc::clone(&exited);
        std::thread::spawn(move || {
            let session = || {
                let options = Options {
                    settings: Settings::default(),
                    policy: policy::Settings::default(),
                    program: "/nowhere/limelight".into(),
                };
                let mut helpers = Helpers::new(Search::with(find)?);
                let memory = Memory::new(policy::State::new(options.policy.clone())?);
                let core = Core::new(Fake { exited: ejected, ..Fake::default() }, memory)?;
                let shared = Shared::default();
                let mut session = Session { options: &options, core, helpers: &mut helpers, shared: &shared };
                session.run(&SignalFd::new(&SigSet::empty())?, &mut control).map(|_| ())
            };
            sender.send(session()).unwrap();
        });
        Self { result, exited, socket }
    }

    /// Take the scheduler off, and hear how the loop ended: it looks once a second.
    fn end(self) -> Result<()> {
        self.exited.store(true, Ordering::Relaxed);
        let result = self.result.recv_timeout(PATIENCE).expect("the loop does not end");
        fs::remove_dir_all(self.socket.parent().unwrap()).unwrap();
        result
    }
}

/// A search that hangs, in a home on a network that is down, keeps neither who asks waiting nor the loop from ending.
#[test]
fn a_search_that_hangs_does_not_delay_the_loop() {
    let (began, searching) = channel();
    let (_never, release) = channel::<()>();
    let daemon = Loop::start("hangs", move |_| {
        began.send(()).unwrap();
        let _ = release.recv();
        Vec::new()
    });
    searching.recv_timeout(PATIENCE).expect("no search began");
    let asked = Instant::now();
    let answer = ask(&daemon.socket, &Request::Status).unwrap();
    // An answer takes a millisecond; the rest is for a machine on which many others run, and far from for ever.
    assert!(asked.elapsed() < Duration::from_secs(3), "the answer took {:?}", asked.elapsed());
    assert_eq!(answer["displays"].as_array().map(Vec::len), Some(0), "{answer}");
    daemon.end().unwrap();
}

/// What a search finds is watched, or said why not.
#[test]
fn what_is_found_is_shown() {
    let daemon = Loop::start("found", |_| {
        let uid = nix::unistd::getuid().as_raw();
        vec![Display { name: ":7".into(), uid, gid: uid, xauthority: None, server_pid: std::process::id() }]
    });
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask(&daemon.socket, &Request::Status).unwrap();
        if answer["displays"][0]["state"].as_str().is_some_and(|state| state.contains("/nowhere/limelight")) {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon.end().unwrap();
}

/// A daemon that would find no display any more ends, and says why: whoever started it starts it again.
#[test]
fn a_search_that_fails_ends_the_daemon() {
    let daemon = Loop::start("fails", |_| panic!("this panic is part of a test"));
    let error = daemon.result.recv_timeout(PATIENCE).expect("the daemon goes on").unwrap_err().to_string();
    assert!(error.contains("\"displays\" has ended by itself"), "{error}");
    fs::remove_dir_all(daemon.socket.parent().unwrap()).unwrap();
}
