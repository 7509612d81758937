// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of delivered events: one connection to the server for each.
//!
//! An enabled recording keeps its connection busy, so each has its own, beside the control connection. Two are needed:
//! the server loses XInput's events when a recording asks for both ranges (facts/interaction.md §1, seen on 21.1.7).
//!
//! The connection is set up by x11rb and then read directly into the one buffer that is zeroed ([`RecordBuffer`]), so that
//! no key ever lies in a heap block somebody else frees.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::record::{self, ConnectionExt as _};
use x11rb::protocol::xproto;
use x11rb::rust_connection::RustConnection;
use zeroize::Zeroize as _;

use crate::error::{SessionEnd, WatchError};
use crate::record::{RecordBuffer, Recorded};

/// Which events a recording is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    /// The core protocol's key, button and motion events, and the deaths of clients.
    Core,
    /// GenericEvents, XInput's among them.
    Generic,
}

/// A running recording.
pub(crate) struct Recording {
    socket: File,
    buffer: RecordBuffer,
    base: u32,
    xinput_opcode: Option<u8>,
}

impl Recording {
    /// Starts a recording of all present and future clients, set up through `control`.
    pub(crate) fn start(
        display: &str,
        control: &RustConnection,
        events: Events,
        xinput_opcode: Option<u8>,
    ) -> Result<Self, SessionEnd> {
        let extension = control
            .extension_information(record::X11_EXTENSION_NAME)?
            .ok_or(SessionEnd::MissingExtension(record::X11_EXTENSION_NAME))?;
        let context = control.generate_id()?;
        control.record_create_context(context, 0, &[record::CS::ALL_CLIENTS.into()], &[range(events)])?.check()?;

        let (data, _) = RustConnection::connect(Some(display)).map_err(|error| WatchError::connect(display, error))?;
        let base = data.setup().resource_id_base;
        let socket: File = data.stream().as_fd().try_clone_to_owned()?.into();
        let (parts, _) = record::EnableContextRequest { context }.serialize(extension.major_opcode);
        let request: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        write_all(&socket, &request)?;
        Ok(Self { socket, buffer: RecordBuffer::default(), base, xinput_opcode })
    }

    /// The resource id base of this recording's own connection.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Reads what is there and passes on what it says, without waiting.
    pub(crate) fn read(&mut self, mut on: impl FnMut(Recorded)) -> Result<(), SessionEnd> {
        let mut ended = false;
        loop {
            let space = self.buffer.space();
            let room = space.len();
            let read = match (&self.socket).read(space) {
                Ok(0) => return Err(SessionEnd::Connection("the X server closed the connection".into())),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    space.zeroize();
                    return Err(error.into());
                }
            };
            self.buffer.take(read, self.xinput_opcode, |item| match item {
                Recorded::Ended => ended = true,
                other => on(other),
            })?;
            if ended {
                return Err(SessionEnd::Connection("the X server ended the recording".into()));
            }
            if read < room {
                return Ok(());
            }
        }
    }
}

impl AsFd for Recording {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn range(events: Events) -> record::Range {
    let (first, last) = match events {
        Events::Core => (xproto::KEY_PRESS_EVENT, xproto::MOTION_NOTIFY_EVENT),
        Events::Generic => (xproto::GE_GENERIC_EVENT, xproto::GE_GENERIC_EVENT),
    };
    record::Range {
        delivered_events: record::Range8 { first, last },
        client_died: events == Events::Core,
        ..record::Range::default()
    }
}

/// The first bytes on a fresh socket: there is room for them, unless the server is dead.
fn write_all(mut socket: &File, bytes: &[u8]) -> Result<(), SessionEnd> {
    use std::io::Write as _;
    socket.write_all(bytes).map_err(SessionEnd::from)
}
