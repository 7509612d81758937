// SPDX-License-Identifier: MIT
//! The calls that need no [`crate::Coop`].

use crate::{Promise, sys};
use std::io;

pub fn now_ns() -> u64 {
    // SAFETY: it takes and keeps nothing.
    unsafe { sys::coop_now() }
}

pub fn promise() -> Promise {
    // SAFETY: as above.
    match unsafe { sys::coop_promise() } {
        sys::COOP_PROMISE_KEPT => Promise::Kept,
        sys::COOP_PROMISE_DEMOTED => Promise::Demoted,
        _ => Promise::None,
    }
}

pub fn promise_error() -> Option<io::Error> {
    // SAFETY: as above.
    sys::check(unsafe { sys::coop_promise_error() }).err()
}

/// (when to yield, least user virtual time), both possibly never.
pub fn poll(group: u32, release: u64, user_virtual_time: u64) -> io::Result<(u64, u64)> {
    let mut timer = sys::coop_event { type_: sys::COOP_TIMER, release, ..Default::default() };
    let mut work = sys::coop_event { type_: sys::COOP_BEST_EFFORT, user_virtual_time, ..Default::default() };
    // SAFETY: both live until it returns, and are not kept.
    sys::check(unsafe { sys::coop_poll(group, &mut timer, &mut work) })?;
    Ok((timer.release, work.user_virtual_time))
}

pub fn begin_sleep(release: u64) -> io::Result<()> {
    // SAFETY: it takes and keeps nothing.
    sys::check(unsafe { sys::coop_sleep_begin(release) }).map(drop)
}

pub fn end_sleep() -> u64 {
    // SAFETY: as above.
    unsafe { sys::coop_sleep_end() }
}

pub fn share_group(group: u32) -> io::Result<[u8; sys::COOP_TOKEN_BYTES as usize]> {
    let mut token = sys::coop_token::default();
    // SAFETY: it lives until it returns, and is not kept.
    sys::check(unsafe { sys::coop_share_group(group, &mut token) })?;
    Ok(token.bytes)
}

pub fn unshare_group(group: u32) -> io::Result<()> {
    // SAFETY: it takes and keeps nothing.
    sys::check(unsafe { sys::coop_unshare_group(group) }).map(drop)
}

pub fn join_group(group: u32, bytes: [u8; sys::COOP_TOKEN_BYTES as usize]) -> io::Result<()> {
    // SAFETY: the token lives until it returns, and is not kept.
    sys::check(unsafe { sys::coop_join_group(group, &sys::coop_token { bytes }) }).map(drop)
}

pub fn leave_group(group: u32) -> io::Result<()> {
    // SAFETY: it takes and keeps nothing.
    sys::check(unsafe { sys::coop_leave_group(group) }).map(drop)
}
