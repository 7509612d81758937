// SPDX-License-Identifier: GPL-2.0-only
//! Cumulative spread of temporal ratings over the dependency graph (HuC tech report, 4.3, step 2).
//!
//! The paper runs a breadth-first search from each source and adds the source's rating to whatever it reaches: with S
//! sources and E edges that is S * E steps, a second of CPU time where 10,000 processes draw. The same sums come from:
//!
//! 1. *Strongly connected components.* Whoever reaches one member of a cycle reaches all, so a cycle is one node,
//!    and all sources in it are one source. What is left has no cycles (Tarjan 1972; both directions of the graph
//!    have the same components).
//! 2. *Sets of sources as bits.* In topological order each component's set of sources is complete before it is handed
//!    on, so one walk over the edges serves all sources.
//!
//! Hubs receive and do not pass on: they stand outside the components and read their neighbours' sets at the end.
//!
//! The sums are exactly the paper's for up to [`MAX_GROUPS`] sources that are not in one cycle. Beyond that, on one
//! direction of one pass, only the strongest spread; the others keep their own rating. An X server takes 256
//! clients unless told otherwise, and nobody attends to so many programs; the bound is there so that nobody can
//! make the pass slow.

use crate::graph::{Links, Node};

/// Sources (after merging those of one cycle) that spread in one pass.
pub(crate) const MAX_GROUPS: usize = 256;

const NONE: u32 = u32::MAX;
const HUB: u32 = u32::MAX - 1;

/// Which of the two graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// PDG_in: input flows from the waker to the woken.
    In = 0,
    /// PDG_out: output flows from the woken to the waker.
    Out = 1,
}

/// The graph without its cycles and hubs: what one pass computes once and uses for both sides.
pub(crate) struct Condensed {
    /// Component of each node; HUB for hubs.
    of: Vec<u32>,
    /// Number of components. They are numbered against the edges: an edge leads to a lower number.
    count: usize,
    /// Edges between different components, by ascending start.
    arcs: Vec<(u32, u32)>,
    /// (component, hub) for each edge into a hub.
    into_hub: Vec<(u32, Node)>,
    /// (component, hub) for each edge out of a hub: the way output reaches it.
    from_hub: Vec<(u32, Node)>,
}

impl Condensed {
    /// `forward` is PDG_in; `is_hub` has an entry for each node.
    pub fn new(forward: &Links, is_hub: &[bool]) -> Self {
        let (of, order, count) = components(forward, is_hub);
        let mut condensed = Condensed { of, count, arcs: Vec::new(), into_hub: Vec::new(), from_hub: Vec::new() };
        // `seen` keeps an edge between two components from being listed once per pair of members.
        let mut seen = vec![NONE; count];
        for &node in &order {
            let start = condensed.of[node as usize];
            for &(end, _) in forward.of(node) {
                let into = condensed.of[end as usize];
                if into == HUB {
                    condensed.into_hub.push((start, end));
                } else if into != start && seen[into as usize] != start {
                    seen[into as usize] = start;
                    condensed.arcs.push((start, into));
                }
            }
        }
        for hub in (0..forward.nodes() as Node).filter(|node| is_hub[*node as usize]) {
            for &(end, _) in forward.of(hub) {
                let into = condensed.of[end as usize];
                if into != HUB {
                    condensed.from_hub.push((into, hub));
                }
            }
        }
        condensed.into_hub.sort_unstable_by_key(|(comp, hub)| (*hub, *comp));
        condensed.into_hub.dedup();
        condensed.from_hub.sort_unstable_by_key(|(comp, hub)| (*hub, *comp));
        condensed.from_hub.dedup();
        condensed
    }

    /// For each node the sum of the sources that reach it, itself included (4.3, step 2).
    pub fn spread(&self, side: Side, sources: &[(Node, u32)]) -> Vec<u64> {
        let mut own = vec![0u64; self.count];
        let mut sums = vec![0u64; self.of.len()];
        for &(node, milli) in sources {
            match self.of[node as usize] {
                HUB => sums[node as usize] += u64::from(milli),
                comp => own[comp as usize] += u64::from(milli),
            }
        }
        let mut groups: Vec<(u32, u64)> = own
            .iter()
            .enumerate()
            .filter(|(_, milli)| **milli > 0)
            .map(|(comp, milli)| (comp as u32, *milli))
            .collect();
        if groups.len() > MAX_GROUPS {
            let strongest = |(comp, milli): &(u32, u64)| (std::cmp::Reverse(*milli), *comp);
            groups.select_nth_unstable_by_key(MAX_GROUPS, strongest);
            groups.truncate(MAX_GROUPS);
        }
        // What the groups bring comes back from the walk; what was cut off keeps its own.
        for &(comp, _) in &groups {
            own[comp as usize] = 0;
        }
        match groups.len() {
            0 => {}
            1..=64 => self.walk::<1>(side, &groups, &mut own, &mut sums),
            _ => self.walk::<{ MAX_GROUPS / 64 }>(side, &groups, &mut own, &mut sums),
        }
        for (node, comp) in self.of.iter().enumerate().filter(|(_, comp)| **comp != HUB) {
            sums[node] = own[*comp as usize];
        }
        sums
    }

    /// One walk over the components for up to 64 * W groups; adds their sums to components and hubs.
    fn walk<const W: usize>(&self, side: Side, groups: &[(u32, u64)], comps: &mut [u64], hubs: &mut [u64]) {
        let mut sets = vec![[0u64; W]; self.count];
        for (bit, (comp, _)) in groups.iter().enumerate() {
            sets[*comp as usize][bit / 64] |= 1 << (bit % 64);
        }
        let hand_on = |sets: &mut Vec<[u64; W]>, from: u32, to: u32| {
            let set = sets[from as usize];
            for (word, more) in sets[to as usize].iter_mut().zip(set) {
                *word |= more;
            }
        };
        let hub_arcs = match side {
            Side::In => {
                self.arcs.iter().rev().for_each(|&(from, to)| hand_on(&mut sets, from, to));
                &self.into_hub
            }
            Side::Out => {
                self.arcs.iter().for_each(|&(from, to)| hand_on(&mut sets, to, from));
                &self.from_hub
            }
        };
        let weigh = Weigher::new(groups);
        for (sum, set) in comps.iter_mut().zip(&sets) {
            *sum += weigh.sum(set);
        }
        for of_hub in hub_arcs.chunk_by(|a, b| a.1 == b.1) {
            let mut set = [0u64; W];
            for (comp, _) in of_hub {
                for (word, more) in set.iter_mut().zip(sets[*comp as usize]) {
                    *word |= more;
                }
            }
            hubs[of_hub[0].1 as usize] += weigh.sum(&set);
        }
    }
}

/// Adds up the ratings of a set of groups, eight groups per look-up.
struct Weigher {
    /// For each byte of a set: the sum for each of its 256 values. 32 bits, so that the tables fit the first cache;
    /// sums stop at 2^32, where ratings stop too.
    tables: Vec<[u32; 256]>,
}

impl Weigher {
    fn new(groups: &[(u32, u64)]) -> Self {
        let table = |eight: &[(u32, u64)]| {
            let mut table = [0u32; 256];
            for value in 1..256usize {
                let lowest = eight.get(value.trailing_zeros() as usize);
                let milli = lowest.map_or(0, |(_, milli)| u32::try_from(*milli).unwrap_or(u32::MAX));
                table[value] = table[value & (value - 1)].saturating_add(milli);
            }
            table
        };
        Weigher { tables: groups.chunks(8).map(table).collect() }
    }

    fn sum(&self, set: &[u64]) -> u64 {
        let mut sum = 0;
        for (word, tables) in set.iter().zip(self.tables.chunks(8)) {
            if *word == 0 {
                continue;
            }
            for (byte, table) in word.to_le_bytes().iter().zip(tables) {
                sum += u64::from(table[*byte as usize]);
            }
        }
        sum
    }
}

/// Tarjan's strongly connected components of the graph without its hubs, without recursion (a chain of 10,000
/// processes is no reason to overflow a stack). Returns the component of each node, the nodes grouped by component,
/// lowest first, and the number of components.
fn components(forward: &Links, is_hub: &[bool]) -> (Vec<u32>, Vec<Node>, usize) {
    let new = |is_hub: &bool| match is_hub {
        // Met, and in no component that is being built: the search takes no notice of it.
        true => Mark { met: 0, low: 0, of: HUB },
        false => Mark { met: NONE, low: 0, of: NONE },
    };
    let mut tarjan = Tarjan {
        marks: is_hub.iter().map(new).collect(),
        stack: Vec::new(),
        order: Vec::with_capacity(is_hub.len()),
        clock: 0,
        count: 0,
    };
    for root in 0..forward.nodes() as Node {
        if tarjan.marks[root as usize].met == NONE {
            tarjan.visit(root, forward);
        }
    }
    let of = tarjan.marks.iter().map(|mark| mark.of).collect();
    (of, tarjan.order, tarjan.count as usize)
}

/// What the search knows of a node, together because it is looked at together.
#[derive(Clone, Copy)]
struct Mark {
    /// When it was first met; NONE while it was not.
    met: u32,
    /// The earliest node on the stack known to be reachable from it.
    low: u32,
    /// Its component; NONE while that is not complete.
    of: u32,
}

struct Tarjan {
    marks: Vec<Mark>,
    stack: Vec<Node>,
    order: Vec<Node>,
    clock: u32,
    count: u32,
}

impl Tarjan {
    fn meet(&mut self, node: Node) {
        self.marks[node as usize] = Mark { met: self.clock, low: self.clock, of: NONE };
        self.clock += 1;
        self.stack.push(node);
    }

    fn visit(&mut self, root: Node, forward: &Links) {
        self.meet(root);
        let mut path = vec![(root, forward.of(root).iter())];
        while let Some((node, ends)) = path.last_mut() {
            let node = *node as usize;
            let mut low = self.marks[node].low;
            let mut unmet = None;
            for &(end, _) in ends.by_ref() {
                let mark = self.marks[end as usize];
                if mark.met == NONE {
                    unmet = Some(end);
                    break;
                }
                if mark.of == NONE {
                    // Still on the stack: part of the component being built.
                    low = low.min(mark.met);
                }
            }
            self.marks[node].low = low;
            if let Some(end) = unmet {
                self.meet(end);
                path.push((end, forward.of(end).iter()));
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                let parent = &mut self.marks[*parent as usize];
                parent.low = parent.low.min(low);
            }
            if low == self.marks[node].met {
                self.close(node as Node);
            }
        }
    }

    fn close(&mut self, root: Node) {
        while let Some(member) = self.stack.pop() {
            self.marks[member as usize].of = self.count;
            self.order.push(member);
            if member == root {
                break;
            }
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Arc, Edges};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The paper's own way: a breadth-first search from each source, adding as it goes, stopping at hubs.
    fn naive(links: &Links, is_hub: &[bool], sources: &[(Node, u32)]) -> Vec<u64> {
        let mut sums = vec![0u64; links.nodes()];
        for &(source, milli) in sources {
            let mut seen = vec![false; links.nodes()];
            seen[source as usize] = true;
            let mut queue = VecDeque::from([source]);
            while let Some(node) = queue.pop_front() {
                sums[node as usize] += u64::from(milli);
                if is_hub[node as usize] {
                    continue;
                }
                for &(end, _) in links.of(node) {
                    if !std::mem::replace(&mut seen[end as usize], true) {
                        queue.push_back(end);
                    }
                }
            }
        }
        sums
    }

    fn both_ways(nodes: usize, raw: &[(u32, u32)], is_hub: &[bool], sources: &[(Node, u32)]) {
        let mut edges = Edges::default();
        edges.add(raw.iter().map(|&(from, to)| Arc { from, to, weight: 1 }).collect());
        let forward = Links::forward(nodes, edges.arcs());
        let backward = Links::backward(nodes, edges.arcs());
        let condensed = Condensed::new(&forward, is_hub);
        assert_eq!(condensed.spread(Side::In, sources), naive(&forward, is_hub, sources));
        assert_eq!(condensed.spread(Side::Out, sources), naive(&backward, is_hub, sources));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(192))]

        /// On random graphs with cycles, hubs and sources anywhere (hubs too), the sums are the naive search's,
        /// both ways.
        #[test]
        fn sums_are_those_of_a_search_from_each_source(
            raw in prop::collection::vec((0u32..40, 0u32..40), 0..120),
            is_hub in prop::collection::vec(prop::bool::weighted(0.1), 40),
            sources in prop::collection::btree_map(0u32..40, 1u32..20_000, 0..40)) {
            both_ways(40, &raw, &is_hub, &sources.into_iter().collect::<Vec<_>>());
        }

        /// The same with more sources than one word of bits, where the wide walk runs, on graphs nearly without cycles.
        #[test]
        fn sums_hold_for_many_sources(
            raw in prop::collection::vec((0u32..700, 1u32..30), 0..2000),
            milli in prop::collection::vec(1u32..20_000, MAX_GROUPS)) {
            let down: Vec<_> = raw.iter().map(|&(from, step)| (from, (from + step).min(699))).collect();
            let sources: Vec<_> = milli.iter().enumerate().map(|(node, milli)| (node as u32, *milli)).collect();
            both_ways(700, &down, &[false; 700], &sources);
        }
    }

    /// A chain of 100,000 processes neither overflows the stack nor loses the end.
    #[test]
    fn a_long_chain_is_followed_to_its_end() {
        let raw: Vec<_> = (0..99_999).map(|node| (node, node + 1)).collect();
        let mut edges = Edges::default();
        edges.add(raw.iter().map(|&(from, to)| Arc { from, to, weight: 1 }).collect());
        let condensed = Condensed::new(&Links::forward(100_000, edges.arcs()), &[false; 100_000]);
        let sums = condensed.spread(Side::In, &[(0, 7), (50_000, 1)]);
        assert_eq!((sums[0], sums[49_999], sums[99_999]), (7, 7, 8));
    }

    /// Beyond the bound the strongest sources spread and the others keep what is their own.
    #[test]
    fn beyond_the_bound_the_strongest_spread() {
        let many = MAX_GROUPS as u32 + 1;
        let raw: Vec<_> = (0..many).map(|node| Arc { from: node, to: many, weight: 1 }).collect();
        let mut edges = Edges::default();
        edges.add(raw);
        let nodes = many as usize + 1;
        let condensed = Condensed::new(&Links::forward(nodes, edges.arcs()), &vec![false; nodes]);
        let sources: Vec<_> = (0..many).map(|node| (node, if node == 5 { 1 } else { 10 })).collect();
        let sums = condensed.spread(Side::In, &sources);
        assert_eq!(sums[many as usize], 10 * MAX_GROUPS as u64);
        assert_eq!((sums[5], sums[6]), (1, 10));
    }
}
