// SPDX-License-Identifier: GPL-2.0-only
//! The rating pass, once a second (HuC tech report, 4.3):
//!
//! 1. each source's temporal rating, C_tin or C_tout on one scale;
//! 2. spread over the graph, cumulatively, not through hubs;
//! 3. P = (P + P_t) / 2 for everybody with either;
//!
//! then everything ages by a second, and the scheduler is told what changed.

use std::cmp::Reverse;

use crate::action::Action;
use crate::graph::{Edges, Node};
use crate::hubs;
use crate::rating::{OutputScale, average};
use crate::reach::{Reach, Side, Source};
use crate::state::State;
use crate::table::{DisplayIx, Origin};

const SECOND_NS: u64 = 1_000_000_000;
const SIDES: [Side; 2] = [Side::In, Side::Out];

/// What a pass works with; kept for its memory only, so that a pass asks for none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    is_hub: Vec<bool>,
    reach: Reach,
    sorted: Vec<Source>,
    /// What was found for each side.
    found: [Found; 2],
}

/// What a pass found for one side, by slot.
#[derive(Debug, Clone, Default)]
struct Found {
    /// P_t.
    temporal_milli: Vec<u64>,
    /// By which way it came.
    by: Vec<By>,
    /// Who is reached, in the order of the search.
    reached: Vec<Node>,
}

impl State {
    /// The pass. Does nothing when less than half a second has passed since the last one; ages by as many seconds
    /// as have passed when it is late.
    pub(crate) fn pass(&mut self, now_ns: u64) -> Vec<Action> {
        let Some(elapsed_s) = self.elapsed_s(now_ns) else {
            return Vec::new();
        };
        self.drop_gone();
        self.edges.cover(self.table.slots());
        let mut work = std::mem::take(&mut self.workspace);
        hubs::recognise(&mut self.table, &self.settings, &self.edges, &mut work.is_hub);
        let mut sources = [self.input_sources(), self.output_sources()];
        self.find(&mut sources, &mut work);
        self.average(elapsed_s, &work.found);
        self.workspace = work;
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
    pub(crate) fn drop_gone(&mut self) {
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
    pub(crate) fn input_sources(&self) -> Vec<Source> {
        // Room for all at once: copying them while their list grows costs as much as finding them.
        let mut sources = Vec::with_capacity(self.table.count());
        for (node, process) in self.table.live().filter(|(_, process)| process.input_left_s > 0) {
            let (milli, display) = (process.input_left_s * 1000, process.input_display);
            sources.push(Source { node, milli, display });
        }
        sources
    }

    /// Omega_out with C_tout, on the scale of C_tin (4.1.3, 4.3). A client of two displays is a source on each.
    pub(crate) fn output_sources(&mut self) -> Vec<Source> {
        let reported = self.displays.iter().map(|display| display.changed_mpct.len() + display.at_once_mpct.len());
        let mut changed = Vec::with_capacity(reported.sum());
        for (place, display) in self.displays.iter_mut().enumerate() {
            let mut at_once = std::mem::take(&mut display.at_once_mpct);
            let period = if display.holds_passes > 0 { &display.changed_mpct[..] } else { &[] };
            for (node, mpct) in period {
                let at_once = if at_once.is_empty() { 0 } else { at_once.remove(node).unwrap_or(0) };
                changed.push((*node, at_once.max(*mpct), place as DisplayIx));
            }
            changed.extend(at_once.into_iter().map(|(node, mpct)| (node, mpct, place as DisplayIx)));
        }
        self.most_changed_mpct = changed.iter().map(|(_, mpct, _)| *mpct).max().unwrap_or(0);
        let scale = OutputScale::new(&self.settings, self.most_changed_mpct);
        let source = |&(node, mpct, display): &_| Source { node, milli: scale.milli(mpct), display };
        let mut sources: Vec<Source> = changed.iter().map(source).collect();
        sources.retain(|source| source.milli > 0);
        sources
    }

    /// Steps 1 and 2.
    fn find(&self, sources: &mut [Vec<Source>; 2], work: &mut Workspace) {
        let Workspace { is_hub, reach, sorted, found } = work;
        let all = self.table.count();
        for (side, sources) in SIDES.into_iter().zip(sources.iter_mut()) {
            strongest_first(sources, sorted);
            found[side as usize].trace(&self.edges, side, is_hub, all, sources);
        }
        reach.condense(&self.edges, is_hub, |node| found.iter().any(|found| found.by[node as usize] != By::NOTHING));
        for (side, sources) in SIDES.into_iter().zip(sources) {
            let found = &mut found[side as usize];
            reach.spread(&self.edges, side, sources, &mut found.temporal_milli);
            self.add_up_servers(sources, found);
        }
    }

    /// A display server's own I/O is the sum of its clients' (the NOSSDAV paper, 4.1). Clients also wake the server, so
    /// that most of it reaches the server over the graph as well: the larger of the two, not both.
    fn add_up_servers(&self, sources: &[Source], found: &mut Found) {
        let mut of_clients = vec![0u64; self.displays.len()];
        for source in sources {
            of_clients[source.display as usize] += u64::from(source.milli);
        }
        for (place, display) in self.displays.iter().enumerate() {
            let Some(server) = display.server else {
                continue;
            };
            let sum = &mut found.temporal_milli[server as usize];
            *sum = (*sum).max(of_clients[place]);
            found.by[server as usize] = By::device(place as DisplayIx);
        }
    }

    /// P = (P + P_t) / 2 (4.3, step 3); then counters count down by the seconds that went by (4.1.2) and reports
    /// get old.
    fn average(&mut self, elapsed_s: u32, found: &[Found; 2]) {
        for (node, process) in self.table.live_mut() {
            for (facet, found) in process.facets.iter_mut().zip(found) {
                let (temporal_milli, by) = (found.temporal_milli[node as usize], found.by[node as usize]);
                facet.rating_milli = average(&self.settings, facet.rating_milli, temporal_milli);
                if facet.rating_milli == 0 {
                    facet.origin = None;
                } else if by.before != NO_ONE {
                    facet.origin = by.origin(&self.edges);
                }
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
        let mut in_use = std::mem::take(&mut self.workspace.is_hub);
        in_use.clear();
        let lists = self.edges.lists(Side::In).iter().zip(self.edges.lists(Side::Out));
        in_use.extend(lists.map(|(woken, wakers)| !(woken.is_empty() && wakers.is_empty())));
        for display in &self.displays {
            display.changed_mpct.iter().for_each(|(node, _)| in_use[*node as usize] = true);
        }
        self.table.sweep(&in_use);
        self.workspace.is_hub = in_use;
    }
}

/// By which way a process is reached, in a form that a search can look at and write quickly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct By {
    /// The process before it, or NO_ONE, or DEVICE and the display.
    before: u32,
    /// The edge from there.
    edge: u32,
}

const NO_ONE: u32 = u32::MAX;
const DEVICE: u32 = 1 << 31;

impl By {
    const NOTHING: By = By { before: NO_ONE, edge: 0 };

    fn device(display: DisplayIx) -> By {
        By { before: DEVICE | u32::from(display), edge: 0 }
    }

    fn origin(self, edges: &Edges) -> Option<Origin> {
        match self.before {
            NO_ONE => None,
            device if device & DEVICE != 0 => Some(Origin::Device((device & !DEVICE) as DisplayIx)),
            before => Some(Origin::Edge { with: Some(before), count: edges.weight(self.edge) }),
        }
    }
}

impl Found {
    /// By which way each process is reached, for `explain`: the shortest, from the strongest source; `sources`
    /// strongest first. There are `all` processes.
    fn trace(&mut self, edges: &Edges, side: Side, is_hub: &[bool], all: usize, sources: &[Source]) {
        let Found { by, reached, .. } = self;
        by.clear();
        by.resize(is_hub.len(), By::NOTHING);
        reached.clear();
        let by = &mut by[..];
        for source in sources {
            let by = &mut by[source.node as usize];
            if by.before == NO_ONE {
                *by = By::device(source.display);
                reached.push(source.node);
            }
        }
        let lists = edges.lists(side);
        let mut next = 0;
        // Once all have been seen there is no need to look at the rest of the edges.
        while let Some(&node) = reached.get(next).filter(|_| reached.len() < all) {
            next += 1;
            if is_hub[node as usize] {
                continue;
            }
            for link in &lists[node as usize] {
                let by = &mut by[link.end as usize];
                if by.before == NO_ONE {
                    *by = By { before: node, edge: link.edge };
                    reached.push(link.end);
                }
            }
        }
    }
}

/// The strongest first, of equals the lowest slot, of its displays the first. By counting, where there are many:
/// where everybody is a source, comparing them with each other would cost as much as the search. `sorted` is there for
/// its memory.
fn strongest_first(sources: &mut Vec<Source>, sorted: &mut Vec<Source>) {
    const FEW: usize = 1000;
    const DIGIT_BITS: u32 = 14;
    if !sources.is_sorted_by_key(|source| source.node) {
        sources.sort_by_key(|source| source.node);
    }
    let millis = || sources.iter().map(|source| source.milli);
    let (least_milli, most_milli) = (millis().min().unwrap_or(0), millis().max().unwrap_or(0));
    if sources.len() < FEW {
        sources.sort_by_key(|source| Reverse(source.milli));
        return;
    }
    let mut shift = 0;
    while (most_milli - least_milli) >> shift > 0 {
        let digit = |source: &Source| (((most_milli - source.milli) >> shift) % (1 << DIGIT_BITS)) as usize;
        let most_digit = ((most_milli - least_milli) >> shift).min((1 << DIGIT_BITS) - 1);
        let mut places = vec![0u32; most_digit as usize + 1];
        sources.iter().for_each(|source| places[digit(source)] += 1);
        let mut sum = 0;
        for place in &mut places {
            (*place, sum) = (sum, sum + *place);
        }
        sorted.resize(sources.len(), sources[0]);
        for source in sources.iter() {
            let place = &mut places[digit(source)];
            sorted[*place as usize] = *source;
            *place += 1;
        }
        std::mem::swap(sources, sorted);
        shift += DIGIT_BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few and many sources, near each other and far, are put in the order of a plain sort.
        #[test]
        fn sources_are_sorted_by_strength_slot_and_display(
            named in prop::collection::vec((0u32..3000, 0u32..600_000, 0u16..3), 1..3000),
            most_milli in prop::sample::select(vec![1, 97, 10_000, 600_000])) {
            let source = |(node, milli, display)| Source { node, milli: milli % most_milli, display };
            let mut sources: Vec<Source> = named.into_iter().map(source).collect();
            sources.sort_by_key(|source| source.display);
            let key = |source: &Source| (Reverse(source.milli), source.node, source.display);
            let mut expected = sources.iter().map(key).collect::<Vec<_>>();
            expected.sort_unstable();
            strongest_first(&mut sources, &mut Vec::new());
            prop_assert_eq!(sources.iter().map(key).collect::<Vec<_>>(), expected);
        }
    }
}
