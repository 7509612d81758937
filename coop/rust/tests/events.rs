// SPDX-License-Identifier: MIT
//! What the crate adds to libcoop: closures, handles, errors and panics. The order of events is tested in C (coop/tests).

use coop::{Coop, Promise, Readiness, Sleep, Time, Token};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write, pipe};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// Without the daemon that may run on this machine. Every test has a thread, and so a scheduler, of its own.
#[allow(clippy::expect_used)]
fn new_coop() -> Coop {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the first call of every test, before the library or another thread has looked.
    ONCE.call_once(|| unsafe { std::env::set_var("COOP_SOCKET", "") });
    Coop::new().expect("a Coop")
}

/// Callbacks say what is next: three ticks 5 ms apart, none early, and five pieces of best-effort work by user virtual time. There is no promise, for
/// limelight is not here.
#[test]
fn callbacks_say_what_is_next() {
    let coop = new_coop();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (start, ticks, pieces) = (Time::now(), Rc::clone(&seen), Rc::clone(&seen));
    let _ticks = coop
        .timer(start, move |coop, release| {
            assert!(Time::now() >= release);
            ticks.borrow_mut().push((release - start).as_millis() as u64);
            if release - start == Duration::from_millis(10) {
                assert!(coop.stop());
            }
            Some(release + Duration::from_millis(5))
        })
        .expect("a timer");
    let mut next = 100;
    let _pieces = coop
        .best_effort(next, move |_| {
            pieces.borrow_mut().push(next);
            next += 1;
            (next < 105).then_some(next)
        })
        .expect("work");
    coop.run().expect("a run");
    let (pieces, ticks): (Vec<u64>, Vec<u64>) = seen.borrow().iter().partition(|&&number| number >= 100);
    assert_eq!(pieces, [100, 101, 102, 103, 104]);
    assert_eq!(ticks, [0, 5, 10]);
    assert_eq!(coop::promise(), Promise::None);
    assert_eq!(coop::promise_error().map(|error| error.kind()), Some(ErrorKind::NotConnected));
}

/// A dropped handle takes its event back, which frees what the closure owned; a detached one does not; one that is cancelled in its own callback
/// does not come again.
#[test]
fn a_handle_is_the_event() {
    let coop = new_coop();
    let owned = Rc::new(());
    let ran = Rc::new(Cell::new(0));
    let (first, second, third) = (Rc::clone(&owned), Rc::clone(&ran), Rc::clone(&ran));
    let dropped = coop.timer(Time::now(), move |_, _| panic!("{first:?} runs")).expect("a timer");
    assert_eq!(Rc::strong_count(&owned), 2);
    drop(dropped);
    assert_eq!(Rc::strong_count(&owned), 1);
    coop.timer(Time::now(), move |_, _| {
        second.set(second.get() + 1);
        None
    })
    .expect("a timer")
    .detach();
    let own = Rc::new(RefCell::new(None));
    let mine = Rc::clone(&own);
    *own.borrow_mut() = Some(
        coop.timer(Time::now(), move |_, release| {
            third.set(third.get() + 10);
            assert!(mine.borrow().as_ref().is_some_and(|event: &coop::Event| !event.cancel()));
            (third.get() < 100).then_some(release)
        })
        .expect("a timer"),
    );
    assert_eq!(coop.run().expect_err("nothing is left").kind(), ErrorKind::NotFound);
    assert_eq!(ran.get(), 11);
}

/// A Coop that goes first leaves its handles harmless, and frees what their closures own.
#[test]
fn a_coop_may_go_first() {
    let owned = Rc::new(());
    let coop = new_coop();
    let kept = Rc::clone(&owned);
    let event = coop.best_effort(1, move |_| Some(Rc::strong_count(&kept) as u64)).expect("work");
    drop(coop);
    assert!(!event.cancel());
    drop(event);
    assert_eq!(Rc::strong_count(&owned), 1);
    drop(new_coop());
}

/// A callback's panic comes out of run(), with its message; afterwards other events run.
#[test]
fn a_panic_passes_through() {
    let coop = new_coop();
    coop.timer(Time::now(), |_, _| panic!("out of frames")).expect("a timer").detach();
    let panic = catch_unwind(AssertUnwindSafe(|| coop.run())).expect_err("a panic");
    assert_eq!(panic.downcast_ref(), Some(&"out of frames"));
    coop.timer(Time::now(), |_, _| None).expect("a timer").detach();
    assert_eq!(coop.dispatch(Some(Duration::ZERO)).expect("a dispatch"), 1);
}

/// A descriptor's callback has its source and what it is ready for, until it breaks, which closes the source.
#[test]
fn a_descriptor_is_owned() {
    let coop = new_coop();
    let (reader, mut writer) = pipe().expect("a pipe");
    writer.write_all(b"ab").expect("a write");
    let read = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&read);
    let _event = coop
        .descriptor(reader, Readiness::READABLE, move |coop, reader, ready| {
            assert!(ready.contains(Readiness::READABLE));
            let mut byte = [0];
            reader.read_exact(&mut byte).expect("a byte");
            seen.borrow_mut().push(byte[0]);
            if byte[0] == b'a' {
                return ControlFlow::Continue(());
            }
            coop.stop();
            ControlFlow::Break(())
        })
        .expect("a descriptor");
    coop.run().expect("a run");
    assert_eq!(*read.borrow(), b"ab");
    assert_eq!(writer.write_all(b"c").expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
}

/// A source that the callback exchanges for another one is waited for from then on.
#[test]
fn a_descriptor_may_be_exchanged() {
    let coop = new_coop();
    let (first, mut to_first) = pipe().expect("a pipe");
    let (second, mut to_second) = pipe().expect("a pipe");
    let mut second = Some(second);
    let got = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&got);
    let _event = coop
        .descriptor(first, Readiness::READABLE, move |_, source, _| {
            let mut byte = [0];
            source.read_exact(&mut byte).expect("a byte");
            seen.borrow_mut().push(byte[0]);
            second.take().map_or(ControlFlow::Break(()), |next| {
                *source = next;
                ControlFlow::Continue(())
            })
        })
        .expect("a descriptor");
    to_first.write_all(b"a").expect("room");
    to_second.write_all(b"b").expect("room");
    for _ in 0..2 {
        assert_eq!(coop.dispatch(Some(Duration::from_secs(1))).expect("it runs"), 1);
    }
    assert_eq!(*got.borrow(), b"ab");
}

/// Errors are the C library's: EBUSY for a second Coop, a sleep beside it and a run in a run; EINVAL for never, ENOENT for nothing to run; and a release of
/// never that a callback returns ends the run with EINVAL.
#[test]
fn errors_are_io_errors() {
    let coop = new_coop();
    assert_eq!(Coop::new().err().map(|error| error.kind()), Some(ErrorKind::ResourceBusy));
    assert_eq!(Sleep::until(None).err().map(|error| error.kind()), Some(ErrorKind::ResourceBusy));
    assert_eq!(coop.run().expect_err("nothing").kind(), ErrorKind::NotFound);
    let never = Time::from_nanos(u64::MAX);
    assert_eq!(coop.timer(never, |_, _| None).err().map(|error| error.kind()), Some(ErrorKind::InvalidInput));
    assert_eq!(coop::poll(0, None, None).expect_err("neither").kind(), ErrorKind::InvalidInput);
    coop.timer(Time::now(), move |coop, _| {
        assert_eq!(coop.run().expect_err("a run in a run").kind(), ErrorKind::ResourceBusy);
        Some(never)
    })
    .expect("a timer")
    .detach();
    assert_eq!(coop.run().expect_err("never").kind(), ErrorKind::InvalidInput);
}

/// Without a Coop: poll() sleeps until the release, not shorter, and a sleep of one's own begins and ends; nobody advises.
#[test]
fn the_calls_beneath_work() {
    drop(new_coop());
    let release = Time::now() + Duration::from_millis(10);
    let advice = coop::poll(0, Some(release), None).expect("a sleep");
    assert!(Time::now() >= release);
    assert_eq!((advice.yield_by, advice.user_virtual_time), (None, None));
    assert_eq!(Sleep::until(Some(release)).expect("a sleep").end(), None);
    drop(Sleep::until(None).expect("a sleep"));
}

/// Without limelight nobody shares a group or is let into one, and each call says so; nobody's group is refused before that. A token goes out and in as it is,
/// and is not shown.
#[test]
fn without_limelight_no_group_is_shared() {
    drop(new_coop());
    let token = Token::from_bytes(*b"0123456789abcdef");
    assert_eq!((token.as_bytes(), format!("{token:?}").as_str()), (b"0123456789abcdef", "Token(..)"));
    let results =
        [coop::share_group(7).map(drop), coop::unshare_group(7), coop::join_group(7, &token), coop::leave_group(7)];
    assert!(results.into_iter().all(|result| result.is_err_and(|error| error.kind() == ErrorKind::NotConnected)));
    assert_eq!(coop::join_group(0, &token).expect_err("nobody's").kind(), ErrorKind::InvalidInput);
}

/// The example shows or drops ten frames, in order, and says that there is no promise, and why.
#[test]
fn the_example_shows_or_drops_every_frame() {
    let mut folder = std::env::current_exe().expect("this program");
    folder.pop();
    folder.pop();
    let output = Command::new(folder.join("examples/plain")).env("COOP_SOCKET", "").output().expect("the example");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().take(10).enumerate() {
        assert!(line.starts_with(&format!("frame {number} ")), "{line}");
    }
    let reason = "Transport endpoint is not connected (os error 107)";
    assert_eq!(lines.get(10), Some(&format!("no promise ({reason}): timing as the kernel gives it").as_str()));
}

/// A function of the library has this name, too; what each of them calls is its own.
#[unsafe(no_mangle)]
extern "C" fn queue_push() {
    panic!("libcoop has called the program's own function");
}
