// SPDX-License-Identifier: GPL-2.0-only
//! The whole loop over a scheduler of the test's own: real sockets and a real timer.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use limelight_abi::sched::{LL_RATING_LENT, ll_rating};
use limelight_sense::displays::Display;

use super::*;
use crate::control::ask;
use crate::coop::fake::Pages;
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
        Self::start_with(test, find, Fake::default)
    }

    /// The same over a scheduler that `kernel` makes.
    fn start_with(
        test: &str,
        find: impl FnMut(&[String]) -> Vec<Display> + Send + 'static,
        kernel: impl FnOnce() -> Fake + Send + 'static,
    ) -> Self {
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
                    coop_pages_per_user: 1,
                    program: "/nowhere/limelight".into(),
                };
                let mut helpers = Helpers::new(Search::with(find)?);
                let memory = Memory::new(policy::State::new(options.policy.clone())?);
                let core = Core::new(Fake { exited: ejected, ..kernel() }, memory)?;
                let shared = Shared::default();
                let mut answers = Answers::start()?;
                let mut coop = Coop::start(&folder.join("coop.sock"), 1, Ok(Pages::default()))?;
                let (helpers, answers, coop) = (&mut helpers, &mut answers, &mut coop);
                let mut session =
                    Session { options: &options, core, helpers, answers, coop, reserve: None, shared: &shared };
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
        vec![Display {
            name: ":7".into(),
            uid,
            gid: uid,
            home: "/".into(),
            xauthority: None,
            server_pid: std::process::id(),
        }]
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

/// An answer that takes for ever keeps neither the loop from the next request nor the loop from ending.
#[test]
fn an_answer_that_hangs_does_not_delay_the_loop() {
    let (began, answering) = channel();
    let (_never, release) = channel::<()>();
    let (began, release) = (Mutex::new(began), Mutex::new(release));
    let hang = move |_| {
        began.lock().unwrap().send(()).unwrap();
        let _ = release.lock().unwrap().recv();
        None
    };
    let daemon = Loop::start_with(
        "answer",
        |_| Vec::new(),
        || {
            // The first pass takes over what the scheduler gave by itself.
            let lent = ll_rating { in_milli: 5000, flags: LL_RATING_LENT, from_tgid: 1, ..ll_rating::default() };
            let fake = Fake { stats: Some(Arc::new(hang)), ..Fake::default() };
            fake.ratings.borrow_mut().insert(std::os::unix::process::parent_id(), lent);
            fake
        },
    );
    let socket = daemon.socket.clone();
    std::thread::spawn(move || {
        while let Ok(answer) = ask(&socket, &Request::Status) {
            assert_eq!(answer["processes"].as_array().map(Vec::len), Some(0), "{answer}");
        }
    });
    answering.recv_timeout(PATIENCE).expect("no answer was begun");
    let asked = Instant::now();
    let mut stream = UnixStream::connect(&daemon.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"nonsense\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("not a request"), "{text}");
    // As for a search that hangs.
    assert!(asked.elapsed() < Duration::from_secs(3), "the answer took {:?}", asked.elapsed());
    daemon.end().unwrap();
}
