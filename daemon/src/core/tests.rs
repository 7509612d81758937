// SPDX-License-Identifier: GPL-2.0-only
//! The immediate path from an event to what the scheduler is told, in its order. That BPF records the edges is tested in virtual machines.

use limelight_policy::Settings;

use super::*;
use crate::kernel::fake::{Call, Fake};

/// Pids that no process has, so that nothing of this machine's is mixed in.
const CLIENT: u32 = 5_000_001;
const SHELL: u32 = 5_000_002;
const OTHER_CLIENT: u32 = 5_000_003;
const OTHER_SHELL: u32 = 5_000_004;
const STRANGER: u32 = 5_000_005;

/// K (10 s) in thousandths: the rating of who has just received input.
const FULL_MILLI: u32 = 10_000;

fn core() -> (Core<Fake>, Fake) {
    let fake = Fake::default();
    let core = Core::new(fake.clone(), Memory::new(State::new(Settings::default()).unwrap())).unwrap();
    fake.take_calls();
    (core, fake)
}

fn input(pid: u32) -> Event {
    Event::Input { pid: pid.into(), display: ":0".into() }
}

/// A key for an unrated terminal whose shell it has woken before anybody could report the key: the terminal is told and published first, for the
/// person waits for it; then the edge is read and the shell has the same rating, and where its tasks wait they change queue at once.
#[test]
fn input_reaches_whom_the_client_woke_before_its_report() {
    let (mut core, fake) = core();
    fake.record(CLIENT, SHELL);
    fake.record(STRANGER, STRANGER + 1);
    core.handle(input(CLIENT)).unwrap();
    assert_eq!(fake.take_calls(), [Call::Set(CLIENT, FULL_MILLI), Call::Publish(Some(CLIENT))]);
    core.travel().unwrap();
    let calls = fake.take_calls();
    assert_eq!(calls.first(), Some(&Call::Drain), "{calls:?}");
    assert!(calls.contains(&Call::Set(SHELL, FULL_MILLI)), "{calls:?}");
    assert_eq!(calls.last(), Some(&Call::Publish(Some(SHELL))), "{calls:?}");
    assert!(!calls.iter().any(|call| matches!(call, Call::Set(STRANGER.., _))), "{calls:?}");
    assert_eq!(core.told.ratings().get(&SHELL).map(|rating| rating.indirect), Some(true));
}

/// The clients that one key reaches (a terminal, a panel, an input method) are all told before the edges are read, and those once for all.
#[test]
fn clients_do_not_wait_for_each_others_edges() {
    let (mut core, fake) = core();
    fake.record(CLIENT, SHELL);
    fake.record(OTHER_CLIENT, OTHER_SHELL);
    core.handle(input(CLIENT)).unwrap();
    core.handle(input(OTHER_CLIENT)).unwrap();
    core.travel().unwrap();
    core.travel().unwrap();
    let calls = fake.take_calls();
    let told = calls.iter().position(|call| *call == Call::Publish(Some(OTHER_CLIENT)));
    let drains: Vec<usize> = (0..calls.len()).filter(|&at| calls[at] == Call::Drain).collect();
    assert!(drains.len() == 1 && told.is_some_and(|told| told < drains[0]), "{calls:?}");
    for shell in [SHELL, OTHER_SHELL] {
        assert!(calls.contains(&Call::Publish(Some(shell))), "{shell}: {calls:?}");
    }
}

/// Where nothing was recorded, and for a client that is rated already, the edges are not read: that takes longer than all the rest.
#[test]
fn edges_are_read_only_where_there_may_be_some() {
    let (mut core, fake) = core();
    core.handle(input(CLIENT)).unwrap();
    core.travel().unwrap();
    assert_eq!(fake.take_calls(), [Call::Set(CLIENT, FULL_MILLI), Call::Publish(Some(CLIENT))]);
    fake.record(CLIENT, SHELL);
    core.handle(input(CLIENT)).unwrap();
    core.travel().unwrap();
    assert_eq!(fake.take_calls(), []);
}

/// One client that has woken a crowd: no more of it change queue at once than is bearable, the client first, and all are told.
#[test]
fn a_crowd_changes_queue_in_its_turn() {
    let (mut core, fake) = core();
    (0..100).for_each(|n| fake.record(CLIENT, STRANGER + n));
    core.handle(input(CLIENT)).unwrap();
    core.travel().unwrap();
    let calls = fake.take_calls();
    let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    assert_eq!(count(|call| matches!(call, Call::Publish(Some(CLIENT)))), 1);
    assert_eq!(count(|call| matches!(call, Call::Publish(_))), 1 + MAX_AT_ONCE);
    let told: BTreeSet<u32> =
        calls.iter().filter_map(|call| if let Call::Set(pid, FULL_MILLI) = call { Some(*pid) } else { None }).collect();
    assert_eq!(told.len(), 101);
}

/// When the last who served the person ends, wake-ups are recorded no longer: the scheduler drops its entry, and is told that nobody is left.
#[test]
fn nobody_is_tracked_when_the_last_has_ended() {
    let (mut core, fake) = core();
    core.pass().unwrap();
    core.handle(input(CLIENT)).unwrap();
    assert!(fake.tracking.get());
    fake.ratings.borrow_mut().remove(&CLIENT);
    core.pass().unwrap();
    assert!(!fake.tracking.get() && !core.tracking());
}

/// A child of the window manager's that was given a rating at its fork, and has ended before anybody looked, leaves nobody tracked.
#[test]
fn nobody_is_tracked_for_whom_the_scheduler_alone_knew() {
    let (mut core, fake) = core();
    core.pass().unwrap();
    fake.tracking.set(true);
    core.pass().unwrap();
    assert!(!fake.tracking.get() && !core.tracking());
}
