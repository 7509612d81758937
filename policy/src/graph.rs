// SPDX-License-Identifier: GPL-2.0-only
//! The process dependency graph (HuC tech report, 4.2): who recently woke whom, how often.
//!
//! One list, sorted by (from, to). Reports are merged into it and ageing filters it, both in one sequential walk: there
//! is no index to keep in step, and the list is nearly the adjacency form that the rating pass needs.

/// Index of a process in the table.
pub(crate) type Node = u32;

/// As many edges as can be pending between scheduler and daemon. Beyond it new edges are refused (see
/// [`State::refused`](crate::State::refused)): memory and the time of a pass stay bounded whatever the machine does.
pub(crate) const MAX_EDGES: usize = 131_072;

/// An edge of PDG_in: `from` woke `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arc {
    pub from: Node,
    pub to: Node,
    /// Wake-ups, halved each second; never 0 in the list (4.2.3).
    pub weight: u32,
}

impl Arc {
    fn key(&self) -> (Node, Node) {
        (self.from, self.to)
    }
}

/// All edges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edges {
    arcs: Vec<Arc>,
}

impl Edges {
    /// All edges, sorted by (from, to).
    pub fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// Count wake-ups. Returns how many new edges there was no room for.
    pub fn add(&mut self, mut news: Vec<Arc>) -> usize {
        news.retain(|arc| arc.weight > 0 && arc.from != arc.to);
        news.sort_unstable_by_key(Arc::key);
        let old = std::mem::take(&mut self.arcs);
        let mut room = MAX_EDGES.saturating_sub(old.len());
        let mut refused = 0;
        let mut merged: Vec<Arc> = Vec::with_capacity(old.len() + news.len());
        let mut old = old.into_iter().peekable();
        for new in news {
            while let Some(arc) = old.next_if(|arc| arc.key() <= new.key()) {
                merged.push(arc);
            }
            match merged.last_mut() {
                Some(last) if last.key() == new.key() => {
                    last.weight = last.weight.saturating_add(new.weight);
                }
                _ if room > 0 => {
                    room -= 1;
                    merged.push(new);
                }
                _ => refused += 1,
            }
        }
        merged.extend(old);
        self.arcs = merged;
        refused
    }

    /// Halve every weight `seconds` times; edges that reach 0 are removed (4.2.3).
    pub fn halve(&mut self, seconds: u32) {
        self.arcs.retain_mut(|arc| {
            arc.weight = arc.weight.checked_shr(seconds).unwrap_or(0);
            arc.weight > 0
        });
    }

    /// Keep only edges whose two ends are to be kept.
    pub fn retain_ends(&mut self, keep: &[bool]) {
        self.arcs.retain(|arc| keep[arc.from as usize] && keep[arc.to as usize]);
    }
}

/// Adjacency lists over a snapshot of the edges, in one direction.
#[derive(Debug, Default)]
pub(crate) struct Links {
    heads: Vec<u32>,
    ends: Vec<(Node, u32)>,
}

impl Links {
    /// PDG_in: from the waker to the woken. The edges are in this order already.
    pub fn forward(nodes: usize, arcs: &[Arc]) -> Self {
        let heads = Self::heads(nodes, arcs.iter().map(|arc| arc.from));
        let ends = arcs.iter().map(|arc| (arc.to, arc.weight)).collect();
        Links { heads, ends }
    }

    /// PDG_out, the inverse: from the woken to the waker.
    pub fn backward(nodes: usize, arcs: &[Arc]) -> Self {
        let heads = Self::heads(nodes, arcs.iter().map(|arc| arc.to));
        let mut next = heads.clone();
        let mut ends = vec![(0, 0); arcs.len()];
        for arc in arcs {
            let place = &mut next[arc.to as usize];
            ends[*place as usize] = (arc.from, arc.weight);
            *place += 1;
        }
        Links { heads, ends }
    }

    /// Where each node's list begins, from the starts of all edges.
    fn heads(nodes: usize, starts: impl Iterator<Item = Node>) -> Vec<u32> {
        let mut heads = vec![0u32; nodes + 1];
        for start in starts {
            heads[start as usize + 1] += 1;
        }
        for node in 0..nodes {
            heads[node + 1] += heads[node];
        }
        heads
    }

    /// Neighbours of a node with the weights of the edges to them.
    pub fn of(&self, node: Node) -> &[(Node, u32)] {
        let node = node as usize;
        &self.ends[self.heads[node] as usize..self.heads[node + 1] as usize]
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.heads.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn arc(from: Node, to: Node, weight: u32) -> Arc {
        Arc { from, to, weight }
    }

    /// 4.2.3: eight keys make an edge of weight 8, positive for three more halvings and gone at the fourth.
    #[test]
    fn eight_keys_last_three_seconds() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 2, 1); 8]);
        assert_eq!(edges.arcs(), [arc(1, 2, 8)]);
        for left in [4, 2, 1] {
            edges.halve(1);
            assert_eq!(edges.arcs(), [arc(1, 2, left)]);
        }
        edges.halve(1);
        assert!(edges.arcs().is_empty());
    }

    /// An edge from a process to itself and a count of nothing are not edges.
    #[test]
    fn loops_and_zeroes_are_no_edges() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 1, 5), arc(1, 2, 0)]);
        assert!(edges.arcs().is_empty());
    }

    /// A long sleep ages by as many halvings as it lasted, also beyond the width of a weight.
    #[test]
    fn several_seconds_age_at_once() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 2, u32::MAX), arc(1, 2, 1)]);
        edges.halve(31);
        assert_eq!(edges.arcs(), [arc(1, 2, 1)]);
        edges.halve(40);
        assert!(edges.arcs().is_empty());
    }

    /// A full graph counts on for the edges it has and refuses new ones.
    #[test]
    fn a_full_graph_refuses_new_edges_only() {
        let mut edges = Edges::default();
        let many = (0..MAX_EDGES as u32).map(|to| arc(0, to + 1, 1)).collect();
        assert_eq!(edges.add(many), 0);
        assert_eq!(edges.add(vec![arc(0, 1, 4), arc(7, 8, 1)]), 1);
        assert_eq!(edges.arcs()[0], arc(0, 1, 5));
        assert_eq!(edges.arcs().len(), MAX_EDGES);
    }

    proptest! {
        /// Merging reports is the same as counting in a map, and the list stays sorted.
        #[test]
        fn merging_is_counting(reports in prop::collection::vec(
            prop::collection::vec((0u32..9, 0u32..9, 0u32..5), 0..40), 0..6)) {
            let mut edges = Edges::default();
            let mut counted: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for report in reports {
                for (from, to, weight) in &report {
                    if from != to && *weight > 0 {
                        *counted.entry((*from, *to)).or_default() += weight;
                    }
                }
                edges.add(report.into_iter().map(|(from, to, weight)| arc(from, to, weight)).collect());
                let expected: Vec<Arc> = counted.iter().map(|((from, to), weight)| arc(*from, *to, *weight)).collect();
                prop_assert_eq!(edges.arcs(), expected);
            }
        }

        /// The adjacency lists hold every edge once, in either direction.
        #[test]
        fn links_hold_every_edge(raw in prop::collection::vec((0u32..9, 0u32..9, 1u32..5), 0..40)) {
            let mut edges = Edges::default();
            edges.add(raw.into_iter().map(|(from, to, weight)| arc(from, to, weight)).collect());
            let forward = Links::forward(9, edges.arcs());
            let backward = Links::backward(9, edges.arcs());
            for node in 0..9 {
                let out: Vec<_> = edges.arcs().iter().filter(|a| a.from == node).map(|a| (a.to, a.weight)).collect();
                let into: Vec<_> = edges.arcs().iter().filter(|a| a.to == node).map(|a| (a.from, a.weight)).collect();
                prop_assert_eq!(forward.of(node), out);
                prop_assert_eq!(backward.of(node), into);
            }
        }
    }
}
