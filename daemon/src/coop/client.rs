// SPDX-License-Identifier: GPL-2.0-only
//! The client's side in Rust, for `limelight doctor` and for tests. Programs have libcoop.

use std::io::{IoSliceMut, Result as IoResult};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limelight_abi::coop::{COOP_ABI_MAGIC, COOP_ABI_VERSION, coop_hello, coop_welcome};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockType, recvmsg, send};

use crate::control::connect_within;

/// A page that was handed to this process. It is the process's as long as this is there.
pub struct Handed {
    /// To be mapped.
    pub page: OwnedFd,
    /// Slots of the page.
    pub slots: u32,
    /// Its end is the page's.
    pub connection: UnixStream,
}

/// Ask at `path` for a page for this process, and wait no longer than `patience`.
///
/// # Errors
/// Nobody listens there, or there is no answer in time, or it is a refusal.
pub fn ask_for_page(path: &Path, patience: Duration) -> Result<Handed> {
    let at = path.display();
    let connection = connected(path, patience).with_context(|| format!("nobody hands out pages at {at}"))?;
    send(connection.as_raw_fd(), &hello(), MsgFlags::MSG_NOSIGNAL).with_context(|| format!("cannot ask at {at}"))?;
    let (welcome, page) = answer(&connection).with_context(|| format!("there was no answer at {at}"))?;
    let word = |offset: usize| -> Result<u32> {
        let bytes = welcome.get(offset..offset + size_of::<u32>()).context("the answer is too short")?;
        Ok(u32::from_ne_bytes(bytes.try_into()?))
    };
    if word(offset_of!(coop_welcome, magic))? != COOP_ABI_MAGIC {
        bail!("what answers at {at} is no limelight");
    }
    let error = word(offset_of!(coop_welcome, error))?.cast_signed();
    if error != 0 {
        return Err(Errno::from_raw(error.wrapping_neg())).context("a page was refused");
    }
    let page = page.with_context(|| format!("the answer at {at} came without a page"))?;
    Ok(Handed { page, slots: word(offset_of!(coop_welcome, slots))?, connection })
}

/// What libcoop says.
pub fn hello() -> Vec<u8> {
    let mut hello = [COOP_ABI_MAGIC, COOP_ABI_VERSION].map(u32::to_ne_bytes).concat();
    hello.resize(size_of::<coop_hello>(), 0);
    hello
}

/// A connection on which nothing waits longer than `patience`.
pub fn connected(path: &Path, patience: Duration) -> IoResult<UnixStream> {
    connect_within(path, SockType::SeqPacket, patience)
}

/// The next packet, and the descriptor that came along.
fn answer(connection: &UnixStream) -> IoResult<(Vec<u8>, Option<OwnedFd>)> {
    let mut packet = [0; size_of::<coop_welcome>()];
    let mut control = cmsg_space!(RawFd);
    let mut parts = [IoSliceMut::new(&mut packet)];
    let message = recvmsg::<()>(connection.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut page = None;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = part {
            // SAFETY: the kernel has just made these for us, and nobody else knows of them.
            page = descriptors.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).next_back();
        }
    }
    let bytes = message.bytes;
    Ok((packet[..bytes].to_vec(), page))
}
