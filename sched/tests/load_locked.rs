// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler knows of a CPU's load is changed by who holds the lock of admissions, and nobody else: two CPUs that do so at the same moment
//! meet too seldom for a test of the whole.

use std::fs;
use std::path::Path;

/// What changes a load, or sums it up: arithmetic that is given one, and assignments.
const CHANGES: &[&str] = &[
    "ll_load_second(&",
    "ll_load_forget(&",
    "load.expected_ppm +",
    "load.expected_ppm -",
    "admitted_ppm +",
    "admitted_ppm -",
];

/// And what an admission goes by, which must be true until it has added its sum.
const LOOKS: &[&str] = &[" has_room(cctx"];

/// Each line of `source` that does one of `what`, and whether the lock is held there.
fn found<'a>(source: &'a str, what: &'a [&str]) -> impl Iterator<Item = (&'a str, bool)> {
    let mut held = false;
    source.lines().filter_map(move |line| {
        held = line.contains("bpf_spin_lock(&admission->lock)")
            || held && !line.contains("bpf_spin_unlock") && !line.starts_with('}');
        what.iter().any(|one| line.contains(one)).then_some((line, held))
    })
}

/// Each change of a load, and each look that one depends on, is made with the lock held.
#[test]
fn loads_change_with_the_lock_of_admissions_held() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let sources =
        ["admit.bpf.h", "load.bpf.h", "deadline.bpf.h"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    for what in [CHANGES, LOOKS] {
        let lines: Vec<_> = sources.iter().flat_map(|source| found(source, what)).collect();
        // Fewer: a name has changed, and this would see nothing.
        assert!(lines.len() >= what.len(), "{lines:?}");
        for (line, held) in lines {
            assert!(held || line.starts_with("static"), "without the lock: {}", line.trim());
        }
    }
}
