// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler and prints its counters once a second until it ends: for work on the scheduler alone.

use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::Duration;

use limelight_sched::{Scheduler, Settings};

fn main() -> anyhow::Result<()> {
    let mut object = MaybeUninit::uninit();
    let scheduler = Scheduler::load(&Settings::default(), &mut object)?;
    let mut quiet = std::env::args().any(|arg| arg == "--quiet");
    while !scheduler.has_exited() {
        sleep(Duration::from_secs(1));
        if !quiet {
            println!("{:?} edges {} ratings {:?}", scheduler.counters(), scheduler.drain_edges()?.len(), scheduler.ratings()?.len());
        }
        quiet |= false;
    }
    println!("{:?}", scheduler.unload());
    Ok(())
}
