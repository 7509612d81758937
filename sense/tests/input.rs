// SPDX-License-Identifier: GPL-2.0-only
//! Who receives input, seen on real X servers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "common/painter.rs"]
mod painter;

use std::time::{Duration, Instant};

use common::{Server, Watcher, have, wait_until};
use limelight_abi::sense::SenseMessage;
use painter::{Painter, rectangle};
use x11rb::connection::Connection;
use x11rb::protocol::xinput::{ConnectionExt as _, EventMask, XIEventMask};
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConnectionExt as _, EventMask as CoreMask, InputFocus, KEY_PRESS_EVENT, KeyPressEvent,
};

const TWO_PERIODS: Duration = Duration::from_millis(2200);

/// A client with a window that has the keys.
fn typed_into(server: &Server) -> (Painter, u32) {
    let painter = Painter::new(&server.name());
    let window = painter.window(rectangle(0, 0, 400, 400));
    let select = ChangeWindowAttributesAux::new().event_mask(CoreMask::KEY_PRESS);
    painter.conn.change_window_attributes(window, &select).unwrap();
    painter.conn.set_input_focus(InputFocus::NONE, window, x11rb::CURRENT_TIME).unwrap();
    painter.sync();
    (painter, window)
}

fn receives_input(pid: u32) -> impl FnMut(&SenseMessage) -> bool {
    move |message| matches!(message, SenseMessage::Input { pid: told } if *told == pid)
}

/// Keys typed into one of two terminals are input of that terminal only, told at once and again in the period.
#[test]
fn typing_is_input_of_the_focused_terminal_only() {
    if !have(&["Xvfb", "openbox", "xterm", "xdotool", "xprop"]) {
        return;
    }
    let server = Server::start(&[]);
    let manager = server.run("openbox", &[]);
    server.wait_for_window_manager();
    let idle = server.run("xterm", &["-geometry", "40x10+500+400", "-T", "idle"]);
    server.xdotool("search --sync --onlyvisible --name ^idle$");
    let used = server.run("xterm", &["-geometry", "40x10+10+30", "-T", "used"]);
    server.xdotool("search --sync --onlyvisible --name ^used$ windowfocus --sync");
    let mut watcher = Watcher::start(&server.name());
    watcher.listen(TWO_PERIODS);

    let began = Instant::now();
    server.xdotool("type hello");
    watcher.wait_for("news of input", receives_input(used.pid()));
    assert!(began.elapsed() < Duration::from_secs(2), "told after {:?}", began.elapsed());
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.input().contains(&used.pid()));
    assert!(!heard.input().contains(&idle.pid()), "{heard:?}");
    assert!(!heard.0.iter().any(|message| receives_input(used.pid())(message)), "told twice: {heard:?}");
    drop(manager);
}

/// Dragging a window by its title is input of the window manager (HuC's Table 1 has it), not of the window's client.
#[test]
fn dragging_is_input_of_the_window_manager() {
    if !have(&["Xvfb", "openbox", "xterm", "xdotool", "xprop"]) {
        return;
    }
    let server = Server::start(&[]);
    let manager = server.run("openbox", &[]);
    server.wait_for_window_manager();
    let client = server.run("xterm", &["-geometry", "40x10+100+100", "-T", "dragged"]);
    server.xdotool("search --sync --onlyvisible --name ^dragged$");
    server.xdotool("mousemove 900 700");
    std::thread::sleep(Duration::from_millis(300));
    let mut watcher = Watcher::start(&server.name());
    watcher.listen(TWO_PERIODS);
    server.xdotool("mousemove 200 110 mousedown 1 mousemove 300 200 mousemove 400 300 mouseup 1");
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.input().contains(&manager.pid()), "{heard:?}");
    drop(client);
}

/// A toolkit of today listens by XInput 2; its input is seen as that of core clients is, raw events are not.
#[test]
fn xinput_clients_are_seen_and_raw_listeners_are_not() {
    if !have(&["Xvfb"]) {
        return;
    }
    for (events, raw, expected) in [
        (XIEventMask::KEY_PRESS | XIEventMask::MOTION, false, true),
        (XIEventMask::RAW_KEY_PRESS | XIEventMask::RAW_MOTION, true, false),
    ] {
        let server = Server::start(&[]);
        let painter = Painter::new(&server.name());
        let window = painter.window(rectangle(0, 0, 400, 400));
        painter.conn.xinput_xi_query_version(2, 2).unwrap().reply().unwrap();
        let all_masters = 1;
        let mask = EventMask { deviceid: all_masters, mask: vec![events] };
        let target = if raw { painter.root } else { window };
        painter.conn.xinput_xi_select_events(target, &[mask]).unwrap();
        painter.sync();
        let mut watcher = Watcher::start(&server.name());
        // From another connection, as from a device.
        let hand = Painter::new(&server.name());
        for step in 0..20 {
            hand.move_pointer(20 + step, 20);
        }
        let heard = watcher.listen(TWO_PERIODS);
        assert_eq!(heard.input().contains(&std::process::id()), expected, "raw {raw}: {heard:?}");
    }
}

/// Events one client sends to another are not a person's input.
#[test]
fn sent_events_are_not_input() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let painter = Painter::new(&server.name());
    let window = painter.window(rectangle(0, 0, 400, 400));
    let select = ChangeWindowAttributesAux::new().event_mask(CoreMask::KEY_PRESS);
    painter.conn.change_window_attributes(window, &select).unwrap();
    painter.sync();
    let mut watcher = Watcher::start(&server.name());
    let event = KeyPressEvent {
        response_type: KEY_PRESS_EVENT,
        detail: 38,
        sequence: 0,
        time: 0,
        root: painter.root,
        event: window,
        child: x11rb::NONE,
        root_x: 0,
        root_y: 0,
        event_x: 0,
        event_y: 0,
        state: Default::default(),
        same_screen: true,
    };
    let other = Painter::new(&server.name());
    other.conn.send_event(false, window, CoreMask::KEY_PRESS, event).unwrap();
    other.sync();
    assert_eq!(watcher.listen(TWO_PERIODS).input().len(), 0);
    painter.conn.set_input_focus(InputFocus::NONE, window, x11rb::CURRENT_TIME).unwrap();
    painter.sync();
    other.key();
    watcher.wait_for("a real key", receives_input(std::process::id()));
}

/// A client that has grabbed the server holds back every answer, and yet input of known clients is told at once.
#[test]
fn a_grabbed_server_holds_no_input_back() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let (painter, window) = typed_into(&server);
    let mut watcher = Watcher::start(&server.name());
    painter.conn.grab_server().unwrap();
    // Damage, so that there is a question the server does not answer while grabbed.
    painter.paint(window, rectangle(0, 0, 100, 100));
    std::thread::sleep(Duration::from_millis(500));
    painter.key();
    let began = Instant::now();
    watcher.wait_for("input during the grab", receives_input(std::process::id()));
    assert!(began.elapsed() < Duration::from_secs(1));
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.input().contains(&std::process::id()), "no period during the grab: {heard:?}");
    assert!(heard.changed_pct(std::process::id()) == 0.0, "the grab held nothing back: {heard:?}");
    painter.conn.ungrab_server().unwrap();
    painter.sync();
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.changed_pct(std::process::id()) > 0.0, "the damage came after the grab: {heard:?}");
}

/// Resource ids of a client that has gone are given to the next; what the next does is told of the next.
#[test]
fn a_reused_client_id_is_the_new_clients() {
    if !have(&["Xvfb", "xterm", "xdotool"]) {
        return;
    }
    let server = Server::start(&[]);
    let mut watcher = Watcher::start(&server.name());
    let mut before = None;
    for _ in 0..4 {
        let terminal = server.run("xterm", &["-geometry", "40x10+10+10", "-T", "one"]);
        server.xdotool("search --sync --onlyvisible --name ^one$");
        server.xdotool("mousemove 50 50 key a");
        let seen = watcher.wait_for("input of the new terminal", receives_input(terminal.pid()));
        assert_ne!(Some(seen), before);
        drop(terminal);
        wait_until("the terminal's window is gone", || {
            let out = server.command("xdotool").args(["search", "--name", "^one$"]).status().unwrap();
            !out.success()
        });
        before = Some(watcher.listen(TWO_PERIODS)).and_then(|heard| heard.0.into_iter().next());
    }
}

/// A remote client has no process here: what it receives and draws is nobody's.
#[test]
fn remote_clients_are_nobodys() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&["-listen", "tcp", "-ac"]);
    let remote = Painter::new(&format!("127.0.0.1:{}", server.number));
    let window = remote.window(rectangle(0, 0, 400, 400));
    let mut watcher = Watcher::start(&server.name());
    remote.paint(window, rectangle(0, 0, 100, 100));
    remote
        .conn
        .change_window_attributes(window, &ChangeWindowAttributesAux::new().event_mask(CoreMask::POINTER_MOTION))
        .unwrap();
    remote.move_pointer(30, 30);
    remote.move_pointer(31, 30);
    remote.conn.flush().unwrap();
    let heard = watcher.listen(TWO_PERIODS);
    assert!(heard.0.is_empty(), "{heard:?}");
}

/// Of a client that is used on and on every period tells, though of each period only its first input is recorded.
#[test]
fn every_period_tells_of_input() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let (_painter, _) = typed_into(&server);
    let mut watcher = Watcher::start(&server.name());
    let hand = Painter::new(&server.name());
    let (mut periods, until) = (0, Instant::now() + Duration::from_millis(4200));
    let has_input = |message: &SenseMessage| {
        matches!(message, SenseMessage::Period { clients }
            if clients.iter().any(|client| client.input && client.pid == std::process::id()))
    };
    while Instant::now() < until {
        hand.key();
        periods += watcher.listen(Duration::from_millis(50)).0.iter().filter(|message| has_input(message)).count();
    }
    assert!(periods >= 3, "{periods} of four periods");
}
