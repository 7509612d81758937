// SPDX-License-Identifier: GPL-2.0-only
//! What each event from the control connection means for the session.

use std::time::Instant;

use x11rb::protocol::Event;
use x11rb::protocol::xproto::{self, Property};

use crate::error::SessionEnd;
use crate::region::Rect;
use crate::session::Session;
use crate::windows::Top;

impl Session<'_, '_> {
    /// Takes in an event. X errors are events too, for requests without an answer: the window they were for has gone.
    pub(crate) fn handle(&mut self, event: Event) -> Result<(), SessionEnd> {
        // By SendEvent any client can say anything of any window; the server sets this mark, and no client can take it away.
        if event.sent_event() {
            return Ok(());
        }
        match event {
            Event::DamageNotify(event) => {
                if self.damages.contains_key(&event.drawable) {
                    self.dirty.insert(event.drawable);
                }
                Ok(())
            }
            Event::PropertyNotify(event) => self.property(&event),
            Event::XfixesSelectionNotify(event) if self.is_compositor_selection(event.selection) => {
                self.set_compositor(event.owner)
            }
            Event::ShapeNotify(event) => {
                self.forget_look(event.affected_window);
                Ok(())
            }
            other => self.structure(&other),
        }
    }

    fn property(&mut self, event: &xproto::PropertyNotifyEvent) -> Result<(), SessionEnd> {
        let on_root = event.window == self.windows.root();
        if on_root && event.atom == self.atoms._NET_SUPPORTING_WM_CHECK && event.state == Property::NEW_VALUE {
            return self.ask_manager();
        }
        if self.link.passed(event.window) || self.compositor.is_none() {
            return Ok(());
        }
        if on_root {
            if event.atom == self.atoms._NET_CURRENT_DESKTOP && event.state == Property::NEW_VALUE {
                return self.ask_desktop();
            }
        } else if self.atoms.changes_look(event.atom) {
            self.forget_look(event.window);
        }
        Ok(())
    }

    fn forget_look(&mut self, window: u32) {
        if let Some(top) = self.windows.top_of(window).and_then(|top| self.windows.top_mut(top)) {
            top.look = None;
        }
    }

    /// Events about the root and its children, whose announcer (`event`) is the root.
    fn structure(&mut self, event: &Event) -> Result<(), SessionEnd> {
        self.stack_changed = true;
        let root = self.windows.root();
        let changes = match event {
            Event::CreateNotify(event) if event.parent == root => {
                let (width, height, border) = (event.width.into(), event.height.into(), event.border_width.into());
                let top = Top::new(event.x.into(), event.y.into(), width, height, border, event.override_redirect);
                self.damages.remove(&event.window);
                self.windows.created(event.window, top)
            }
            Event::DestroyNotify(event) => {
                self.destroyed(event.window);
                Vec::new()
            }
            Event::MapNotify(event) => self.windows.set_mapped(event.window, true),
            Event::UnmapNotify(event) => self.windows.set_mapped(event.window, false),
            Event::ReparentNotify(event) if event.parent == root => {
                // Its size is asked for with its look.
                let top = Top::new(event.x.into(), event.y.into(), 0, 0, 0, event.override_redirect);
                self.windows.came_back(event.window, top)
            }
            Event::ReparentNotify(event) => return self.found_parent(event.window, event.parent, 0),
            Event::ConfigureNotify(event) if event.window == root => return self.resized(event.width, event.height),
            Event::ConfigureNotify(event) => {
                let border = i32::from(event.border_width);
                let (width, height) = (i32::from(event.width) + 2 * border, i32::from(event.height) + 2 * border);
                self.windows.configured(event.window, Rect::new(event.x.into(), event.y.into(), width, height), border);
                Vec::new()
            }
            _ => Vec::new(),
        };
        self.apply(changes)
    }

    /// The server frees a window's damage with the window.
    fn destroyed(&mut self, window: u32) {
        for inside in self.windows.clients_in(window) {
            self.damages.remove(&inside);
            self.dirty.remove(&inside);
        }
        self.damages.remove(&window);
        self.dirty.remove(&window);
        self.windows.destroyed(window);
    }

    fn resized(&mut self, width: u16, height: u16) -> Result<(), SessionEnd> {
        if (width, height) == self.screen || width == 0 || height == 0 {
            return Ok(());
        }
        self.screen = (width, height);
        self.size_is_news = true;
        self.tell_size(Instant::now())
    }
}
