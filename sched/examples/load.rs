// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler without the daemon, rates the processes named on the command line HUCIN, gives each PATH:C:T (in ms) there a specification
//! that is inheritable and revocable, and prints counters, reservations and loads once a second until it is ended: for work on the scheduler alone.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use limelight_abi::sched::{LL_SPEC_INHERITABLE, LL_SPEC_REVOCABLE, ll_rating, ll_spec};
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
    for argument in std::env::args().skip(1) {
        let mut fields = argument.split(':');
        let (Some(path), Some(runtime), Some(period)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let file = scheduler.identify(File::open(path)?.as_fd())?;
        let spec = ll_spec {
            runtime_ns: (runtime.parse::<f64>()? * 1e6) as u64,
            period_ns: (period.parse::<f64>()? * 1e6) as u64,
            flags: LL_SPEC_INHERITABLE | LL_SPEC_REVOCABLE,
            id: 0,
        };
        scheduler.set_spec(&file, &spec)?;
        println!("{path}: {file:?}");
    }
    scheduler.count_specs(1)?;
    while !scheduler.has_exited() {
        sleep(Duration::from_secs(1));
        println!("{:?} edges {}", scheduler.counters(), scheduler.drain_edges()?.len());
        println!("{:?}", scheduler.loads());
        for (number, held) in scheduler.reservations() {
            println!("{number}: {held:?}");
        }
    }
    println!("{:?}", scheduler.unload());
    Ok(())
}
