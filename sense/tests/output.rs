// SPDX-License-Identifier: GPL-2.0-only
//! Whose visible output changed, and by how much, seen on real X servers of 1000 × 800 pixels.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "common/painter.rs"]
mod painter;

use std::time::Duration;

use common::{Heard, Running, Server, Watcher, have, wait_until};
use limelight_abi::sense::SenseMessage;
use painter::{Painter, rectangle};
use x11rb::protocol::xproto::ConnectionExt as _;

const TWO_PERIODS: Duration = Duration::from_millis(2200);
/// A period and some, after which what was painted before it has been told.
const A_PERIOD: Duration = Duration::from_millis(1400);
/// A tick and some, so that what is painted next is counted by itself.
const A_TICK: Duration = Duration::from_millis(300);

fn ours(heard: &Heard) -> f64 {
    heard.changed_pct(std::process::id())
}

#[track_caller]
fn assert_pct(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 0.001, "{actual} % changed, not {expected} %");
}

/// A compositing manager, ready.
fn compositor(server: &Server, program: &str, arguments: &[&str]) -> Running {
    let running = server.run(program, arguments);
    let painter = Painter::new(&server.name());
    let selection = painter.atom("_NET_WM_CM_S0");
    wait_until("the compositing manager is ready", || {
        painter.conn.get_selection_owner(selection).unwrap().reply().unwrap().owner != x11rb::NONE
    });
    running
}

/// Each screen: none, or one of two compositing managers.
fn on_every_screen(test: impl Fn(&Server) + Sync) {
    if !have(&["Xvfb", "xcompmgr", "picom"]) {
        return;
    }

    let composited = |program, arguments: &[&str]| {
        let server = Server::start(&[]);
        let _running = compositor(&server, program, arguments);
        test(&server);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| test(&Server::start(&[])));
        scope.spawn(|| composited("xcompmgr", &[]));
        scope.spawn(|| composited("picom", &["--backend", "xrender", "--config", "/dev/null"]));
    });
}

/// What a client paints is counted to the pixel, told at once and in the period; what was there before is not.
#[test]
fn painting_is_counted_to_the_pixel() {
    on_every_screen(|server| {
        let painter = Painter::new(&server.name());
        let window = painter.window(rectangle(100, 100, 400, 400));
        painter.paint(window, rectangle(0, 0, 400, 400));
        let mut watcher = Watcher::start(&server.name());
        assert_pct(ours(&watcher.listen(A_PERIOD)), 0.0);
        painter.paint(window, rectangle(10, 10, 100, 80));
        let heard = watcher.listen(A_PERIOD);
        assert!(heard.output_at_once().contains(&std::process::id()), "{heard:?}");
        assert_pct(ours(&heard), 1.0);
    });
}

/// The same area painted many times between two looks counts once, painted in several ticks several times.
#[test]
fn repeated_painting_counts_once_a_tick() {
    if !have(&["Xvfb"]) {
        return;
    }
    let server = Server::start(&[]);
    let painter = Painter::new(&server.name());
    let window = painter.window(rectangle(0, 0, 400, 400));
    let mut watcher = Watcher::start(&server.name());
    watcher.listen(A_TICK);
    for _ in 0..200 {
        painter.paint(window, rectangle(0, 0, 100, 80));
    }
    let burst = ours(&watcher.listen(A_PERIOD));
    // The first paint is looked at while the others follow, so a second look is right.
    assert!((1.0..=3.0).contains(&burst), "{burst} %");
    for _ in 0..3 {
        painter.paint(window, rectangle(0, 0, 100, 80));
        std::thread::sleep(A_TICK);
    }
    assert_pct(ours(&watcher.listen(A_PERIOD)), 3.0);
}

/// A covered window's changes are nobody's business; a half covered one's count by half; uncovered, all of it.
#[test]
fn covered_windows_do_not_count() {
    on_every_screen(|server| {
        let painter = Painter::new(&server.name());
        let below = painter.window(rectangle(0, 0, 200, 160));
        let above = painter.window(rectangle(0, 0, 200, 160));
        let mut watcher = Watcher::start(&server.name());
        watcher.listen(A_TICK);
        painter.paint(below, rectangle(0, 0, 200, 160));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 0.0);

        painter.move_to(above, 100, 0);
        watcher.listen(A_PERIOD);
        painter.paint(below, rectangle(0, 0, 200, 160));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 2.0);

        painter.raise(below);
        watcher.listen(A_PERIOD);
        painter.paint(below, rectangle(0, 0, 200, 160));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 4.0);

        painter.conn.unmap_window(below).unwrap();
        watcher.listen(A_PERIOD);
        painter.paint(below, rectangle(0, 0, 200, 160));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 0.0);
    });
}

/// What is off the screen or shaped away cannot be seen, nor does a shaped window cover what shows through it.
#[test]
fn shapes_and_the_screens_edge_are_respected() {
    on_every_screen(|server| {
        let painter = Painter::new(&server.name());
        let below = painter.window(rectangle(900, 0, 200, 80));
        let mut watcher = Watcher::start(&server.name());
        watcher.listen(A_TICK);
        painter.paint(below, rectangle(0, 0, 200, 80));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 1.0);

        let above = painter.window(rectangle(900, 0, 200, 80));
        painter.set_shape(above, rectangle(0, 0, 50, 80));
        watcher.listen(A_PERIOD);
        painter.paint(below, rectangle(0, 0, 200, 80));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 0.5);
        painter.paint(above, rectangle(0, 0, 200, 80));
        assert_pct(ours(&watcher.listen(A_PERIOD)), 0.5);
    });
}

/// Where windows are composited, a translucent one covers nothing, and a hidden one neither covers nor counts.
#[test]
fn translucent_and_hidden_windows_are_understood() {
    if !have(&["Xvfb", "xcompmgr"]) {
        return;
    }
    let server = Server::start(&[]);
    let _compositor = compositor(&server, "xcompmgr", &[]);
    let painter = Painter::new(&server.name());
    let below = painter.window(rectangle(0, 0, 100, 80));
    let above = painter.window(rectangle(0, 0, 100, 80));
    let mut watcher = Watcher::start(&server.name());
    let painted = |watcher: &mut Watcher, window| {
        watcher.listen(A_PERIOD);
        painter.paint(window, rectangle(0, 0, 100, 80));
        ours(&watcher.listen(A_PERIOD))
    };
    assert_pct(painted(&mut watcher, below), 0.0);
    painter.set_words(above, "_NET_WM_WINDOW_OPACITY", &[0x8000_0000]);
    assert_pct(painted(&mut watcher, below), 1.0);
    painter.set_words(above, "_NET_WM_WINDOW_OPACITY", &[u32::MAX]);
    assert_pct(painted(&mut watcher, below), 0.0);
    painter.set_words(above, "_NET_WM_DESKTOP", &[3]);
    assert_pct(painted(&mut watcher, below), 1.0);
    assert_pct(painted(&mut watcher, above), 0.0);
    painter.set_words(painter.root, "_NET_CURRENT_DESKTOP", &[3]);
    assert_pct(painted(&mut watcher, above), 1.0);
    let hidden = painter.atom("_NET_WM_STATE_HIDDEN");
    painter.set_words(above, "_NET_WM_STATE", &[hidden]);
    assert_pct(painted(&mut watcher, below), 1.0);
}

/// A compositing manager that starts or ends while we watch changes how visibility is found, not what is counted; what it
/// draws itself is not counted.
#[test]
fn compositing_may_start_and_end() {
    if !have(&["Xvfb", "xcompmgr"]) {
        return;
    }
    let server = Server::start(&[]);
    let painter = Painter::new(&server.name());
    let below = painter.window(rectangle(0, 0, 200, 160));
    let above = painter.window(rectangle(0, 0, 100, 160));
    let mut watcher = Watcher::start(&server.name());
    let painted = |watcher: &mut Watcher| {
        watcher.listen(A_PERIOD);
        painter.paint(below, rectangle(0, 0, 200, 160));
        watcher.listen(A_PERIOD)
    };
    assert_pct(ours(&painted(&mut watcher)), 2.0);
    let running = compositor(&server, "xcompmgr", &[]);
    let heard = painted(&mut watcher);
    assert_pct(ours(&heard), 2.0);
    assert_pct(heard.changed_pct(running.pid()), 0.0);
    drop(running);
    assert_pct(ours(&painted(&mut watcher)), 2.0);
    painter.conn.destroy_window(above).unwrap();
    assert_pct(ours(&painted(&mut watcher)), 4.0);
}

/// Under a reparenting window manager the client's window counts, framed or not, and the frame's decorations do not.
#[test]
fn framed_windows_are_their_clients() {
    if !have(&["Xvfb", "openbox", "xterm", "xdotool", "xprop", "xcompmgr"]) {
        return;
    }
    for composited in [false, true] {
        let server = Server::start(&[]);
        let manager = server.run("openbox", &[]);
        server.wait_for_window_manager();
        let _compositor = composited.then(|| compositor(&server, "xcompmgr", &[]));
        let print = "while :; do echo limelight; sleep 0.2; done";
        let early = server.run("xterm", &["-geometry", "40x10+10+30", "-T", "early", "-e", "sh", "-c", print]);
        server.xdotool("search --sync --onlyvisible --name ^early$");
        let mut watcher = Watcher::start(&server.name());
        let late = server.run("xterm", &["-geometry", "40x10+500+430", "-T", "late", "-e", "sh", "-c", print]);
        server.xdotool("search --sync --onlyvisible --name ^late$");
        watcher.listen(TWO_PERIODS);
        let heard = watcher.listen(TWO_PERIODS);
        assert!(heard.changed_pct(early.pid()) > 0.0 && heard.changed_pct(late.pid()) > 0.0, "{heard:?}");
        assert_pct(heard.changed_pct(manager.pid()), 0.0);

        let cover = server.run("xterm", &["-geometry", "300x100+0+0", "-T", "cover", "-e", "sleep", "1000"]);
        server.xdotool("search --sync --onlyvisible --name ^cover$");
        watcher.listen(A_PERIOD);
        let heard = watcher.listen(A_PERIOD);
        assert_pct(heard.changed_pct(early.pid()), 0.0);
        assert_pct(heard.changed_pct(late.pid()), 0.0);
        drop(cover);
        watcher.wait_for(
            "output that is uncovered again",
            |message| matches!(message, SenseMessage::Output { pid, .. } if *pid == early.pid()),
        );
    }
}
