// SPDX-License-Identifier: GPL-2.0-only
//! Everything that can happen, as the policy sees it.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::hubs::HubRole;

/// One process: its thread group id, and its start time where the reporter knows it.
///
/// A pid alone does not tell a process from a later one that got the same number; a different start time does. `None`
/// means "whichever process has that number now".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProcessId {
    /// Thread group id, as in the initial pid namespace. 0 (the idle task) is never rated: events about it are ignored.
    pub tgid: u32,
    /// Start time in nanoseconds of CLOCK_BOOTTIME. Reporters must agree on the resolution.
    pub start_ns: Option<u64>,
}

impl From<u32> for ProcessId {
    fn from(tgid: u32) -> Self {
        ProcessId { tgid, start_ns: None }
    }
}

/// A display, by the name its clients use (`:0`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisplayId(Arc<str>);

impl From<&str> for DisplayId {
    fn from(name: &str) -> Self {
        DisplayId(name.into())
    }
}

impl fmt::Display for DisplayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for DisplayId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What one client of a display did in the last period (one second).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientPeriod {
    /// The client.
    pub pid: ProcessId,
    /// Whether it was delivered any input event (4.1.2: the number of events does not matter).
    pub input: bool,
    /// Visible change it made, in % of the screen, summed over the period: 100 is the whole screen once (4.1.3).
    /// What is not a number, or negative, counts as 0.
    pub changed_pct: f64,
}

/// `from` woke `to`, `count` times since the last report (4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The waker.
    pub from: ProcessId,
    /// The woken.
    pub to: ProcessId,
    /// Wake-ups.
    pub count: u64,
}

/// How the scheduler came to give a process a rating by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenKind {
    /// On fork: "non-temporal I/O ratings are inherited upon fork" (4.3).
    Inherited,
    /// On a wake-up of a process that was not HuC by one that was (4.3, last paragraph).
    Lent,
}

/// Everything that can happen. Events about process 0 and edges from a process to itself are ignored.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A client that had received no input lately was delivered some, just now.
    Input {
        /// The client.
        pid: ProcessId,
        /// The display that delivered it.
        display: DisplayId,
    },
    /// Edges from before the last [`Event::Input`] of this client have been reported since: its input travels over them now.
    Reached {
        /// The client.
        pid: ProcessId,
        /// The display that delivered its input.
        display: DisplayId,
    },
    /// A client that had shown nothing lately changed something visible, just now.
    Output {
        /// The client.
        pid: ProcessId,
        /// The display it is seen on.
        display: DisplayId,
        /// % of the screen, as in [`ClientPeriod::changed_pct`].
        changed_pct: f64,
    },
    /// A display is there (or is there again, or its server became known).
    Display {
        /// Its name.
        display: DisplayId,
        /// The process that serves it, where known; it becomes a hub.
        server: Option<ProcessId>,
    },
    /// Who manages the windows of a display. Without it no window appears, so it is kept ready, as the server is.
    Manager {
        /// The display.
        display: DisplayId,
        /// The window manager; it becomes a hub.
        manager: ProcessId,
    },
    /// A display went away.
    DisplayGone {
        /// Its name.
        display: DisplayId,
    },
    /// What the clients of a display did in the last second; those left out did nothing.
    Period {
        /// The display.
        display: DisplayId,
        /// One entry per client.
        clients: Vec<ClientPeriod>,
    },
    /// Wake-ups since the last report.
    Edges(Vec<Edge>),
    /// The scheduler gave a process a rating by itself.
    Given {
        /// The process that got it.
        pid: ProcessId,
        /// On what occasion.
        kind: GivenKind,
        /// The process it was copied from.
        from: ProcessId,
        /// The copied P_in, in thousandths.
        in_milli: u32,
        /// The copied P_out, in thousandths.
        out_milli: u32,
    },
    /// The last thread of a process is gone.
    Exit {
        /// The process.
        pid: ProcessId,
    },
    /// A process is known to be a hub by its role, or (`None`) is no longer: it runs another program now.
    Hub {
        /// The process.
        pid: ProcessId,
        /// Its role.
        role: Option<HubRole>,
    },
    /// Once a second: the rating pass.
    Tick,
}
