// SPDX-License-Identifier: GPL-2.0-only
//! Messages of the per-login helper to the daemon: who received input, whose visible output changed.
//!
//! The helper runs as the owner of the display, so the daemon must not believe what it says beyond that owner's own
//! processes. [`SenseMessage::decode`] therefore checks every bound named here; whether a pid belongs to the display's
//! owner is for the daemon to check, since only it can look.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket, in JSON. A message holds counts and areas of at least one
//! tick (200 ms): never a key, a text, a title or the time of an event.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of these messages, sent in [`SenseMessage::Hello`]. Raised whenever a field changes its meaning.
pub const SENSE_VERSION: u32 = 2;

/// Longest packet, in bytes. A [`SenseMessage::Period`] of [`MAX_CLIENTS`] clients fits.
pub const MAX_PACKET_BYTES: usize = 160 * 1024;

/// Most clients in one period: the X server's own upper limit of connections (`-maxclients 2048`).
pub const MAX_CLIENTS: usize = 2048;

/// Largest pid the kernel hands out (`PID_MAX_LIMIT` on 64 bits).
pub const MAX_PID: u32 = 4 * 1024 * 1024;

/// Largest believable change of the screen in one period, in % of the screen: each of [`MAX_CLIENTS`] clients changing
/// the whole screen on every one of the five ticks of a second would be far above; one client cannot exceed 5 × 100 %
/// per window, and 100 windows of full size are more than anybody sees.
pub const MAX_CHANGED_PCT: f64 = 50_000.0;

/// Longest string in a message, in bytes.
pub const MAX_STRING_BYTES: usize = 256;

/// What the helper tells the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SenseMessage {
    /// The helper watches a display. Sent on connection, again after each [`SenseMessage::Gone`], and again (without a
    /// `Gone`) when the screen changes its size.
    Hello {
        /// [`SENSE_VERSION`] of the sender.
        version: u32,
        /// The display's name, such as `:0`.
        display: String,
        /// The X server, from the credentials of its socket; `None` for a display reached over the network.
        server_pid: Option<u32>,
        /// Width of the whole screen, in pixels.
        width: u32,
        /// Height of the whole screen, in pixels.
        height: u32,
        /// What this server cannot tell; empty on every ordinary server.
        #[serde(default)]
        missing: Vec<Missing>,
    },
    /// At once: a client that received no input in this or the previous period received some (HuC §4.1.2: "whenever a
    /// client with zero input ratings receives an input event, the kernel is immediately notified").
    Input {
        /// The client's process.
        pid: u32,
    },
    /// At once, that is with the next damage tick (200 ms at most): first visible output of a client that showed none
    /// in the previous two periods. The amount is counted in the period too.
    Output {
        /// The client's process.
        pid: u32,
        /// What it changed in this tick, in % of the screen's area.
        changed_pct: f64,
    },
    /// Which process manages the display's windows, whenever that is learnt: no window appears, moves or goes without it.
    Manager {
        /// The window manager's process.
        pid: u32,
    },
    /// Once a second. A second in which no client had anything to say sends nothing.
    Period {
        /// Clients that received input or changed something visible; one entry per pid.
        clients: Vec<ClientPeriod>,
    },
    /// The display went away, or cannot be watched at all. The helper tries until it is back and then says `Hello` again, or ends.
    Gone {
        /// Why, for a person to read.
        reason: String,
    },
}

/// What one process did in one period (1 s), summed over its connections to the display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPeriod {
    /// The client's process.
    pub pid: u32,
    /// Whether it received a key, a button, a motion or a touch.
    pub input: bool,
    /// Visible change, in % of the screen's area; can exceed 100 (HuC §4.1.3 accumulates every change). The helper looks
    /// five times a second and counts an area once per look, so one window covering the screen gives 500 at most.
    pub changed_pct: f64,
}

/// An extension the X server lacks, and so what the helper cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// No RECORD: nobody's input is seen. Output still is.
    Input,
    /// No DAMAGE or XFIXES: nobody's output is seen. Input still is.
    Output,
}

/// Why a packet is not a message. The daemon should drop the helper that sent it.
#[derive(Debug)]
pub enum SenseError {
    /// Longer than [`MAX_PACKET_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Not JSON, or not one of the messages.
    Json(serde_json::Error),
    /// A field outside its range.
    OutOfRange {
        /// The field's name.
        field: &'static str,
    },
}

impl fmt::Display for SenseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(f, "a packet of {bytes} bytes from the display helper is longer than {MAX_PACKET_BYTES}")
            }
            Self::Json(error) => write!(f, "a packet from the display helper is not a message: {error}"),
            Self::OutOfRange { field } => write!(f, "a packet from the display helper has a bad {field}"),
        }
    }
}

impl std::error::Error for SenseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::TooLong { .. } | Self::OutOfRange { .. } => None,
        }
    }
}

impl SenseMessage {
    /// The packet for this message.
    ///
    /// # Errors
    /// [`SenseError::OutOfRange`] or [`SenseError::TooLong`] for a message that [`Self::decode`] would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, SenseError> {
        self.check()?;
        let packet = serde_json::to_vec(self).map_err(SenseError::Json)?;
        if packet.len() > MAX_PACKET_BYTES {
            return Err(SenseError::TooLong { bytes: packet.len() });
        }
        Ok(packet)
    }

    /// The message in a packet, if every field is in its range.
    ///
    /// # Errors
    /// See [`SenseError`]; nothing of a bad packet is used.
    pub fn decode(packet: &[u8]) -> Result<Self, SenseError> {
        if packet.len() > MAX_PACKET_BYTES {
            return Err(SenseError::TooLong { bytes: packet.len() });
        }
        let message: Self = serde_json::from_slice(packet).map_err(SenseError::Json)?;
        message.check()?;
        Ok(message)
    }

    fn check(&self) -> Result<(), SenseError> {
        match self {
            Self::Hello { version, display, server_pid, width, height, missing } => {
                require(*version >= 1, "version")?;
                require(display.len() <= MAX_STRING_BYTES, "display")?;
                require(server_pid.is_none_or(is_pid), "server_pid")?;
                // Sizes are 16 bits in the X protocol, and a share of nothing is no share.
                require((1..=65_535).contains(width), "width")?;
                require((1..=65_535).contains(height), "height")?;
                require(missing.len() <= 2, "missing")
            }
            Self::Input { pid } | Self::Manager { pid } => require(is_pid(*pid), "pid"),
            Self::Output { pid, changed_pct } => {
                require(is_pid(*pid), "pid")?;
                require(is_change(*changed_pct), "changed_pct")
            }
            Self::Period { clients } => {
                require(clients.len() <= MAX_CLIENTS, "number of clients")?;
                require(clients.iter().all(|client| is_pid(client.pid)), "pid")?;
                require(clients.iter().all(|client| is_change(client.changed_pct)), "changed_pct")
            }
            Self::Gone { reason } => require(reason.len() <= MAX_STRING_BYTES, "reason"),
        }
    }
}

fn is_pid(pid: u32) -> bool {
    (1..=MAX_PID).contains(&pid)
}

fn is_change(changed_pct: f64) -> bool {
    (0.0..=MAX_CHANGED_PCT).contains(&changed_pct)
}

fn require(holds: bool, field: &'static str) -> Result<(), SenseError> {
    if holds { Ok(()) } else { Err(SenseError::OutOfRange { field }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: u32) -> ClientPeriod {
        ClientPeriod { pid, input: true, changed_pct: 49_999.123 }
    }

    /// Every message survives the way through a packet.
    #[test]
    fn messages_round_trip() {
        let messages = [
            SenseMessage::Hello {
                version: SENSE_VERSION,
                display: ":0".into(),
                server_pid: Some(7),
                width: 1920,
                height: 1080,
                missing: vec![Missing::Output],
            },
            SenseMessage::Input { pid: 1 },
            SenseMessage::Output { pid: MAX_PID, changed_pct: 0.25 },
            SenseMessage::Period { clients: vec![client(3)] },
            SenseMessage::Gone { reason: "the X server closed the connection".into() },
        ];
        for message in messages {
            assert_eq!(SenseMessage::decode(&message.encode().unwrap()).unwrap(), message);
        }
    }

    /// The fullest period the X server's limit allows fits into one packet.
    #[test]
    fn a_full_period_fits_a_packet() {
        let clients = (0..MAX_CLIENTS as u32).map(|n| client(MAX_PID - n)).collect();
        assert!(SenseMessage::Period { clients }.encode().is_ok());
    }

    /// A lying helper cannot pass a field outside its range, an unknown field or an endless packet.
    #[test]
    fn lies_are_refused() {
        for packet in [
            r#"{"kind":"input","pid":0}"#,
            r#"{"kind":"input","pid":4194305}"#,
            r#"{"kind":"input","pid":-1}"#,
            r#"{"kind":"input","pid":1,"key":38}"#,
            r#"{"kind":"output","pid":1,"changed_pct":-0.1}"#,
            r#"{"kind":"output","pid":1,"changed_pct":1e9}"#,
            r#"{"kind":"output","pid":1,"changed_pct":1e999}"#,
            r#"{"kind":"output","pid":1,"changed_pct":null}"#,
            r#"{"kind":"hello","version":1,"display":":0","server_pid":null,"width":0,"height":5}"#,
            r#"{"kind":"period"}"#,
            r#"{"kind":"shutdown"}"#,
            "",
            "\u{0}",
        ] {
            assert!(SenseMessage::decode(packet.as_bytes()).is_err(), "{packet} was believed");
        }
        assert!(SenseMessage::decode(&vec![b' '; MAX_PACKET_BYTES + 1]).is_err());
        assert!(SenseMessage::Gone { reason: "x".repeat(MAX_STRING_BYTES + 1) }.encode().is_err());
        assert!(SenseMessage::Period { clients: vec![client(1); MAX_CLIENTS + 1] }.encode().is_err());
    }
}
