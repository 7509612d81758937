// SPDX-License-Identifier: GPL-2.0-only
//! The memory test before a reservation is given back (Redline, section 6.1): what a task has not resident must fit into the memory that is free, or what it
//! is promised goes by while its pages come in, and they push out those of others.
//!
//! Programs of today map far more than they ever touch, so it is what of it is paged out.

use std::path::Path;

use crate::procfs;
use crate::view::Shortage;

/// Is there too little memory for who has so much paged out? Each is none where it cannot be told.
///
/// Who has nothing paged out needs none, however little there is. What is gone keeps nobody from being asked about: the scheduler says that it is gone. Where
/// nobody knows what is free there may be none.
pub fn shortage(paged_out_kb: Option<u64>, available_kb: Option<u64>) -> Option<Shortage> {
    let paged_out_kb = paged_out_kb.filter(|&kb| kb > 0)?;
    let fits = available_kb.is_some_and(|available_kb| paged_out_kb < available_kb);
    (!fits).then_some(Shortage { paged_out_kb, available_kb })
}

/// The same of process `pid`, by what the `/proc` at `proc` says now.
pub fn shortage_of(proc: &Path, pid: u32) -> Option<Shortage> {
    let paged_out_kb = procfs::paged_out_kb(proc, pid).filter(|&kb| kb > 0)?;
    shortage(Some(paged_out_kb), procfs::available_kb(proc))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has less paged out than is free is given back, who has as much or more is not: paged in, nothing were left.
    #[test]
    fn what_is_paged_out_must_fit_into_what_is_free() {
        let short = |paged_out_kb, available_kb| Some(Shortage { paged_out_kb, available_kb });
        assert_eq!(shortage(Some(999), Some(1000)), None);
        assert_eq!(shortage(Some(1000), Some(1000)), short(1000, Some(1000)));
        assert_eq!(shortage(Some(1001), Some(1000)), short(1001, Some(1000)));
        assert_eq!(shortage(Some(1), Some(0)), short(1, Some(0)));
        assert_eq!(shortage(Some(u64::MAX), Some(1000)), short(u64::MAX, Some(1000)));
    }

    /// Who has nothing paged out needs no memory, also where there is none or nobody knows; where it is not known, and something is paged out, it may not fit.
    #[test]
    fn who_has_nothing_paged_out_needs_nothing() {
        assert_eq!([Some(1000), Some(0), None].map(|available_kb| shortage(Some(0), available_kb)), [None; 3]);
        assert_eq!(shortage(Some(1), None), Some(Shortage { paged_out_kb: 1, available_kb: None }));
    }

    /// A process that has ended is not short of anything: that it is gone is the scheduler's to say.
    #[test]
    fn who_is_gone_lacks_nothing() {
        assert_eq!([Some(1000), Some(0), None].map(|available_kb| shortage(None, available_kb)), [None; 3]);
    }

    /// Both figures are read from where they stand in `/proc`, of a process that is there and of one that is not.
    #[test]
    fn the_figures_are_those_of_proc() {
        let proc = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(proc.path().join(name), text).unwrap();
        std::fs::create_dir(proc.path().join("7")).unwrap();
        write("7/status", "Name:\tedit\nVmRSS:\t     100 kB\nVmSwap:\t    2048 kB\nThreads:\t1\n");
        write("meminfo", "MemTotal:        8000 kB\nMemFree:          500 kB\nMemAvailable:    2048 kB\n");
        assert_eq!(
            shortage_of(proc.path(), 7),
            Some(Shortage { paged_out_kb: 2048, available_kb: Some(2048) }),
            "not what is free alone, and not what is there altogether"
        );
        assert_eq!(shortage_of(proc.path(), 8), None, "there is no process 8");
        write("meminfo", "MemAvailable:    2049 kB\n");
        assert_eq!(shortage_of(proc.path(), 7), None);
        write("meminfo", "MemFree:    9000 kB\n");
        assert_eq!(shortage_of(proc.path(), 7), Some(Shortage { paged_out_kb: 2048, available_kb: None }));
    }
}
