// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the scheduler's own C that are compiled for the host and run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where what is made is put.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The folder of these tests.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Every check of `name`.c holds, which may include what is in [`folder`].
pub fn keeps_its_rules(name: &str) {
    let program = folder().join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-O1", "-I"])
        .arg(folder())
        .arg("-o")
        .arg(&program)
        .arg(tests().join(name).with_extension("c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}
