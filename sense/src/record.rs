// SPDX-License-Identifier: GPL-2.0-only
//! Reads the data stream of X's RECORD extension: which client received an input event, and which client died.
//!
//! The stream carries the first 32 bytes of each delivered event, and for a key press the second of them is the key.
//! The parser looks at the type byte, and for GenericEvents at the extension and the event type; it never looks at a
//! detail, a time or a position, it copies nothing, and [`RecordBuffer`] zeroes what it has parsed.
//!
//! Layout after recordproto 1.13 §5 (EnableContext) and xproto §B; all numbers in our own byte order, except the inside
//! of an event that was sent to a client of the other order (`client_swapped`).

use x11rb::protocol::{xinput, xproto};
use zeroize::Zeroize;

/// Length of an event, and of the head of every other packet.
const HEAD_BYTES: usize = 32;
/// No packet of a RECORD context is longer: the server flushes its buffer of 1 KiB. Anything else is not RECORD data.
const MAX_PACKET_BYTES: usize = 64 * 1024;
/// Bytes read at once: some five hundred events.
const BUFFER_BYTES: usize = 128 * 1024;

// recordproto 1.13, EnableContext: the values of `category`.
const FROM_SERVER: u8 = 0;
const CLIENT_DIED: u8 = 3;
const END_OF_DATA: u8 = 5;

/// First byte of a packet that is an error, and of one that is a reply. Anything above is an event.
const ERROR: u8 = 0;
const REPLY: u8 = 1;
/// The bit X sets in the type of an event that another client sent; see [`is_core_input`].
const SEND_EVENT_BIT: u8 = 0x80;

/// What the stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// A client received a key, button, motion or touch event. Its resource id base.
    Input {
        /// The client's resource id base.
        base: u32,
    },
    /// A client closed its connection: its base may be given to another.
    Died {
        /// The client's resource id base.
        base: u32,
    },
    /// The server ended the recording.
    Ended,
}

/// Why the stream cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A packet of impossible length: the stream is out of step.
    #[error("the X server sent a RECORD packet of {bytes} bytes")]
    Malformed {
        /// The length it claims.
        bytes: usize,
    },
    /// The server refused to record.
    #[error("the X server refused to record (X error {code})")]
    Refused {
        /// X's error code.
        code: u8,
    },
}

/// Reads the packets at the start of `bytes` and passes what they say to `on`; returns how many bytes were whole
/// packets. `xinput_opcode` is the major opcode of the XInput extension, if the server has it.
///
/// # Errors
/// [`RecordError`] when the stream makes no sense; what came before was passed on.
pub fn parse(bytes: &[u8], xinput_opcode: Option<u8>, on: &mut impl FnMut(Recorded)) -> Result<usize, RecordError> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
        let length = packet_bytes(head)?;
        let Some(packet) = bytes.get(at..at + length) else { break };
        match packet[0] {
            ERROR => return Err(RecordError::Refused { code: packet[1] }),
            REPLY => parse_reply(packet, xinput_opcode, on),
            // A MappingNotify reaches every client, us included.
            _ => {}
        }
        at += length;
    }
    Ok(at)
}

/// Length of the packet that begins with `head`.
fn packet_bytes(head: &[u8]) -> Result<usize, RecordError> {
    let has_more = head[0] == REPLY || head[0] & !SEND_EVENT_BIT == xproto::GE_GENERIC_EVENT;
    if !has_more {
        return Ok(HEAD_BYTES);
    }
    let more = u32_at(head, 4) as usize;
    let bytes = more.saturating_mul(4).saturating_add(HEAD_BYTES);
    if bytes > MAX_PACKET_BYTES { Err(RecordError::Malformed { bytes }) } else { Ok(bytes) }
}

fn parse_reply(packet: &[u8], xinput_opcode: Option<u8>, on: &mut impl FnMut(Recorded)) {
    let (category, swapped, base) = (packet[1], packet[9] != 0, u32_at(packet, 12));
    match category {
        FROM_SERVER => {
            // One packet can hold several events for one client; one report is enough.
            let mut events = packet[HEAD_BYTES..].chunks_exact(HEAD_BYTES);
            if events.any(|event| is_core_input(event) || is_xinput(event, swapped, xinput_opcode)) {
                on(Recorded::Input { base });
            }
        }
        CLIENT_DIED => on(Recorded::Died { base }),
        END_OF_DATA => on(Recorded::Ended),
        _ => {}
    }
}

/// KeyPress 2 to MotionNotify 6, from the server itself: a client can send these to another (SendEvent), and that is no
/// input of the person's.
fn is_core_input(event: &[u8]) -> bool {
    (xproto::KEY_PRESS_EVENT..=xproto::MOTION_NOTIFY_EVENT).contains(&event[0])
}

/// The same for XInput 2: keys, buttons, motion and touches as delivered to a window. Raw events are left out: who listens
/// for those (a hot-key daemon, a recorder) is not being used.
fn is_xinput(event: &[u8], swapped: bool, xinput_opcode: Option<u8>) -> bool {
    if event[0] != xproto::GE_GENERIC_EVENT || Some(event[1]) != xinput_opcode {
        return false;
    }
    let bytes = [event[8], event[9]];
    let kind = if swapped { u16::from_ne_bytes([bytes[1], bytes[0]]) } else { u16::from_ne_bytes(bytes) };
    (xinput::KEY_PRESS_EVENT..=xinput::MOTION_EVENT).contains(&kind)
        || (xinput::TOUCH_BEGIN_EVENT..=xinput::TOUCH_END_EVENT).contains(&kind)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// The one place in the helper that keys pass through: a fixed buffer, zeroed as it is parsed.
pub struct RecordBuffer {
    bytes: Box<[u8]>,
    filled: usize,
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self { bytes: vec![0; BUFFER_BYTES].into_boxed_slice(), filled: 0 }
    }
}

impl Drop for RecordBuffer {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl RecordBuffer {
    /// Where the next bytes from the server go. Never empty: a packet is shorter than the buffer.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Parses after `read` more bytes were put into [`Self::space`], and zeroes all but the start of an unfinished packet.
    ///
    /// # Errors
    /// See [`parse`]. The buffer is zeroed then too.
    pub fn take(
        &mut self,
        read: usize,
        xinput_opcode: Option<u8>,
        mut on: impl FnMut(Recorded),
    ) -> Result<(), RecordError> {
        let end = (self.filled + read).min(self.bytes.len());
        let parsed = parse(&self.bytes[..end], xinput_opcode, &mut on);
        let used = parsed.as_ref().map_or(end, |used| *used);
        self.bytes.copy_within(used..end, 0);
        self.filled = end - used;
        self.bytes[self.filled..end].zeroize();
        parsed.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const XINPUT: u8 = 131;
    const BASE: u32 = 0x0040_0000;

    fn packet(category: u8, swapped: bool, events: &[[u8; 32]]) -> Vec<u8> {
        let mut bytes = vec![0_u8; HEAD_BYTES];
        bytes[0] = REPLY;
        bytes[1] = category;
        bytes[4..8].copy_from_slice(&(events.len() as u32 * 8).to_ne_bytes());
        bytes[9] = u8::from(swapped);
        bytes[12..16].copy_from_slice(&BASE.to_ne_bytes());
        events.iter().for_each(|event| bytes.extend_from_slice(event));
        bytes
    }

    fn core(kind: u8) -> [u8; 32] {
        let mut event = [0xaa_u8; 32];
        event[0] = kind;
        event
    }

    fn generic(opcode: u8, kind: [u8; 2]) -> [u8; 32] {
        let mut event = core(xproto::GE_GENERIC_EVENT);
        event[1] = opcode;
        event[8..10].copy_from_slice(&kind);
        event
    }

    fn read(bytes: &[u8]) -> Vec<Recorded> {
        let mut said = Vec::new();
        let used = parse(bytes, Some(XINPUT), &mut |item| said.push(item)).unwrap();
        assert_eq!(used, bytes.len());
        said
    }

    fn is_input(event: [u8; 32], swapped: bool) -> bool {
        read(&packet(FROM_SERVER, swapped, &[event])) == [Recorded::Input { base: BASE }]
    }

    /// Exactly the five core kinds of input count, and none of them when another client sent it.
    #[test]
    fn core_input_is_keys_buttons_and_motion() {
        for kind in 0..=255_u8 {
            let expected = (2..=6).contains(&kind);
            assert_eq!(is_input(core(kind), false), expected, "core event {kind}");
        }
    }

    /// Of XInput's events, those delivered to a window count; raw events and other extensions' events do not.
    #[test]
    fn xinput_is_filtered_by_extension_and_type() {
        let counted = [2_u16, 3, 4, 5, 6, 18, 19, 20];
        for kind in 0..64_u16 {
            let expected = counted.contains(&kind);
            assert_eq!(is_input(generic(XINPUT, kind.to_ne_bytes()), false), expected, "XInput event {kind}");
            assert!(!is_input(generic(XINPUT + 1, kind.to_ne_bytes()), false), "Present event {kind}");
        }
    }

    /// A client of the other byte order is understood.
    #[test]
    fn swapped_clients_are_understood() {
        let mut kind = 6_u16.to_ne_bytes();
        kind.reverse();
        assert!(is_input(generic(XINPUT, kind), true));
        assert!(!is_input(generic(XINPUT, kind), false));
    }

    /// Several events for one client in one packet are one report; a death is a report of its own.
    #[test]
    fn packets_follow_each_other() {
        let mut bytes = packet(4, false, &[]);
        bytes.extend(packet(FROM_SERVER, false, &[core(12), core(2), core(3)]));
        bytes.extend(core(34));
        bytes.extend(packet(CLIENT_DIED, false, &[]));
        bytes.extend(packet(END_OF_DATA, false, &[]));
        assert_eq!(read(&bytes), [Recorded::Input { base: BASE }, Recorded::Died { base: BASE }, Recorded::Ended]);
    }

    /// However the bytes are cut by the socket, the same is read, and no event stays in the buffer.
    #[test]
    fn cut_streams_are_joined_and_the_buffer_is_zeroed() {
        let bytes = [packet(FROM_SERVER, false, &[core(2)]), packet(CLIENT_DIED, false, &[])].concat();
        for cut in 0..bytes.len() {
            let (mut buffer, mut said) = (RecordBuffer::default(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                buffer.space()[..part.len()].copy_from_slice(part);
                buffer.take(part.len(), Some(XINPUT), |item| said.push(item)).unwrap();
            }
            assert_eq!(said, [Recorded::Input { base: BASE }, Recorded::Died { base: BASE }], "cut at {cut}");
            assert!(buffer.bytes.iter().all(|byte| *byte == 0), "cut at {cut} left bytes behind");
        }
    }

    /// A refusal and an impossible length are told apart, and both end the stream.
    #[test]
    fn a_broken_stream_is_an_error() {
        let mut refused = [0_u8; 32];
        refused[1] = 8;
        let mut ignore = |_| {};
        assert_eq!(parse(&refused, None, &mut ignore), Err(RecordError::Refused { code: 8 }));
        let mut endless = packet(FROM_SERVER, false, &[]);
        endless[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(matches!(parse(&endless, None, &mut ignore), Err(RecordError::Malformed { .. })));
    }

    proptest! {
        /// Garbage never panics, never reads past its end and never keeps an event behind.
        #[test]
        fn garbage_is_harmless(bytes in prop::collection::vec(any::<u8>(), 0..4096), cut in 0_usize..4096) {
            let mut buffer = RecordBuffer::default();
            let cut = cut.min(bytes.len());
            for part in [&bytes[..cut], &bytes[cut..]] {
                buffer.space()[..part.len()].copy_from_slice(part);
                if buffer.take(part.len(), Some(XINPUT), |_| {}).is_err() {
                    prop_assert!(buffer.bytes.iter().all(|byte| *byte == 0));
                    break;
                }
                prop_assert!(!buffer.space().is_empty());
            }
        }

        /// A true stream with any bytes broken is read to its end or refused, with no more reports than packets.
        #[test]
        fn broken_bytes_are_harmless(breaks in prop::collection::vec((0_usize..640, any::<u8>()), 0..8)) {
            let mut bytes = [packet(FROM_SERVER, false, &[core(2), generic(XINPUT, [6, 0])]), packet(CLIENT_DIED, false, &[])]
                .concat().repeat(5);
            for (at, byte) in breaks {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let mut reports = 0;
            let _ = parse(&bytes, Some(XINPUT), &mut |_| reports += 1);
            prop_assert!(reports <= bytes.len() / HEAD_BYTES);
        }
    }
}
