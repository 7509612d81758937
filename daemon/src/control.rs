// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: `limelight status` and `explain` ask here. One request line, one answer line, then it closes.
//!
//! Anybody may ask; whom they see depends on the kernel's word for who they are (`SO_PEERCRED`).

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};

use crate::answers::write;
use crate::view::{Request, Response};

/// Where the socket is, below [`RUN_DIR`].
pub const SOCKET: &str = "/run/limelight/control.sock";

/// The daemon's own folder.
pub const RUN_DIR: &str = "/run/limelight";

/// A request is a short line; whoever sends more is cut off.
const MAX_REQUEST_BYTES: usize = 4096;

/// How many may ask at once, of one user, and with what is kept for root; and for how long each may take to say what.
const MAX_CLIENTS: usize = 32;
const MAX_CLIENTS_PER_USER: usize = 8;
const KEPT_FOR_ROOT: usize = 4;
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers in a second to all users but root, and to one of them: where 16,000 processes are rated each may take 50 ms of a CPU, and the
/// loop some of that.
const MAX_ANSWERS_PER_SECOND: u32 = 10;
const MAX_ANSWERS_PER_USER: u32 = 4;

/// What the next one is told.
const ASKED_TOO_OFTEN: &str =
    "the daemon is asked too often by you, or by all users who are not root; try again in a second";

/// How long `limelight status` waits for a daemon that may be starved: to be let in, and then to be answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The listening end, and those who have not yet said what they want.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    /// By user, since `counted_since`.
    answered: BTreeMap<u32, u32>,
    counted_since: Instant,
}

struct Client {
    stream: UnixStream,
    uid: u32,
    line: Vec<u8>,
    since: Instant,
}

impl Control {
    /// Listen. Fails where another daemon does already.
    ///
    /// # Errors
    /// Another daemon runs, or the folder cannot be made.
    pub fn bind(path: &Path) -> Result<Self> {
        let answers = match connect_within(path, SockType::Stream, PATIENCE) {
            Ok(_) => true,
            // Its queue is full.
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        };
        if answers {
            bail!(
                "another limelight daemon is running (it answers at {}). Stop it first: systemctl stop limelight; meanwhile it goes on, and \
                 limelight status shows it",
                path.display()
            );
        }
        make_place(path)?;
        let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(Self { listener, clients: Vec::new(), answered: BTreeMap::new(), counted_since: Instant::now() })
    }

    /// What to poll.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// Hand on everybody whose request is complete. Never waits, and takes in no more than [`MAX_CLIENTS`] at a time: who connects again and
    /// again must not keep the daemon from its work. `ask` gets the request, the caller's uid and where the answer goes.
    pub fn serve(&mut self, mut ask: impl FnMut(Request, u32, UnixStream)) {
        for _ in 0..MAX_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            self.admit(stream);
        }
        if self.counted_since.elapsed() >= Duration::from_secs(1) {
            self.answered.clear();
            self.counted_since = Instant::now();
        }
        let mut index = 0;
        while let Some(client) = self.clients.get_mut(index) {
            match client.read_line() {
                Ok(false) if client.since.elapsed() < PATIENCE => index += 1,
                Ok(false) | Err(_) => drop(self.clients.remove(index)),
                Ok(true) => {
                    let client = self.clients.remove(index);
                    let may_ask = self.may_ask(client.uid);
                    match serde_json::from_slice(&client.line) {
                        _ if !may_ask => refuse(&client.stream, ASKED_TOO_OFTEN),
                        Ok(request) => ask(request, client.uid, client.stream),
                        Err(error) => refuse(&client.stream, &format!("not a request: {error}")),
                    }
                }
            }
        }
    }

    /// Is one more answer due to `uid` in this second? Then it is counted; what is refused is not, or one user could refuse all others.
    fn may_ask(&mut self, uid: u32) -> bool {
        let all: u32 = self.answered.values().sum();
        let own = self.answered.get(&uid).copied().unwrap_or(0);
        if uid == 0 {
            return true;
        }
        if own >= MAX_ANSWERS_PER_USER || all >= MAX_ANSWERS_PER_SECOND {
            return false;
        }
        self.answered.insert(uid, own + 1);
        true
    }

    /// Is there room for one more of `uid`? Some is root's alone, and one user has a few places only.
    fn has_room(&self, uid: u32) -> bool {
        let of_user = self.clients.iter().filter(|client| client.uid == uid).count();
        match uid {
            0 => self.clients.len() < MAX_CLIENTS,
            _ => self.clients.len() < MAX_CLIENTS - KEPT_FOR_ROOT && of_user < MAX_CLIENTS_PER_USER,
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { return };
        if self.has_room(peer.uid()) && stream.set_nonblocking(true).is_ok() {
            self.clients.push(Client::new(stream, peer.uid()));
        }
    }
}

impl Client {
    fn new(stream: UnixStream, uid: u32) -> Self {
        Self { stream, uid, line: Vec::new(), since: Instant::now() }
    }

    /// Read what is there; is the line complete?
    fn read_line(&mut self) -> io::Result<bool> {
        let mut chunk = [0; MAX_REQUEST_BYTES];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.line.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.line.contains(&b'\n') || self.line.len() > MAX_REQUEST_BYTES {
                return Ok(true);
            }
        }
    }
}

/// Make room for a socket at `path`: a folder into which everybody may go, and no socket of a daemon that was killed.
///
/// # Errors
/// The folder cannot be made.
pub(crate) fn make_place(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        fs::create_dir_all(folder)
            .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // Nobody answers there.
    let _ = fs::remove_file(path);
    Ok(())
}

/// Tell whoever asks why there is no answer. A few words fit the socket's buffer, and a client that went away meanwhile is its own problem.
pub fn refuse(stream: &UnixStream, why: &str) {
    let _ = write(stream, &Response::Error(why.to_owned()), Duration::ZERO);
}

/// Ask the daemon at `path`: its answer, as JSON.
///
/// # Errors
/// No daemon runs, or it does not answer, or it refuses.
pub fn ask(path: &Path, request: &Request) -> Result<serde_json::Value> {
    ask_within(path, request, ANSWER_WITHIN)
}

fn ask_within(path: &Path, request: &Request, patience: Duration) -> Result<serde_json::Value> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let mut text = String::new();
    let at = path.display();
    let fault = |error: io::Error, otherwise: &str| {
        let what = if error.kind() == io::ErrorKind::WouldBlock {
            format!(
                "the limelight daemon at {at} did not answer within {} s: it hangs, or too many ask it. Ask again; if that \
                 does not help, sudo systemctl restart limelight",
                patience.as_secs_f32()
            )
        } else {
            otherwise.to_owned()
        };
        anyhow::Error::new(error).context(what)
    };
    let none =
        format!("no limelight daemon answers at {at}. Start it: sudo systemctl start limelight, or sudo limelight run");
    let mut stream = connect_within(path, SockType::Stream, patience).map_err(|error| fault(error, &none))?;
    let closed =
        format!("the limelight daemon at {at} closed without an answer: it ended, or too many ask it. Ask again");
    let exchanged = stream.write_all(&line).and_then(|()| stream.read_to_string(&mut text));
    exchanged.map_err(|error| fault(error, &closed))?;
    let mut answer: serde_json::Value = serde_json::from_str(&text).context("the daemon's answer is no JSON")?;
    if let Some(error) = answer.get("error").and_then(serde_json::Value::as_str) {
        bail!("{error}");
    }
    let Some((_, value)) = answer.as_object_mut().and_then(|object| object.iter_mut().next()) else {
        bail!("the daemon's answer is empty");
    };
    Ok(value.take())
}

/// A connection that gives up connecting, reading and writing after `patience` each: where the queue at the socket is full,
/// connecting waits without end.
pub(crate) fn connect_within(path: &Path, kind: SockType, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    // SO_SNDTIMEO limits connecting too (socket(7), connect(2)), so it comes first.
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use nix::sys::socket::{Backlog, listen};

    use super::*;

    /// A control socket in a folder of the test's own, and its path.
    fn bound(test: &str) -> (Control, PathBuf) {
        let folder = std::env::temp_dir().join(format!("limelight-{test}-{}", std::process::id()));
        let path = folder.join("control.sock");
        (Control::bind(&path).unwrap(), path)
    }

    /// A daemon that lets nobody in, or lets in and is silent, keeps nobody waiting: who asks is told where, why and what to do.
    #[test]
    fn a_daemon_that_hangs_is_said() {
        let path = std::env::temp_dir().join(format!("limelight-control-hangs-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let (sender, answers) = std::sync::mpsc::channel();
        // The first finds room in the queue, where it is left; the second finds none.
        let asked = path.clone();
        std::thread::spawn(move || {
            sender.send(ask_within(&asked, &Request::Status, Duration::from_millis(200))).unwrap();
            sender.send(ask_within(&asked, &Request::Status, Duration::from_millis(200))).unwrap();
        });
        for _ in 0..2 {
            let answer = answers.recv_timeout(Duration::from_secs(20)).expect("it waits without end");
            let error = answer.unwrap_err().to_string();
            for words in [path.to_str().unwrap(), "within 0.2 s", "systemctl restart limelight"] {
                assert!(error.contains(words), "{error}");
            }
        }
        fs::remove_file(path).unwrap();
    }

    /// A request gets its answer, with the caller's true uid; garbage gets an error, and the next client is served.
    #[test]
    fn request_and_answer() {
        let (mut control, path) = bound("control");
        let server = std::thread::spawn(move || {
            for _ in 0..400 {
                control.serve(|request, uid, stream| refuse(&stream, &format!("{request:?} by {uid}")));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut garbage = UnixStream::connect(&path).unwrap();
        garbage.write_all(b"{\"request\":\n").unwrap();
        let error = ask(&path, &Request::Explain { pid: 3 }).unwrap_err().to_string();
        assert_eq!(error, format!("Explain {{ pid: 3 }} by {}", nix::unistd::getuid()));
        let refused = Control::bind(&path).err().expect("a second daemon must be refused").to_string();
        assert!(refused.contains("limelight status") && refused.contains("systemctl stop limelight"), "{refused}");
        server.join().unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    /// Silent connections of one user leave room for others, and those of all users for root.
    #[test]
    fn one_user_does_not_take_every_place() {
        let (mut control, path) = bound("places");
        let mut fill = |uid: u32| {
            while control.has_room(uid) {
                let stream = UnixStream::pair().unwrap().0;
                control.clients.push(Client::new(stream, uid));
            }
            control.clients.len()
        };
        assert_eq!(fill(1000), MAX_CLIENTS_PER_USER);
        assert_eq!((1001..1100).map(&mut fill).last(), Some(MAX_CLIENTS - KEPT_FOR_ROOT));
        assert_eq!(fill(0), MAX_CLIENTS);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    /// Users who are not root are answered so often in a second and no more; root always is.
    #[test]
    fn who_asks_without_end_is_told_to_wait() {
        let (mut control, path) = bound("often");
        // The second does not end while this asks.
        control.counted_since = Instant::now() + Duration::from_secs(60);
        let mut asked = |uid: u32| {
            let (stream, mut asker) = UnixStream::pair().unwrap();
            asker.write_all(b"{\"request\":\"status\"}\n").unwrap();
            control.clients.push(Client::new(stream, uid));
            control.serve(|_, _, stream| refuse(&stream, "an answer"));
            let mut text = String::new();
            asker.read_to_string(&mut text).unwrap();
            text.contains("too often")
        };
        let refused: Vec<bool> = (0..=MAX_ANSWERS_PER_SECOND).map(|_| asked(1000)).collect();
        assert_eq!(refused.iter().filter(|refused| !**refused).count() as u32, MAX_ANSWERS_PER_USER, "{refused:?}");
        assert!(!asked(1001), "another user");
        let all = (1002..1020).filter(|uid| !asked(*uid)).count() as u32;
        assert_eq!(all, MAX_ANSWERS_PER_SECOND - MAX_ANSWERS_PER_USER - 1, "all users together");
        assert!(!asked(0), "root");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    /// Who connects without end does not keep the daemon from its work: with more waiting than there are places one look takes those only.
    #[test]
    fn a_flood_of_connections_is_taken_in_parts() {
        let (mut control, path) = bound("flood");
        let waiting: Vec<_> = (0..2 * MAX_CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        control.serve(|_, _, _| ());
        assert!(control.listener.accept().is_ok(), "the rest still waits");
        drop(waiting);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    /// Without a daemon the message says how to start one.
    #[test]
    fn no_daemon_is_said() {
        let error = ask(Path::new("/nonexistent/limelight.sock"), &Request::Status).unwrap_err().to_string();
        assert!(error.contains("limelight run"), "{error}");
    }
}
