// SPDX-License-Identifier: MIT
//! Groups of several users.

use std::{fmt, io};

use crate::{scheduler, sys};

/// Bytes of a token.
const BYTES: usize = sys::COOP_TOKEN_BYTES as usize;

/// Consent to be in a group: whoever has it can join, so it is passed on as a password is, and not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; BYTES]);

impl Token {
    /// One that was passed on.
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Token(bytes)
    }

    /// To be passed on.
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Token(..)")
    }
}

/// Lets other users' processes into this user's `group`: those that the token is passed on to. It is good until [`unshare_group`], this process's end or
/// limelight's; the next call gives the same one. Like the others here it asks limelight, for at most a second.
///
/// # Errors
/// `InvalidInput` for 0; `ResourceBusy` (EBUSY): it is another user's here; EDQUOT, ENOSPC: too many tokens of this user, of all; `NotConnected`: limelight is
/// not here, or has no page for this process; `ConnectionReset`: it has just gone, or is older than this call; `TimedOut`; EAGAIN, EPROTO.
pub fn share_group(group: u32) -> io::Result<Token> {
    scheduler::share_group(group).map(Token)
}

/// The token is good no more, and who joined by it is out, from their next call of the scheduler on.
///
/// # Errors
/// `NotFound`: this process has not shared it; and as [`share_group`].
pub fn unshare_group(group: u32) -> io::Result<()> {
    scheduler::unshare_group(group)
}

/// What this process calls `group` is from now on the one that the token is for, whoever's that is, until [`leave_group`], or the consent ends: then it is this
/// user's own again. Again with the same token it tells whether the consent still holds.
///
/// # Errors
/// `PermissionDenied` (EACCES): no such token, or no longer; `ResourceBusy`: this process has shared `group`; EDQUOT: it is in eight groups of
/// others; and as [`share_group`].
pub fn join_group(group: u32, token: &Token) -> io::Result<()> {
    scheduler::join_group(group, token.0)
}

/// What this process calls `group` is this user's own again.
///
/// # Errors
/// `NotFound`: it has not joined another one by it; and as [`share_group`].
pub fn leave_group(group: u32) -> io::Result<()> {
    scheduler::leave_group(group)
}
