// SPDX-License-Identifier: GPL-2.0-only
//! The immediate path from an event to what the scheduler is told, in its order. That BPF records the edges is tested in virtual machines.

use limelight_policy::Settings;

use super::*;
use crate::kernel::fake::{Call, Fake};

/// Pids that no process has, so that nothing of this machine's is mixed in.
const CLIENT: u32 = 5_000_001;
const SHELL: u32 = 5_000_002;
const STRANGER: u32 = 5_000_003;

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
/// person waits for it; then the edge is read and the shell has the same rating, without waiting for the pass of the second.
#[test]
fn input_reaches_whom_the_client_woke_before_its_report() {
    let (mut core, fake) = core();
    fake.record(CLIENT, SHELL);
    fake.record(STRANGER, STRANGER + 1);
    core.handle(input(CLIENT)).unwrap();
    let calls = fake.take_calls();
    let told = [Call::Set(CLIENT, FULL_MILLI), Call::Publish(Some(CLIENT)), Call::Drain];
    assert_eq!(calls[..3], told, "{calls:?}");
    assert!(calls[3..].contains(&Call::Set(SHELL, FULL_MILLI)), "{calls:?}");
    assert!(matches!(calls.last(), Some(Call::Publish(_))), "{calls:?}");
    assert!(!calls.iter().any(|call| matches!(call, Call::Set(STRANGER.., _))), "{calls:?}");
    assert_eq!(core.told.get(&SHELL).map(|rating| rating.indirect), Some(true));
}

/// Where nothing was recorded, and for a client that is rated already, the edges are not read: that takes longer than all the rest.
#[test]
fn edges_are_read_only_where_there_may_be_some() {
    let (mut core, fake) = core();
    core.handle(input(CLIENT)).unwrap();
    assert_eq!(fake.take_calls(), [Call::Set(CLIENT, FULL_MILLI), Call::Publish(Some(CLIENT))]);
    fake.record(CLIENT, SHELL);
    core.handle(input(CLIENT)).unwrap();
    assert_eq!(fake.take_calls(), []);
}
