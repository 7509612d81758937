// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: `limelight status` and `explain` ask here. One request line, one answer line, then it closes.
//!
//! Anybody may ask; whom they see depends on the kernel's word for who they are (`SO_PEERCRED`).

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::socket::sockopt::{PeerCredentials, SndBufForce};
use nix::sys::socket::{getsockopt, setsockopt};

use crate::view::{Request, Response};

/// Where the socket is, below [`RUN_DIR`].
pub const SOCKET: &str = "/run/limelight/control.sock";

/// The daemon's own folder.
pub const RUN_DIR: &str = "/run/limelight";

/// A request is a short line; whoever sends more is cut off.
const MAX_REQUEST_BYTES: usize = 4096;

/// How many may ask at once, and for how long each may take to say what.
const MAX_CLIENTS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for the longest answer, so that writing it never waits for whoever asked.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// How long `limelight status` waits for a daemon that may be starved.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The listening end, and those who have not yet said what they want.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    since: Instant,
}

impl Control {
    /// Listen. Fails where another daemon does already.
    ///
    /// # Errors
    /// Another daemon runs, or the folder cannot be made.
    pub fn bind(path: &Path) -> Result<Self> {
        if UnixStream::connect(path).is_ok() {
            bail!(
                "another limelight daemon is running (it answers at {}). Stop it first: systemctl stop limelight",
                path.display()
            );
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // Left behind by a daemon that was killed: nobody answers there.
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(Self { listener, clients: Vec::new() })
    }

    /// What to poll.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// Answer everybody whose request is complete. Never waits. `answer` gets the request and the caller's uid.
    pub fn serve(&mut self, mut answer: impl FnMut(&Request, u32) -> Response) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MAX_CLIENTS && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, line: Vec::new(), since: Instant::now() });
            }
        }
        self.clients.retain_mut(|client| match client.read_line() {
            Ok(true) => {
                // A client that went away meanwhile is its own problem.
                let _ = client.reply(&mut answer);
                false
            }
            Ok(false) => client.since.elapsed() < PATIENCE,
            Err(_) => false,
        });
    }
}

impl Client {
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

    fn reply(&mut self, answer: &mut impl FnMut(&Request, u32) -> Response) -> io::Result<()> {
        let caller = getsockopt(&self.stream, PeerCredentials)?.uid();
        let response = match serde_json::from_slice(&self.line) {
            Ok(request) => answer(&request, caller),
            Err(error) => Response::Error(format!("not a request: {error}")),
        };
        let mut text = serde_json::to_vec(&response)?;
        text.push(b'\n');
        // Needs root, which the daemon is; without it a very long answer is cut off.
        let _ = setsockopt(&self.stream, SndBufForce, &ANSWER_BYTES);
        self.stream.write_all(&text)
    }
}

/// Ask the daemon at `path`: its answer, as JSON.
///
/// # Errors
/// No daemon runs, or it does not answer, or it refuses.
pub fn ask(path: &Path, request: &Request) -> Result<serde_json::Value> {
    let mut stream = UnixStream::connect(path).with_context(|| {
        format!(
            "no limelight daemon answers at {}. Start it: sudo systemctl start limelight, or sudo limelight run",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("the daemon did not answer")?;
    let mut answer: serde_json::Value = serde_json::from_str(&text).context("the daemon's answer is no JSON")?;
    if let Some(error) = answer.get("error").and_then(serde_json::Value::as_str) {
        bail!("{error}");
    }
    let Some((_, value)) = answer.as_object_mut().and_then(|object| object.iter_mut().next()) else {
        bail!("the daemon's answer is empty");
    };
    Ok(value.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request gets its answer, with the caller's true uid; garbage gets an error, and the next client is served.
    #[test]
    fn request_and_answer() {
        let folder = std::env::temp_dir().join(format!("limelight-control-{}", std::process::id()));
        let path = folder.join("control.sock");
        let mut control = Control::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..400 {
                control.serve(|request, uid| Response::Error(format!("{request:?} by {uid}")));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut garbage = UnixStream::connect(&path).unwrap();
        garbage.write_all(b"{\"request\":\n").unwrap();
        let error = ask(&path, &Request::Explain { pid: 3 }).unwrap_err().to_string();
        assert_eq!(error, format!("Explain {{ pid: 3 }} by {}", nix::unistd::getuid()));
        assert!(Control::bind(&path).is_err(), "a second daemon must be refused");
        server.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    /// Without a daemon the message says how to start one.
    #[test]
    fn no_daemon_is_said() {
        let error = ask(Path::new("/nonexistent/limelight.sock"), &Request::Status).unwrap_err().to_string();
        assert!(error.contains("limelight run"), "{error}");
    }
}
