// SPDX-License-Identifier: GPL-2.0-only
//! The one entry: an event goes in, actions come out.

use crate::action::Action;
use crate::event::Event;
use crate::state::State;

/// Take notice of an event; say what is to be done about it.
///
/// `now_ns` is any clock that only moves forward, the same for all events of a state; only [`Event::Tick`] looks at it.
/// The actions are changes only, at most one per process.
pub fn step(state: &mut State, event: Event, now_ns: u64) -> Vec<Action> {
    let actions = match event {
        Event::Input { pid, display } => state.input_at_once(pid, &display),
        Event::Reached { pid, display } => state.input_reaches(pid, &display),
        Event::Output { pid, display, changed_pct } => state.output_at_once(pid, &display, changed_pct),
        Event::Display { display, server } => state.open_display(&display, server),
        Event::Manager { display, manager } => state.set_manager(&display, manager),
        Event::DisplayGone { display } => state.close_display(&display),
        Event::Period { display, clients } => {
            state.report(&display, clients);
            Vec::new()
        }
        Event::Edges(edges) => {
            state.add_edges(edges);
            Vec::new()
        }
        Event::Given { pid, kind, from, in_milli, out_milli } => {
            state.take_over(pid, kind, from, [in_milli, out_milli])
        }
        Event::Exit { pid } => {
            state.table.forget(pid);
            Vec::new()
        }
        Event::Hub { pid, role } => {
            let Some(node) = state.enter(pid) else {
                return Vec::new();
            };
            // Who serves a display is a hub whatever its name.
            if role.is_some() || !state.serves_display(node) {
                state.table[node].hub = role;
            }
            state.announce(&[node])
        }
        Event::Tick => state.pass(now_ns),
    };
    state.after_evictions(actions)
}
