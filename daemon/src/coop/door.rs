// SPDX-License-Identifier: GPL-2.0-only
//! Who may have a page, and who is next. Pure: no I/O, no clock, no kernel.
//!
//! A process has one page. Each of its connections that asks is given that page again (a program and its plug-in may each bring a copy of
//! libcoop), and the page is gone with the last of them. It counts for its user until nobody has it mapped any more: else a program that keeps what
//! it was given, and asks again and again, would fill the kernel's memory.
//!
//! ```text
//!   admit ──▶ Silent ──hear──▶ Asked ──its turn──▶ Served ──leave──▶ kept, while it is still mapped
//!                └─ nonsense, or nothing for PATIENCE: closed ─┘
//! ```
//!
//! Bad at: telling a person from their subordinate users. Who has a range of user ids to make containers with has a quota for each.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::time::Duration;

use limelight_abi::coop::{COOP_ABI_MAGIC, COOP_ABI_VERSION, coop_hello};
use nix::errno::Errno;

use super::consent::Ask;

/// Connections of one user that have no page yet, and of all users. A login starts some programs at once; what is beyond is closed, and libcoop
/// comes again after a second.
pub const MAX_NEWCOMERS_PER_USER: usize = 32;
pub const MAX_NEWCOMERS: usize = 256;

/// How long a newcomer may take to ask. libcoop asks as it connects.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Pages that one user but root is given in a second. Fewer than are ready ([`super::pool::READY`]): who takes all that they can leaves some for others, unless a
/// grace period takes longer than a second. The newcomers of a full login have theirs after 3.2 s, before libcoop gives up at 5 s.
pub const MAX_GIVEN_PER_SECOND: u32 = 10;

/// What a client with a page may ask in a second: all that it can have, groups of its own and of others. Who asks more floods us, and is closed: of one user all
/// take 4 % of a CPU at most.
pub const MAX_ASKED_PER_SECOND: u32 = 64;

/// A connection. Never used for another one.
pub type ClientId = u64;

/// Who is at the other end, in the kernel's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, which another process may have later.
    pub pid: u32,
    /// What no other process ever has.
    pub process: u64,
    /// The user it ran as when it connected.
    pub uid: u32,
}

/// How many connections may have a page, in places: a process takes one for each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one user. Not for root, who could do without asking.
    pub per_user: u32,
    /// Of all users.
    pub in_all: u32,
}

/// What becomes of a client that has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for its turn.
    Wait,
    /// It has a page, and is to be answered.
    Answer(Peer, Ask),
    /// It is told why not, and closed.
    Refuse(Errno),
    /// No client of ours says this: not worth an answer.
    Close,
}

/// What becomes of a client whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its process has no page yet.
    Make,
    /// Its process has one already.
    Share,
    /// It is told why not, and closed.
    Refuse(Errno),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Silent,
    Asked,
    Served,
}

struct Client {
    peer: Peer,
    stage: Stage,
    since: Duration,
}

struct Page {
    id: u32,
    owner: Peer,
    holders: u32,
}

/// Everybody who is connected, and every page there is.
pub struct Door {
    limits: Limits,
    clients: BTreeMap<ClientId, Client>,
    next_id: ClientId,
    /// By process number.
    pages: BTreeMap<u32, Page>,
    /// Pages without a process that may still be mapped, and whose they were.
    kept: BTreeMap<u32, u32>,
    /// Pages given to each user in the second that began at `counted_since`.
    given: BTreeMap<u32, u32>,
    /// And questions of each client.
    asked: BTreeMap<ClientId, u32>,
    counted_since: Duration,
    refused: u64,
}

impl Door {
    /// Nobody is there.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            clients: BTreeMap::new(),
            next_id: 1,
            pages: BTreeMap::new(),
            kept: BTreeMap::new(),
            given: BTreeMap::new(),
            asked: BTreeMap::new(),
            counted_since: Duration::ZERO,
            refused: 0,
        }
    }

    /// Somebody has connected; none: there is no room for one more newcomer.
    pub fn admit(&mut self, peer: Peer, now: Duration) -> Option<ClientId> {
        let newcomers = || self.clients.values().filter(|client| client.stage != Stage::Served);
        let of_user = newcomers().filter(|client| client.peer.uid == peer.uid).count();
        if newcomers().count() >= MAX_NEWCOMERS || of_user >= MAX_NEWCOMERS_PER_USER {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.clients.insert(id, Client { peer, stage: Stage::Silent, since: now });
        Some(id)
    }

    /// A client has sent `packet`.
    pub fn hear(&mut self, id: ClientId, packet: &[u8]) -> Verdict {
        let client = match self.clients.get_mut(&id) {
            Some(client) if client.stage == Stage::Silent => client,
            Some(client) if client.stage == Stage::Served => {
                let peer = client.peer;
                return self.hear_ask(id, peer, packet);
            }
            _ => return Verdict::Close,
        };
        let magic = word(packet, offset_of!(coop_hello, magic));
        let version = word(packet, offset_of!(coop_hello, version));
        match (magic, version) {
            // Another version may have a longer hello; it begins alike.
            (Some(COOP_ABI_MAGIC), Some(version)) if version != COOP_ABI_VERSION => {
                self.refused += 1;
                Verdict::Refuse(Errno::EPROTONOSUPPORT)
            }
            (Some(COOP_ABI_MAGIC), Some(_)) if packet.len() == size_of::<coop_hello>() => {
                client.stage = Stage::Asked;
                Verdict::Wait
            }
            _ => Verdict::Close,
        }
    }

    /// A client that has a page has sent `packet`.
    fn hear_ask(&mut self, id: ClientId, peer: Peer, packet: &[u8]) -> Verdict {
        let asked = self.asked.entry(id).or_insert(0);
        *asked += 1;
        match Ask::read(packet) {
            Some(ask) if *asked <= MAX_ASKED_PER_SECOND => Verdict::Answer(peer, ask),
            _ => Verdict::Close,
        }
    }

    /// Whose turn it is, if anybody's: who has asked first, of the user who was given least in this second.
    pub fn next(&mut self, now: Duration) -> Option<(ClientId, Peer)> {
        if now.saturating_sub(self.counted_since) >= Duration::from_secs(1) {
            self.given.clear();
            self.asked.clear();
            self.counted_since = now;
        }
        let given = |client: &Client| self.given.get(&client.peer.uid).copied().unwrap_or(0);
        let asked = self.clients.iter().filter(|(_, client)| client.stage == Stage::Asked);
        let in_time = asked.filter(|(_, client)| client.peer.uid == 0 || given(client) < MAX_GIVEN_PER_SECOND);
        in_time.min_by_key(|(id, client)| (given(client), **id)).map(|(&id, client)| (id, client.peer))
    }

    /// Clients that have the page under the number of `peer` and are somebody else: another process, which has ended, or the same one as another user,
    /// after it has executed a set-user-id program. To be closed before `peer` has its turn.
    pub fn strangers(&self, peer: &Peer) -> Vec<ClientId> {
        let same_number = self.clients.iter().filter(|(_, client)| client.peer.pid == peer.pid);
        same_number.filter(|(_, client)| client.peer != *peer).map(|(&id, _)| id).collect()
    }

    /// It is this client's turn.
    ///
    /// Pages that the scheduler's map still has, `is_retiring`, do not count: nobody knows yet whether they are mapped, and libcoop comes again only after a
    /// minute if it is refused. So a user who keeps all of them mapped has for a moment more than allowed, by [`MAX_GIVEN_PER_SECOND`] in each
    /// second that a grace period takes.
    pub fn turn(&mut self, id: ClientId, is_retiring: impl Fn(u32) -> bool) -> Turn {
        let Some(client) = self.clients.get(&id) else { return Turn::Refuse(Errno::ESRCH) };
        let uid = client.peer.uid;
        let turn = if uid != 0 && self.places(|of| of == uid, &is_retiring) >= self.limits.per_user as usize {
            Turn::Refuse(Errno::EDQUOT)
        } else if self.places(|_| true, &is_retiring) >= self.limits.in_all as usize {
            Turn::Refuse(Errno::ENOSPC)
        } else if self.pages.contains_key(&client.peer.pid) {
            Turn::Share
        } else {
            Turn::Make
        };
        self.refused += u64::from(matches!(turn, Turn::Refuse(_)));
        turn
    }

    /// Places taken by the users `of`.
    fn places(&self, of: impl Fn(u32) -> bool, is_retiring: impl Fn(u32) -> bool) -> usize {
        let served =
            self.clients.values().filter(|client| client.stage == Stage::Served && of(client.peer.uid)).count();
        served + self.kept.iter().filter(|(page, uid)| of(**uid) && !is_retiring(**page)).count()
    }

    /// The client has been given its page, whose number is `page`.
    pub fn give(&mut self, id: ClientId, page: u32) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.stage = Stage::Served;
        *self.given.entry(client.peer.uid).or_insert(0) += 1;
        self.pages.entry(client.peer.pid).or_insert(Page { id: page, owner: client.peer, holders: 0 }).holders += 1;
    }

    /// A client has gone. If its process has no page any more: its number.
    pub fn leave(&mut self, id: ClientId) -> Option<u32> {
        let client = self.clients.remove(&id)?;
        let pid = client.peer.pid;
        let page = self.pages.get_mut(&pid).filter(|_| client.stage == Stage::Served)?;
        page.holders -= 1;
        if page.holders > 0 {
            return None;
        }
        let page = self.pages.remove(&pid)?;
        self.kept.insert(page.id, page.owner.uid);
        Some(pid)
    }

    /// Pages without a process count as long as they are held.
    pub fn forget_kept(&mut self, is_held: impl Fn(u32) -> bool) {
        self.kept.retain(|page, _| is_held(*page));
    }

    /// Who has connected and said nothing for too long.
    pub fn silent(&self, now: Duration) -> Vec<ClientId> {
        let silent = self.clients.iter().filter(|(_, client)| client.stage == Stage::Silent);
        silent.filter(|(_, client)| now.saturating_sub(client.since) >= PATIENCE).map(|(&id, _)| id).collect()
    }

    /// Up to `count` of the clients that have a page, those behind `after` first, and round again from the beginning.
    pub fn served_after(&self, after: ClientId, count: usize) -> Vec<(ClientId, Peer)> {
        let round = self.clients.range(after + 1..).chain(self.clients.range(..=after));
        let served = round.filter(|(_, client)| client.stage == Stage::Served);
        served.take(count).map(|(&id, client)| (id, client.peer)).collect()
    }

    /// Is nobody there?
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// How many processes of each user have a page.
    pub fn processes(&self) -> BTreeMap<u32, u32> {
        let mut processes = BTreeMap::new();
        for page in self.pages.values() {
            *processes.entry(page.owner.uid).or_insert(0) += 1;
        }
        processes
    }

    /// How many have been refused a page.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// The number at `offset` of a packet, if it is that long.
pub(super) fn word(packet: &[u8], offset: usize) -> Option<u32> {
    let bytes = packet.get(offset..offset + size_of::<u32>())?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn peer(pid: u32, uid: u32) -> Peer {
        Peer { pid, process: u64::from(pid) + 1_000_000, uid }
    }

    fn door(per_user: u32, in_all: u32) -> Door {
        Door::new(Limits { per_user, in_all })
    }

    /// A hello that begins with these words and is as long as it should be.
    fn hello(words: &[u32]) -> Vec<u8> {
        let mut packet: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        packet.resize(size_of::<coop_hello>(), 0);
        packet
    }

    fn right() -> Vec<u8> {
        hello(&[COOP_ABI_MAGIC, COOP_ABI_VERSION])
    }

    /// Connects and asks as libcoop does.
    fn ask(door: &mut Door, peer: Peer) -> ClientId {
        let id = door.admit(peer, NOW).unwrap();
        assert_eq!(door.hear(id, &right()), Verdict::Wait);
        id
    }

    /// The same, and has its turn at once. The page's number is the process's.
    fn serve(door: &mut Door, peer: Peer) -> Result<ClientId, Errno> {
        let id = ask(door, peer);
        match door.turn(id, |_| false) {
            Turn::Refuse(errno) => {
                assert_eq!(door.leave(id), None);
                Err(errno)
            }
            Turn::Make | Turn::Share => {
                door.give(id, peer.pid);
                Ok(id)
            }
        }
    }

    /// A user has so many pages and no more; others have theirs; what is given back can be had again; root has no limit of its own.
    #[test]
    fn each_user_has_a_quota() {
        let mut door = door(2, 100);
        let first = serve(&mut door, peer(1, 1000)).unwrap();
        serve(&mut door, peer(2, 1000)).unwrap();
        assert_eq!(serve(&mut door, peer(3, 1000)), Err(Errno::EDQUOT));
        serve(&mut door, peer(4, 1001)).unwrap();
        (10..20).for_each(|pid| assert!(serve(&mut door, peer(pid, 0)).is_ok()));
        assert_eq!(door.leave(first), Some(1));
        door.forget_kept(|_| false);
        serve(&mut door, peer(3, 1000)).unwrap();
        assert_eq!(door.processes(), BTreeMap::from([(0, 10), (1000, 2), (1001, 1)]));
        assert_eq!(door.refused(), 1);
    }

    /// There are so many pages for all users, root's included: the scheduler's map has room for no more.
    #[test]
    fn there_is_an_end_to_all_pages() {
        let mut door = door(2, 3);
        (1..=3).for_each(|pid| assert!(serve(&mut door, peer(pid, pid)).is_ok()));
        assert_eq!(serve(&mut door, peer(4, 4)), Err(Errno::ENOSPC));
        assert_eq!(serve(&mut door, peer(5, 0)), Err(Errno::ENOSPC));
    }

    /// A page that a program keeps mapped after it has hung up counts until it lets go, or it could have any number of them.
    #[test]
    fn what_is_kept_counts() {
        let mut door = door(2, 100);
        for pid in [1, 2] {
            let id = serve(&mut door, peer(pid, 1000)).unwrap();
            assert_eq!(door.leave(id), Some(pid));
        }
        door.forget_kept(|_| true);
        assert_eq!(serve(&mut door, peer(3, 1000)), Err(Errno::EDQUOT));
        assert!(door.processes().is_empty());
        door.forget_kept(|page| page == 1);
        serve(&mut door, peer(3, 1000)).unwrap();
        assert_eq!(serve(&mut door, peer(4, 1000)), Err(Errno::EDQUOT));
    }

    /// A page that is not out of the scheduler's map yet does not count: whoever has given it back has the next one at once.
    #[test]
    fn what_is_being_taken_out_does_not_count() {
        let mut door = door(1, 1);
        let first = serve(&mut door, peer(1, 1000)).unwrap();
        assert_eq!(door.leave(first), Some(1));
        let second = ask(&mut door, peer(2, 1000));
        assert_eq!(door.turn(second, |page| page == 1), Turn::Make);
        assert_eq!(door.turn(second, |_| false), Turn::Refuse(Errno::EDQUOT));
    }

    /// Two copies of the library in one process share its page, which is gone with the last of them; each takes a place, or one process could hold
    /// any number of connections.
    #[test]
    fn a_process_has_one_page() {
        let mut door = door(3, 100);
        let first = serve(&mut door, peer(1, 1000)).unwrap();
        let second = ask(&mut door, peer(1, 1000));
        assert_eq!(door.turn(second, |_| false), Turn::Share);
        door.give(second, 1);
        assert_eq!(door.processes(), BTreeMap::from([(1000, 1)]));
        serve(&mut door, peer(2, 1000)).unwrap();
        assert_eq!(serve(&mut door, peer(1, 1000)), Err(Errno::EDQUOT));
        assert_eq!(door.leave(first), None);
        assert_eq!(door.leave(second), Some(1));
        assert_eq!(door.leave(second), None, "once");
    }

    /// Whoever has the number of a process that had a page, or executed a set-user-id program, does not get that page: its holders are to go first.
    #[test]
    fn a_page_is_never_somebody_elses() {
        let mut door = door(4, 100);
        let old = serve(&mut door, peer(1, 1000)).unwrap();
        assert!(door.strangers(&peer(1, 1000)).is_empty());
        assert!(door.strangers(&peer(2, 1001)).is_empty());
        let with_the_number_again = Peer { process: 7, ..peer(1, 1000) };
        assert_eq!(door.strangers(&with_the_number_again), [old]);
        assert_eq!(door.strangers(&peer(1, 0)), [old]);
        assert_eq!(door.leave(old), Some(1));
        let new = ask(&mut door, with_the_number_again);
        assert_eq!(door.turn(new, |_| false), Turn::Make);
    }

    /// Another version is told so, whatever the length of its hello; what is reserved is ignored.
    #[test]
    fn versions_are_compared() {
        let mut door = door(4, 100);
        let mut said = |packet: &[u8]| {
            let id = door.admit(peer(1, 1000), NOW).unwrap();
            let verdict = door.hear(id, packet);
            door.leave(id);
            verdict
        };
        let other = Verdict::Refuse(Errno::EPROTONOSUPPORT);
        assert_eq!(said(&hello(&[COOP_ABI_MAGIC, COOP_ABI_VERSION + 1])), other);
        assert_eq!(said(&hello(&[COOP_ABI_MAGIC, 0])[..8]), other);
        assert_eq!(said(&[hello(&[COOP_ABI_MAGIC, 2]), vec![0; 100]].concat()), other);
        assert_eq!(said(&hello(&[COOP_ABI_MAGIC, COOP_ABI_VERSION, 5, 6])), Verdict::Wait);
        assert_eq!(door.refused(), 3);
    }

    /// Nonsense, half a hello, too much of it, and a second one are no reason for an answer.
    #[test]
    fn nonsense_is_not_answered() {
        let mut door = door(4, 100);
        for packet in [vec![], vec![1], hello(&[7]), right()[..15].to_vec(), [right(), vec![0]].concat(), vec![255; 64]]
        {
            let id = door.admit(peer(1, 1000), NOW).unwrap();
            assert_eq!(door.hear(id, &packet), Verdict::Close, "{packet:?}");
            door.leave(id);
        }
        let twice = ask(&mut door, peer(1, 1000));
        assert_eq!(door.hear(twice, &right()), Verdict::Close);
        let served = serve(&mut door, peer(2, 1000)).unwrap();
        assert_eq!(door.hear(served, &right()), Verdict::Close);
        assert_eq!(door.hear(999, &right()), Verdict::Close, "nobody");
        assert_eq!(door.refused(), 0);
    }

    /// Who has a page asks, and is answered, up to so many times a second, each client by itself; who has none is not, nor nonsense.
    #[test]
    fn who_has_a_page_may_ask() {
        let mut door = door(4, 100);
        let mut ask = hello(&[COOP_ABI_MAGIC, COOP_ABI_VERSION, 3, 5, 9]);
        ask.resize(40, 0);
        for before in [door.admit(peer(1, 1000), NOW).unwrap(), self::ask(&mut door, peer(1, 1000))] {
            assert_eq!(door.hear(before, &ask), Verdict::Close);
        }
        let (one, other) = (serve(&mut door, peer(2, 1000)).unwrap(), serve(&mut door, peer(3, 1000)).unwrap());
        let answers = |verdict: Verdict| matches!(verdict, Verdict::Answer(..));
        assert!((0..MAX_ASKED_PER_SECOND).all(|_| answers(door.hear(one, &ask))));
        assert_eq!(door.hear(one, &ask), Verdict::Close);
        assert!(answers(door.hear(other, &ask)));
        door.next(NOW + Duration::from_secs(1));
        assert!(answers(door.hear(one, &ask)));
        assert_eq!(door.hear(other, &ask[..39]), Verdict::Close);
    }

    /// Who connects and says nothing is to be closed after 5 s; who has a page may be silent for ever.
    #[test]
    fn silence_has_an_end() {
        let mut door = door(4, 100);
        let silent = door.admit(peer(1, 1000), NOW).unwrap();
        serve(&mut door, peer(2, 1000)).unwrap();
        ask(&mut door, peer(3, 1000));
        assert!(door.silent(NOW + PATIENCE - Duration::from_millis(1)).is_empty());
        assert_eq!(door.silent(NOW + PATIENCE), [silent]);
    }

    /// Newcomers of one user leave room for others, those of all users have an end, and who has a page is none.
    #[test]
    fn newcomers_are_bounded() {
        let mut door = door(1000, 1000);
        (0..100).for_each(|pid| assert!(serve(&mut door, peer(pid, 1000)).is_ok()));
        let mut fill = |uid: u32| (0..1000).take_while(|pid| door.admit(peer(5000 + pid, uid), NOW).is_some()).count();
        assert_eq!(fill(1000), MAX_NEWCOMERS_PER_USER);
        let others: usize = (1001..1100).map(fill).sum();
        assert_eq!(others, MAX_NEWCOMERS - MAX_NEWCOMERS_PER_USER);
    }

    /// A user who asks without end has so many turns in a second, and another one's first request comes before their second.
    #[test]
    fn users_take_turns() {
        let mut door = door(1000, 1000);
        for (pid, uid) in (1..=20).map(|pid| (pid, 1000)).chain([(31, 1001), (32, 1001)]) {
            ask(&mut door, peer(pid, uid));
        }
        let mut turns = Vec::new();
        while let Some((id, peer)) = door.next(NOW) {
            assert_eq!(door.turn(id, |_| false), Turn::Make);
            door.give(id, peer.pid);
            turns.push(peer.uid);
        }
        assert_eq!(turns[..4], [1000, 1001, 1000, 1001]);
        assert_eq!(turns.len() as u32, MAX_GIVEN_PER_SECOND + 2);
        for pid in 51..=70 {
            ask(&mut door, peer(pid, 0));
        }
        while let Some((id, peer)) = door.next(NOW + Duration::from_millis(999)) {
            door.give(id, peer.pid);
        }
        assert_eq!(door.processes()[&0], 20, "root waits for nobody's second");
        assert!(door.next(NOW + Duration::from_secs(1)).is_some());
    }

    /// Whoever has a page is looked at in turn, and everybody is.
    #[test]
    fn everybody_served_is_looked_at_in_turn() {
        let mut door = door(1000, 1000);
        let served: Vec<ClientId> = (1..=5).map(|pid| serve(&mut door, peer(pid, 1000)).unwrap()).collect();
        ask(&mut door, peer(6, 1000));
        let ids = |found: Vec<(ClientId, Peer)>| found.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(door.served_after(0, 3)), served[..3]);
        assert_eq!(ids(door.served_after(served[2], 3)), [served[3], served[4], served[0]]);
        assert_eq!(ids(door.served_after(999, 9)), served);
    }
}
