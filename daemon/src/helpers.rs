// SPDX-License-Identifier: GPL-2.0-only
//! The helpers: one per display, run as the display's owner, and what they report as events of the policy.
//!
//! A helper is not trusted. Its packets are checked by `limelight_abi::sense`, the processes that it names by
//! [`procfs::belongs_to`], and one that breaks the rules is ended and tried again later.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use limelight_abi::sense::SenseMessage;
use limelight_policy::{ClientPeriod, DisplayId, Event};
use limelight_sense::displays::Display;
use limelight_sense::spawn::{Helper, ReceiveError, reap, spawn_helper};
use log::{info, warn};

use crate::allowance::{Allowance, Verdict, named};
use crate::procfs;
use crate::search::Search;
use crate::view::DisplayStatus;

/// A helper that ended is started again after this long, twice as long after each further time, at most `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Packets that are read from one helper before the others have their turn.
const MAX_PACKETS_AT_ONCE: usize = 64;

/// Likewise clients that they name, each of which costs a look into `/proc`: the packet that goes beyond is the last one.
const MAX_NAMED_AT_ONCE: usize = 256;

/// Characters of what is shown about a display.
const MAX_STATE_CHARS: usize = 300;

/// Displays of one user that are watched: each costs a process. A person has one or two; whoever starts X servers by the
/// hundred (tests do) is no person.
const MAX_DISPLAYS_PER_USER: usize = 8;

struct Watch {
    display: Display,
    helper: Option<Helper>,
    state: String,
    /// Why the display cannot be watched, by its helper.
    told: Option<String>,
    retry_at: Instant,
    retry_after: Duration,
    present: bool,
}

/// Every display and its helper.
pub struct Helpers {
    watches: BTreeMap<String, Watch>,
    /// What the helpers of each user have taken in this second.
    taken: BTreeMap<u32, Allowance>,
    search: Search,
}

/// What became of the helpers' processes.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// This process is a helper now.
    Started(u32),
    /// This one is none any more.
    Ended(u32),
}

impl Helpers {
    /// None yet; displays are found by `search`.
    #[must_use]
    pub fn new(search: Search) -> Self {
        Self { watches: BTreeMap::new(), taken: BTreeMap::new(), search }
    }

    /// Once a second: begin to look for displays that came or went, and start the helpers that are missing. `program` is the `limelight`
    /// binary.
    pub fn refresh(&mut self, program: &Path) -> Vec<Change> {
        reap();
        self.taken.clear();
        self.search.begin();
        // Nobody new has come since the last search: nobody is refused now who was not then.
        self.start_missing(program).0
    }

    /// Take over what a search has found, if one has ended.
    ///
    /// # Errors
    /// Nothing will be found any more: the search's thread has ended by itself.
    pub fn found(&mut self, program: &Path) -> Result<(Vec<Change>, Vec<Event>)> {
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let Some(displays) = self.search.take()? else { return Ok((changes, events)) };
        self.watches.values_mut().for_each(|watch| watch.present = false);
        for display in displays {
            let watch = self.watches.entry(display.name.clone()).or_insert_with(|| Watch::new(display.clone()));
            watch.present = true;
            if is_another(&watch.display, &display) {
                // The old helper runs as the old owner, and must not speak for the new one.
                watch.end("another server has taken it over", &mut changes);
                watch.retry_at = Instant::now();
                events.push(Event::DisplayGone { display: display.name.as_str().into() });
            }
            watch.display = display;
        }
        self.watches.retain(|name, watch| {
            if !watch.present {
                info!("display {name} is gone");
                watch.end("gone", &mut changes);
                events.push(Event::DisplayGone { display: name.as_str().into() });
            }
            watch.present
        });
        let (mut started, mut refused) = self.start_missing(program);
        changes.append(&mut started);
        events.append(&mut refused);
        Ok((changes, events))
    }

    /// Each user's first displays have a helper each. One that had a helper and is not among them any more is gone for the policy, or its
    /// server would stay rated: a user could have as many served as sockets are looked at.
    fn start_missing(&mut self, program: &Path) -> (Vec<Change>, Vec<Event>) {
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let mut of_users: BTreeMap<u32, usize> = BTreeMap::new();
        // By number: a shorter name is a lower one.
        let mut by_number: Vec<_> = self.watches.iter_mut().collect();
        by_number.sort_by_key(|(name, _)| name.len());
        for (name, watch) in by_number {
            let of_user = of_users.entry(watch.display.uid).or_insert(0);
            *of_user += 1;
            if *of_user <= MAX_DISPLAYS_PER_USER {
                watch.start(program, &mut changes);
            } else if watch.refuse(&mut changes) {
                events.push(Event::DisplayGone { display: name.as_str().into() });
            }
        }
        (changes, events)
    }

    /// What to poll beside the helpers: readable when a search has ended.
    pub fn search(&self) -> BorrowedFd<'_> {
        self.search.as_fd()
    }

    /// What to poll: each helper's socket, with the name of its display.
    pub fn sockets(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.watches.iter().filter_map(|(name, watch)| Some((name.as_str(), watch.helper.as_ref()?.as_fd())))
    }

    /// Read what the helper of `display` has sent.
    pub fn read(&mut self, display: &str) -> (Vec<Change>, Vec<Event>) {
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let Some(watch) = self.watches.get_mut(display) else { return (changes, events) };
        let taken = self.taken.entry(watch.display.uid).or_default();
        let mut in_turn = 0;
        for _ in 0..MAX_PACKETS_AT_ONCE {
            let Some(helper) = watch.helper.as_mut() else { break };
            match helper.receive() {
                Ok(Some(message)) => {
                    in_turn += named(&message);
                    match taken.take(&message, helper.take_received()) {
                        Verdict::Take => watch.take(message, &mut events),
                        Verdict::LeaveToPeriod => {}
                        Verdict::Flood => {
                            watch.end(
                                "its helper, with those of the same user's other displays, floods us",
                                &mut changes,
                            );
                            break;
                        }
                    }
                    if in_turn > MAX_NAMED_AT_ONCE {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let told = watch.told.take().filter(|_| matches!(error, ReceiveError::Ended));
                    watch.end(&told.unwrap_or_else(|| error.to_string()), &mut changes);
                    // Why may be that the cookie has changed: look for the owner anew.
                    self.search.forget(display);
                }
            }
        }
        (changes, events)
    }

    /// The displays and how watching them goes.
    #[must_use]
    pub fn status(&self) -> Vec<DisplayStatus> {
        let row = |(name, watch): (&String, &Watch)| DisplayStatus {
            name: name.clone(),
            uid: watch.display.uid,
            state: watch.state.clone(),
        };
        self.watches.iter().map(row).collect()
    }

    /// Every helper that runs: to be told to a scheduler that was just loaded.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.watches.values().filter_map(|watch| Some(watch.helper.as_ref()?.pid()))
    }
}

/// Whether a display of the same name has another owner or server than before.
fn is_another(before: &Display, now: &Display) -> bool {
    (before.uid, before.server_pid) != (now.uid, now.server_pid)
}

/// What a helper has a part in is shown to others and logged: of that no more than a line, and nothing that acts on a terminal.
fn words(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_STATE_CHARS).collect()
}

impl Watch {
    fn new(display: Display) -> Self {
        Self {
            display,
            helper: None,
            state: "starting".to_owned(),
            told: None,
            retry_at: Instant::now(),
            retry_after: RETRY_MIN,
            present: true,
        }
    }

    fn start(&mut self, program: &Path, changes: &mut Vec<Change>) {
        if self.helper.is_some() || Instant::now() < self.retry_at {
            return;
        }
        match spawn_helper(&self.display, program) {
            Ok(helper) => {
                changes.push(Change::Started(helper.pid()));
                self.helper = Some(helper);
                self.told = None;
                "starting".clone_into(&mut self.state);
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// The user has too many displays. Whether this one was watched so far.
    fn refuse(&mut self, changes: &mut Vec<Change>) -> bool {
        let refused = format!("not watched: user {} has more than {MAX_DISPLAYS_PER_USER} displays", self.display.uid);
        // A helper that failed and waits to be started again has told of its display, too.
        let watched = self.state != refused;
        if let Some(helper) = self.helper.take() {
            changes.push(Change::Ended(helper.pid()));
        }
        self.state = refused;
        watched
    }

    fn end(&mut self, why: &str, changes: &mut Vec<Change>) {
        // Dropping a helper ends and reaps it.
        let Some(helper) = self.helper.take() else { return };
        changes.push(Change::Ended(helper.pid()));
        self.fail(why);
    }

    fn fail(&mut self, why: &str) {
        let why = words(why);
        if self.state != why {
            warn!("display {}: {why}; trying again in {} s", self.display.name, self.retry_after.as_secs());
        }
        self.state = why;
        self.retry_at = Instant::now() + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(RETRY_MAX);
    }

    /// One message of a well-behaved helper.
    fn take(&mut self, message: SenseMessage, events: &mut Vec<Event>) {
        let display: DisplayId = self.display.name.as_str().into();
        let owner = self.display.uid;
        match message {
            SenseMessage::Hello { width, height, missing, .. } => {
                self.state = format!("watched, {width}x{height}");
                for lacking in missing {
                    self.state.push_str(&format!(", cannot see {lacking:?}").to_lowercase());
                }
                info!("display {}: {}", self.display.name, self.state);
                self.retry_after = RETRY_MIN;
                self.told = None;
                // The server's pid is ours, from the socket's credentials, not the helper's word.
                let server = Some(self.display.server_pid.into());
                events.push(Event::Display { display, server });
            }
            SenseMessage::Input { pid } if procfs::belongs_to(pid, owner) => {
                events.push(Event::Input { pid: pid.into(), display });
            }
            SenseMessage::Output { pid, changed_pct } if procfs::belongs_to(pid, owner) => {
                events.push(Event::Output { pid: pid.into(), display, changed_pct });
            }
            // Nobody else manages a person's windows: not root, whose processes any server could name.
            SenseMessage::Manager { pid } if procfs::uid(pid) == Some(owner) => {
                events.push(Event::Manager { display, manager: pid.into() });
            }
            SenseMessage::Input { .. } | SenseMessage::Output { .. } | SenseMessage::Manager { .. } => {}
            SenseMessage::Period { clients } => {
                let clients = clients
                    .into_iter()
                    .filter(|client| procfs::belongs_to(client.pid, owner))
                    .map(|client| ClientPeriod {
                        pid: client.pid.into(),
                        input: client.input,
                        changed_pct: client.changed_pct,
                    })
                    .collect();
                events.push(Event::Period { display, clients });
            }
            SenseMessage::Gone { reason } => {
                self.state = words(&reason);
                self.told = Some(reason);
                events.push(Event::DisplayGone { display });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A helper that lies cannot have a line of the log to itself, a terminal obey it, or a log fill: the message about a packet that is none
    /// quotes it.
    #[test]
    fn what_a_helper_says_is_one_short_line() {
        let packet = format!(r#"{{"kind":"\u001b[2J\nlimelight: all is well{}"}}"#, "!".repeat(100_000));
        let error = SenseMessage::decode(packet.as_bytes()).unwrap_err();
        let display = Display { name: ":0".into(), uid: 1, gid: 1, home: "/".into(), xauthority: None, server_pid: 7 };
        let mut watch = Watch::new(display);
        watch.fail(&error.to_string());
        assert!(watch.state.len() <= MAX_STATE_CHARS && watch.state.contains("all is well"), "{}", watch.state.len());
        assert!(!watch.state.contains(char::is_control), "{:?}", watch.state);
        watch.take(SenseMessage::Gone { reason: "\u{1b}[2J".into() }, &mut Vec::new());
        assert_eq!(watch.state, "[2J");
    }

    /// Who has too many displays has the later ones forgotten, once each: their servers must not keep what they were rated.
    #[test]
    fn a_display_too_many_is_gone_once() {
        let mut helpers = Helpers::new(Search::start().unwrap());
        for number in 0..=MAX_DISPLAYS_PER_USER {
            let name = format!(":{}", 10 + number);
            let display =
                Display { name: name.clone(), uid: 1, gid: 1, home: "/".into(), xauthority: None, server_pid: 7 };
            let mut watch = Watch::new(display);
            // None of them is to be started by this test.
            watch.retry_at = Instant::now() + Duration::from_secs(60);
            helpers.watches.insert(name, watch);
        }
        let (_, events) = helpers.start_missing(Path::new("/nonexistent"));
        let last = format!(":{}", 10 + MAX_DISPLAYS_PER_USER);
        assert!(
            matches!(&events[..], [Event::DisplayGone { display }] if *display == last.as_str().into()),
            "{events:?}"
        );
        assert!(helpers.start_missing(Path::new("/nonexistent")).1.is_empty());
    }

    /// A display's number with another owner or server is another display: its helper is not kept.
    #[test]
    fn a_display_with_another_owner_is_another() {
        let of = |uid, server_pid| Display {
            name: ":0".into(),
            uid,
            gid: uid,
            home: "/".into(),
            xauthority: None,
            server_pid,
        };
        assert!(!is_another(&of(1000, 7), &of(1000, 7)));
        assert!(is_another(&of(1000, 7), &of(1001, 7)));
        assert!(is_another(&of(1000, 7), &of(1000, 8)));
    }
}
