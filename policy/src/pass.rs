// SPDX-License-Identifier: GPL-2.0-only
//! The rating pass, once a second (HuC tech report, 4.3):
//!
//! 1. each source's temporal rating, C_tin or C_tout on one scale;
//! 2. spread over the graph, cumulatively, not through hubs;
//! 3. P = (P + P_t) / 2 for everybody with either;
//!
//! then everything ages by a second, and the scheduler is told what changed.

use crate::action::Action;
use crate::graph::{Links, Node};
use crate::hubs;
use crate::rating::{average, output_milli};
use crate::reach::{Condensed, Side};
use crate::state::State;
use crate::table::{DisplayIx, Origin};

const SECOND_NS: u64 = 1_000_000_000;

/// A source of one side: process, temporal rating in thousandths, and the display it comes from.
type Source = (Node, u32, DisplayIx);

/// What a pass found for one side, by slot.
struct Found {
    /// P_t.
    temporal_milli: Vec<u64>,
    /// By which way it came.
    origin: Vec<Option<Origin>>,
}

impl State {
    /// The pass. Does nothing when less than half a second has passed since the last one; ages by as many seconds
    /// as have passed when it is late.
    pub(crate) fn pass(&mut self, now_ns: u64) -> Vec<Action> {
        let Some(elapsed_s) = self.elapsed_s(now_ns) else {
            return Vec::new();
        };
        self.drop_gone();
        let forward = self.links(Side::In);
        let backward = self.links(Side::Out);
        let is_hub = hubs::recognise(&mut self.table, &self.settings, &forward, &backward);
        let condensed = Condensed::new(&forward, &is_hub);
        let input = self.find(Side::In, &condensed, &forward, &is_hub, self.input_sources());
        let outputs = self.output_sources();
        let output = self.find(Side::Out, &condensed, &backward, &is_hub, outputs);
        self.average(elapsed_s, [&input, &output]);
        self.edges.halve(elapsed_s);
        let actions = self.announce_all();
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
        let Some(is_live) = self.table.leavers() else {
            return;
        };
        self.edges.retain_ends(&is_live);
        for display in &mut self.displays {
            display.server = display.server.filter(|node| is_live[*node as usize]);
            display.manager = display.manager.filter(|node| is_live[*node as usize]);
            display.changed_mpct.retain(|(node, _)| is_live[*node as usize]);
            display.at_once_mpct.retain(|node, _| is_live[*node as usize]);
        }
    }

    /// Omega_in with C_tin (4.1.2; 4.3, step 1).
    fn input_sources(&self) -> Vec<Source> {
        let live = self.table.live().filter(|(_, process)| process.input_left_s > 0);
        live.map(|(node, process)| (node, process.input_left_s * 1000, process.input_display)).collect()
    }

    /// Omega_out with C_tout, on the scale of C_tin (4.1.3, 4.3). A client of two displays is a source on each.
    fn output_sources(&mut self) -> Vec<Source> {
        let mut changed = Vec::new();
        for (place, display) in self.displays.iter_mut().enumerate() {
            let mut at_once = std::mem::take(&mut display.at_once_mpct);
            let period = if display.holds_passes > 0 { &display.changed_mpct[..] } else { &[] };
            for (node, mpct) in period {
                let at_once = at_once.remove(node).unwrap_or(0);
                changed.push((*node, at_once.max(*mpct), place as DisplayIx));
            }
            changed.extend(at_once.into_iter().map(|(node, mpct)| (node, mpct, place as DisplayIx)));
        }
        self.most_changed_mpct = changed.iter().map(|(_, mpct, _)| *mpct).max().unwrap_or(0);
        let settings = &self.settings;
        let most_mpct = self.most_changed_mpct;
        let rated =
            changed.into_iter().map(|(node, mpct, place)| (node, output_milli(settings, mpct, most_mpct), place));
        rated.filter(|(_, milli, _)| *milli > 0).collect()
    }

    /// Steps 1 and 2 for one side.
    fn find(
        &self,
        side: Side,
        condensed: &Condensed,
        links: &Links,
        is_hub: &[bool],
        mut sources: Vec<Source>,
    ) -> Found {
        let bare: Vec<(Node, u32)> = sources.iter().map(|(node, milli, _)| (*node, *milli)).collect();
        let mut temporal_milli = condensed.spread(side, &bare);
        sources.sort_unstable_by_key(|(node, milli, _)| (u64::from(u32::MAX - milli) << 32) | u64::from(*node));
        let mut origin = trace(links, is_hub, &sources);
        // A display server's own I/O is the sum of its clients' (the NOSSDAV paper, 4.1). Clients also wake the
        // server, so that most of it reaches the server over the graph as well: the larger of the two, not both.
        for (place, display) in self.displays.iter().enumerate() {
            let Some(server) = display.server else {
                continue;
            };
            let of_clients = sources.iter().filter(|(_, _, of)| *of as usize == place);
            let sum = &mut temporal_milli[server as usize];
            *sum = (*sum).max(of_clients.map(|(_, milli, _)| u64::from(*milli)).sum());
            origin[server as usize] = Some(Origin::Device(place as DisplayIx));
        }
        Found { temporal_milli, origin }
    }

    /// P = (P + P_t) / 2 (4.3, step 3); then counters count down by the seconds that went by (4.1.2) and reports
    /// get old.
    fn average(&mut self, elapsed_s: u32, found: [&Found; 2]) {
        for (node, process) in self.table.live_mut() {
            for (facet, found) in process.facets.iter_mut().zip(found) {
                let temporal_milli = found.temporal_milli[node as usize];
                facet.rating_milli = average(&self.settings, facet.rating_milli, temporal_milli);
                facet.origin = found.origin[node as usize].or(facet.origin).filter(|_| facet.rating_milli > 0);
            }
            process.input_left_s = process.input_left_s.saturating_sub(elapsed_s);
        }
        for (place, display) in self.displays.iter_mut().enumerate() {
            for node in display.serving() {
                let facet = &mut self.table[node][Side::In];
                facet.rating_milli = facet.rating_milli.max(self.settings.server_least_milli);
                facet.origin = Some(Origin::Device(place as DisplayIx));
            }
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
        for display in &self.displays {
            display.changed_mpct.iter().for_each(|(node, _)| in_use[*node as usize] = true);
        }
        self.table.sweep(&in_use);
    }
}

/// By which way each process is reached, for `explain`: the shortest, from the strongest source; `sources`
/// strongest first.
fn trace(links: &Links, is_hub: &[bool], sources: &[Source]) -> Vec<Option<Origin>> {
    let mut origin = vec![None; links.nodes()];
    let mut seen = vec![false; links.nodes()];
    let mut queue = Vec::new();
    for &(node, _, display) in sources {
        if !std::mem::replace(&mut seen[node as usize], true) {
            origin[node as usize] = Some(Origin::Device(display));
            queue.push(node);
        }
    }
    let mut next = 0;
    // Once all have been seen there is no need to look at the rest of the edges.
    while let Some(&node) = queue.get(next).filter(|_| queue.len() < links.nodes()) {
        next += 1;
        if is_hub[node as usize] {
            continue;
        }
        for &(end, count) in links.of(node) {
            if !std::mem::replace(&mut seen[end as usize], true) {
                origin[end as usize] = Some(Origin::Edge { with: Some(node), count });
                queue.push(end);
            }
        }
    }
    origin
}
