// SPDX-License-Identifier: GPL-2.0-only
//! What can keep the helper from watching, in words that tell the person what to do.

use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

use crate::record::RecordError;

/// Why a display cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The display's name makes no sense.
    #[error("{display:?} is not the name of a display; name one as --display :0")]
    BadName {
        /// The name given.
        display: String,
    },
    /// Nothing listens there.
    #[error("no X server answers at {display}: {source}; start one, or name another (sockets are in /tmp/.X11-unix)")]
    NoServer {
        /// The display's name.
        display: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The server has no such screen.
    #[error("the X server of {display} has no such screen; leave the screen out, as in :0")]
    NoScreen {
        /// The display's name.
        display: String,
    },
    /// The server does not let us in.
    #[error(
        "the X server of {display} refused us: {reason}; set XAUTHORITY to the file with its cookie (`xauth -f FILE list` \
         names {display}), or let this user in with `xhost +si:localuser:NAME`"
    )]
    Refused {
        /// The display's name.
        display: String,
        /// The server's reason.
        reason: String,
    },
    /// The server cannot tell processes, or neither input nor output.
    #[error(
        "the X server of {display} has no {extension} extension, without which no process can be told from another; \
         start it without `-extension {extension}`"
    )]
    MissingExtension {
        /// The display's name.
        display: String,
        /// The extension's name.
        extension: &'static str,
    },
    /// The server went away, or what it says makes no sense.
    #[error("the X server of {display} went away: {reason}")]
    Lost {
        /// The display's name.
        display: String,
        /// Why.
        reason: String,
    },
    /// The report descriptor is not what the daemon hands out.
    #[error(
        "the report descriptor is not a SOCK_SEQPACKET socket ({reason}); the daemon starts this command by itself"
    )]
    NotASocket {
        /// The system's reason.
        reason: String,
    },
    /// A system call failed that does not fail.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl WatchError {
    /// The error for a connection that was not established.
    pub(crate) fn connect(display: &str, error: ConnectError) -> Self {
        let display = display.to_owned();
        match error {
            ConnectError::DisplayParsingError(_) => Self::BadName { display },
            ConnectError::InvalidScreen => Self::NoScreen { display },
            ConnectError::IoError(source) => Self::NoServer { display, source },
            ConnectError::SetupFailed(failed) => Self::Refused { display, reason: readable(&failed.reason) },
            ConnectError::SetupAuthenticate(more) => Self::Refused { display, reason: readable(&more.reason) },
            other => Self::Lost { display, reason: other.to_string() },
        }
    }
}

/// Text from a server, fit for a terminal.
fn readable(text: &[u8]) -> String {
    let text: String = text.iter().take(200).map(|byte| char::from(*byte)).collect();
    let text = text.split(|c: char| !(c.is_ascii_graphic() || c == ' ')).collect::<Vec<_>>().join(" ");
    if text.trim().is_empty() { "no reason given".into() } else { text.trim().to_owned() }
}

/// Why a session with a server ended; becomes [`WatchError::Lost`] or a `Gone` message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionEnd {
    /// The daemon closed its end: nothing is left to do.
    #[error("the daemon went away")]
    ReportClosed,
    /// The server lacks what nothing can be done without.
    #[error("no {0} extension")]
    MissingExtension(&'static str),
    /// The connection broke.
    #[error("{0}")]
    Connection(String),
    /// The recording broke.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A connection of ours was not let in, or found no server.
    #[error(transparent)]
    Connect(#[from] WatchError),
}

impl From<ConnectionError> for SessionEnd {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Self::Connection("the X server closed the connection".into())
            }
            other => Self::Connection(other.to_string()),
        }
    }
}

impl From<ReplyError> for SessionEnd {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::ConnectionError(error) => error.into(),
            ReplyError::X11Error(error) => {
                Self::Connection(format!("X error {:?} for request {}", error.error_kind, error.major_opcode))
            }
        }
    }
}

impl From<ReplyOrIdError> for SessionEnd {
    fn from(error: ReplyOrIdError) -> Self {
        match error {
            ReplyOrIdError::IdsExhausted => Self::Connection("the X server has no resource ids left".into()),
            ReplyOrIdError::ConnectionError(error) => error.into(),
            ReplyOrIdError::X11Error(error) => ReplyError::X11Error(error).into(),
        }
    }
}

impl From<std::io::Error> for SessionEnd {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a server gives as its reason, what is printed cannot steer a terminal.
    #[test]
    fn a_servers_reason_is_made_readable() {
        assert_eq!(readable(b"Invalid MIT-MAGIC-COOKIE-1 key\n"), "Invalid MIT-MAGIC-COOKIE-1 key");
        assert_eq!(readable(b"a\x1b[31mb\0"), "a [31mb");
        assert_eq!(readable(b"\n\0"), "no reason given");
        assert!(readable(&[b'x'; 4096]).len() <= 200);
    }
}
