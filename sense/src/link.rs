// SPDX-License-Identifier: GPL-2.0-only
//! The control connection, and answers that are not waited for.
//!
//! A client that grabs the server (a window manager dragging an outline) keeps every answer back for as long as it likes,
//! while input goes on and must be reported. So after each group of requests a property of our own window is changed: when
//! the server announces that, the answers before it have arrived and reading them waits for nothing.

use std::collections::VecDeque;

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::error::SessionEnd;
use crate::windows::Window;

/// The control connection with questions of type `Q` under way.
pub(crate) struct Link<'c, Q> {
    /// The connection itself.
    pub conn: &'c RustConnection,
    fence_window: Window,
    fences_sent: u64,
    fences_passed: u64,
    questions: VecDeque<(u64, Q)>,
    unfenced: bool,
}

impl<'c, Q> Link<'c, Q> {
    /// Makes the window whose property marks how far the server has come.
    pub(crate) fn new(conn: &'c RustConnection, root: Window) -> Result<Self, SessionEnd> {
        let fence_window = conn.generate_id()?;
        let class = WindowClass::INPUT_ONLY;
        conn.create_window(0, fence_window, root, -1, -1, 1, 1, 0, class, 0, &CreateWindowAux::new())?.check()?;
        let select = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        conn.change_window_attributes(fence_window, &select)?.check()?;
        Ok(Self { conn, fence_window, fences_sent: 0, fences_passed: 0, questions: VecDeque::new(), unfenced: false })
    }

    /// Keeps a question whose requests were just sent.
    pub(crate) fn ask(&mut self, question: Q) {
        self.questions.push_back((self.fences_sent + 1, question));
        self.unfenced = true;
    }

    /// A property of `window` changed; true if that was our mark.
    pub(crate) fn passed(&mut self, window: Window) -> bool {
        if window != self.fence_window {
            return false;
        }
        self.fences_passed += 1;
        true
    }

    /// The next question whose answers are here.
    pub(crate) fn next_answered(&mut self) -> Option<Q> {
        match self.questions.front() {
            Some((fence, _)) if *fence <= self.fences_passed => {
                self.questions.pop_front().map(|(_, question)| question)
            }
            _ => None,
        }
    }

    /// Marks the end of the questions so far and sends everything; true if there were questions.
    pub(crate) fn send(&mut self) -> Result<bool, SessionEnd> {
        let asked = std::mem::take(&mut self.unfenced);
        if asked {
            let (property, kind) = (AtomEnum::WM_NAME, AtomEnum::STRING);
            self.conn.change_property8(PropMode::REPLACE, self.fence_window, property, kind, &[])?;
            self.fences_sent += 1;
        }
        self.conn.flush()?;
        Ok(asked)
    }
}
