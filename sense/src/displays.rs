// SPDX-License-Identifier: GPL-2.0-only
//! Finds the X displays of this machine, whose they are, and the cookie their owner reaches them with.
//!
//! Facts come from the kernel only: which process listens on a display's socket and whose that process is
//! (`SO_PEERCRED`), and whose a file is. A server that runs as a person is that person's. A server that runs as root
//! serves the person whose cookie file opens it: what processes say in their environment is where to look, and the
//! cookie, equal to the one in the server's own file, is the proof. A server started without cookies lets everybody in
//! anyway; the first process that names it decides.
//!
//! Compositors that start Xwayland when somebody connects listen on its socket themselves: there `server_pid` is the
//! compositor's, and looking for the display starts its Xwayland.
//!
//! [`DisplayFinder::find`] opens files in people's homes, so it can be slow where those are on a network: call it on a
//! thread of its own.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};
use nix::unistd::{Uid, User};

use crate::procs::{ProcessId, Witness, auth_argument, display_number, start_of, user_of, witnesses};
use crate::xauthority::{belongs_to, cookies};

/// How long what was found about a display is believed where no process of its owner's vouches for it.
const UNVOUCHED: Duration = Duration::from_secs(30);
/// Uids below are the system's (login.defs `UID_MIN`): a greeter, not a person.
const FIRST_PERSON: u32 = 1000;
/// Most sockets probed, the lowest numbers first. Anybody can put one into the folder for every number there is.
const MAX_SOCKETS: usize = 256;
/// Most sockets probed of one owner: a crowd of theirs hides no display but their own.
const MAX_SOCKETS_OF_ONE: usize = 32;
/// Most names whose owner is looked up, which takes some ms. Who has taken all these numbers does hide the displays above.
const MAX_NAMES: usize = 4096;

/// A display and how its owner reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// Its name, such as `:0`.
    pub name: String,
    /// Whose it is.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The owner's home. Looked up here, for who keeps the accounts may be a server on a network.
    pub home: PathBuf,
    /// A file of the owner's with the display's cookie; `None` where none is needed or known.
    pub xauthority: Option<PathBuf>,
    /// The X server's process.
    pub server_pid: u32,
}

/// Who listens on a display's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Server {
    pid: u32,
    uid: u32,
    gid: u32,
}

#[derive(Debug)]
struct Known {
    display: Display,
    /// The socket's inode and the server: a server that came back has others.
    socket: u64,
    server: ProcessId,
    witness: Option<ProcessId>,
    found: Instant,
}

/// Finds displays, and remembers what it found: asking again is a few system calls for each display.
#[derive(Debug)]
pub struct DisplayFinder {
    socket_dir: PathBuf,
    proc: PathBuf,
    known: HashMap<u32, Known>,
}

impl Default for DisplayFinder {
    fn default() -> Self {
        Self { socket_dir: "/tmp/.X11-unix".into(), proc: "/proc".into(), known: HashMap::new() }
    }
}

impl DisplayFinder {
    /// The displays that answer now, by number. Displays that nobody can be found to own are left out.
    pub fn find(&mut self) -> Vec<Display> {
        let sockets = sockets(&self.socket_dir);
        let there: HashSet<u32> = sockets.iter().map(|(number, _)| *number).collect();
        self.known.retain(|number, _| there.contains(number));
        let mut people: Option<Vec<Witness>> = None;
        for (number, inode) in sockets {
            if self.is_fresh(number, inode) {
                continue;
            }
            self.known.remove(&number);
            let Some(server) = server_of(&self.socket_dir.join(format!("X{number}"))) else { continue };
            let Some(start) = start_of(&self.proc, server.pid) else { continue };
            // Who began to listen may have ended and left the socket to a child, and its number to anybody.
            if user_of(&self.proc, server.pid) != Some(server.uid) {
                continue;
            }
            let people = people.get_or_insert_with(|| witnesses(&self.proc, &there));
            let auth = auth_argument(&self.proc, server.pid);
            let (display, witness) = owner(number, server, auth.as_deref(), people);
            let server = ProcessId { pid: server.pid, start };
            self.known.insert(number, Known { display, socket: inode, server, witness, found: Instant::now() });
        }
        let mut displays: Vec<(u32, &Known)> = self.known.iter().map(|(number, known)| (*number, known)).collect();
        displays.sort_unstable_by_key(|(number, _)| *number);
        displays.into_iter().map(|(_, known)| known.display.clone()).collect()
    }

    /// Looks anew at the next [`Self::find`]: a helper was refused, so the cookie may be another.
    pub fn forget(&mut self, name: &str) {
        self.known.retain(|_, known| known.display.name != name);
    }

    fn is_fresh(&self, number: u32, inode: u64) -> bool {
        let alive = |process: ProcessId| start_of(&self.proc, process.pid) == Some(process.start);
        self.known.get(&number).is_some_and(|known| {
            known.socket == inode
                && alive(known.server)
                && known.witness.map_or_else(|| known.found.elapsed() < UNVOUCHED, alive)
        })
    }
}

/// The display numbers and inodes of the sockets in `dir`, the lowest first, as many as are looked at.
fn sockets(dir: &Path) -> Vec<(u32, u64)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let number = |entry: std::fs::DirEntry| display_number(entry.file_name().to_str()?.strip_prefix('X')?);
    let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    let mut of_owner: HashMap<u32, usize> = HashMap::new();
    let socket = |number: u32| {
        let metadata = std::fs::symlink_metadata(dir.join(format!("X{number}"))).ok()?;
        let count = of_owner.entry(metadata.uid()).or_default();
        let counts = metadata.file_type().is_socket() && *count < MAX_SOCKETS_OF_ONE;
        counts.then(|| {
            *count += 1;
            (number, metadata.ino())
        })
    };
    numbers.into_iter().take(MAX_NAMES).filter_map(socket).take(MAX_SOCKETS).collect()
}

/// Who listens on the socket at `path`; `None` if nobody does, or does not accept just now.
fn server_of(path: &Path) -> Option<Server> {
    // Not blocking: whoever made the socket may never accept.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path).ok()?) {
        Ok(()) => {}
        Err(Errno::EINTR) | Err(_) => return None,
    }
    let peer = getsockopt(&probe, sockopt::PeerCredentials).ok()?;
    let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid > 0)?;
    Some(Server { pid, uid: peer.uid(), gid: peer.gid() })
}

/// Whose display `number` is, how it is reached, and which process vouches for that.
fn owner(number: u32, server: Server, auth: Option<&Path>, people: &[Witness]) -> (Display, Option<ProcessId>) {
    let named = people.iter().filter(|witness| witness.display == number);
    let witness = if server.uid == 0 {
        let proof = auth.map(|auth| proofs(auth, number));
        let proven = named.filter(|witness| proof.as_ref().is_none_or(|proof| witness.opens(number, proof)));
        proven.min_by_key(|witness| witness.uid < FIRST_PERSON)
    } else {
        named.filter(|witness| witness.uid == server.uid).max_by_key(|witness| witness.own_xauthority().is_some())
    };
    let (uid, gid) = witness.map_or((server.uid, server.gid), |witness| (witness.uid, witness.gid));
    let xauthority = witness
        .and_then(Witness::own_xauthority)
        .or_else(|| auth.filter(|auth| belongs_to(auth, uid)).map(Path::to_path_buf));
    let home = User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| "/".into(), |user| user.dir);
    let display = Display { name: format!(":{number}"), uid, gid, home, xauthority, server_pid: server.pid };
    (display, witness.map(|witness| witness.id))
}

/// The cookies in a root server's own file. The file is root's, or the person's who started the server by `startx`.
fn proofs(auth: &Path, number: u32) -> Vec<crate::xauthority::Cookie> {
    let owner = std::fs::symlink_metadata(auth).map_or(0, |metadata| metadata.uid());
    cookies(auth, owner, number)
}

impl Witness {
    /// Its cookie file, if it really is its owner's.
    fn own_xauthority(&self) -> Option<PathBuf> {
        self.xauthority.clone().filter(|path| belongs_to(path, self.uid))
    }

    /// Whether its owner holds one of the cookies in `proof`.
    fn opens(&self, number: u32, proof: &[crate::xauthority::Cookie]) -> bool {
        let held = self.xauthority.as_ref().map(|path| cookies(path, self.uid, number)).unwrap_or_default();
        held.iter().any(|cookie| proof.contains(cookie))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::xauthority::tests::entry;

    const ALICE: u32 = 1000;
    const MALLORY: u32 = 1001;

    fn witness(pid: u32, uid: u32, xauthority: Option<PathBuf>) -> Witness {
        Witness { id: ProcessId { pid, start: 1 }, uid, gid: uid, display: 0, xauthority }
    }

    /// A cookie file of `uid`'s; giving files away takes root.
    fn file(dir: &Path, name: &str, uid: u32, cookie: &[u8]) -> Option<PathBuf> {
        let path = dir.join(name);
        std::fs::write(&path, entry("0", cookie)).unwrap();
        chown(&path, Some(uid), None).ok().map(|()| path)
    }

    fn root_server() -> Server {
        Server { pid: 1, uid: 0, gid: 0 }
    }

    /// A server of a person's is that person's, whatever others write into their environment.
    #[test]
    fn a_persons_server_is_theirs() {
        let server = Server { pid: 1, uid: ALICE, gid: ALICE };
        let people = [witness(10, MALLORY, None), witness(11, ALICE, None)];
        let (display, vouching) = owner(0, server, None, &people);
        assert_eq!((display.uid, display.gid, display.xauthority), (ALICE, ALICE, None));
        assert_eq!(vouching.map(|id| id.pid), Some(11));
        assert_eq!(owner(0, server, None, &people[..1]).0.uid, ALICE, "nobody vouches, it is still Alice's");
    }

    /// Root's server belongs to who holds its cookie, not to who says so.
    #[test]
    fn a_root_server_goes_to_who_holds_the_cookie() {
        let dir = tempfile::tempdir().unwrap();
        let files = || {
            let auth = file(dir.path(), "server", 0, b"secret")?;
            let alice = file(dir.path(), "alice", ALICE, b"secret")?;
            let mallory = file(dir.path(), "mallory", MALLORY, b"guess")?;
            Some((auth, alice, mallory))
        };
        let Some((auth, alice, mallory)) = files() else {
            eprintln!("skipped: giving files to other users takes root; run as root");
            return;
        };
        let people = [
            witness(9, MALLORY, Some(alice.clone())),
            witness(10, MALLORY, Some(mallory)),
            witness(11, ALICE, Some(alice.clone())),
        ];
        let (display, vouching) = owner(0, root_server(), Some(&auth), &people);
        assert_eq!((display.uid, display.xauthority), (ALICE, Some(alice)));
        assert_eq!(vouching.map(|id| id.pid), Some(11));
        let (display, vouching) = owner(0, root_server(), Some(&auth), &people[..2]);
        assert_eq!((display.uid, vouching), (0, None), "without a holder it stays root's");
        assert_eq!(display.xauthority, Some(auth));
    }

    /// Where everybody is let in, a person is preferred to the greeter, and an unnamed display is root's.
    #[test]
    fn an_open_root_server_goes_to_a_person() {
        let people = [witness(9, 112, None), witness(10, ALICE, None)];
        assert_eq!(owner(0, root_server(), None, &people).0.uid, ALICE);
        assert_eq!(owner(0, root_server(), None, &people[..1]).0.uid, 112);
        assert_eq!(owner(0, root_server(), None, &[]).0.uid, 0);
        assert_eq!(owner(1, root_server(), None, &people).0.uid, 0, "those are on another display");
    }

    /// Sockets that answer are displays of the listening process; files, dead sockets and odd names are not.
    #[test]
    fn sockets_are_probed() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("X7")).unwrap();
        drop(UnixListener::bind(dir.path().join("X8")).unwrap());
        drop(UnixListener::bind(dir.path().join("X09")).unwrap());
        std::fs::write(dir.path().join("X10"), "").unwrap();
        let mut finder = DisplayFinder { socket_dir: dir.path().into(), ..DisplayFinder::default() };
        let found = finder.find();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].name.as_str(), found[0].server_pid), (":7", std::process::id()));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok());
        assert_eq!(finder.find(), found);
        assert!(listener.accept().is_err(), "a known display is not probed again");
        drop(listener);
        std::fs::remove_file(dir.path().join("X7")).unwrap();
        assert_eq!(finder.find(), []);
    }

    /// Whoever began to listen may have ended, and its number gone to another user's process: that one serves no display.
    #[test]
    fn a_number_that_went_to_another_user_is_no_server() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(dir.path().join("X7")).unwrap();
        let own_uid = nix::unistd::geteuid().as_raw();
        let process = dir.path().join(std::process::id().to_string());
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("stat"), format!("7 (a) S {} 20", "0 ".repeat(18))).unwrap();
        for (uid, displays) in [(own_uid + 1, 0), (own_uid, 1)] {
            std::fs::write(process.join("status"), format!("Name:\ta\nUid:\t9\t{uid}\t9\t9\n")).unwrap();
            let mut finder =
                DisplayFinder { socket_dir: dir.path().into(), proc: dir.path().into(), ..DisplayFinder::default() };
            assert_eq!(finder.find().len(), displays, "uid {uid}");
        }
    }

    /// Somebody's thousands of sockets hide none but their own, and the first of everybody's are looked at, up to a bound.
    #[test]
    fn crowds_of_sockets_are_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let make = |number: u32| {
            let path = dir.path().join(format!("X{number}"));
            drop(UnixListener::bind(&path).unwrap());
            path
        };
        let numbers = || -> Vec<u32> { sockets(dir.path()).into_iter().map(|(number, _)| number).collect() };
        let one = u32::try_from(MAX_SOCKETS_OF_ONE).unwrap();
        (0..1000).rev().for_each(|number| drop(make(number)));
        assert_eq!(numbers(), (0..one).collect::<Vec<u32>>());
        if chown(dir.path().join("X0"), Some(ALICE), None).is_err() {
            eprintln!("skipped: giving files to other users takes root; run as root");
            return;
        }
        chown(make(2000), Some(ALICE), None).unwrap();
        assert_eq!(numbers(), (0..=one).chain([2000]).collect::<Vec<u32>>(), "Alice's are seen behind the crowd");
        for number in 0..1000 {
            chown(dir.path().join(format!("X{number}")), Some(MALLORY + number / 10), None).unwrap();
        }
        let all = u32::try_from(MAX_SOCKETS).unwrap();
        assert_eq!(numbers(), (0..all).collect::<Vec<u32>>());
    }

    /// A socket whose owner never accepts does not hold the daemon up.
    #[test]
    fn a_full_socket_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("X7");
        let _listener = UnixListener::bind(&path).unwrap();
        let began = Instant::now();
        let mut held = Vec::new();
        while let Ok(probe) = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_NONBLOCK, None) {
            if connect(probe.as_raw_fd(), &UnixAddr::new(&path).unwrap()).is_err() {
                break;
            }
            held.push(probe);
        }
        assert_eq!(server_of(&path), None);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
