// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler without the daemon, rates the processes named on the command line HUCIN, and prints the counters
//! once a second until it is ended: for work on the scheduler alone.

use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::Duration;

use limelight_abi::sched::ll_rating;
use limelight_sched::{Scheduler, Settings};

fn main() -> anyhow::Result<()> {
    let mut object = MaybeUninit::uninit();
    let scheduler = Scheduler::load(&Settings::default(), &mut object)?;
    let pids: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    for &pid in &pids {
        scheduler.set_rating(
            pid,
            &ll_rating { in_milli: 10_000, slice_pm: 1000, weight_pm: 1000, ..ll_rating::default() },
        )?;
    }
    scheduler.publish(!pids.is_empty(), pids.first().copied())?;
    while !scheduler.has_exited() {
        sleep(Duration::from_secs(1));
        println!("{:?} edges {}", scheduler.counters(), scheduler.drain_edges()?.len());
    }
    println!("{:?}", scheduler.unload());
    Ok(())
}
