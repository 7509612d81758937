// SPDX-License-Identifier: GPL-2.0-only
//! The arithmetic of the BPF program (`bpf/math`), which needs no kernel, compiled for the host and put to the test.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::path::Path;
use std::process::Command;

/// Every rule of `math_host.c` holds.
#[test]
fn the_arithmetic_keeps_its_rules() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("math_host");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-O1", "-o"])
        .arg(&program)
        .arg(tests.join("math_host.c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}
