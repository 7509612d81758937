// SPDX-License-Identifier: GPL-2.0-only
//! Watches a display: which processes receive the person's input, and which change what the person sees (HuC §4.1),
//! without a change to the X server or to any application.
//!
//! The root daemon finds displays ([`displays`]) and starts one helper for each ([`spawn`]); the helper runs as the
//! display's owner and does nothing but [`watch()`]. Input is seen by the RECORD extension, visible output by DAMAGE, and
//! processes are told apart by XRes. What leaves the helper is in `limelight_abi::sense`: counts and areas.

mod clients;
pub mod displays;
mod error;
mod events;
mod link;
mod looks;
mod period;
mod procs;
mod record;
mod recording;
mod region;
mod report;
mod session;
mod setup;
pub mod spawn;
mod tally;
mod tick;
mod watch;
mod windows;
mod xauthority;

pub use error::WatchError;
pub use watch::{WatchOptions, watch};
