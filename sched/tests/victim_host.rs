// SPDX-License-Identifier: GPL-2.0-only
//! Who loses a reservation in an overload: the rule is in the midst of the BPF program, as it looks at all reservations, and needs nothing of a kernel but
//! these. Its functions are taken out of the program's source and compiled for the host, so that what is tried is what runs.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod host;

use std::fs;
use std::path::Path;

/// What the rule is made of: where it stands, and how it begins. It ends with a line that begins with a brace.
const PARTS: &[(&str, &str)] = &[
    ("load.bpf.h", "enum {\n\tLOAD_PERIOD_NS "),
    ("admit.bpf.h", "static u32 window_use_us("),
    ("budget.bpf.h", "static void count_period("),
    ("load.bpf.h", "static u32 victim_of("),
];

fn part(folder: &Path, (name, begin): (&str, &str)) -> String {
    let source = fs::read_to_string(folder.join(name)).unwrap();
    let from = source.find(begin).unwrap_or_else(|| panic!("{name} has no {begin:?} any more"));
    let part = &source[from..];
    let end = part.find("\n}").unwrap() + 2;
    // An enum has a semicolon there.
    let end = end + part[end..].find('\n').unwrap() + 1;
    part[..end].to_owned()
}

/// Every rule of `victim_host.c` holds: of those that may be revoked who used up a budget before the deadline comes before a larger one, and who serves the
/// person last; who may not be revoked never does, however much it took.
#[test]
fn who_loses_its_reservation_is_who_the_rule_names() {
    let rule: String = PARTS.iter().map(|&one| part(&host::tests().join("../bpf"), one)).collect();
    fs::write(host::folder().join("victim_rule.h"), rule).unwrap();
    host::keeps_its_rules("victim_host");
}
