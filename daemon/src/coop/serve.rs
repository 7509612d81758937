// SPDX-License-Identifier: GPL-2.0-only
//! The thread that hands out pages: sockets and processes in, [`Door`] decides, [`Mechanism`] does it.
//!
//! One round of the loop: what was said is heard, whoever has ended goes, new connections are taken in, and one page is given. In that order, so that a
//! process that executes another program finds its old page gone when the new program has its turn. One, because others may end meanwhile.
//!
//! It never waits but for its sockets. Pages are entered and taken out by a [`Worker`], for that takes a grace period; where none is ready the one whose turn
//! it is waits, and all behind it, and who hangs up is heard.
//!
//! A process is known by its pidfd, which the kernel gave for the connection (`SO_PEERPIDFD`). Its connection may outlive it, in a child or in whoever it
//! was sent to: the page must not, or whoever has its number next would share it with them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result};
use limelight_abi::coop::{COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_MAX_PAGES, COOP_MAX_SLOTS, coop_welcome};
use log::{debug, error, warn};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, recvmsg,
    send, sendmsg, socket,
};
use nix::sys::stat::fstat;

use super::consent::{Ask, Change, Consents, Token};
use super::door::{ClientId, Door, Peer, Turn, Verdict};
use super::pool::{Batch, Pool, Taken};
use super::{Mechanism, Page, Shared, users};
use crate::control::make_place;
use crate::worker::Worker;

/// Connections that are looked at in a second: to take one in and to close it takes some 20 us, so a flood of them takes 2 % of a CPU.
pub const MAX_ACCEPTED_PER_SECOND: u32 = 1000;

/// And in a round: the others have their turn in between.
const MAX_ACCEPTED_PER_ROUND: usize = 64;

/// Connections that the kernel lets wait. Short, so that an honest one that gets in is soon looked at in a flood, too.
const BACKLOG: i32 = 128;

/// Processes whose user is looked up again each second: each takes a look into `/proc`. All of the most that can be are through in 32 s.
const MAX_LOOKED_UP: usize = 32;

/// Each second something is due: silence ends, a pause ends, turns begin anew.
const TICK: Duration = Duration::from_secs(1);

/// Other than of any client, whose tokens are twice its id, which begins at 1, and the next number.
const LISTENER: u64 = 0;
const END: u64 = 1;
const WORKER: u64 = u64::MAX;

/// Both ends of one connection.
struct Connection {
    socket: OwnedFd,
    /// Readable when the process has ended.
    process: OwnedFd,
}

/// What the thread owns.
pub struct Server<M> {
    door: Door,
    pool: Pool,
    mechanism: Arc<M>,
    worker: Worker<Batch, Result<Vec<Page>>>,
    epoll: Epoll,
    listener: UnixListener,
    /// Its other end is closed when this is to end.
    _end: UnixStream,
    connections: BTreeMap<ClientId, Connection>,
    /// The pages, by process, to be handed out again.
    pages: BTreeMap<u32, Page>,
    consents: Consents,
    shared: Shared,
    started: Instant,
    ticked: Instant,
    accepted: u32,
    is_paused: bool,
    /// Whose turn it is finds no page ready.
    is_waiting: bool,
    /// Up to here processes were looked up.
    looked_up: ClientId,
    /// The last failure that was reported, so that one that repeats itself does not fill the log.
    fault: String,
}

/// What one look at the sockets found.
#[derive(Default)]
struct Found {
    gone: Vec<ClientId>,
    said: Vec<(ClientId, Vec<u8>)>,
    connected: bool,
    replaced: bool,
    ends: bool,
}

impl<M: Mechanism> Server<M> {
    /// Listen at `path`.
    ///
    /// # Errors
    /// The socket cannot be made there, or there is no room for another thread.
    pub fn new(path: &Path, door: Door, mechanism: M, end: UnixStream, shared: Shared) -> Result<Self> {
        let listener = listen_at(path).with_context(|| format!("cannot listen at {}", path.display()))?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        epoll.add(&end, EpollEvent::new(EpollFlags::EPOLLIN, END))?;
        let mechanism = Arc::new(mechanism);
        let waits = Arc::clone(&mechanism);
        let worker = Worker::start("coop-pages", 1, move |batch: Batch| waits.replace(&batch.retired, &batch.blank))?;
        epoll.add(&worker, EpollEvent::new(EpollFlags::EPOLLIN, WORKER))?;
        let now = Instant::now();
        Ok(Self {
            door,
            pool: Pool::new(COOP_MAX_PAGES),
            mechanism,
            worker,
            epoll,
            listener,
            _end: end,
            connections: BTreeMap::new(),
            pages: BTreeMap::new(),
            consents: Consents::default(),
            shared,
            started: now,
            ticked: now,
            accepted: 0,
            is_paused: false,
            is_waiting: false,
            looked_up: 0,
            fault: String::new(),
        })
    }

    /// Serve until the other end of `end` is closed. The pages are not removed then: the scheduler that knows them ends, too.
    pub fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        self.order();
        loop {
            let patience = self.patience();
            match self.epoll.wait(&mut events, patience) {
                Ok(count) => {
                    let found = self.look(&events[..count]);
                    if found.ends {
                        return;
                    }
                    if let Err(error) = self.round(found) {
                        error!("{error:#}");
                        return;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    error!("cannot wait for cooperative processes: {errno}");
                    return;
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Nothing is due at no time where nobody is there.
    fn patience(&mut self) -> EpollTimeout {
        if !self.is_waiting && self.door.next(self.started.elapsed()).is_some() {
            return EpollTimeout::ZERO;
        }
        if self.door.is_empty() && !self.is_paused {
            return EpollTimeout::NONE;
        }
        EpollTimeout::try_from(TICK.saturating_sub(self.ticked.elapsed())).unwrap_or(EpollTimeout::ZERO)
    }

    fn look(&self, events: &[EpollEvent]) -> Found {
        let mut found = Found::default();
        for event in events {
            match event.data() {
                LISTENER => found.connected = true,
                END => found.ends = true,
                WORKER => found.replaced = true,
                // The process has ended.
                token if token % 2 == 1 => found.gone.push(token / 2),
                token => match self.connections.get(&(token / 2)).map(|client| receive(&client.socket)) {
                    Some(Ok(packet)) => found.said.push((token / 2, packet)),
                    Some(Err(ErrorKind::WouldBlock | ErrorKind::Interrupted)) => {}
                    Some(Err(_)) | None => found.gone.push(token / 2),
                },
            }
        }
        found
    }

    /// An error: the thread that enters pages has ended by itself.
    fn round(&mut self, found: Found) -> Result<()> {
        if found.replaced {
            self.take_pages()?;
        }
        let mut gone = found.gone;
        for (id, packet) in found.said {
            match self.door.hear(id, &packet) {
                Verdict::Wait => {}
                Verdict::Answer(peer, ask) => {
                    if !self.answer_ask(id, &peer, &ask) {
                        gone.push(id);
                    }
                }
                Verdict::Refuse(errno) => self.refuse(id, errno),
                Verdict::Close => gone.push(id),
            }
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.tick(&mut gone);
        }
        self.dismiss(&gone);
        if found.connected {
            self.take_in();
        }
        self.is_waiting = false;
        self.serve_one();
        self.order();
        self.tell();
        Ok(())
    }

    /// New pages are there, or could not be made.
    fn take_pages(&mut self) -> Result<()> {
        if let Some(answer) = self.worker.take()? {
            let pages = answer.map_err(|error| self.report(format!("{error:#}; processes go without"))).ok();
            self.pool.done(pages);
        }
        Ok(())
    }

    /// Have pages replaced, if any are to be.
    fn order(&mut self) {
        if let Some(batch) = self.pool.order() {
            // There is room for it: no other one is under way. Where the thread has ended its bell says so.
            let _ = self.worker.give(batch);
        }
    }

    /// Close these connections, and unbind the pages of processes that have no other one.
    fn dismiss(&mut self, gone: &[ClientId]) {
        for id in gone {
            // Closing the descriptors takes them off the epoll set: nobody else has copies of these.
            self.connections.remove(id);
            let Some(pid) = self.door.leave(*id) else { continue };
            if let Some(page) = self.pages.remove(&pid) {
                self.mechanism.unbind(pid, page.number);
                self.pool.retire(&page);
            }
            let changes = self.consents.end(pid);
            self.change(&changes);
        }
    }

    /// What a client with a page asks about groups of several users. False: it is to be closed.
    fn answer_ask(&mut self, id: ClientId, peer: &Peer, ask: &Ask) -> bool {
        if !self.is_still(id, peer) {
            return false;
        }
        let (answer, changes) = self.consents.ask(peer, ask, fresh_token);
        self.change(&changes);
        // A client that does not read has no room left for it in the end, and need not be waited for.
        self.connections.get(&id).is_some_and(|client| {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            send(client.socket.as_raw_fd(), &ask.reply(answer), flags).is_ok()
        })
    }

    /// Have the scheduler know who may use whose group.
    fn change(&self, changes: &[Change]) {
        for change in changes {
            if let Some(page) = self.pages.get(&change.pid) {
                self.mechanism.consent(page.number, change.place, change.consent);
            }
        }
    }

    fn refuse(&mut self, id: ClientId, errno: Errno) {
        if let Some(client) = self.connections.get(&id) {
            // Whoever does not hear it is gone.
            let _ = answer(&client.socket, errno as i32, None);
        }
        self.dismiss(&[id]);
    }

    fn take_in(&mut self) {
        for _ in 0..MAX_ACCEPTED_PER_ROUND {
            if self.accepted >= MAX_ACCEPTED_PER_SECOND {
                return self.pause();
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.accepted += 1;
                    // It may have ended already: nobody to be missed.
                    let _ = self.admit(stream.into());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    self.report(format!("cannot let cooperative processes in: {error}; trying again in a second"));
                    return self.pause();
                }
            }
        }
    }

    /// Let nobody in until the next second.
    fn pause(&mut self) {
        self.is_paused = self.epoll.modify(&self.listener, &mut EpollEvent::new(EpollFlags::empty(), LISTENER)).is_ok();
    }

    fn admit(&mut self, socket: OwnedFd) -> Result<()> {
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let process = getsockopt(&socket, PeerPidfd)?;
        // 0: it is in a container that this daemon does not see into.
        let Some(pid) = u32::try_from(credentials.pid()).ok().filter(|pid| *pid != 0) else { return Ok(()) };
        // The number of a process's file is never given to another process (since Linux 6.9).
        let peer = Peer { pid, process: fstat(&process)?.st_ino, uid: credentials.uid() };
        let Some(id) = self.door.admit(peer, self.now()) else { return Ok(()) };
        let watch = |fd: &OwnedFd, token| self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token));
        if let Err(errno) = watch(&socket, 2 * id).and_then(|()| watch(&process, 2 * id + 1)) {
            self.door.leave(id);
            return Err(errno.into());
        }
        self.connections.insert(id, Connection { socket, process });
        Ok(())
    }

    /// Give a page to whose turn it is.
    fn serve_one(&mut self) {
        let Some((id, peer)) = self.door.next(self.now()) else { return };
        if !self.is_still(id, &peer) {
            return self.dismiss(&[id]);
        }
        let strangers = self.door.strangers(&peer);
        self.dismiss(&strangers);
        self.door.forget_kept(|page| self.pool.is_retiring(page) || self.mechanism.is_held(page));
        match self.door.turn(id, |page| self.pool.is_retiring(page)) {
            Turn::Refuse(errno) => {
                debug!("process {} of user {} gets no page: {errno}", peer.pid, peer.uid);
                self.refuse(id, errno);
            }
            Turn::Share => self.hand_out(id, &peer),
            Turn::Make => match self.pool.take() {
                Taken::Ready(page) => self.bind(id, &peer, page),
                Taken::Later => self.is_waiting = true,
                Taken::Never => self.refuse(id, Errno::EAGAIN),
            },
        }
    }

    /// Give a client the page, which is its process's from now on.
    fn bind(&mut self, id: ClientId, peer: &Peer, page: Page) {
        if let Err(error) = self.mechanism.bind(peer.pid, peer.uid, page.number) {
            self.report(format!("{error:#}; its process goes without"));
            self.pool.retire(&page);
            return self.refuse(id, Errno::EAGAIN);
        }
        self.pages.insert(peer.pid, page);
        self.hand_out(id, peer);
    }

    /// Hand its process's page to a client.
    fn hand_out(&mut self, id: ClientId, peer: &Peer) {
        let (Some(client), Some(page)) = (self.connections.get(&id), self.pages.get(&peer.pid)) else { return };
        self.door.give(id, page.id);
        // Before the page was bound the process may have ended, and its number may be another's.
        if !self.is_still(id, peer) || answer(&client.socket, 0, Some(&page.fd)).is_err() {
            self.dismiss(&[id]);
        }
    }

    /// Does the client's process live, with the rights it had when it connected? Else its number says nothing, or it is about to be another program, of
    /// another user's, by a set-user-id file.
    fn is_still(&self, id: ClientId, peer: &Peer) -> bool {
        self.mechanism.uid(peer.pid) == Some(peer.uid)
            && self.connections.get(&id).is_some_and(|client| !has_ended(&client.process))
    }

    /// The second is over. Who is to be closed for that is added to `gone`.
    fn tick(&mut self, gone: &mut Vec<ClientId>) {
        self.accepted = 0;
        if self.is_paused {
            let listening = self.epoll.modify(&self.listener, &mut EpollEvent::new(EpollFlags::EPOLLIN, LISTENER));
            self.is_paused = listening.is_err();
        }
        gone.extend(self.door.silent(self.now()));
        let looked_up = self.door.served_after(self.looked_up, MAX_LOOKED_UP);
        self.looked_up = looked_up.last().map_or(0, |(id, _)| *id);
        gone.extend(looked_up.iter().filter(|(id, peer)| !self.is_still(*id, peer)).map(|(id, _)| *id));
    }

    fn report(&mut self, fault: String) {
        if self.fault != fault {
            warn!("{fault}");
            self.fault = fault;
        }
    }

    fn tell(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.users = users(self.door.processes());
        shared.refused = self.door.refused();
    }
}

/// A socket at `path` to which everybody may connect.
fn listen_at(path: &Path) -> Result<UnixListener> {
    make_place(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(listener.into())
}

/// The next packet; an error where there is none, or never will be.
fn receive(socket: &OwnedFd) -> Result<Vec<u8>, ErrorKind> {
    // Longer than any hello, and any question.
    let mut packet = [0; 64];
    let mut parts = [IoSliceMut::new(&mut packet)];
    // Without room for descriptors: the kernel closes those that come along, and says so.
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, None, MsgFlags::MSG_DONTWAIT)
        .map_err(|errno| io::Error::from(errno).kind())?;
    if message.bytes == 0 || message.flags.intersects(MsgFlags::MSG_CTRUNC | MsgFlags::MSG_TRUNC) {
        return Err(ErrorKind::InvalidData);
    }
    let bytes = message.bytes;
    Ok(packet[..bytes].to_vec())
}

/// Send a welcome: with `error` 0 and a page, or with an errno and none. It never waits: this is the first that the client is sent.
fn answer(socket: &OwnedFd, error: i32, page: Option<&OwnedFd>) -> Result<(), Errno> {
    let mut welcome = [0; size_of::<coop_welcome>()];
    let words = [
        (offset_of!(coop_welcome, magic), COOP_ABI_MAGIC),
        (offset_of!(coop_welcome, version), COOP_ABI_VERSION),
        (offset_of!(coop_welcome, error), error.wrapping_neg().cast_unsigned()),
        (offset_of!(coop_welcome, slots), COOP_MAX_SLOTS),
    ];
    for (offset, word) in words {
        welcome[offset..offset + size_of::<u32>()].copy_from_slice(&word.to_ne_bytes());
    }
    let page = page.map(|page| [page.as_raw_fd()]);
    let descriptors: Vec<ControlMessage<'_>> = page.iter().map(|page| ControlMessage::ScmRights(page)).collect();
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&welcome)], &descriptors, flags, None).map(drop)
}

/// Random bytes of the kernel's, which nobody can guess. It never waits: early in a boot there may be none.
fn fresh_token() -> Result<Token, Errno> {
    let mut token = [0; size_of::<Token>()];
    // SAFETY: it writes so many bytes there.
    let got = unsafe { nix::libc::getrandom(token.as_mut_ptr().cast(), token.len(), nix::libc::GRND_NONBLOCK) };
    // So few come all at once.
    if usize::try_from(got) == Ok(token.len()) { Ok(Token::from_ne_bytes(token)) } else { Err(Errno::EAGAIN) }
}

fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) != Ok(0)
}
