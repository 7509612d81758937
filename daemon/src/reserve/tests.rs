// SPDX-License-Identifier: GPL-2.0-only
use std::path::Path;

use limelight_spec::Trust;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;
use crate::kernel::fake::{Call, Fake};

/// Far longer than a thread takes to get a CPU on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const PERSON: u32 = 1000;

fn reserve(folder: &Path) -> Reserve {
    let places =
        Places { folders: vec![folder.to_owned()], files: Vec::new(), trust: Trust::Anyone, must_exist: false };
    Reserve::start(places).unwrap()
}

/// Wait for what the thread found, and let it take effect, until it has nothing to do.
fn settle(reserve: &mut Reserve, kernel: &Fake) {
    while reserve.under_way_since.is_some() {
        take(reserve, kernel);
    }
}

/// Wait for the next that the thread found, and let it take effect.
fn take(reserve: &mut Reserve, kernel: &Fake) {
    let timeout = PollTimeout::try_from(PATIENCE).unwrap();
    assert_eq!(poll(&mut [PollFd::new(reserve.as_fd(), PollFlags::POLLIN)], timeout).unwrap(), 1);
    reserve.check(kernel).unwrap();
}

fn wish(pid: u32, runtime_ms: u64, period_ms: u64) -> Wish {
    Wish { pid, runtime: Duration::from_millis(runtime_ms), period: Duration::from_millis(period_ms) }
}

/// What the files say is told to the scheduler, with who runs it; another line takes effect when they are read again, and without
/// one the file is forgotten and its reservations end.
#[test]
fn specifications_take_effect_and_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tab");
    let own = std::env::current_exe().unwrap();
    std::fs::write(&file, format!("{}:Iact:5:30:R:-:-\n", own.display())).unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    let told: Vec<ll_spec> = kernel.specs.borrow().values().copied().collect();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].runtime_ns, told[0].period_ns, told[0].flags), (5_000_000, 30_000_000, LL_SPEC_REVOCABLE));
    assert!(kernel.take_calls().contains(&Call::Adopt(std::process::id())), "it runs already");

    let held = ll_reservation {
        tgid: std::process::id(),
        spec: told[0].id,
        state: LL_RESERVATION_ADMITTED,
        ..ll_reservation::default()
    };
    let held = ll_reservation { runtime_ns: 5_000_000, period_ns: 30_000_000, flags: LL_SPEC_REVOCABLE, ..held };
    kernel.reservations.borrow_mut().insert(1, held);
    reserve.read();
    settle(&mut reserve, &kernel);
    assert!(kernel.take_calls().is_empty(), "who holds just that is left alone");

    std::fs::write(&file, format!("{}:Iact:6:30:R:-:-\n", own.display())).unwrap();
    reserve.read();
    settle(&mut reserve, &kernel);
    assert_eq!(kernel.specs.borrow().values().next().unwrap().runtime_ns, 6_000_000);
    assert!(kernel.take_calls().contains(&Call::Adopt(std::process::id())), "it asks for something else now");

    let line = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    reserve.read();
    settle(&mut reserve, &kernel);
    assert!(kernel.specs.borrow().is_empty() && kernel.reservations.borrow().is_empty());

    let ended = ll_reservation { runtime_ns: 6_000_000, state: LL_RESERVATION_RETIRED, ..held };
    kernel.reservations.borrow_mut().insert(1, ended);
    kernel.take_calls();
    std::fs::write(&file, line).unwrap();
    reserve.read();
    settle(&mut reserve, &kernel);
    assert!(
        kernel.take_calls().contains(&Call::Adopt(std::process::id())),
        "its line is back, and what it held has ended"
    );
}

/// Each flag that a line may have is told to the scheduler, and shown of who holds it.
#[test]
fn each_flag_is_told_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tab");
    for letter in limelight_spec::fields::FLAG_LETTERS.chars() {
        let own = std::env::current_exe().unwrap();
        std::fs::write(&file, format!("{}:Iact:5:30:{letter}:-:-\n", own.display())).unwrap();
        let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
        settle(&mut reserve, &kernel);
        let told = *kernel.specs.borrow().values().next().unwrap();
        let held = ll_reservation { tgid: 100, spec: told.id, flags: told.flags, ..ll_reservation::default() };
        kernel.reservations.borrow_mut().insert(1, held);
        let seen = reserve.of(&kernel, 100).unwrap();
        let flags = [seen.inheritable, seen.revocable, seen.login, seen.interactive_parent];
        assert_eq!(flags, ['I', 'R', 'L', 'P'].map(|flag| flag == letter));
    }
}

/// Who executes a program while its specification is being told to the scheduler, which does not notice that yet, is looked for after that.
#[test]
fn who_begins_while_the_scheduler_is_told_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    std::fs::write(folder.path().join("a.tab"), format!("{}:Iact:5:30:R:-:-\n", own.display())).unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    take(&mut reserve, &kernel);
    assert_eq!(kernel.specs.borrow().len(), 1);
    assert!(!kernel.take_calls().contains(&Call::Adopt(std::process::id())), "nobody is looked for before");
    take(&mut reserve, &kernel);
    assert!(kernel.take_calls().contains(&Call::Adopt(std::process::id())));
}

/// A new scheduler is told what the last one knew, before anything is read again.
#[test]
fn a_new_scheduler_is_told_everything() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{}:Iact:5:30:R:-:-\n", std::env::current_exe().unwrap().display());
    std::fs::write(folder.path().join("a.tab"), line).unwrap();
    let (mut reserve, first, second) = (reserve(folder.path()), Fake::default(), Fake::default());
    settle(&mut reserve, &first);
    reserve.retell(&second).unwrap();
    assert_eq!(second.specs.borrow().len(), 1);
}

/// What a process used is of the time that has passed, which beside much load is more than the second that it should be.
#[test]
fn use_is_told_of_the_time_since_the_last_look() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    let mut held = ll_reservation { tgid: 100, state: LL_RESERVATION_ADMITTED, ..ll_reservation::default() };
    kernel.reservations.borrow_mut().insert(1, held);
    reserve.pass(&kernel).unwrap();
    let since = Instant::now();
    std::thread::sleep(Duration::from_millis(100));
    held.used_ns = 50_000_000;
    kernel.reservations.borrow_mut().insert(1, held);
    reserve.pass(&kernel).unwrap();
    let expected = 5000.0 / since.elapsed().as_millis() as f64;
    let used_pct = reserve.view(&kernel).reservations[0].used_pct;
    assert!((expected * 0.5..expected * 2.0).contains(&used_pct), "{used_pct} %, not {expected} %");
}

/// A user asks for their own processes, inside the bounds and up to the limit; root for any.
#[test]
fn requests_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    kernel.owners.borrow_mut().insert(7, 0);
    let mut ask = |uid, wish: Wish| {
        reserve.request(&kernel, uid, &wish).map(|held| held.state).map_err(|error| error.to_string())
    };
    assert_eq!(ask(PERSON, wish(100, 5, 100)), Ok("admitted"));
    assert!(ask(PERSON, wish(7, 5, 100)).unwrap_err().contains("not yours"));
    assert_eq!(ask(0, wish(7, 50, 100)), Ok("admitted"));
    for (bad, expected) in [
        (wish(101, 5, 20_000), "period"),
        (wish(101, 50, 30), "no more than the period"),
        (wish(101, 0, 30), "at least"),
        (wish(101, 5, 0), "period"),
        (Wish { pid: 101, runtime: Duration::MAX, period: Duration::MAX }, "period"),
        (Wish { pid: 101, runtime: Duration::MAX, period: Duration::from_millis(30) }, "no more than the period"),
    ] {
        // Whatever the uid: root has no other bounds.
        assert!(ask(0, bad).is_err());
        let error = ask(PERSON, bad).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert!(ask(PERSON, wish(101, 30, 100)).unwrap_err().contains("25 %"), "too much of a CPU");
    assert_eq!(ask(PERSON, wish(100, 25, 100)), Ok("admitted"), "to ask again for another figure is no second one");
    for pid in 102..102 + u32::try_from(MAX_REQUESTS).unwrap() {
        let _ = ask(PERSON + 1, wish(pid, 1, 1000));
    }
    assert!(ask(PERSON + 1, wish(120, 1, 1000)).unwrap_err().contains("9 reservations"));
}

/// What was asked for ends when who asked for it, or root, says so; the process is looked at again for what its executable has.
#[test]
fn a_request_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    assert!(reserve.release(&kernel, PERSON, 100).is_err(), "there is none");
    reserve.request(&kernel, PERSON, &wish(100, 5, 100)).unwrap();
    assert!(reserve.release(&kernel, PERSON + 1, 100).is_err(), "it is another user's");
    kernel.take_calls();
    reserve.release(&kernel, PERSON, 100).unwrap();
    assert!(kernel.take_calls().contains(&Call::Adopt(100)) && kernel.reservations.borrow().is_empty());
    reserve.request(&kernel, PERSON, &wish(100, 5, 100)).unwrap();
    assert!(reserve.release(&kernel, 0, 100).is_ok() && kernel.reservations.borrow().is_empty());
}

/// What the administrator wrote down for a program is not for its user to change.
#[test]
fn a_request_does_not_replace_a_specification() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    let held = ll_reservation { tgid: 100, spec: 3, state: LL_RESERVATION_ADMITTED, ..ll_reservation::default() };
    kernel.reservations.borrow_mut().insert(1, held);
    assert!(reserve.request(&kernel, PERSON, &wish(100, 5, 100)).unwrap_err().to_string().contains("administrator's"));
    assert!(reserve.request(&kernel, 0, &wish(100, 5, 100)).is_ok());
}

/// One of those that wait is given its reservation back in each window, who waits longest first.
#[test]
fn one_is_given_back_in_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    for (number, state, since_s) in
        [(1, LL_RESERVATION_REVOKED, 9), (2, LL_RESERVATION_REFUSED, 5), (3, LL_RESERVATION_ADMITTED, 1)]
    {
        let held = ll_reservation { tgid: 100 + number, state, since_s, ..ll_reservation::default() };
        kernel.reservations.borrow_mut().insert(number, held);
    }
    let given_back = |reserve: &mut Reserve| {
        (0..WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
        kernel.take_calls()
    };
    assert_eq!(
        given_back(&mut reserve),
        [Call::Reactivate(2), Call::Reactivate(1)],
        "no room: the next may be smaller"
    );
    kernel.has_room.set(true);
    assert_eq!(given_back(&mut reserve), [Call::Reactivate(2)], "one a window");
}

/// Who serves the person is given its reservation back before those that have waited longer; of several such the one that has waited longest.
#[test]
fn who_serves_the_person_is_given_it_back_first() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    let put = |number: u32, serves: u32, since_s: u64| {
        let state = LL_RESERVATION_REVOKED;
        let held = ll_reservation { tgid: 100 + number, state, serves, since_s, ..ll_reservation::default() };
        kernel.reservations.borrow_mut().insert(number, held);
    };
    for (number, serves, since_s) in [(1, 0, 1), (2, 1, 9), (3, 1, 8), (4, 0, 2)] {
        put(number, serves, since_s);
    }
    (0..WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
    assert_eq!(kernel.take_calls(), [3, 2, 1, 4].map(Call::Reactivate));
    // More than are tried that serve the person, and fit nowhere: half of the tries are for others.
    (10..10 + 2 * TRIED as u32).for_each(|number| put(number, 1, 0));
    (0..WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
    let tried = kernel.take_calls();
    assert_eq!(tried.len(), TRIED);
    assert_eq!(tried[TRIED / 2..TRIED / 2 + 2], [1, 4].map(Call::Reactivate));
}

/// Of more than are tried in a window that fit nowhere each is tried, in two windows, and then again.
#[test]
fn of_many_that_fit_nowhere_each_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    let all = 1..=2 * TRIED as u32;
    for number in all.clone() {
        let state = LL_RESERVATION_REFUSED;
        let held = ll_reservation { tgid: 100 + number, state, since_s: number.into(), ..ll_reservation::default() };
        kernel.reservations.borrow_mut().insert(number, held);
    }
    for _ in 0..2 {
        (0..2 * WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
        assert_eq!(kernel.take_calls(), all.clone().map(Call::Reactivate).collect::<Vec<_>>());
    }
    kernel.reservations.borrow_mut().clear();
    (0..WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
    assert!(reserve.tried.is_empty(), "nothing is kept of who has ended");
}

/// Who has more paged out than is free is not asked about, and told why, though it waits longest and the CPU has room; the next is given back in its place.
/// Once there is memory it is its turn at the next window, and what was told is no more.
#[test]
fn who_lacks_memory_waits_until_there_is_some() {
    let (folder, proc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut reserve, kernel) = (reserve(folder.path()), Fake::default());
    settle(&mut reserve, &kernel);
    reserve.proc = proc.path().to_owned();
    let available = |kb: u64| std::fs::write(proc.path().join("meminfo"), format!("MemAvailable: {kb} kB\n")).unwrap();
    let paged_out = |pid: u32, kb: u64| {
        let folder = proc.path().join(pid.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("status"), format!("VmSwap:\t{kb} kB\n")).unwrap();
    };
    let put = |number: u32, state: u32, since_s: u64| {
        let held = ll_reservation { tgid: 100 + number, state, since_s, ..ll_reservation::default() };
        kernel.reservations.borrow_mut().insert(number, held);
    };
    let told = |reserve: &Reserve| {
        let all = reserve.view(&kernel).reservations;
        all.into_iter().map(|held| (held.pid, held.short)).collect::<Vec<_>>()
    };
    let window = |reserve: &mut Reserve| {
        (0..WINDOW_PASSES).for_each(|_| reserve.pass(&kernel).unwrap());
        kernel.take_calls()
    };
    put(1, LL_RESERVATION_REVOKED, 5);
    put(2, LL_RESERVATION_REFUSED, 9);
    paged_out(101, 3000);
    paged_out(102, 0);
    available(2000);
    kernel.has_room.set(true);
    let short = Shortage { paged_out_kb: 3000, available_kb: Some(2000) };
    assert_eq!(window(&mut reserve), [Call::Reactivate(2)]);
    assert_eq!(told(&reserve), [(101, Some(short)), (102, None)]);
    // The next one is in front of it now, and has the window: what is told of it stays.
    put(2, LL_RESERVATION_REVOKED, 1);
    assert_eq!(window(&mut reserve), [Call::Reactivate(2)]);
    assert_eq!(told(&reserve), [(101, Some(short)), (102, None)]);
    put(2, LL_RESERVATION_ADMITTED, 10);
    assert_eq!(window(&mut reserve), [], "nobody else waits");
    available(4000);
    assert_eq!(window(&mut reserve), [Call::Reactivate(1)]);
    assert_eq!(told(&reserve), [(101, None), (102, None)]);
    // Admitted otherwise, by a look of the scheduler's own, it is told nothing of that any more, and who has ended lacks nothing.
    available(2000);
    assert_eq!(window(&mut reserve), []);
    put(1, LL_RESERVATION_ADMITTED, 11);
    assert_eq!(told(&reserve)[0], (101, None));
    put(3, LL_RESERVATION_REVOKED, 1);
    assert_eq!(window(&mut reserve), [Call::Reactivate(3)], "there is no process 103: the scheduler finds out");
    // However many of them wait longer, they are no tries.
    for number in 10..30 {
        put(number, LL_RESERVATION_REVOKED, 0);
        paged_out(100 + number, 3000);
    }
    assert_eq!(window(&mut reserve), [Call::Reactivate(3)]);
}
