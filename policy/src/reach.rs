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
//! Each component *fetches* the sets of those that lead to it over the lists that the graph keeps anyway, so no list of
//! edges between components is made. One that holds most of the graph has the few others asked instead, for where they
//! lead.
//!
//! The sums are exactly the paper's for up to [`MAX_GROUPS`] sources that are not in one cycle. Beyond that, on one
//! direction of one pass, only the strongest spread (of equals, those of the lowest slots); the others keep their own
//! rating. An X server takes 256 clients unless told otherwise, and nobody attends to so many programs; the bound is
//! there so that nobody can make the pass slow.

use crate::components::{Components, NOWHERE};
use crate::graph::{Edges, Link, Node};
use crate::table::DisplayIx;

/// Sources (after merging those of one cycle) that spread in one pass.
pub(crate) const MAX_GROUPS: usize = 256;

/// Which of the two graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// PDG_in: input flows from the waker to the woken.
    In = 0,
    /// PDG_out: output flows from the woken to the waker.
    Out = 1,
}

impl Side {
    /// The lists in which a node finds those it receives from.
    fn against(self) -> Side {
        match self {
            Side::In => Side::Out,
            Side::Out => Side::In,
        }
    }
}

/// A source of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub node: Node,
    /// Its temporal rating, C_tin or C_tout, in thousandths.
    pub milli: u32,
    /// The display it comes from.
    pub display: DisplayIx,
}

/// Spreads ratings. Kept between passes for its memory only: [`Reach::condense`] forgets what was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    components: Components,
    /// Nodes outside the components, and the hubs among them.
    outside: Vec<Node>,
    hubs: Vec<Node>,
    /// By component, of the side at work: what it has as a source and does not spread, and its own group's number, or
    /// NONE. Between spreads all are 0 and NONE.
    own: Vec<u64>,
    group: Vec<u32>,
    /// By node: the groups that reach it, as bits.
    few: Vec<[u64; 1]>,
    many: Vec<[u64; MAX_GROUPS / 64]>,
}

const NONE: u32 = u32::MAX;

impl Reach {
    /// Take cycles out of the graph, for both sides. Ratings must start and arrive nowhere but at nodes that
    /// `is_reached`; `is_hub` has an entry for each node.
    pub fn condense(&mut self, edges: &Edges, is_hub: &[bool], is_reached: impl Fn(Node) -> bool) {
        self.outside.clear();
        self.hubs.clear();
        let is_in = |(is_hub, node): &(&bool, Node)| !**is_hub && is_reached(*node);
        let outside = is_hub.iter().zip(0..).filter(|node| !is_in(node));
        self.outside.extend(outside.map(|(_, node)| node));
        self.components.find(edges.lists(Side::In), edges.lists(Side::Out), &self.outside, is_hub.len());
        self.hubs.extend(self.outside.iter().filter(|node| is_hub[**node as usize]));
        let count = self.components.count();
        self.own.resize(count.max(self.own.len()), 0);
        self.group.resize(count.max(self.group.len()), NONE);
    }

    /// For each node the sum of the sources that reach it, itself included (4.3, step 2). The sources are sorted: the
    /// strongest first, of equals the lowest slot.
    pub fn spread(&mut self, edges: &Edges, side: Side, sources: &[Source], sums: &mut Vec<u64>) {
        let groups = self.groups(sources);
        for (number, (component, _)) in groups.iter().enumerate() {
            self.group[*component as usize] = number as u32;
            // It comes back with what the groups bring.
            self.own[*component as usize] = 0;
        }
        if groups.len() <= 64 {
            let mut reached = std::mem::take(&mut self.few);
            self.walk(edges, side, &Weigher::new(&groups), &mut reached, sums);
            self.few = reached;
        } else {
            let mut reached = std::mem::take(&mut self.many);
            self.walk(edges, side, &Weigher::new(&groups), &mut reached, sums);
            self.many = reached;
        }
        for source in sources {
            let component = self.components.of(source.node);
            if component == NOWHERE {
                sums[source.node as usize] += u64::from(source.milli);
            }
            self.own[component as usize] = 0;
        }
        groups.iter().for_each(|(component, _)| self.group[*component as usize] = NONE);
    }

    /// The components that spread, with what they are as sources; `own` is that of all of them.
    fn groups(&mut self, sources: &[Source]) -> Vec<(u32, u64)> {
        let mut groups = Vec::new();
        let mut is_merged = false;
        for source in sources.iter().filter(|source| source.milli > 0) {
            let component = self.components.of(source.node);
            if component == NOWHERE {
                continue;
            }
            let own = &mut self.own[component as usize];
            if *own == 0 {
                groups.push((component, u64::from(source.milli)));
            } else {
                is_merged = true;
            }
            *own += u64::from(source.milli);
        }
        if is_merged {
            groups.iter_mut().for_each(|(component, milli)| *milli = self.own[*component as usize]);
        }
        if is_merged && groups.len() > MAX_GROUPS {
            let mut lowest = vec![NONE; self.components.count()];
            for source in sources {
                let lowest = &mut lowest[self.components.of(source.node) as usize];
                *lowest = (*lowest).min(source.node);
            }
            let strongest = |(component, milli): &(u32, u64)| (std::cmp::Reverse(*milli), lowest[*component as usize]);
            groups.select_nth_unstable_by_key(MAX_GROUPS, strongest);
        }
        groups.truncate(MAX_GROUPS);
        // In the order of the walk: those that differ between nodes that follow each other are then in the same word.
        groups.sort_unstable_by_key(|(component, _)| *component);
        groups
    }

    /// One walk over the components, those that ratings come from first.
    fn walk<const W: usize>(
        &self,
        edges: &Edges,
        side: Side,
        weigh: &Weigher,
        sets: &mut Vec<[u64; W]>,
        sums: &mut Vec<u64>,
    ) {
        let (count, nodes) = (self.components.count(), self.components.nodes());
        let lists = edges.lists(side.against());
        sets.resize(nodes.max(sets.len()), [0; W]);
        sums.resize(nodes, 0);
        for node in &self.outside {
            sets[*node as usize] = [0; W];
            sums[*node as usize] = 0;
        }
        let mut last = Sums::NOTHING;
        for step in 1..count {
            let component = match side {
                Side::In => count - step,
                Side::Out => step,
            };
            let mut set = [0u64; W];
            let group = self.group[component];
            if group != NONE {
                set[group as usize / 64] |= 1 << (group % 64);
            }
            let members = self.components.members(component);
            match members {
                [node] => fetch(&lists[*node as usize], sets, &mut set),
                _ => self.fetch_for_all(edges, side, component, sets, &mut set),
            }
            let sum = weigh.sum(&set, &mut last) + self.own[component];
            for node in members {
                sets[*node as usize] = set;
                sums[*node as usize] = sum;
            }
        }
        for &hub in &self.hubs {
            let mut set = [0; W];
            fetch(&lists[hub as usize], sets, &mut set);
            sums[hub as usize] = weigh.sum(&set, &mut last);
        }
    }

    /// Add to `set` what a component of several members receives from those that are complete. Who are fewer are asked:
    /// the members for those they receive from, or those who are complete for members they lead to.
    fn fetch_for_all<const W: usize>(
        &self,
        edges: &Edges,
        side: Side,
        component: usize,
        sets: &mut [[u64; W]],
        set: &mut [u64; W],
    ) {
        let members = self.components.members(component);
        let complete = match side {
            Side::In => self.components.members_from(component + 1),
            Side::Out => self.components.members_before(component),
        };
        if complete.len() < members.len() {
            let is_member = |link: &Link| self.components.of(link.end) as usize == component;
            for node in complete.iter().filter(|node| edges.of(side, **node).iter().any(is_member)) {
                add(set, &sets[*node as usize]);
            }
        } else {
            // What members receive from each other adds nothing.
            members.iter().for_each(|node| sets[*node as usize] = [0; W]);
            members.iter().for_each(|node| fetch(edges.of(side.against(), *node), sets, set));
        }
    }
}

/// Add to `set` the sets of all that a node receives from.
fn fetch<const W: usize>(from: &[Link], sets: &[[u64; W]], set: &mut [u64; W]) {
    let mut all = *set;
    from.iter().for_each(|link| add(&mut all, &sets[link.end as usize]));
    *set = all;
}

fn add<const W: usize>(set: &mut [u64; W], more: &[u64; W]) {
    set.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}

/// Adds up the ratings of a set of groups, eight groups per look-up.
struct Weigher {
    /// For each byte of each word of a set: the sum for each of its 256 values.
    tables: Vec<[[u64; 256]; 8]>,
}

impl Weigher {
    fn new(groups: &[(u32, u64)]) -> Self {
        let mut tables = vec![[[0; 256]; 8]; groups.len().div_ceil(64)];
        for (eight, table) in groups.chunks(8).zip(tables.as_flattened_mut()) {
            for (bit, (_, milli)) in eight.iter().enumerate() {
                let (without, with) = table.split_at_mut(1 << bit);
                with.iter_mut().zip(without).for_each(|(with, without)| *with = *without + milli);
            }
        }
        Weigher { tables }
    }

    /// The sum of a set, where `last` is of another. Nodes that follow each other in a walk are mostly reached by the
    /// same: what they have in common is not added up again.
    fn sum<const W: usize>(&self, set: &[u64; W], last: &mut Sums<W>) -> u64 {
        for (word, tables) in self.tables.iter().enumerate().take(W) {
            if set[word] != last.set[word] {
                last.set[word] = set[word];
                let of_byte = tables.iter().zip(set[word].to_le_bytes()).map(|(table, byte)| table[usize::from(byte)]);
                last.of_word[word] = of_byte.sum();
            }
        }
        last.of_word.iter().sum()
    }
}

/// A set and what each of its words comes to.
struct Sums<const W: usize> {
    set: [u64; W],
    of_word: [u64; W],
}

impl<const W: usize> Sums<W> {
    const NOTHING: Self = Sums { set: [0; W], of_word: [0; W] };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Arc;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The paper's own way: a breadth-first search from each source, adding as it goes, stopping at hubs.
    fn naive(edges: &Edges, side: Side, is_hub: &[bool], sources: &[(Node, u32)]) -> Vec<u64> {
        let mut sums = vec![0u64; is_hub.len()];
        for &(source, milli) in sources {
            let mut seen = vec![false; is_hub.len()];
            seen[source as usize] = true;
            let mut queue = VecDeque::from([source]);
            while let Some(node) = queue.pop_front() {
                sums[node as usize] += u64::from(milli);
                if is_hub[node as usize] {
                    continue;
                }
                for &Link { end, .. } in edges.of(side, node) {
                    if !std::mem::replace(&mut seen[end as usize], true) {
                        queue.push_back(end);
                    }
                }
            }
        }
        sums
    }

    fn of_display(sources: &[(Node, u32)]) -> Vec<Source> {
        let mut sources: Vec<_> = sources.iter().map(|&(node, milli)| Source { node, milli, display: 0 }).collect();
        sources.sort_by_key(|source| (std::cmp::Reverse(source.milli), source.node));
        sources
    }

    fn graph(nodes: usize, raw: &[(u32, u32)]) -> Edges {
        let mut edges = Edges::default();
        edges.cover(nodes);
        edges.add(raw.iter().map(|&(from, to)| Arc { from, to, weight: 1 }).collect());
        edges
    }

    /// The sums of both sides, of a pass over the whole graph and of one over what the sources reach.
    fn both_ways(nodes: usize, raw: &[(u32, u32)], is_hub: &[bool], sources: &[(Node, u32)]) {
        let edges = graph(nodes, raw);
        let expected = [Side::In, Side::Out].map(|side| naive(&edges, side, is_hub, sources));
        let mut reach = Reach::default();
        let mut sums = Vec::new();
        for whole in [true, false] {
            let is_reached = |node: Node| expected.iter().any(|sums| sums[node as usize] > 0);
            reach.condense(&edges, is_hub, |node| whole || is_reached(node));
            for (side, expected) in [Side::In, Side::Out].into_iter().zip(&expected) {
                reach.spread(&edges, side, &of_display(sources), &mut sums);
                assert_eq!(sums, *expected);
            }
        }
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

    fn spread(edges: &Edges, nodes: usize, side: Side, sources: &[(Node, u32)]) -> Vec<u64> {
        let (mut reach, mut sums) = (Reach::default(), Vec::new());
        reach.condense(edges, &vec![false; nodes], |_| true);
        reach.spread(edges, side, &of_display(sources), &mut sums);
        sums
    }

    /// A chain of 100,000 processes neither overflows the stack nor loses the end.
    #[test]
    fn a_long_chain_is_followed_to_its_end() {
        let raw: Vec<_> = (0..99_999).map(|node| (node, node + 1)).collect();
        let sums = spread(&graph(100_000, &raw), 100_000, Side::In, &[(0, 7), (50_000, 1)]);
        assert_eq!((sums[0], sums[49_999], sums[99_999]), (7, 7, 8));
    }

    /// Beyond the bound the strongest sources spread and the others keep what is their own.
    #[test]
    fn beyond_the_bound_the_strongest_spread() {
        let many = MAX_GROUPS as u32 + 1;
        let edges = graph(many as usize + 1, &(0..many).map(|node| (node, many)).collect::<Vec<_>>());
        let sources: Vec<_> = (0..many).map(|node| (node, if node == 5 { 1 } else { 10 })).collect();
        let sums = spread(&edges, many as usize + 1, Side::In, &sources);
        assert_eq!(sums[many as usize], 10 * MAX_GROUPS as u64);
        assert_eq!((sums[5], sums[6]), (1, 10));
    }

    /// Of equals beyond the bound those of the lowest slots spread, whatever else the graph holds and in whatever order
    /// they are named.
    #[test]
    fn of_equals_the_lowest_slots_spread() {
        let many = MAX_GROUPS as u32 + 9;
        let raw: Vec<_> = (0..many).map(|node| (node, many + node)).chain([(2 * many - 1, many)]).collect();
        let sources: Vec<_> = (0..many).rev().map(|node| (node, 10)).collect();
        let sums = spread(&graph(2 * many as usize, &raw), 2 * many as usize, Side::In, &sources);
        let spreads = |node: u32| sums[(many + node) as usize] == 10;
        assert!((0..many).all(|node| spreads(node) == (node < MAX_GROUPS as u32)));
        // The last two in one cycle are together the strongest.
        let raw: Vec<_> = raw.into_iter().chain([(many - 2, many - 1), (many - 1, many - 2)]).collect();
        let sums = spread(&graph(2 * many as usize, &raw), 2 * many as usize, Side::In, &sources);
        let brought = |node: u32| sums[(many + node) as usize];
        assert_eq!([brought(many - 1), brought(many - 2)], [20, 20]);
        assert!((1..many - 2).all(|node| brought(node) == if node < MAX_GROUPS as u32 - 1 { 10 } else { 0 }));
    }
}
