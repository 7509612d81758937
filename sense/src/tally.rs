// SPDX-License-Identifier: GPL-2.0-only
//! From deeds of clients to messages about processes.

use std::time::{Duration, Instant};

use limelight_abi::sense::SenseMessage;

use crate::clients::{Clients, Deed, Whose};
use crate::period::{PeriodNo, Periods, round_pct};
use crate::report::{Closed, Report};

/// Length of a period: HuC reports once a second (§4.1).
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// A question for the server: which process the client with this base is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskPid {
    /// The client's resource id base.
    pub base: u32,
    /// Number of the question, for [`Tally::answer`].
    pub question: u64,
}

/// Who did what, summed and reported.
pub(crate) struct Tally<'r> {
    /// Which client is which process.
    pub clients: Clients,
    periods: Periods,
    report: &'r mut Report,
    started: Instant,
    current: PeriodNo,
}

impl<'r> Tally<'r> {
    /// Starts counting, with the first period beginning now.
    pub(crate) fn new(report: &'r mut Report, now: Instant) -> Self {
        Self { clients: Clients::default(), periods: Periods::default(), report, started: now, current: 0 }
    }

    /// Counts a deed of the client with `base`; answers with what to ask the server if that client is new.
    pub(crate) fn credit(&mut self, base: u32, deed: Deed, now: Instant) -> Result<Option<AskPid>, Closed> {
        match self.clients.credit(base, deed) {
            Whose::Pid(pid) => self.count(pid, deed, now).map(|()| None),
            Whose::Ask(question) => Ok(Some(AskPid { base, question })),
            Whose::Nobody | Whose::Waiting => Ok(None),
        }
    }

    /// The server answered which process a client is; `None` for a client that is not on this machine.
    pub(crate) fn answer(&mut self, asked: AskPid, pid: Option<u32>, now: Instant) -> Result<(), Closed> {
        let Some((pid, deeds)) = self.clients.answer(asked.base, asked.question, pid) else { return Ok(()) };
        if deeds.input {
            self.count(pid, Deed::Input, now)?;
        }
        if deeds.manages {
            self.count(pid, Deed::Manages, now)?;
        }
        if deeds.changed_pct > 0.0 {
            self.count(pid, Deed::Output { changed_pct: deeds.changed_pct }, now)?;
        }
        Ok(())
    }

    fn count(&mut self, pid: u32, deed: Deed, now: Instant) -> Result<(), Closed> {
        self.end_period(now)?;
        match deed {
            Deed::Input if self.periods.input(pid, self.current) => self.report.send(&SenseMessage::Input { pid }),
            Deed::Output { changed_pct } if self.periods.output(pid, changed_pct, self.current) => {
                self.report.send(&SenseMessage::Output { pid, changed_pct: round_pct(changed_pct) })
            }
            Deed::Manages => self.report.send(&SenseMessage::Manager { pid }),
            Deed::Input | Deed::Output { .. } => Ok(()),
        }
    }

    /// When the current period must be ended, if it has anything to tell.
    pub(crate) fn period_due(&self) -> Option<Instant> {
        self.periods.something_to_say().then(|| self.period_end())
    }

    /// When the current period ends.
    pub(crate) fn period_end(&self) -> Instant {
        let periods = u32::try_from(self.current + 1).unwrap_or(u32::MAX);
        self.started + PERIOD * periods
    }

    /// Ends the current period if its time is over.
    pub(crate) fn end_period(&mut self, now: Instant) -> Result<(), Closed> {
        let number = now.saturating_duration_since(self.started).as_secs();
        if number <= self.current {
            return Ok(());
        }
        let clients = self.periods.end(self.current);
        self.current = number;
        self.clients.ask_again();
        if !clients.is_empty() {
            self.report.send(&SenseMessage::Period { clients })?;
        }
        Ok(())
    }

    /// Sends any other message.
    pub(crate) fn say(&mut self, message: &SenseMessage) -> Result<(), Closed> {
        self.report.send(message)
    }

    /// The socket to the daemon.
    pub(crate) fn report(&mut self) -> &mut Report {
        self.report
    }
}
