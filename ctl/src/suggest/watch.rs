// SPDX-License-Identifier: GPL-2.0-only
//! Watches one process for a while.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use limelight_record::Recorder;
use limelight_spec::suggest::Stint;
use nix::time::{ClockId, clock_gettime};

use super::process::Process;

/// How often what was seen is taken: half of what its buffer has room for at the most switches that a CPU can do.
const EVERY: Duration = Duration::from_millis(50);

/// A process that is watched.
pub struct Watch<'room> {
    recorder: Recorder<'room>,
    /// The process.
    pub process: Process,
}

/// What was seen, and in which time.
pub struct Watched {
    /// When its threads ran.
    pub stints: Vec<Stint>,
    /// Since when that counts.
    pub from_ns: u64,
    /// And until when.
    pub to_ns: u64,
    /// It has not ended.
    pub is_alive: bool,
}

impl<'room> Watch<'room> {
    /// Watch `process` from now on.
    ///
    /// # Errors
    /// The BPF program cannot be told.
    pub fn begin(mut recorder: Recorder<'room>, process: Process) -> Result<Self> {
        recorder.watch(process.pid())?;
        Ok(Self { recorder, process })
    }

    /// Watch it for `settle`, which does not count, and `counted`, or until it ends.
    ///
    /// # Errors
    /// What was seen cannot be read.
    pub fn during(&mut self, settle: Duration, counted: Duration) -> Result<Watched> {
        let from_ns = now_ns()? + u64::try_from(settle.as_nanos())?;
        let until_ns = from_ns + u64::try_from(counted.as_nanos())?;
        let mut stints = Vec::new();
        let mut to_ns = now_ns()?;
        let mut is_alive = true;
        while is_alive && to_ns < until_ns {
            sleep(EVERY);
            stints.extend(self.recorder.take()?.into_iter().map(stint));
            is_alive = self.process.is_alive();
            to_ns = now_ns()?;
        }
        stints.extend(self.recorder.take_all(to_ns)?.into_iter().map(stint));
        Ok(Watched { stints, from_ns, to_ns: to_ns.max(from_ns), is_alive })
    }

    /// How much was not seen.
    pub fn lost(&self) -> u64 {
        self.recorder.lost()
    }
}

fn stint(seen: limelight_abi::record::ll_stint) -> Stint {
    let limelight_abi::record::ll_stint { woken_ns, start_ns, end_ns, tid, slept } = seen;
    Stint { thread: tid, woken_ns, start_ns, end_ns, slept: slept != 0 }
}

/// The clock of the BPF program.
fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("cannot read the clock")?;
    Ok(u64::try_from(Duration::from(now).as_nanos())?)
}
