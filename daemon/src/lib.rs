// SPDX-License-Identifier: GPL-2.0-only
//! limelight's daemon: wiring only. What is seen comes from `limelight-sense` and the scheduler, what to do about it is
//! decided in `limelight-policy`, and `limelight-sched` does it.

mod allowance;
mod answers;
pub mod control;
pub mod coop;
mod core;
mod helpers;
mod kernel;
pub mod procfs;
mod reserve;
mod run;
mod search;
mod standing;
mod stats;
mod told;
pub mod view;
mod worker;

pub use run::{Options, run};
