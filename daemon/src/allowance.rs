// SPDX-License-Identifier: GPL-2.0-only
//! How much of the daemon's time the helpers of one user may take in a second. A helper tells what a hostile X server tells it, and a user may
//! have several of them: the bounds are for all displays of a user together, or eight of them would take eight times as much.

use limelight_abi::sense::{MAX_CLIENTS, MAX_PACKET_BYTES, SenseMessage};

/// More in one second is misbehaviour: packets, and the clients that they name, each of which costs a look into `/proc`. An honest helper
/// names each at once at most twice, and once in the packet of its period.
const MAX_NAMED: usize = 4 * MAX_CLIENTS;

/// And bytes, for a name may be padded: a few of the longest packets.
const MAX_BYTES: usize = 8 * MAX_PACKET_BYTES;

/// Reports of one client that take effect at once. Each may cost a walk over the whole dependency graph; a person reaches few clients in a second
/// that had not been reached in the two before. What is more is not lost: the report of the second (`Period`) names it again.
const MAX_AT_ONCE: usize = 64;

/// What a user's helpers have taken in this second.
#[derive(Debug, Default)]
pub struct Allowance {
    named: usize,
    bytes: usize,
    at_once: usize,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Believe it.
    Take,
    /// Enough was taken at once: the report of the second will name it.
    LeaveToPeriod,
    /// No helper has that much to say: end it.
    Flood,
}

impl Allowance {
    /// A message of `bytes` bytes has come.
    pub fn take(&mut self, message: &SenseMessage, bytes: usize) -> Verdict {
        self.named += named(message);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.named > MAX_NAMED || self.bytes > MAX_BYTES {
            return Verdict::Flood;
        }
        let at_once = matches!(message, SenseMessage::Input { .. } | SenseMessage::Output { .. });
        self.at_once += usize::from(at_once);
        if at_once && self.at_once > MAX_AT_ONCE { Verdict::LeaveToPeriod } else { Verdict::Take }
    }
}

/// How many clients a message names, itself counted as one.
pub fn named(message: &SenseMessage) -> usize {
    match message {
        SenseMessage::Period { clients } => 1 + clients.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use limelight_abi::sense::ClientPeriod;

    use super::*;

    fn period(clients: usize) -> SenseMessage {
        SenseMessage::Period { clients: vec![ClientPeriod { pid: 1, input: true, changed_pct: 0.0 }; clients] }
    }

    /// The first clients of a second act at once, the rest waits for the period, whose report is taken all the same.
    #[test]
    fn a_crowd_waits_for_the_period() {
        let mut user = Allowance::default();
        let verdicts: Vec<Verdict> = (1..=100).map(|pid| user.take(&SenseMessage::Input { pid }, 30)).collect();
        assert!(verdicts[..MAX_AT_ONCE].iter().all(|verdict| *verdict == Verdict::Take));
        assert!(verdicts[MAX_AT_ONCE..].iter().all(|verdict| *verdict == Verdict::LeaveToPeriod));
        assert_eq!(user.take(&SenseMessage::Manager { pid: 1 }, 30), Verdict::Take);
        assert_eq!(user.take(&period(100), 5000), Verdict::Take);
    }

    /// The fullest honest second is taken; names or bytes without end are a flood, of whatever message and however many helpers.
    #[test]
    fn floods_are_told_from_full_seconds() {
        let mut user = Allowance::default();
        (0..2 * MAX_CLIENTS).for_each(|_| assert_ne!(user.take(&SenseMessage::Input { pid: 1 }, 30), Verdict::Flood));
        assert_eq!(user.take(&period(MAX_CLIENTS), MAX_PACKET_BYTES), Verdict::Take);
        assert_eq!(user.take(&period(MAX_CLIENTS), 1000), Verdict::Flood);
        let mut user = Allowance::default();
        let padded: Vec<Verdict> =
            (0..9).map(|_| user.take(&SenseMessage::Manager { pid: 1 }, MAX_PACKET_BYTES)).collect();
        assert_eq!(padded.iter().position(|verdict| *verdict == Verdict::Flood), Some(8));
    }
}
