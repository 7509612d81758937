// SPDX-License-Identifier: GPL-2.0-only
//! The immediate path (HuC tech report, 4.3, last paragraph): what cannot wait for the next pass.
//!
//! When a process with rating 0 receives input, the search is run from it alone. The paper's average would also
//! halve everybody who is *not* reached each time this happens; that cannot be meant, so here ratings only rise:
//! who had none gets the whole of it, as one that is lent gets the whole of the lender's, and who had one gets the
//! average where that is more. The same for output, which the paper leaves to the period: a program's first frame
//! should not wait a second either.

use crate::action::Action;
use crate::event::{DisplayId, GivenKind, ProcessId};
use crate::graph::Node;
use crate::rating::{OutputScale, changed_mpct};
use crate::reach::Side;
use crate::state::State;
use crate::table::{DisplayIx, Origin};

/// Whom a search raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raise {
    /// Everybody it reaches.
    All,
    /// Those only who had no rating: the others were raised by the search before, for the same event.
    Unrated,
}

impl State {
    /// A process received input just now.
    pub(crate) fn input_at_once(&mut self, pid: ProcessId, display: &DisplayId) -> Vec<Action> {
        let Some(display) = self.display(display) else {
            return Vec::new();
        };
        let Some(node) = self.admit(pid) else {
            return Vec::new();
        };
        let full_milli = self.settings.full_milli();
        let process = &mut self.table[node];
        process.input_left_s = self.settings.input_memory_s;
        process.input_display = display;
        if process.milli(Side::In) > 0 {
            return Vec::new();
        }
        self.raise_from(Side::In, Raise::All, node, display, full_milli)
    }

    /// Edges have come to light from before a process's input was reported: whom it reaches by them and who is not rated yet
    /// receives its input rating now.
    pub(crate) fn input_reaches(&mut self, pid: ProcessId, display: &DisplayId) -> Vec<Action> {
        let Some(display) = self.display(display) else {
            return Vec::new();
        };
        let Some(node) = self.table.find(pid).filter(|node| self.table[*node].milli(Side::In) > 0) else {
            return Vec::new();
        };
        let full_milli = self.settings.full_milli();
        self.raise_from(Side::In, Raise::Unrated, node, display, full_milli)
    }

    /// A process changed something visible just now.
    pub(crate) fn output_at_once(&mut self, pid: ProcessId, display: &DisplayId, changed_pct: f64) -> Vec<Action> {
        let changed_mpct = changed_mpct(changed_pct);
        let value_milli = OutputScale::new(&self.settings, self.most_changed_mpct).milli(changed_mpct);
        if value_milli == 0 {
            return Vec::new();
        }
        let Some(display) = self.display(display) else {
            return Vec::new();
        };
        let Some(node) = self.enter(pid) else {
            return Vec::new();
        };
        let at_once = &mut self.displays[display as usize].at_once_mpct;
        let sum = at_once.entry(node).or_default();
        *sum = sum.saturating_add(changed_mpct);
        if self.table[node].milli(Side::Out) > 0 {
            return Vec::new();
        }
        self.raise_from(Side::Out, Raise::All, node, display, value_milli)
    }

    /// Raise a process, its display's server and whoever it reaches; tell the scheduler.
    fn raise_from(
        &mut self,
        side: Side,
        whom: Raise,
        start: Node,
        display: DisplayIx,
        value_milli: u32,
    ) -> Vec<Action> {
        let mut seen = vec![false; self.table.slots()];
        seen[start as usize] = true;
        let mut raised = vec![start];
        self.raise(side, whom, start, value_milli, Origin::Device(display));
        let mut next = 0;
        while let Some(&node) = raised.get(next) {
            next += 1;
            if self.table[node].hub.is_some() {
                continue;
            }
            for place in 0..self.edges.of(side, node).len() {
                let link = self.edges.of(side, node)[place];
                if self.table.is_live(link.end) && !std::mem::replace(&mut seen[link.end as usize], true) {
                    let (with, count) = (Some(node), self.edges.weight(link.edge));
                    self.raise(side, whom, link.end, value_milli, Origin::Edge { with, count });
                    raised.push(link.end);
                }
            }
        }
        let server = self.displays[display as usize].server;
        if let Some(server) = server.filter(|server| self.table.is_live(*server) && !seen[*server as usize]) {
            self.raise(side, whom, server, value_milli, Origin::Device(display));
            raised.push(server);
        }
        self.announce(&raised)
    }

    fn raise(&mut self, side: Side, whom: Raise, node: Node, value_milli: u32, origin: Origin) {
        let facet = &mut self.table[node][side];
        if facet.rating_milli == 0 {
            facet.rating_milli = value_milli;
            facet.origin = Some(origin);
        } else if whom == Raise::All {
            let average = (u64::from(facet.rating_milli) + u64::from(value_milli)) / 2;
            facet.rating_milli = facet.rating_milli.max(average as u32);
        }
    }

    /// Take over a rating that the scheduler gave by itself (fork, lending).
    ///
    /// The copy is as old as what it was copied from. A report may cross a pass: then the giver has since been
    /// halved, and the copy is halved too. Without this, two processes that lend to each other around the passes
    /// would keep each other rated for ever.
    pub(crate) fn take_over(
        &mut self,
        pid: ProcessId,
        kind: GivenKind,
        from: ProcessId,
        given_milli: [u32; 2],
    ) -> Vec<Action> {
        let giver = self.table.find(from);
        let Some(node) = self.enter(pid) else {
            return Vec::new();
        };
        if kind == GivenKind::Inherited && giver.is_some() && giver != Some(node) {
            self.table[node].parent = giver;
        }
        let mut told = self.table[node].told.unwrap_or_default();
        for side in [Side::In, Side::Out] {
            let given = given_milli[side as usize];
            let left = giver.map_or(0, |giver| self.table[giver].milli(side));
            let mut taken = if left >= given { given } else { left.max(given / 2) };
            if taken < self.settings.rating_least_milli {
                taken = 0;
            }
            let facet = &mut self.table[node][side];
            if taken > facet.rating_milli {
                facet.rating_milli = taken;
                facet.origin = Some(Origin::Given { kind, from_tgid: from.tgid, giver });
            }
            *(if side == Side::In { &mut told.in_milli } else { &mut told.out_milli }) = given;
        }
        // The scheduler has an entry with the giver's slice: whatever comes of it must be told anew.
        told.slice_pm = 0;
        self.table[node].told = Some(told);
        self.announce(&[node])
    }
}
