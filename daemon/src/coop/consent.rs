// SPDX-License-Identifier: GPL-2.0-only
//! Who may be in another user's group. Pure: no I/O, no clock, no kernel.
//!
//! A group is named within a user. Its owner, any process of that user, asks for a token and passes it on; a process of another user hands it in, and from then
//! on what that one calls by a number of its choice is the owner's group. A token is [`COOP_ABI_TOKEN_BYTES`] random bytes, and there is nothing else to guess: what
//! is handed in is compared with all of them, as numbers, in the same time whatever it is.
//!
//! ```text
//!   owner ──token──▶ given ◀──join── others, each with a place in its page's consents
//!     └─ withdraw, or its page ends: the token is forgotten, and all who joined by it are out
//! ```
//!
//! Bad at: a secret that has got about. Whoever has the token joins, and its owner is not told; the owner can withdraw it and make another one.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use limelight_abi::coop::{
    COOP_ABI_MAGIC, COOP_ABI_TOKEN_BYTES, COOP_ABI_VERSION, COOP_ASKS_TO_JOIN, COOP_ASKS_TO_LEAVE, COOP_ASKS_TOKEN,
    COOP_ASKS_WITHDRAWAL, coop_ask, coop_reply,
};
use limelight_abi::sched::LL_MAX_CONSENTS;
use limelight_sched::Consent;
use nix::errno::Errno;

use super::door::{Peer, word};

/// Tokens that one user but root can have out: as many as the scheduler keeps groups of a user.
pub const MAX_TOKENS_OF_USER: usize = 32;

/// And all users: what is handed in is compared with each of them, which takes some microseconds.
pub const MAX_TOKENS: usize = 1024;

/// What is passed on, as a number: compared at once, and not byte by byte.
pub type Token = u128;

/// What a client with a page asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// One of `enum coop_question`, or none.
    pub question: u32,
    /// The group, as the client calls it.
    pub gid: u32,
    /// Comes back with the answer.
    pub number: u64,
    /// The one that is handed in.
    pub token: Token,
}

impl Ask {
    /// From a packet; none: it is no question.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let is_one = packet.len() == size_of::<coop_ask>()
            && word(packet, offset_of!(coop_ask, magic)) == Some(COOP_ABI_MAGIC)
            && word(packet, offset_of!(coop_ask, version)) == Some(COOP_ABI_VERSION);
        let (number, token) = (offset_of!(coop_ask, number), offset_of!(coop_ask, token));
        is_one.then_some(Self {
            question: word(packet, offset_of!(coop_ask, question))?,
            gid: word(packet, offset_of!(coop_ask, gid))?,
            number: u64::from_ne_bytes(packet.get(number..number + size_of::<u64>())?.try_into().ok()?),
            token: u128::from_ne_bytes(packet.get(token..token + COOP_ABI_TOKEN_BYTES as usize)?.try_into().ok()?),
        })
    }

    /// The answer to it: a token where it asked for one, 0 else, or why not.
    pub fn reply(&self, answer: Result<Token, Errno>) -> [u8; size_of::<coop_reply>()] {
        let mut reply = [0; size_of::<coop_reply>()];
        let error = answer.err().map_or(0, |errno| (errno as i32).wrapping_neg().cast_unsigned());
        let words = [
            (offset_of!(coop_reply, magic), COOP_ABI_MAGIC),
            (offset_of!(coop_reply, version), COOP_ABI_VERSION),
            (offset_of!(coop_reply, error), error),
        ];
        for (offset, word) in words {
            reply[offset..offset + size_of::<u32>()].copy_from_slice(&word.to_ne_bytes());
        }
        let (number, token) = (offset_of!(coop_reply, number), offset_of!(coop_reply, token));
        reply[number..number + size_of::<u64>()].copy_from_slice(&self.number.to_ne_bytes());
        reply[token..token + COOP_ABI_TOKEN_BYTES as usize].copy_from_slice(&answer.unwrap_or(0).to_ne_bytes());
        reply
    }
}

/// What is to be changed in the consents of the process's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The process.
    pub pid: u32,
    /// Which of its places.
    pub place: usize,
    /// What is there from now on.
    pub consent: Option<Consent>,
}

/// A token that was given, by the process that has it and what that calls the group.
struct Given {
    token: Token,
    uid: u32,
}

/// What a process is in by a token.
#[derive(Clone, Copy)]
struct Joined {
    gid: u32,
    /// Who has the token, and its name for the group.
    by: (u32, u32),
}

/// Every token, and everybody who joined by one. Processes are known by their numbers here: to be told when their pages end.
#[derive(Default)]
pub struct Consents {
    given: BTreeMap<(u32, u32), Given>,
    /// By process and place.
    joined: BTreeMap<(u32, usize), Joined>,
}

impl Consents {
    /// What `asker`, who has a page, asks; `fresh` makes a token. The answer, and what is to be changed before that is given.
    pub fn ask(
        &mut self,
        asker: &Peer,
        ask: &Ask,
        fresh: impl FnOnce() -> Result<Token, Errno>,
    ) -> (Result<Token, Errno>, Vec<Change>) {
        if ask.gid == 0 {
            return (Err(Errno::EINVAL), vec![]);
        }
        let changed = match ask.question {
            COOP_ASKS_TOKEN => return (self.token(asker, ask.gid, fresh), vec![]),
            COOP_ASKS_WITHDRAWAL => self.withdraw(asker.pid, ask.gid),
            COOP_ASKS_TO_JOIN => self.join(asker.pid, ask.gid, ask.token),
            COOP_ASKS_TO_LEAVE => self.leave(asker.pid, ask.gid),
            _ => Err(Errno::EOPNOTSUPP),
        };
        match changed {
            Ok(changes) => (Ok(0), changes),
            Err(errno) => (Err(errno), vec![]),
        }
    }

    fn token(&mut self, owner: &Peer, gid: u32, fresh: impl FnOnce() -> Result<Token, Errno>) -> Result<Token, Errno> {
        if let Some(given) = self.given.get(&(owner.pid, gid)) {
            return Ok(given.token);
        }
        // What is somebody else's is not this one's to give.
        if self.place_of(owner.pid, gid).is_some() {
            return Err(Errno::EBUSY);
        }
        let of_user = self.given.values().filter(|given| given.uid == owner.uid).count();
        if owner.uid != 0 && of_user >= MAX_TOKENS_OF_USER {
            return Err(Errno::EDQUOT);
        }
        if self.given.len() >= MAX_TOKENS {
            return Err(Errno::ENOSPC);
        }
        let token = fresh()?;
        self.given.insert((owner.pid, gid), Given { token, uid: owner.uid });
        Ok(token)
    }

    fn withdraw(&mut self, owner: u32, gid: u32) -> Result<Vec<Change>, Errno> {
        self.given.remove(&(owner, gid)).ok_or(Errno::ENOENT)?;
        Ok(self.turn_out(|by| by == (owner, gid)))
    }

    fn join(&mut self, pid: u32, gid: u32, token: Token) -> Result<Vec<Change>, Errno> {
        let mut found = None;
        // All of them, whatever is found.
        for (&by, given) in &self.given {
            if given.token == token {
                found = Some((by, given.uid));
            }
        }
        let (by, owner) = found.ok_or(Errno::EACCES)?;
        // Others are in it by that number.
        if self.given.contains_key(&(pid, gid)) {
            return Err(Errno::EBUSY);
        }
        let is_free = |place: &usize| !self.joined.contains_key(&(pid, *place));
        let place = self.place_of(pid, gid).or_else(|| (0..LL_MAX_CONSENTS as usize).find(is_free));
        let place = place.ok_or(Errno::EDQUOT)?;
        self.joined.insert((pid, place), Joined { gid, by });
        Ok(vec![Change { pid, place, consent: Some(Consent { gid, owner, group: by.1 }) }])
    }

    fn leave(&mut self, pid: u32, gid: u32) -> Result<Vec<Change>, Errno> {
        let place = self.place_of(pid, gid).ok_or(Errno::ENOENT)?;
        self.joined.remove(&(pid, place));
        Ok(vec![Change { pid, place, consent: None }])
    }

    /// The page of process `pid` has ended, and with it what it was in: that is for the caller to clear. What is to be changed of others'.
    pub fn end(&mut self, pid: u32) -> Vec<Change> {
        self.joined.retain(|(of, _), _| *of != pid);
        self.given.retain(|(owner, _), _| *owner != pid);
        self.turn_out(|by| by.0 == pid)
    }

    /// Everybody who joined `by` such a token is out.
    fn turn_out(&mut self, by: impl Fn((u32, u32)) -> bool) -> Vec<Change> {
        let out = self.joined.extract_if(.., |_, joined| by(joined.by));
        out.map(|((pid, place), _)| Change { pid, place, consent: None }).collect()
    }

    fn place_of(&self, pid: u32, gid: u32) -> Option<usize> {
        let places = self.joined.range((pid, 0)..=(pid, usize::MAX));
        places.filter(|(_, joined)| joined.gid == gid).map(|(&(_, place), _)| place).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(pid: u32, uid: u32) -> Peer {
        Peer { pid, process: u64::from(pid) + 1_000_000, uid }
    }

    /// Everybody, and a source of tokens that are all different.
    #[derive(Default)]
    struct World {
        consents: Consents,
        tokens: u128,
    }

    impl World {
        fn ask(&mut self, asker: Peer, question: u32, gid: u32, token: Token) -> (Result<Token, Errno>, Vec<Change>) {
            let fresh = 1_000_000 + self.tokens;
            self.tokens += 1;
            self.consents.ask(&asker, &Ask { question, gid, number: 1, token }, || Ok(fresh))
        }

        fn token(&mut self, owner: Peer, gid: u32) -> Result<Token, Errno> {
            self.ask(owner, COOP_ASKS_TOKEN, gid, 0).0
        }

        fn join(&mut self, joiner: Peer, gid: u32, token: Token) -> Result<Vec<Change>, Errno> {
            let (answer, changes) = self.ask(joiner, COOP_ASKS_TO_JOIN, gid, token);
            answer.map(|_| changes)
        }
    }

    fn into(pid: u32, place: usize, gid: u32, owner: u32, group: u32) -> Vec<Change> {
        vec![Change { pid, place, consent: Some(Consent { gid, owner, group }) }]
    }

    fn out(pid: u32, place: usize) -> Change {
        Change { pid, place, consent: None }
    }

    /// Who hands in the token is in the owner's group by a number of its own; who hands in another one is not, however near it is, and nothing is changed.
    #[test]
    fn a_token_lets_in_and_nothing_else_does() {
        let mut world = World::default();
        let token = world.token(peer(1, 1000), 7).unwrap();
        for wrong in [0, token + 1, token ^ 1 << 127, u128::MAX] {
            let (answer, changes) = world.ask(peer(2, 1001), COOP_ASKS_TO_JOIN, 5, wrong);
            assert_eq!((answer, changes), (Err(Errno::EACCES), vec![]));
        }
        assert_eq!(world.join(peer(2, 1001), 5, token), Ok(into(2, 0, 5, 1000, 7)));
        assert_eq!(world.join(peer(3, 1002), 5, token), Ok(into(3, 0, 5, 1000, 7)));
        assert_eq!(world.token(peer(1, 1000), 7), Ok(token), "the same one again");
        assert_ne!(world.token(peer(4, 1000), 7), Ok(token), "another process's ends with that one");
    }

    /// A number is one group's: to join by it again replaces that, to leave frees its place, and there are so many places.
    #[test]
    fn a_number_is_one_group() {
        let mut world = World::default();
        let tokens: Vec<_> = (1..=9).map(|gid| world.token(peer(1, 1000), gid).unwrap()).collect();
        for (place, &token) in tokens[..8].iter().enumerate() {
            let gid = 100 + place as u32;
            assert_eq!(world.join(peer(2, 1001), gid, token), Ok(into(2, place, gid, 1000, place as u32 + 1)));
        }
        assert_eq!(world.join(peer(2, 1001), 200, tokens[8]), Err(Errno::EDQUOT));
        assert_eq!(world.join(peer(2, 1001), 103, tokens[8]), Ok(into(2, 3, 103, 1000, 9)));
        assert_eq!(world.ask(peer(2, 1001), COOP_ASKS_TO_LEAVE, 105, 0), (Ok(0), vec![out(2, 5)]));
        assert_eq!(world.ask(peer(2, 1001), COOP_ASKS_TO_LEAVE, 105, 0).0, Err(Errno::ENOENT));
        assert_eq!(world.join(peer(2, 1001), 200, tokens[8]), Ok(into(2, 5, 200, 1000, 9)));
    }

    /// A group is passed on by its owner only: not by who was let in, and what a process has given a token for is not put behind that token's back.
    #[test]
    fn what_is_anothers_is_not_passed_on() {
        let mut world = World::default();
        let token = world.token(peer(1, 1000), 7).unwrap();
        world.join(peer(2, 1001), 5, token).unwrap();
        assert_eq!(world.token(peer(2, 1001), 5), Err(Errno::EBUSY));
        world.token(peer(2, 1001), 6).unwrap();
        assert_eq!(world.join(peer(2, 1001), 6, token), Err(Errno::EBUSY));
    }

    /// A token that is withdrawn lets nobody in, and who is in by it is out, and nobody else; the next one is another.
    #[test]
    fn a_token_is_withdrawn() {
        let mut world = World::default();
        let (first, second) = (world.token(peer(1, 1000), 7).unwrap(), world.token(peer(1, 1000), 8).unwrap());
        world.join(peer(2, 1001), 5, first).unwrap();
        world.join(peer(2, 1001), 6, second).unwrap();
        world.join(peer(3, 1002), 5, first).unwrap();
        let withdrawn = world.ask(peer(1, 1000), COOP_ASKS_WITHDRAWAL, 7, 0);
        assert_eq!(withdrawn, (Ok(0), vec![out(2, 0), out(3, 0)]));
        assert_eq!(world.join(peer(3, 1002), 5, first), Err(Errno::EACCES));
        assert_eq!(world.ask(peer(1, 1000), COOP_ASKS_WITHDRAWAL, 7, 0).0, Err(Errno::ENOENT));
        assert_eq!(world.ask(peer(4, 1000), COOP_ASKS_WITHDRAWAL, 8, 0).0, Err(Errno::ENOENT), "another process's");
        let third = world.token(peer(1, 1000), 7).unwrap();
        assert_ne!(third, first);
        assert_eq!(world.join(peer(2, 1001), 5, third), Ok(into(2, 0, 5, 1000, 7)));
    }

    /// With a process its tokens end, and what it was in: others stay, and the next process with its number begins with nothing.
    #[test]
    fn the_end_of_a_process_is_the_end_of_its_tokens() {
        let mut world = World::default();
        let (of_one, of_two) = (world.token(peer(1, 1000), 7).unwrap(), world.token(peer(2, 1001), 7).unwrap());
        world.join(peer(2, 1001), 5, of_one).unwrap();
        world.join(peer(3, 1002), 5, of_one).unwrap();
        world.join(peer(3, 1002), 6, of_two).unwrap();
        assert_eq!(world.consents.end(2), [out(3, 1)]);
        assert_eq!(world.consents.end(1), [out(3, 0)]);
        assert_eq!(world.join(peer(3, 1002), 6, of_two), Err(Errno::EACCES));
        assert_eq!(world.ask(peer(2, 1001), COOP_ASKS_TO_LEAVE, 5, 0).0, Err(Errno::ENOENT));
        assert!(world.consents.joined.is_empty() && world.consents.given.is_empty());
    }

    /// A user has so many tokens, root as many as there are, and there is an end to all of them.
    #[test]
    fn tokens_are_bounded() {
        let mut world = World::default();
        (1..=32).for_each(|gid| assert!(world.token(peer(1 + gid % 4, 1000), gid).is_ok()));
        assert_eq!(world.token(peer(9, 1000), 1), Err(Errno::EDQUOT));
        world.token(peer(10, 1001), 1).unwrap();
        let of_root = (1..).take_while(|gid| world.token(peer(11, 0), *gid).is_ok()).count();
        assert_eq!(of_root, MAX_TOKENS - 33);
        assert_eq!(world.token(peer(12, 1002), 1), Err(Errno::ENOSPC));
        world.consents.end(10);
        world.token(peer(12, 1002), 1).unwrap();
    }

    /// Nobody's group, a question that there is none of, and a system without randomness are errors, and change nothing.
    #[test]
    fn what_cannot_be_is_said() {
        let mut world = World::default();
        for question in 0..6 {
            assert_eq!(world.ask(peer(1, 1000), question, 0, 0), (Err(Errno::EINVAL), vec![]));
        }
        for question in [0, 5, u32::MAX] {
            assert_eq!(world.ask(peer(1, 1000), question, 1, 0), (Err(Errno::EOPNOTSUPP), vec![]));
        }
        let ask = Ask { question: COOP_ASKS_TOKEN, gid: 1, number: 1, token: 0 };
        assert_eq!(world.consents.ask(&peer(1, 1000), &ask, || Err(Errno::EAGAIN)).0, Err(Errno::EAGAIN));
        assert!(world.consents.given.is_empty());
    }

    /// A question and an answer are what `coop_abi.h` says; half a question, or one with another beginning, is none.
    #[test]
    fn packets_are_those_of_the_boundary() {
        let words = [COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_ASKS_TO_JOIN, 5, 9, 0, 1, 2, 3, 4];
        let packet: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let token = u128::from_ne_bytes(packet[24..].try_into().unwrap());
        let ask = Ask { question: COOP_ASKS_TO_JOIN, gid: 5, number: 9, token };
        assert_eq!(Ask::read(&packet), Some(ask));
        assert_eq!(Ask::read(&packet[..39]), None);
        assert_eq!(Ask::read(&[&packet[..], &[0]].concat()), None);
        for byte in [0, 4] {
            let mut other = packet.clone();
            other[byte] ^= 1;
            assert_eq!(Ask::read(&other), None);
        }
        let read = |reply: [u8; 40]| reply.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        let reply: Vec<u32> = read(ask.reply(Ok(token)));
        assert_eq!(reply, [COOP_ABI_MAGIC, COOP_ABI_VERSION, 0, 0, 9, 0, 1, 2, 3, 4]);
        let reply: Vec<u32> = read(ask.reply(Err(Errno::EACCES)));
        assert_eq!(reply[2..], [(-13_i32).cast_unsigned(), 0, 9, 0, 0, 0, 0, 0]);
    }

    /// Whatever a hundred thousand questions and ends of twelve processes of four users come to: what the scheduler is told is at any time what follows from
    /// the tokens that are good, and a user's tokens are within the limit.
    #[test]
    fn any_order_keeps_the_rules() {
        let mut world = World::default();
        let mut told = BTreeMap::new();
        let mut tokens = vec![(0, 0, 0)];
        let mut state = 88172645463325252_u64;
        let mut dice = move |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % sides) as u32
        };
        for _ in 0..100_000 {
            let (pid, gid) = (1 + dice(12), dice(12));
            let asker = peer(pid, 1000 + pid % 4);
            let mut changes = vec![];
            if dice(50) == 0 {
                changes = world.consents.end(pid);
                told.retain(|(of, _), _| *of != pid);
                tokens.retain(|(_, owner, _)| *owner != pid || pid == 0);
            } else {
                let question = dice(6);
                let token = tokens[dice(tokens.len() as u64) as usize].0;
                let (answer, changed) = world.ask(asker, question, gid, token);
                changes.extend(changed);
                match (question, answer) {
                    (COOP_ASKS_TOKEN, Ok(token)) if !tokens.contains(&(token, pid, gid)) => {
                        tokens.push((token, pid, gid))
                    }
                    (COOP_ASKS_WITHDRAWAL, Ok(_)) => tokens.retain(|(_, owner, of)| (*owner, *of) != (pid, gid)),
                    _ => {}
                }
            }
            for Change { pid, place, consent } in changes {
                assert!(place < LL_MAX_CONSENTS as usize);
                match consent {
                    Some(consent) => told.insert((pid, place), consent),
                    None => told.remove(&(pid, place)),
                };
            }
            for consent in told.values() {
                let is_good = |(_, owner, group): &(Token, u32, u32)| {
                    1000 + owner % 4 == consent.owner && *group == consent.group
                };
                assert!(tokens.iter().skip(1).any(is_good), "{consent:?} of nobody");
            }
            assert_eq!(told.len(), world.consents.joined.len());
            assert!((0..4).all(|of| tokens.iter().skip(1).filter(|one| one.1 % 4 == of).count() <= MAX_TOKENS_OF_USER));
        }
        assert!(!told.is_empty() && tokens.len() > 1);
    }
}
