// SPDX-License-Identifier: GPL-2.0-only
//! The arithmetic of the BPF program (`bpf/math`), which needs no kernel, compiled for the host and put to the test.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod host;

/// Every rule of `math_host.c` holds.
#[test]
fn the_arithmetic_keeps_its_rules() {
    host::keeps_its_rules("math_host");
}
