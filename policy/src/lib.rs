// SPDX-License-Identifier: GPL-2.0-only
//! Who serves the person: from what was seen to how urgent each process is.
//!
//! This is section 4 of the HuC tech report ("Human-centered scheduling of interactive and multimedia applications on a
//! loaded desktop", 2004) and the slice rule of its section 5.1, as one pure function:
//!
//! ```
//! use limelight_policy::{Event, Settings, State, step};
//!
//! let mut state = State::new(Settings::default())?;
//! let actions = step(&mut state, Event::Input { pid: 200.into(), display: ":0".into() }, 0);
//! assert_eq!(actions.len(), 1); // process 200 becomes HUCIN at once
//! # Ok::<(), limelight_policy::SettingsError>(())
//! ```
//!
//! No I/O and no clock: the same events with the same times give the same actions, so every case can be replayed in a
//! host test (`tests/scenarios`).
//!
//! * [`event`]: everything that can happen; [`action`]: everything that can be asked for.
//! * `graph`: the process dependency graph (4.2) and its ageing (4.2.3).
//! * `components`: its cycles, each of which is one to a rating that travels.
//! * `reach`: cumulative breadth-first spread over it (4.3), all sources in one go.
//! * [`hubs`]: processes that ratings do not travel through, by role and by fan-out (4.3, generalised).
//! * [`rating`]: scales, averages and slice shares (4.1.2, 4.1.3, 4.3, 5.1).
//! * `crowd`: weights inside a class, which all that serve one client share.
//! * `pass`: the once-a-second rating pass; `at_once`: the immediate path (4.3, last paragraph).
//! * [`view`]: explanations and the graph, for people.
//!
//! Units: ratings are in thousandths (`_milli`) of the scale of 4.1.2, where a rating of N means "input N seconds
//! before it is forgotten"; so K = 10 s is 10,000. They are integers, hence sums do not depend on the order of
//! summing.

pub mod action;
mod at_once;
mod components;
mod crowd;
pub mod event;
mod graph;
pub mod hubs;
mod pass;
pub mod rating;
mod reach;
#[cfg(test)]
mod reference;
pub mod settings;
mod state;
mod step;
mod table;
pub mod view;

pub use action::{Action, Class, Rating};
pub use event::{ClientPeriod, DisplayId, Edge, Event, GivenKind, ProcessId};
pub use hubs::HubRole;
pub use settings::{Settings, SettingsError};
pub use state::State;
pub use step::step;
pub use view::{Explanation, GraphView, Step, Why};
