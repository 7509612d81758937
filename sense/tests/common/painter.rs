// SPDX-License-Identifier: GPL-2.0-only
//! An X client in the test itself, for exact areas and for what no ordinary program does on demand.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use x11rb::connection::Connection;
use x11rb::protocol::shape::{ConnectionExt as _, SK, SO};
use x11rb::protocol::xproto::{
    AtomEnum, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, MapState, PropMode, Rectangle,
    StackMode, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::common::wait_until;

/// A connection that draws.
pub struct Painter {
    pub conn: RustConnection,
    pub root: u32,
    gc: u32,
}

pub fn rectangle(x: i16, y: i16, width: u16, height: u16) -> Rectangle {
    Rectangle { x, y, width, height }
}

impl Painter {
    pub fn new(display: &str) -> Self {
        let (conn, screen) = RustConnection::connect(Some(display)).unwrap();
        let root = conn.setup().roots[screen].root;
        let gc = conn.generate_id().unwrap();
        conn.create_gc(gc, root, &CreateGCAux::new().foreground(0x33_66_99)).unwrap();
        Self { conn, root, gc }
    }

    /// A mapped window without a background, so that nothing but [`Self::paint`] changes it.
    pub fn window(&self, at: Rectangle) -> u32 {
        self.window_in(self.root, at)
    }

    /// As [`Self::window`], and a window manager has framed it. It is asked until it does: openbox forgets who asks between its
    /// announcement that it is there and its first look at the windows.
    pub fn managed_window(&self, at: Rectangle) -> u32 {
        let window = self.create(self.root, at, 0);
        wait_until("the window manager shows a window", || {
            self.conn.map_window(window).unwrap();
            let attributes = self.conn.get_window_attributes(window).unwrap().reply().unwrap();
            attributes.map_state == MapState::VIEWABLE
        });
        window
    }

    pub fn window_in(&self, parent: u32, at: Rectangle) -> u32 {
        self.create(parent, at, 1)
    }

    fn create(&self, parent: u32, at: Rectangle, override_redirect: u32) -> u32 {
        let window = self.conn.generate_id().unwrap();
        let aux = CreateWindowAux::new().override_redirect(override_redirect);
        let (class, copy) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
        self.conn.create_window(0, window, parent, at.x, at.y, at.width, at.height, 0, class, copy, &aux).unwrap();
        self.conn.map_window(window).unwrap();
        self.sync();
        window
    }

    pub fn paint(&self, window: u32, area: Rectangle) {
        self.conn.poly_fill_rectangle(window, self.gc, &[area]).unwrap();
        self.sync();
    }

    pub fn raise(&self, window: u32) {
        self.conn.configure_window(window, &ConfigureWindowAux::new().stack_mode(StackMode::ABOVE)).unwrap();
        self.sync();
    }

    pub fn move_to(&self, window: u32, x: i32, y: i32) {
        self.conn.configure_window(window, &ConfigureWindowAux::new().x(x).y(y)).unwrap();
        self.sync();
    }

    pub fn set_shape(&self, window: u32, shape: Rectangle) {
        let order = x11rb::protocol::xproto::ClipOrdering::UNSORTED;
        self.conn.shape_rectangles(SO::SET, SK::BOUNDING, order, window, 0, 0, &[shape]).unwrap();
        self.sync();
    }

    pub fn set_words(&self, window: u32, property: &str, words: &[u32]) {
        let atom = self.atom(property);
        let kind = AtomEnum::CARDINAL;
        self.conn.change_property32(PropMode::REPLACE, window, atom, kind, words).unwrap();
        self.sync();
    }

    pub fn atom(&self, name: &str) -> u32 {
        self.conn.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom
    }

    /// A key press and release as from a keyboard, by XTEST.
    pub fn key(&self) {
        const KEY_A: u8 = 38;
        for kind in [x11rb::protocol::xproto::KEY_PRESS_EVENT, x11rb::protocol::xproto::KEY_RELEASE_EVENT] {
            self.conn.xtest_fake_input(kind, KEY_A, 0, x11rb::NONE, 0, 0, 0).unwrap();
        }
        self.sync();
    }

    pub fn move_pointer(&self, x: i16, y: i16) {
        let kind = x11rb::protocol::xproto::MOTION_NOTIFY_EVENT;
        self.conn.xtest_fake_input(kind, 0, 0, self.root, x, y, 0).unwrap();
        self.sync();
    }

    pub fn sync(&self) {
        self.conn.sync().unwrap();
    }
}
