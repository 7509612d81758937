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
//! edges between components is made.
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
    /// NONE.
    own: Vec<u64>,
    group: Vec<u32>,
    /// By node: what reaches it.
    few: Vec<Reached<1>>,
    many: Vec<Reached<{ MAX_GROUPS / 64 }>>,
}

/// What reaches a node, together because it is looked at together.
#[derive(Debug, Clone, Copy)]
struct Reached<const W: usize> {
    /// The groups, as bits, and the sum of them.
    set: [u64; W],
    sum: u64,
}

impl<const W: usize> Reached<W> {
    const NOTHING: Self = Reached { set: [0; W], sum: 0 };
}

const NONE: u32 = u32::MAX;

impl Reach {
    /// Take cycles out of the graph, for both sides. Ratings must start and arrive nowhere but at nodes that
    /// `is_reached`; `is_hub` has an entry for each node.
    pub fn condense(&mut self, edges: &Edges, is_hub: &[bool], is_reached: impl Fn(Node) -> bool) {
        self.outside.clear();
        self.hubs.clear();
        let outside = &mut self.outside;
        let is_in = is_hub.iter().zip(0..).map(|(is_hub, node)| {
            let is_in = !is_hub && is_reached(node);
            if !is_in {
                outside.push(node);
            }
            is_in
        });
        self.components.find(edges.lists(Side::In), is_in);
        self.hubs.extend(self.outside.iter().filter(|node| is_hub[**node as usize]));
        self.own.clear();
        self.own.resize(self.components.count(), 0);
        self.group.clear();
        self.group.resize(self.components.count(), NONE);
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
        groups
    }

    /// One walk over the components, those that ratings come from first.
    fn walk<const W: usize>(
        &self,
        edges: &Edges,
        side: Side,
        weigh: &Weigher,
        reached: &mut Vec<Reached<W>>,
        sums: &mut Vec<u64>,
    ) {
        let (count, nodes) = (self.components.count(), self.components.nodes());
        let lists = edges.lists(side.against());
        reached.resize(nodes.max(reached.len()), Reached::NOTHING);
        sums.resize(nodes, 0);
        for node in &self.outside {
            reached[*node as usize] = Reached::NOTHING;
            sums[*node as usize] = 0;
        }
        for step in 1..count {
            let component = match side {
                Side::In => count - step,
                Side::Out => step,
            };
            let members = self.components.members(component);
            let mut set = [0u64; W];
            let group = self.group[component];
            if group != NONE {
                set[group as usize / 64] |= 1 << (group % 64);
            }
            if members.len() > 1 {
                // What members receive from each other adds nothing.
                members.iter().for_each(|node| reached[*node as usize] = Reached::NOTHING);
            }
            // Added up as what it has beyond the largest set that it was fetched from, whose sum is known: where most
            // reach most, that is next to nothing.
            let mut known = Reached::NOTHING;
            for node in members {
                let most = fetch(&lists[*node as usize], reached, &mut set);
                known = most.map_or(known, |node| reached[node as usize]);
            }
            let beyond: [u64; W] = std::array::from_fn(|word| set[word] & !known.set[word]);
            let sum = known.sum + weigh.sum(&beyond);
            for node in members {
                reached[*node as usize] = Reached { set, sum };
                sums[*node as usize] = sum + self.own[component];
            }
        }
        for &hub in &self.hubs {
            let mut set = [0; W];
            fetch(&lists[hub as usize], reached, &mut set);
            sums[hub as usize] = weigh.sum(&set);
        }
    }
}

/// Add to `set` the sets of all that a node receives from. Returns who of them has the largest sum, if that is not 0.
fn fetch<const W: usize>(from: &[Link], reached: &[Reached<W>], set: &mut [u64; W]) -> Option<Node> {
    let mut all = *set;
    let (mut most, mut most_milli) = (NONE, 0);
    for link in from {
        let more = &reached[link.end as usize];
        for (word, more) in all.iter_mut().zip(more.set) {
            *word |= more;
        }
        most = if more.sum > most_milli { link.end } else { most };
        most_milli = most_milli.max(more.sum);
    }
    *set = all;
    (most != NONE).then_some(most)
}

/// Adds up the ratings of a set of groups, eight groups per look-up.
struct Weigher {
    /// For each byte of a set: the sum for each of its 256 values.
    tables: Vec<[u64; 256]>,
}

impl Weigher {
    fn new(groups: &[(u32, u64)]) -> Self {
        let table = |eight: &[(u32, u64)]| {
            let mut table = [0u64; 256];
            for value in 1..1usize << eight.len() {
                table[value] = table[value & (value - 1)] + eight[value.trailing_zeros() as usize].1;
            }
            table
        };
        Weigher { tables: groups.chunks(8).map(table).collect() }
    }

    fn sum(&self, set: &[u64]) -> u64 {
        let mut sum = 0;
        for (word, tables) in set.iter().zip(self.tables.chunks(8)) {
            let mut left = *word;
            while left != 0 {
                let shift = left.trailing_zeros() & !7;
                let byte = (left >> shift) & 0xff;
                sum += tables[shift as usize / 8][byte as usize];
                left ^= byte << shift;
            }
        }
        sum
    }
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
