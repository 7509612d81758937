// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of delivered events: one connection to the server for each.
//!
//! An enabled recording keeps its connection busy, so each has its own, beside the control connection. Two are needed:
//! the server loses XInput's events when a recording asks for both ranges (facts/interaction.md §1, seen on 21.1.7).
//!
//! The connection is set up by x11rb and then read directly into the one buffer that is zeroed ([`RecordBuffer`]), so that
//! no key ever lies in a heap block somebody else frees.

use std::collections::HashSet;
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
///
/// A client's input is recorded until it has been seen once in a period: more of it says nothing new, and each event recorded is one more
/// thing the server does before it goes on to the client that waits for its answer (a fifth of the way from a motion to the window
/// manager, with four busy CPUs).
pub(crate) struct Recording {
    socket: File,
    context: record::Context,
    events: Events,
    /// Clients whose input is not recorded for now.
    seen: HashSet<u32>,
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
        Ok(Self { socket, context, events, seen: HashSet::new(), buffer: RecordBuffer::default(), base, xinput_opcode })
    }

    /// Records no more input of the client with `base`, which may have died meanwhile, until [`Self::listen_again`].
    pub(crate) fn has_seen(&mut self, control: &RustConnection, base: u32) -> Result<(), SessionEnd> {
        if self.seen.insert(base) {
            self.register(
                control,
                base,
                record::Range { delivered_events: record::Range8::default(), ..range(self.events) },
            )?;
        }
        Ok(())
    }

    /// The client with `base` died: what comes next with that base is another.
    pub(crate) fn forget(&mut self, base: u32) {
        self.seen.remove(&base);
    }

    /// Whether input of some client is not recorded for now.
    pub(crate) fn is_deaf(&self) -> bool {
        !self.seen.is_empty()
    }

    /// A period is over: records everybody's input anew.
    pub(crate) fn listen_again(&mut self, control: &RustConnection) -> Result<(), SessionEnd> {
        for base in std::mem::take(&mut self.seen) {
            self.register(control, base, range(self.events))?;
        }
        Ok(())
    }

    /// From now on `what` is recorded of the client with `base`, and nothing else.
    fn register(&self, control: &RustConnection, base: u32, what: record::Range) -> Result<(), SessionEnd> {
        control.record_register_clients(self.context, 0, &[base], &[what])?;
        Ok(())
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
