// SPDX-License-Identifier: GPL-2.0-only
//! From a client's resource id base to its process.
//!
//! The server tells the pid of a local client from its socket's credentials (XRes 1.2 QueryClientIds); what a client says
//! of itself (`_NET_WM_PID`) is not asked. Bases are used again as soon as a client has gone, so a death must be heard of:
//! RECORD tells. What a client did before its pid is known is kept until the answer comes. An answer without a pid may be about a
//! remote client, or about one that had ended when it was asked for and whose base is the next client's: it is believed for a period.
//!
//! Pure: [`Clients::credit`] says when to ask the server.

use std::collections::HashMap;

/// Something a client did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Deed {
    /// It received input.
    Input,
    /// It manages the windows.
    Manages,
    /// It changed so much of the screen, in %.
    Output {
        /// Share of the screen's area.
        changed_pct: f64,
    },
}

/// Whose deed it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process's.
    Pid(u32),
    /// Nobody's on this machine, or our own.
    Nobody,
    /// Not known yet: ask the server, and give the answer with this number.
    Ask(u64),
    /// Asked already.
    Waiting,
}

/// What a client did until its pid was known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Deeds {
    /// Whether it received input.
    pub input: bool,
    /// Whether it manages the windows.
    pub manages: bool,
    /// How much of the screen it changed, in %.
    pub changed_pct: f64,
}

#[derive(Debug)]
enum Client {
    Known(Option<u32>),
    Asked { question: u64, deeds: Deeds },
    Unanswered,
}

/// The clients of a server.
#[derive(Debug, Default)]
pub struct Clients {
    known: HashMap<u32, Client>,
    questions: u64,
}

impl Clients {
    /// Takes in the pid of the client with this base; `None` for a remote client, or one of ours.
    pub fn learn(&mut self, base: u32, pid: Option<u32>) {
        self.known.insert(base, Client::Known(pid));
    }

    /// Whose deed it is that the client with this base did.
    pub fn credit(&mut self, base: u32, deed: Deed) -> Whose {
        match self.known.get_mut(&base) {
            Some(Client::Known(Some(pid))) => Whose::Pid(*pid),
            Some(Client::Known(None) | Client::Unanswered) => Whose::Nobody,
            Some(Client::Asked { deeds, .. }) => {
                deeds.add(deed);
                Whose::Waiting
            }
            None => {
                self.questions += 1;
                let question = self.questions;
                let mut deeds = Deeds::default();
                deeds.add(deed);
                self.known.insert(base, Client::Asked { question, deeds });
                Whose::Ask(question)
            }
        }
    }

    /// The answer to a question: what the client did until now, unless it has died since and the base may be another's.
    pub fn answer(&mut self, base: u32, question: u64, pid: Option<u32>) -> Option<(u32, Deeds)> {
        let deeds = match self.known.get(&base) {
            Some(Client::Asked { question: asked, deeds }) if *asked == question => *deeds,
            _ => return None,
        };
        self.known.insert(base, pid.map_or(Client::Unanswered, |pid| Client::Known(Some(pid))));
        pid.map(|pid| (pid, deeds))
    }

    /// A period is over: clients for whom the server knew no process are asked for again when they do something.
    pub fn ask_again(&mut self) {
        self.known.retain(|_, client| !matches!(client, Client::Unanswered));
    }

    /// The client with this base died.
    pub fn died(&mut self, base: u32) {
        self.known.remove(&base);
    }

    /// Forgets every client but those in `keep`, to be asked for anew: for servers that do not tell of deaths.
    pub fn forget_all_but(&mut self, keep: &[u32]) {
        self.known.retain(|base, client| keep.contains(base) || matches!(client, Client::Asked { .. }));
    }
}

impl Deeds {
    fn add(&mut self, deed: Deed) {
        match deed {
            Deed::Input => self.input = true,
            Deed::Manages => self.manages = true,
            Deed::Output { changed_pct } => self.changed_pct += changed_pct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u32 = 0x40_0000;

    /// Deeds of a known client are its process's at once; a remote client's and our own are nobody's.
    #[test]
    fn known_clients_are_credited() {
        let mut clients = Clients::default();
        clients.learn(BASE, Some(7));
        clients.learn(BASE * 2, None);
        assert_eq!(clients.credit(BASE, Deed::Input), Whose::Pid(7));
        assert_eq!(clients.credit(BASE * 2, Deed::Input), Whose::Nobody);
    }

    /// An unknown client is asked for once, and nothing it did meanwhile is lost.
    #[test]
    fn unknown_clients_are_asked_for_once() {
        let mut clients = Clients::default();
        let Whose::Ask(question) = clients.credit(BASE, Deed::Input) else { panic!("not asked") };
        assert_eq!(clients.credit(BASE, Deed::Output { changed_pct: 2.0 }), Whose::Waiting);
        assert_eq!(clients.credit(BASE, Deed::Output { changed_pct: 3.0 }), Whose::Waiting);
        assert_eq!(
            clients.answer(BASE, question, Some(7)),
            Some((7, Deeds { input: true, changed_pct: 5.0, ..Deeds::default() }))
        );
        assert_eq!(clients.credit(BASE, Deed::Input), Whose::Pid(7));
    }

    /// A base given to another client is asked for again, and the late answer about the first is not believed.
    #[test]
    fn reused_bases_are_not_confused() {
        let mut clients = Clients::default();
        let Whose::Ask(first) = clients.credit(BASE, Deed::Input) else { panic!("not asked") };
        clients.died(BASE);
        let Whose::Ask(second) = clients.credit(BASE, Deed::Input) else { panic!("not asked") };
        assert_eq!(clients.answer(BASE, first, Some(7)), None);
        assert_eq!(clients.answer(BASE, second, Some(8)).map(|(pid, _)| pid), Some(8));
        clients.died(BASE);
        assert!(matches!(clients.credit(BASE, Deed::Input), Whose::Ask(_)));
    }

    /// A client that had ended when it was asked for does not make a nobody of the next one with its base, for longer than a period.
    #[test]
    fn no_answer_is_no_lasting_answer() {
        let mut clients = Clients::default();
        let Whose::Ask(question) = clients.credit(BASE, Deed::Input) else { panic!("not asked") };
        assert_eq!(clients.answer(BASE, question, None), None);
        assert_eq!(clients.credit(BASE, Deed::Input), Whose::Nobody, "asked once in a period");
        clients.ask_again();
        let Whose::Ask(question) = clients.credit(BASE, Deed::Input) else { panic!("not asked again") };
        assert_eq!(clients.answer(BASE, question, Some(8)).map(|(pid, _)| pid), Some(8));
        clients.ask_again();
        assert_eq!(clients.credit(BASE, Deed::Input), Whose::Pid(8));
    }

    /// Without news of deaths everything but ourselves is asked for anew.
    #[test]
    fn forgetting_spares_our_own() {
        let mut clients = Clients::default();
        clients.learn(BASE, Some(7));
        clients.learn(BASE * 2, None);
        clients.forget_all_but(&[BASE * 2]);
        assert!(matches!(clients.credit(BASE, Deed::Input), Whose::Ask(_)));
        assert_eq!(clients.credit(BASE * 2, Deed::Input), Whose::Nobody);
    }
}
