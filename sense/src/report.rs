// SPDX-License-Identifier: GPL-2.0-only
//! Sends messages to the daemon, never waiting for it.
//!
//! A daemon that does not read must not stop the helper from reading, or the X server would pile up records for it. So
//! what does not fit is dropped: the next period tells the same again. Only what is told once is kept: `Hello`, `Manager` and `Gone`.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use limelight_abi::sense::SenseMessage;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockType, getsockopt, send, sockopt};

use crate::error::WatchError;

/// At most so many kept messages: a display that comes and goes while the daemon sleeps.
const MAX_KEPT: usize = 16;

/// The daemon closed its end.
#[derive(Debug)]
pub(crate) struct Closed;

/// The helper's end of the socket.
pub(crate) struct Report {
    socket: OwnedFd,
    kept: VecDeque<Vec<u8>>,
    greeted: bool,
}

impl Report {
    /// Takes the socket the daemon handed over.
    ///
    /// # Errors
    /// [`WatchError::NotASocket`] for anything but a `SOCK_SEQPACKET` socket.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, WatchError> {
        match getsockopt(&socket, sockopt::SockType) {
            Ok(SockType::SeqPacket) => Ok(Self { socket, kept: VecDeque::new(), greeted: false }),
            Ok(other) => Err(WatchError::NotASocket { reason: format!("it is of type {other:?}") }),
            Err(errno) => Err(WatchError::NotASocket { reason: errno.desc().to_owned() }),
        }
    }

    /// Sends a message if the daemon has room for it.
    pub(crate) fn send(&mut self, message: &SenseMessage) -> Result<(), Closed> {
        let packet = match message.encode() {
            Ok(packet) => packet,
            Err(error) => {
                log::warn!("a message was not sent: {error}");
                return Ok(());
            }
        };
        match message {
            SenseMessage::Hello { .. } => self.greeted = true,
            SenseMessage::Gone { .. } => self.greeted = false,
            _ => {}
        }
        self.flush()?;
        let keep =
            !matches!(message, SenseMessage::Input { .. } | SenseMessage::Output { .. } | SenseMessage::Period { .. });
        if (!self.kept.is_empty() || !self.try_send(&packet)?) && keep && self.kept.len() < MAX_KEPT {
            self.kept.push_back(packet);
        }
        Ok(())
    }

    /// Whether the daemon was told of a display that has not gone since.
    pub(crate) fn has_greeted(&self) -> bool {
        self.greeted
    }

    /// Whether something is kept that waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Sends what was kept, as far as there is room.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        while let Some(packet) = self.kept.front() {
            if !self.try_send(packet)? {
                break;
            }
            self.kept.pop_front();
        }
        Ok(())
    }

    fn try_send(&self, packet: &[u8]) -> Result<bool, Closed> {
        loop {
            match send(self.socket.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(_) => return Ok(true),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EMSGSIZE) => return Ok(false),
                Err(_) => return Err(Closed),
            }
        }
    }
}

impl AsFd for Report {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use nix::sys::socket::{AddressFamily, SockFlag, recv, socketpair};

    use super::*;

    fn pair(kind: SockType) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    fn read(socket: &OwnedFd) -> Option<SenseMessage> {
        let mut bytes = vec![0; 4096];
        let read = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).ok()?;
        Some(SenseMessage::decode(&bytes[..read]).unwrap())
    }

    /// A daemon that sleeps loses input reports, but learns that the display went, in order, when it wakes.
    #[test]
    fn a_sleeping_daemon_stalls_nobody() {
        let (ours, theirs) = pair(SockType::SeqPacket);
        let mut report = Report::new(ours).unwrap();
        let gone = SenseMessage::Gone { reason: "test".into() };
        for _ in 0..100_000 {
            report.send(&SenseMessage::Input { pid: 7 }).unwrap();
        }
        report.send(&gone).unwrap();
        assert!(report.is_waiting());
        let said = std::iter::from_fn(|| read(&theirs)).count();
        assert!(said > 0 && said < 100_000);
        report.send(&SenseMessage::Input { pid: 8 }).unwrap();
        assert_eq!(read(&theirs), Some(gone));
        assert_eq!(read(&theirs), Some(SenseMessage::Input { pid: 8 }));
    }

    /// A daemon that is gone is noticed.
    #[test]
    fn a_closed_daemon_is_noticed() {
        let (ours, theirs) = pair(SockType::SeqPacket);
        drop(theirs);
        assert!(Report::new(ours).unwrap().send(&SenseMessage::Input { pid: 7 }).is_err());
    }

    /// A descriptor that would not keep packets apart is refused.
    #[test]
    fn only_a_packet_socket_will_do() {
        let (ours, _theirs) = pair(SockType::Stream);
        assert!(matches!(Report::new(ours), Err(WatchError::NotASocket { .. })));
        let file = File::open("/dev/null").unwrap();
        assert!(matches!(Report::new(file.into()), Err(WatchError::NotASocket { .. })));
    }
}
