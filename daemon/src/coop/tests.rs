// SPDX-License-Identifier: GPL-2.0-only
//! The thread over real sockets and real processes; pages are files in memory. What takes several users is tried in `door`.

use std::fs;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limelight_abi::coop::{
    COOP_ABI_MAGIC, COOP_ABI_VERSION, COOP_ASKS_TO_JOIN, COOP_ASKS_TO_LEAVE, COOP_ASKS_TOKEN, COOP_MAX_SLOTS, coop_slot,
};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tempfile::TempDir;

use super::client::{Handed, connected, hello};
use super::fake::Pages;
use super::*;

/// Far longer than anything here takes on a busy machine but what is made to hang.
const LONG: Duration = Duration::from_secs(20);

/// A daemon's thread on a socket of the test's own.
struct Daemon {
    coop: Coop,
    pages: Pages,
    folder: TempDir,
}

impl Daemon {
    fn start() -> Self {
        Self::with(16)
    }

    fn with(in_all: u32) -> Self {
        let (pages, folder) = (Pages::default(), TempDir::new().unwrap());
        let limits = Ok(Limits { per_user: 16, in_all });
        let coop = Coop::start_within(&folder.path().join("coop.sock"), limits, Ok(pages.clone())).unwrap();
        Self { coop, pages, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("coop.sock")
    }

    fn ask(&self) -> Result<Handed> {
        ask_for_page(&self.path(), LONG)
    }

    fn connect(&self) -> UnixStream {
        connected(&self.path(), LONG).unwrap()
    }

    /// An honest client is served, whatever else is going on.
    fn still_serves(&self) {
        let handed = self.ask().unwrap();
        assert_eq!(self.pages.pids(), [me()]);
        drop(handed);
        self.wait_for(&[]);
    }

    /// Wait until the scheduler would find the pages of these processes and of no others.
    fn wait_for(&self, pids: &[u32]) {
        until("the pages are others'", || self.pages.pids() == pids);
    }
}

fn me() -> u32 {
    std::process::id()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what} after {LONG:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the other end closes without a word.
fn is_closed(mut connection: &UnixStream) -> bool {
    match connection.read(&mut [0; 64]) {
        Ok(0) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        Ok(_) => false,
    }
}

/// The same, without waiting for it.
fn is_closed_now(connection: &UnixStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    is_closed(connection)
}

/// Who asks is handed the page that the scheduler finds under its number, and with the end of the connection it is gone.
#[test]
fn the_page_ends_with_the_connection() {
    let daemon = Daemon::start();
    let handed = daemon.ask().unwrap();
    assert_eq!(handed.slots, COOP_MAX_SLOTS);
    assert_eq!(daemon.pages.pids(), [me()]);
    let uid = nix::unistd::getuid().as_raw();
    until("it is not shown", || daemon.coop.status().users == [CooperativeUser { uid, processes: 1 }]);
    drop(handed.connection);
    daemon.wait_for(&[]);
    until("it is still shown", || daemon.coop.status().users.is_empty());
}

/// A second copy of the library in a process is handed the same page, which stays until both have gone.
#[test]
fn two_copies_share_a_page() {
    let daemon = Daemon::start();
    let (first, second) = (daemon.ask().unwrap(), daemon.ask().unwrap());
    assert_eq!(daemon.pages.given(), 1);
    let number = |handed: &Handed| nix::sys::stat::fstat(&handed.page).unwrap().st_ino;
    assert_eq!(number(&first), number(&second));
    drop(first);
    // By the time this one has been answered, the end of the first has been seen.
    drop(daemon.ask().unwrap());
    assert_eq!((daemon.pages.pids(), daemon.pages.given()), (vec![me()], 1));
    drop(second);
    daemon.wait_for(&[]);
}

/// Nonsense, half a hello, a second hello and descriptors that nobody asked for: closed without a word, at once, and others are served.
#[test]
fn nonsense_is_closed() {
    let daemon = Daemon::start();
    for packet in [&b"\0"[..], b"GET / HTTP/1.1", &hello()[..15], &[hello(), vec![0]].concat(), &[7; 5000]] {
        let mut connection = daemon.connect();
        connection.write_all(packet).unwrap();
        assert!(is_closed(&connection), "{packet:?}");
    }
    let loaded = daemon.connect();
    let files: Vec<fs::File> = (0..200).map(|_| fs::File::open("/dev/null").unwrap()).collect();
    let descriptors: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let packet = hello();
    let load = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<()>(loaded.as_raw_fd(), &[IoSlice::new(&packet)], &load, MsgFlags::empty(), None).unwrap();
    assert!(is_closed(&loaded));
    let mut twice = daemon.ask().unwrap();
    twice.connection.write_all(&hello()).unwrap();
    assert!(is_closed(&twice.connection));
    daemon.wait_for(&[]);
    assert_eq!(daemon.pages.given(), 1, "nonsense was given a page");
    daemon.still_serves();
}

/// Another version of libcoop hears that its version is the reason.
#[test]
fn another_version_is_told() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    let mut packet = hello();
    packet[4] = 2;
    connection.write_all(&packet).unwrap();
    let mut welcome = [0; 64];
    assert_eq!(connection.read(&mut welcome).unwrap(), 16);
    let words: Vec<u32> = welcome[..12].chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [0x706f_6f63, 1, (-nix::libc::EPROTONOSUPPORT).cast_unsigned()]);
    assert!(is_closed(&connection));
    until("it is not counted", || daemon.coop.status().refused == 1);
}

/// A kernel without room for a page is an error to who asks, and none for the daemon: it tries again for the next one, and gives what it has.
#[test]
fn a_page_that_cannot_be_made_is_said() {
    let daemon = Daemon::start();
    until("too few are ready", || daemon.pages.entered() == READY);
    daemon.pages.fail(true);
    (0..READY).for_each(|_| daemon.still_serves());
    let error = format!("{:#}", daemon.ask().err().unwrap());
    assert!(error.contains("EAGAIN"), "{error}");
    assert!(daemon.ask().is_err());
    daemon.pages.fail(false);
    until("it is not tried again", || daemon.ask().is_ok());
}

/// While a grace period does not end, as many as are ready are handed out. The next one waits, and who ends meanwhile is heard; when it has ended who waited
/// is served.
#[test]
fn nobody_waits_for_a_grace_period_while_pages_are_ready() {
    let daemon = Daemon::start();
    let mut other = python(&daemon, "sys.stdin.read()");
    daemon.wait_for(&[other.id()]);
    daemon.pages.hang(true);
    let all = daemon.pages.given() + READY as u32 - 1;
    while daemon.pages.given() < all {
        daemon.ask().unwrap();
    }
    // The one in the place of the first may have been made before.
    let _ = ask_for_page(&daemon.path(), Duration::from_millis(500));
    let mut last = daemon.connect();
    last.write_all(&hello()).unwrap();
    drop(other.stdin.take());
    other.wait().unwrap();
    daemon.wait_for(&[]);
    last.set_nonblocking(true).unwrap();
    assert!(last.read(&mut [0; 64]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    last.set_nonblocking(false).unwrap();
    daemon.pages.hang(false);
    daemon.wait_for(&[me()]);
    assert_eq!(last.read(&mut [0; 64]).unwrap(), 16);
}

/// Who ends the daemon waits for no grace period.
#[test]
fn the_end_waits_for_no_grace_period() {
    let daemon = Daemon::start();
    daemon.pages.hang(true);
    let _ = ask_for_page(&daemon.path(), Duration::from_millis(100));
    drop(daemon.coop);
    daemon.pages.hang(false);
}

/// Silent connections are closed when their patience is over, not before, and keep nobody else from being served.
#[test]
fn silence_is_closed() {
    let daemon = Daemon::start();
    let silent: Vec<UnixStream> = (0..door::MAX_NEWCOMERS_PER_USER - 1).map(|_| daemon.connect()).collect();
    let connected = Instant::now();
    daemon.still_serves();
    assert!(silent.iter().all(is_closed));
    // The last one was taken in before this test took note of the time.
    let closed = connected.elapsed() + Duration::from_millis(500);
    assert!(closed >= door::PATIENCE, "closed after {closed:?}");
}

/// A flood of connections, ten times what is taken in for one user: those beyond are closed at once and not when their patience is over, and when it
/// is over for the others the next one is served.
#[test]
fn a_flood_passes() {
    let daemon = Daemon::start();
    let began = Instant::now();
    let flood: Vec<UnixStream> = (0..10 * door::MAX_NEWCOMERS_PER_USER).map(|_| daemon.connect()).collect();
    assert!(flood[door::MAX_NEWCOMERS_PER_USER..].iter().all(is_closed));
    assert!(began.elapsed() < door::PATIENCE, "after {:?}", began.elapsed());
    until("nobody is served", || daemon.ask().is_ok());
}

/// Who is beyond the limit is told so. A place that was given back can be had at once; one whose page is kept mapped cannot, before that is let go.
#[test]
fn the_limit_is_told() {
    let daemon = Daemon::with(1);
    let handed = daemon.ask().unwrap();
    let refusal = || format!("{:#}", daemon.ask().err().unwrap());
    assert!(refusal().contains("ENOSPC"));
    assert!(!is_closed_now(&handed.connection), "who was there first has lost the page");
    drop(handed);
    daemon.wait_for(&[]);
    let handed = daemon.ask().unwrap();
    // Before it is given back: the daemon might look in between.
    daemon.pages.hold(1, true);
    drop(handed);
    daemon.wait_for(&[]);
    assert!(refusal().contains("ENOSPC"));
    daemon.pages.hold(1, false);
    daemon.ask().unwrap();
}

/// A page whose process has ended is gone, though a child still holds its connection: the process's number may be another's soon.
#[test]
fn the_page_ends_with_its_process() {
    let daemon = Daemon::start();
    // It asks, leaves its connection to a child that lives on, and ends when it is told to.
    let mut process = python(
        &daemon,
        "import os\nif os.fork() == 0:\n    os.setsid(); os.close(0); os.close(1); os.close(2); time.sleep(60)\nsys.stdin.read()",
    );
    daemon.wait_for(&[process.id()]);
    drop(process.stdin.take());
    process.wait().unwrap();
    daemon.wait_for(&[]);
}

/// A process that becomes another user by executing a program loses its page: whoever else has it mapped would speak for that program.
#[test]
fn the_page_ends_with_the_user() {
    let daemon = Daemon::start();
    let handed = daemon.ask().unwrap();
    daemon.pages.become_user(me(), 12345);
    assert!(is_closed(&handed.connection));
    daemon.wait_for(&[]);
}

/// A program that executes another one finds its old page gone when the new one asks.
#[test]
fn a_program_that_executes_another_gets_a_new_page() {
    let daemon = Daemon::start();
    let again = "os.execv(sys.executable, [sys.executable, '-c', ASK + 'sys.stdin.read()', PATH])";
    let mut process = python(&daemon, &format!("import os\n{again}"));
    until("no second page was given", || daemon.pages.given() == 2);
    daemon.wait_for(&[process.id()]);
    drop(process.stdin.take());
    process.wait().unwrap();
    daemon.wait_for(&[]);
}

/// A question about a group, with the token that `hex` is.
fn question(of: u32, gid: u32, hex: &str) -> Vec<u8> {
    let mut packet = [COOP_ABI_MAGIC, COOP_ABI_VERSION, of, gid, 77, 0].map(u32::to_ne_bytes).concat();
    packet.extend((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()));
    packet.resize(40, 0);
    packet
}

/// What the answer to it is: 0 or -errno.
fn answer_to(connection: &mut UnixStream, packet: &[u8]) -> i32 {
    let mut reply = [0; 64];
    connection.write_all(packet).unwrap();
    assert_eq!(connection.read(&mut reply).unwrap(), 40);
    assert_eq!(reply[16..24], 77_u64.to_ne_bytes());
    i32::from_ne_bytes(reply[8..12].try_into().unwrap())
}

/// A process passes on a token, and who hands it in is in its group, whoever it is, until that process ends; who hands in another one is not. Its page stays.
#[test]
fn a_token_is_good_as_long_as_its_process() {
    let daemon = Daemon::start();
    let asks = "import os\ns.send(struct.pack('=4IQ16x', 0x706f6f63, 1, 1, 7, 77))\nprint(s.recv(64)[24:].hex(), flush=True)\nsys.stdin.read()";
    let mut owner = python(&daemon, asks);
    let mut hex = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(owner.stdout.take().unwrap()), &mut hex).unwrap();
    let hex = hex.trim();
    assert!(hex.len() == 32 && hex != "0".repeat(32), "{hex}");
    let mut mine = daemon.ask().unwrap().connection;
    let other = if hex.starts_with('0') { hex.replacen('0', "1", 1) } else { hex.replacen(&hex[..1], "0", 1) };
    assert_eq!(answer_to(&mut mine, &question(COOP_ASKS_TO_JOIN, 5, &other)), -nix::libc::EACCES);
    assert!(daemon.pages.consents(me()).is_empty());
    assert_eq!(answer_to(&mut mine, &question(COOP_ASKS_TO_JOIN, 5, hex)), 0);
    let uid = nix::unistd::getuid().as_raw();
    assert_eq!(daemon.pages.consents(me()), [Consent { gid: 5, owner: uid, group: 7 }]);
    assert_eq!(answer_to(&mut mine, &question(COOP_ASKS_TO_LEAVE, 5, "")), 0);
    assert!(daemon.pages.consents(me()).is_empty());
    assert_eq!(answer_to(&mut mine, &question(COOP_ASKS_TO_JOIN, 6, hex)), 0);
    drop(owner.stdin.take());
    owner.wait().unwrap();
    until("it is still in the group", || daemon.pages.consents(me()).is_empty());
    assert_eq!(answer_to(&mut mine, &question(COOP_ASKS_TO_JOIN, 6, hex)), -nix::libc::EACCES);
    assert_eq!(daemon.pages.pids(), [me()]);
}

/// Who asks without end, or does not read the answers, is closed, and others are served.
#[test]
fn who_asks_without_end_is_closed() {
    let daemon = Daemon::start();
    let mut flood = daemon.ask().unwrap().connection;
    let packet = question(COOP_ASKS_TO_LEAVE, 5, "");
    let asked = (0..10_000).take_while(|_| flood.write_all(&packet).is_ok()).count();
    assert!(asked >= door::MAX_ASKED_PER_SECOND as usize, "after {asked}");
    let flood = std::cell::RefCell::new(flood);
    until("it is still asking", || flood.borrow_mut().write_all(&packet).is_err());
    daemon.still_serves();
}

/// A process that has become another user is not answered, nor is one that has passed its connection on and ended: what it asks would be in that user's name.
#[test]
fn who_is_another_user_is_not_answered() {
    let daemon = Daemon::start();
    let mut mine = daemon.ask().unwrap().connection;
    daemon.pages.become_user(me(), 12345);
    mine.write_all(&question(COOP_ASKS_TOKEN, 5, "")).unwrap();
    assert!(is_closed(&mine));
}

/// A Python program that asks for a page, as libcoop does, and then does `rest`.
fn python(daemon: &Daemon, rest: &str) -> Child {
    let ask = "import socket, struct, sys, time\n\
               s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
               s.connect(sys.argv[1])\n\
               s.send(struct.pack('=4I', 0x706f6f63, 1, 0, 0))\n\
               assert struct.unpack('=IIiI', s.recv(16))[2] == 0\n";
    let program = format!("{ask}ASK, PATH = {ask:?}, sys.argv[1]\n{rest}");
    let mut command = Command::new("python3");
    command.arg("-c").arg(program).arg(daemon.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// When the scheduler goes all connections end, so that clients ask the next one, and nobody listens; the socket of one that was killed is replaced, and
/// everybody may connect to it.
#[test]
fn nobody_listens_without_a_scheduler() {
    let Daemon { coop, pages, folder } = Daemon::start();
    let path = folder.path().join("coop.sock");
    let mode = fs::metadata(&path).unwrap();
    assert!(mode.file_type().is_socket());
    assert_eq!(mode.permissions().mode() & 0o777, 0o666);
    let handed = ask_for_page(&path, LONG).unwrap();
    drop(coop);
    assert!(is_closed(&handed.connection));
    assert!(!path.exists());
    let error = format!("{:#}", ask_for_page(&path, LONG).err().unwrap());
    assert!(error.contains("nobody hands out pages"), "{error}");
    drop(UnixStream::pair().unwrap());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let _coop = Coop::start(&path, 4, Ok(Pages::default())).unwrap();
    ask_for_page(&path, LONG).unwrap();
    // Pages of a scheduler that has gone are gone with it: to remove them one by one would take long, and serve nobody.
    assert_eq!(pages.pids(), [me()]);
}

/// A daemon that cannot hand out pages says why, and goes on without.
#[test]
fn what_cannot_be_is_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("coop.sock");
    let mut coop = Coop::start(&path, 4, Err::<Pages, _>(anyhow::anyhow!("no map"))).unwrap();
    assert_eq!(coop.status().problem.as_deref(), Some("no map"));
    coop.check().unwrap();
    let nowhere = folder.path().join("x".repeat(200)).join("coop.sock");
    let coop = Coop::start(&nowhere, 4, Ok(Pages::default())).unwrap();
    let problem = coop.status().problem.unwrap();
    assert!(problem.contains("cannot listen at"), "{problem}");
}

/// libcoop itself gets a page here, maps it, and takes a slot of it; when it is killed the page is gone.
#[test]
fn libcoop_is_served() {
    let coop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../coop");
    let daemon = Daemon::start();
    let program = daemon.folder.path().join("cooperative");
    let mut compiler = Command::new("cc");
    compiler.arg("-D_GNU_SOURCE").arg("-I").arg(coop.join("include")).arg("-I").arg(coop.join("../abi/include"));
    for file in fs::read_dir(coop.join("src")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "c") {
            compiler.arg(file);
        }
    }
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/coop/cooperative.c")).arg("-pthread");
    assert!(compiler.arg("-o").arg(&program).status().unwrap().success());
    let mut process = Command::new(&program).env("COOP_SOCKET", daemon.path()).stdin(Stdio::piped()).spawn().unwrap();
    let pid = process.id();
    let holder = std::mem::offset_of!(coop_slot, request.tid);
    let of_slot = || Some(u32::from_ne_bytes(daemon.pages.cell(pid, 1)?[holder..holder + 4].try_into().unwrap()));
    until("it takes no slot", || of_slot() == Some(pid));
    process.kill().unwrap();
    process.wait().unwrap();
    daemon.wait_for(&[]);
}
