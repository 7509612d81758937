// SPDX-License-Identifier: GPL-2.0-only
//! Displays that come, go, refuse or lack something, and crowds on them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "common/painter.rs"]
mod painter;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{PATIENCE, Server, Watcher, example, have};
use limelight_abi::sense::{Missing, SenseMessage};
use limelight_sense::WatchError;
use nix::sys::signal::Signal;
use painter::{Painter, rectangle};
use x11rb::connection::Connection;
use x11rb::protocol::randr::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    CONFIGURE_NOTIFY_EVENT, ChangeWindowAttributesAux, ConfigureNotifyEvent, ConnectionExt as _, DESTROY_NOTIFY_EVENT,
    DestroyNotifyEvent, EventMask,
};

const TWO_PERIODS: Duration = Duration::from_millis(2200);

/// A server that ends is told of; when another starts on its display, it is greeted and watched.
#[test]
fn a_server_may_go_and_come_back() {
    if !have(&["Xvfb"]) {
        return;
    }
    // A number no other test's server would take when it becomes free.
    let number = 1000 + std::process::id() % 10_000;
    let server = Server::start_at(number, &[]);
    let first_pid = server.pid();
    let mut watcher = Watcher::start(&server.name());
    drop(server);
    watcher.wait_for("the display's end", |message| matches!(message, SenseMessage::Gone { .. }));
    assert_eq!(watcher.listen(Duration::from_secs(1)).0, []);

    let server = Server::start_at(number, &[]);
    let hello = watcher.wait_for("another greeting", |message| matches!(message, SenseMessage::Hello { .. }));
    let SenseMessage::Hello { server_pid, width, height, missing, .. } = hello else { unreachable!() };
    assert_eq!((server_pid, width, height, missing), (Some(server.pid()), 1000, 800, vec![]));
    assert_ne!(server_pid, Some(first_pid));
    let painter = Painter::new(&server.name());
    let window = painter.window(rectangle(0, 0, 100, 80));
    watcher.listen(Duration::from_millis(300));
    painter.paint(window, rectangle(0, 0, 100, 80));
    watcher.wait_for("output on the new server", |message| matches!(message, SenseMessage::Output { .. }));
}

/// Each of two displays is watched by itself.
#[test]
fn two_displays_are_kept_apart() {
    if !have(&["Xvfb"]) {
        return;
    }
    let servers = [Server::start(&[]), Server::start(&[])];
    let mut watchers = [Watcher::start(&servers[0].name()), Watcher::start(&servers[1].name())];
    let painter = Painter::new(&servers[1].name());
    let window = painter.window(rectangle(0, 0, 100, 80));
    watchers[1].listen(Duration::from_millis(300));
    painter.paint(window, rectangle(0, 0, 100, 80));
    let ours = std::process::id();
    assert!(watchers[1].listen(TWO_PERIODS).changed_pct(ours) > 0.99);
    assert_eq!(watchers[0].listen(Duration::from_millis(100)).0, []);
}

/// The helper ends when the daemon does, whether the display is there or not.
#[test]
fn the_helper_ends_with_the_daemon() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    Watcher::start(&server.name()).finish().unwrap();
    let mut watcher = Watcher::start(&server.name());
    drop(server);
    watcher.wait_for("the display's end", |message| matches!(message, SenseMessage::Gone { .. }));
    let began = Instant::now();
    watcher.finish().unwrap();
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// Displays that cannot be watched are refused with what to do.
#[test]
fn impossible_displays_are_explained() {
    let failure = |display: &str| Watcher::start_silently(display).result().unwrap_err();
    assert!(matches!(failure("no such name"), WatchError::BadName { .. }));
    assert!(matches!(failure(":60000"), WatchError::BadName { .. }), "beyond the last display's TCP port");
    let error = failure(":59000");
    assert!(matches!(error, WatchError::NoServer { .. }), "{error:?}");
    assert!(error.to_string().contains("/tmp/.X11-unix"), "{error}");
    if have(&["Xvfb"]) {
        let server = Server::start(&[]);
        assert!(matches!(failure(&format!("{}.7", server.name())), WatchError::NoScreen { .. }));
    }
}

fn watch_by_hand(display: &str, xauthority: &Path) -> Command {
    assert!(example().exists(), "build it first: cargo build -p limelight-sense --example watch");
    let mut command = Command::new(example());
    command.arg(display).env("XAUTHORITY", xauthority).env("HOME", "/nowhere");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server that wants a cookie we lack says so, the fix is named, and the exit status is not 0; with it, it is watched.
#[test]
fn a_refusal_names_the_fix() {
    if !have(&["Xvfb", "xauth"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, number: u32, cookie: &str| {
        let path = dir.path().join(name);
        let status = Command::new("xauth")
            .args(["-q", "-f"])
            .arg(&path)
            .args(["add", &format!(":{number}"), ".", cookie])
            .status();
        assert!(status.unwrap().success());
        path
    };
    let (right, wrong) = ("0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff");
    // The server accepts the cookies of its file whatever display they are for.
    let auth = file("server", 0, right);
    let server = Server::start(&["-auth", auth.to_str().unwrap()]);
    let name = server.name();

    for refused in [dir.path().join("none"), file("wrong", server.number, wrong)] {
        let output = watch_by_hand(&name, &refused).output().unwrap();
        let error = said(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("XAUTHORITY") && error.contains("xhost") && error.contains(&name), "{error}");
    }
    let mut child = watch_by_hand(&name, &file("right", server.number, right))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains(r#""kind":"hello""#), "{line}");
}

/// Without RECORD output is still seen, without DAMAGE input is, and the greeting says what is missing; without XRes no
/// process can be told from another, and that is an error.
#[test]
fn missing_extensions_leave_the_rest_working() {
    if !have(&["Xvfb"]) {
        return;
    }
    for (extension, lost) in [("RECORD", Missing::Input), ("DAMAGE", Missing::Output), ("XFIXES", Missing::Output)] {
        let server = Server::start(&["-extension", extension]);
        let painter = Painter::new(&server.name());
        let window = painter.window(rectangle(0, 0, 100, 80));
        let motion = ChangeWindowAttributesAux::new().event_mask(EventMask::POINTER_MOTION);
        painter.conn.change_window_attributes(window, &motion).unwrap();
        painter.sync();
        let mut watcher = Watcher::start_silently(&server.name());
        let hello = watcher.wait_for("a greeting", |message| matches!(message, SenseMessage::Hello { .. }));
        assert!(matches!(hello, SenseMessage::Hello { missing, .. } if missing == [lost]), "without {extension}");
        painter.paint(window, rectangle(0, 0, 100, 80));
        // `-extension RECORD` takes XTEST away too; a warped pointer is motion as well.
        for x in [10, 11] {
            painter.conn.warp_pointer(x11rb::NONE, painter.root, 0, 0, 0, 0, x, 10).unwrap();
        }
        painter.sync();
        let heard = watcher.listen(TWO_PERIODS);
        assert_eq!(heard.input().is_empty(), lost == Missing::Input, "without {extension}: {heard:?}");
        assert_eq!(heard.changed_pct(std::process::id()) == 0.0, lost == Missing::Output, "{extension}: {heard:?}");
    }
    let server = Server::start(&["-extension", "X-Resource"]);
    let error = Watcher::start_silently(&server.name()).result().unwrap_err();
    assert!(matches!(error, WatchError::MissingExtension { extension: "X-Resource", .. }), "{error:?}");
}

fn greetings(heard: &[SenseMessage]) -> Vec<(u32, u32)> {
    let size = |message: &SenseMessage| match message {
        SenseMessage::Hello { width, height, .. } => Some((*width, *height)),
        _ => None,
    };
    heard.iter().filter_map(size).collect()
}

/// What a client says by SendEvent is no news: the screen keeps its size, and a window that is said to have gone is watched on.
#[test]
fn events_that_clients_send_are_not_believed() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let painter = Painter::new(&server.name());
    let window = painter.window(rectangle(0, 0, 100, 80));
    let mut watcher = Watcher::start(&server.name());
    let (conn, root) = (&painter.conn, painter.root);
    for width in 1..500 {
        let size = ConfigureNotifyEvent {
            response_type: CONFIGURE_NOTIFY_EVENT,
            sequence: 0,
            event: root,
            window: root,
            above_sibling: x11rb::NONE,
            x: 0,
            y: 0,
            width,
            height: 5,
            border_width: 0,
            override_redirect: false,
        };
        conn.send_event(false, root, EventMask::STRUCTURE_NOTIFY, size).unwrap();
    }
    let end = DestroyNotifyEvent { response_type: DESTROY_NOTIFY_EVENT, sequence: 0, event: root, window };
    conn.send_event(false, root, EventMask::SUBSTRUCTURE_NOTIFY, end).unwrap();
    painter.sync();
    assert_eq!(greetings(&watcher.listen(TWO_PERIODS).0), []);
    painter.paint(window, rectangle(0, 0, 100, 80));
    let changed = watcher.listen(TWO_PERIODS).changed_pct(std::process::id());
    assert!((0.99..=1.01).contains(&changed), "{changed} % of the screen");
}

/// A screen that changes its size all the time is told of once a period, and its last size is told.
#[test]
fn sizes_are_told_once_a_period() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let painter = Painter::new(&server.name());
    let (conn, root) = (&painter.conn, painter.root);
    conn.randr_query_version(1, 3).unwrap().reply().unwrap();
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    for crtc in resources.crtcs {
        let (at, rotation) = (resources.config_timestamp, randr::Rotation::ROTATE0);
        conn.randr_set_crtc_config(crtc, 0, at, 0, 0, 0, rotation, &[]).unwrap().reply().unwrap();
    }
    let mut watcher = Watcher::start(&server.name());
    let began = Instant::now();
    let mut last = (0, 0);
    for round in 0..300_u16 {
        last = (600 + round % 100, 500);
        conn.randr_set_screen_size(root, last.0, last.1, 300, 200).unwrap().check().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = greetings(&watcher.listen(TWO_PERIODS).0);
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!((2..=most).contains(&told.len()), "{told:?}, at most {most}");
    assert_eq!(told.last(), Some(&(last.0.into(), last.1.into())));
}

/// Ten thousand windows that come and go, and eight hundred clients, do not confuse the helper or keep it busy.
#[test]
fn crowds_are_survived() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&["-maxclients", "2048"]);
    let name = server.name();
    let clients: Vec<Painter> = (0..800).map(|_| Painter::new(&name)).collect();
    let mut watcher = Watcher::start(&name);
    for (n, client) in clients.iter().cycle().take(10_000).enumerate() {
        let window = client.conn.generate_id().unwrap();
        let (class, copy) = (x11rb::protocol::xproto::WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
        let aux = x11rb::protocol::xproto::CreateWindowAux::new().background_pixel(0).override_redirect(1);
        let x = i16::try_from(n % 900).unwrap();
        client.conn.create_window(0, window, client.root, x, 0, 50, 50, 0, class, copy, &aux).unwrap();
        client.conn.map_window(window).unwrap();
        client.conn.destroy_window(window).unwrap();
        client.conn.flush().unwrap();
    }
    clients.iter().for_each(Painter::sync);
    let last = &clients[799];
    let window = last.window(rectangle(0, 0, 100, 80));
    let until = Instant::now() + PATIENCE;
    let ours = std::process::id();
    loop {
        assert!(Instant::now() < until, "the helper did not recover");
        last.paint(window, rectangle(0, 0, 100, 80));
        let heard = watcher.listen(TWO_PERIODS);
        if (0.99..=1.01).contains(&heard.changed_pct(ours)) {
            break;
        }
    }
}

/// A window manager that ends leaves its clients on the root, and another frames them again: they are watched throughout, and who manages them is told.
#[test]
fn window_managers_may_change() {
    if !have(&["Xvfb", "openbox", "xterm", "xdotool", "xprop"]) {
        return;
    }
    let server = Server::start(&[]);
    let first = server.run("openbox", &[]);
    server.wait_for_window_manager();
    let print = "while :; do echo limelight; sleep 0.2; done";
    let client = server.run("xterm", &["-geometry", "40x10+10+30", "-T", "client", "-e", "sh", "-c", print]);
    server.xdotool("search --sync --onlyvisible --name ^client$");
    let mut watcher = Watcher::start(&server.name());
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.changed_pct(client.pid()) > 0.0);
    assert_eq!(heard.manager(), Some(first.pid()));
    drop(first);
    watcher.listen(TWO_PERIODS);
    assert!(watcher.listen(TWO_PERIODS).changed_pct(client.pid()) > 0.0, "unmanaged");
    let second = server.run("openbox", &[]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(watcher.listen(TWO_PERIODS).manager(), Some(second.pid()));
    assert!(watcher.listen(TWO_PERIODS).changed_pct(client.pid()) > 0.0, "managed again");
}

/// A client that puts its own window where the window manager's stands is not taken for it while there is one.
#[test]
fn who_only_says_so_is_no_window_manager() {
    if !have(&["Xvfb", "openbox", "xprop"]) {
        return;
    }
    let server = Server::start(&[]);
    let manager = server.run("openbox", &[]);
    server.wait_for_window_manager();
    let mut watcher = Watcher::start(&server.name());
    assert_eq!(watcher.listen(TWO_PERIODS).manager(), Some(manager.pid()));
    let liar = Painter::new(&server.name());
    let window = liar.window(rectangle(0, 0, 10, 10));
    liar.set_words(liar.root, "_NET_SUPPORTING_WM_CHECK", &[window]);
    assert_eq!(watcher.listen(TWO_PERIODS).manager(), None);
}

/// Clients that end while they draw hand their resource ids to the next one, who is seen none the less. The window manager must
/// be slow, as on a loaded machine: the frame then outlives its client, and damage is looked for that nobody can have done.
#[test]
fn whoever_follows_a_client_that_ended_drawing_is_seen() {
    if !have(&["Xvfb", "openbox"]) {
        return;
    }
    let server = Server::start(&[]);
    let manager = server.run("openbox", &[]);
    server.wait_for_window_manager();
    let mut watcher = Watcher::start(&server.name());
    for round in 0..6 {
        let painter = Painter::new(&server.name());
        let window = painter.managed_window(rectangle(0, 0, 100, 80));
        watcher.listen(Duration::from_millis(500));
        let until = Instant::now() + TWO_PERIODS;
        let mut heard = 0.0;
        while Instant::now() < until {
            painter.paint(window, rectangle(0, 0, 100, 80));
            heard += watcher.listen(Duration::from_millis(20)).changed_pct(std::process::id());
        }
        assert!(heard > 0.0, "client {round} was not seen");
        manager.signal(Signal::SIGSTOP);
        painter.paint(window, rectangle(0, 0, 100, 80));
        drop(painter);
        watcher.listen(Duration::from_millis(500));
        manager.signal(Signal::SIGCONT);
    }
}
