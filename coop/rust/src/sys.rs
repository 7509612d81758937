// SPDX-License-Identifier: MIT
//! `coop.h`, as the build turned it into Rust.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, unused, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/coop.rs"));

/// `COOP_NEVER`, whose definition is an expression of C.
pub const NEVER: u64 = u64::MAX;

/// The last point in time that is one.
pub const LATEST: u64 = NEVER - 1;

/// 0 or more, or the error that a negative result names.
pub fn check(result: i32) -> std::io::Result<i32> {
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}
