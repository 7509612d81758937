// SPDX-License-Identifier: GPL-2.0-only
//! Everything the policy can ask for.

use serde::Serialize;

use crate::event::ProcessId;

/// The scheduling classes the policy decides between (5.1, Table 2). KTHREAD is the kernel's business, not a rating's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Class {
    /// A positive input rating: recently received input.
    HucIn,
    /// A positive output rating and no input rating: recently changed what the person sees.
    HucOut,
    /// Neither.
    Other,
}

impl Class {
    /// The field's word for it: `HUCIN`, `HUCOUT` or `OTHER`.
    pub fn name(self) -> &'static str {
        match self {
            Class::HucIn => "HUCIN",
            Class::HucOut => "HUCOUT",
            Class::Other => "OTHER",
        }
    }
}

/// What the scheduler is to know about one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rating {
    /// P_in in thousandths.
    pub in_milli: u32,
    /// P_out in thousandths.
    pub out_milli: u32,
    /// Its share of the full slice, per mille, 1..=1000 (5.1); 1000 for a process of class OTHER, whose slice no
    /// rating cuts.
    pub slice_pm: u32,
    /// Its share of a full weight inside its class, per mille, 1..=1000: its slice's, divided among its crowd.
    pub weight_pm: u32,
    /// Whether it is of its class only through others: by fork, by a wake-up or over the graph.
    pub indirect: bool,
    /// Ratings do not travel through it: it must not lend at a wake-up. What it forks inherits all the same.
    pub hub: bool,
    /// Who gave it its rating, where it was inherited or lent and nothing has been seen of its own since.
    pub from: Option<u32>,
}

impl Default for Rating {
    /// No rating: class OTHER, whose slices and weights no rating cuts.
    fn default() -> Self {
        Rating { in_milli: 0, out_milli: 0, slice_pm: 1000, weight_pm: 1000, indirect: false, hub: false, from: None }
    }
}

impl Rating {
    /// The class these ratings mean.
    pub fn class(&self) -> Class {
        if self.in_milli > 0 {
            Class::HucIn
        } else if self.out_milli > 0 {
            Class::HucOut
        } else {
            Class::Other
        }
    }
}

/// A change to what the scheduler knows. Only changes are asked for: what is not mentioned stays.
///
/// After [`Event::Exit`](crate::Event::Exit) nothing is asked for: the scheduler drops the entry with the last
/// thread, and a late `Clear` could hit the next process with that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Write this rating.
    Set {
        /// For this process.
        pid: ProcessId,
        /// The whole of it.
        rating: Rating,
    },
    /// The process is of class OTHER again and no hub: forget it.
    Clear {
        /// This process.
        pid: ProcessId,
    },
}

impl Action {
    /// Which process it is about.
    #[must_use]
    pub fn pid(&self) -> ProcessId {
        match *self {
            Action::Set { pid, .. } | Action::Clear { pid } => pid,
        }
    }
}
