// SPDX-License-Identifier: GPL-2.0-only
//! The rating pass, once a second (HuC tech report, 4.3):
//!
//! 1. each source's temporal rating, C_tin or C_tout on one scale;
//! 2. spread over the graph, cumulatively, not through hubs;
//! 3. P = (P + P_t) / 2 for everybody with either;
//!
//! then everything ages by a second, and the scheduler is told what changed.

use std::collections::VecDeque;

use crate::action::Action;
use crate::event::DisplayId;
use crate::graph::{Links, Node};
use crate::hubs;
use crate::rating::{average, output_milli};
use crate::reach::{Condensed, Side};
use crate::state::State;
use crate::table::Origin;

const SECOND_NS: u64 = 1_000_000_000;

/// A source of one side: process, temporal rating in thousandths, and the display it comes from.
type Source = (Node, u32, DisplayId);

impl State {
    /// The pass. Does nothing when less than half a second has passed since the last one; ages by as many seconds as have
    /// passed when it is late.
    pub(crate) fn pass(&mut self, now_ns: u64) -> Vec<Action> {
        let Some(elapsed_s) = self.elapsed_s(now_ns) else {
            return Vec::new();
        };
        self.drop_gone();
        let forward = self.links(Side::In);
        let backward = self.links(Side::Out);
        hubs::recognise(&mut self.table, &self.settings, &forward, &backward);
        let live = self.table.live();
        let mut is_hub = vec![false; self.table.slots()];
        for &node in &live {
            is_hub[node as usize] = self.table[node].hub.is_some();
        }
        let condensed = Condensed::new(&forward, &is_hub);
        for (side, links) in [(Side::In, &forward), (Side::Out, &backward)] {
            let mut sources = match side {
                Side::In => self.input_sources(&live),
                Side::Out => self.output_sources(),
            };
            let bare: Vec<(Node, u32)> = sources
                .iter()
                .map(|(node, milli, _)| (*node, *milli))
                .collect();
            let mut sums = condensed.spread(side, &bare);
            self.add_servers(&sources, &mut sums);
            sources.sort_by_key(|(node, milli, _)| (std::cmp::Reverse(*milli), *node));
            self.trace(side, links, &is_hub, sources);
            self.average(side, &live, &sums);
        }
        self.age(elapsed_s);
        let actions = self.announce(&live);
        self.sweep();
        actions
    }

    /// Whole seconds to age by, or `None` when the next pass is not due.
    fn elapsed_s(&mut self, now_ns: u64) -> Option<u32> {
        let Some(aged_until_ns) = self.aged_until_ns else {
            self.aged_until_ns = Some(now_ns);
            return Some(1);
        };
        let elapsed_s = (now_ns.saturating_sub(aged_until_ns) + SECOND_NS / 2) / SECOND_NS;
        self.aged_until_ns = Some(aged_until_ns + elapsed_s * SECOND_NS);
        (elapsed_s > 0).then(|| u32::try_from(elapsed_s).unwrap_or(u32::MAX))
    }

    /// Nothing may refer to a process that has exited.
    fn drop_gone(&mut self) {
        let table = &self.table;
        self.edges.retain_ends(|node| table.is_live(node));
        for display in self.displays.values_mut() {
            display.server = display.server.filter(|node| table.is_live(*node));
            display.changed_mpct.retain(|node, _| table.is_live(*node));
            display.at_once_mpct.retain(|node, _| table.is_live(*node));
        }
    }

    /// Omega_in with C_tin (4.1.2; 4.3, step 1).
    fn input_sources(&self, live: &[Node]) -> Vec<Source> {
        let source = |&node: &Node| {
            let process = &self.table[node];
            let display = process.input_display.clone()?;
            (process.input_left_s > 0).then(|| (node, process.input_left_s * 1000, display))
        };
        live.iter().filter_map(source).collect()
    }

    /// Omega_out with C_tout, on the scale of C_tin (4.1.3, 4.3). A client of two displays is a source on each.
    fn output_sources(&mut self) -> Vec<Source> {
        let mut changed = Vec::new();
        for (id, display) in &mut self.displays {
            let mut clients = std::mem::take(&mut display.at_once_mpct);
            if display.holds_passes > 0 {
                for (node, mpct) in &display.changed_mpct {
                    let so_far = clients.entry(*node).or_default();
                    *so_far = (*so_far).max(*mpct);
                }
            }
            changed.extend(
                clients
                    .into_iter()
                    .map(|(node, mpct)| (node, mpct, id.clone())),
            );
        }
        self.most_changed_mpct = changed.iter().map(|(_, mpct, _)| *mpct).max().unwrap_or(0);
        let settings = &self.settings;
        let most_mpct = self.most_changed_mpct;
        let rated = changed
            .into_iter()
            .map(|(node, mpct, id)| (node, output_milli(settings, mpct, most_mpct), id));
        rated.filter(|(_, milli, _)| *milli > 0).collect()
    }

    /// A display server's own I/O is the sum of its clients' (the NOSSDAV paper, 4.1). Clients also wake the server, so that most of
    /// it reaches the server over the graph as well: the larger of the two, not both.
    fn add_servers(&self, sources: &[Source], sums: &mut [u64]) {
        for (id, display) in &self.displays {
            if let Some(server) = display.server {
                let of_clients = sources
                    .iter()
                    .filter(|(_, _, of)| of == id)
                    .map(|(_, milli, _)| u64::from(*milli));
                let sum = &mut sums[server as usize];
                *sum = (*sum).max(of_clients.sum());
            }
        }
    }

    /// Remember by which way each process was reached, for `explain`: the shortest, from the strongest source.
    fn trace(&mut self, side: Side, links: &Links, is_hub: &[bool], sources: Vec<Source>) {
        let mut seen = vec![false; links.nodes()];
        let mut queue = VecDeque::new();
        for (node, _, display) in sources {
            if !std::mem::replace(&mut seen[node as usize], true) {
                self.table[node][side].origin = Some(Origin::Device(display));
                queue.push_back(node);
            }
        }
        while let Some(node) = queue.pop_front() {
            if is_hub[node as usize] {
                continue;
            }
            let with = self.table[node].id;
            for &(end, count) in links.of(node) {
                if !std::mem::replace(&mut seen[end as usize], true) {
                    self.table[end][side].origin = Some(Origin::Edge { with, count });
                    queue.push_back(end);
                }
            }
        }
        for (id, display) in &self.displays {
            if let Some(server) = display.server {
                self.table[server][side].origin = Some(Origin::Device(id.clone()));
            }
        }
    }

    /// P = (P + P_t) / 2 (4.3, step 3).
    fn average(&mut self, side: Side, live: &[Node], sums: &[u64]) {
        for &node in live {
            let facet = &mut self.table[node][side];
            facet.rating_milli = average(&self.settings, facet.rating_milli, sums[node as usize]);
            if facet.rating_milli == 0 {
                facet.origin = None;
            }
        }
        if side == Side::In {
            for (id, display) in &self.displays {
                let Some(server) = display.server else {
                    continue;
                };
                let facet = &mut self.table[server][side];
                facet.rating_milli = facet.rating_milli.max(self.settings.server_least_milli);
                facet.origin = Some(Origin::Device(id.clone()));
            }
        }
    }

    /// A second (or several, when the pass is late) goes by: counters count down (4.1.2), weights halve (4.2.3), reports
    /// get old.
    fn age(&mut self, elapsed_s: u32) {
        self.edges.halve(elapsed_s);
        for node in self.table.live() {
            let process = &mut self.table[node];
            process.input_left_s = process.input_left_s.saturating_sub(elapsed_s);
        }
        for display in self.displays.values_mut() {
            display.holds_passes = display.holds_passes.saturating_sub(elapsed_s);
            if display.holds_passes == 0 {
                display.changed_mpct.clear();
            }
        }
    }

    /// Free the slots of processes that nothing refers to.
    fn sweep(&mut self) {
        let mut in_use = vec![false; self.table.slots()];
        for arc in self.edges.arcs() {
            in_use[arc.from as usize] = true;
            in_use[arc.to as usize] = true;
        }
        for display in self.displays.values() {
            display
                .changed_mpct
                .keys()
                .for_each(|node| in_use[*node as usize] = true);
        }
        self.table.sweep(&in_use);
    }
}
