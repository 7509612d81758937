// SPDX-License-Identifier: GPL-2.0-only
//! Strongly connected components of the part of the graph that ratings travel through.
//!
//! Tarjan's algorithm (1972) as Pearce has it ("A space-efficient algorithm for finding strongly connected components",
//! 2016): one number for each node, which says everything there is to know of it while the search runs, so that looking
//! at an edge is one look at that number. Without recursion: a chain of 10,000 processes is no reason to overflow a
//! stack.

use crate::graph::{Link, Node};

/// The component of whoever is in none: hubs, and nodes that no rating reaches.
pub(crate) const NOWHERE: u32 = 0;

/// Set in the number of a node whose component is complete. Larger than any number of an open one, so that an edge to
/// it needs no test of its own.
const CLOSED: u32 = 1 << 31;
/// The number of a node that was not met.
const UNMET: u32 = 0;

/// The components found, numbered from 1 against the edges: an edge leads to a lower number. Kept between passes for
/// its memory only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Components {
    /// For each node: UNMET; its place in the order of meeting or the earliest it leads to; at last its component and
    /// CLOSED.
    number: Vec<u32>,
    /// Nodes of open components that are done with themselves.
    open: Vec<Node>,
    /// The way from the root of the search: node, its place in the order of meeting, its next edge.
    path: Vec<(Node, u32, usize)>,
    /// All members, by component, and where each component's begin.
    members: Vec<Node>,
    begins: Vec<u32>,
}

impl Components {
    /// Find the components of the nodes that `is_in`; of all nodes there are.
    pub fn find(&mut self, links: &[Vec<Link>], is_in: impl Iterator<Item = bool>) {
        self.number.clear();
        self.number.extend(is_in.map(|is_in| if is_in { UNMET } else { CLOSED | NOWHERE }));
        self.members.clear();
        self.begins.clear();
        // NOWHERE has no members.
        self.begins.extend([0, 0]);
        let mut met = UNMET;
        for root in 0..self.number.len() {
            if self.number[root] == UNMET {
                self.search(root as Node, links, &mut met);
            }
        }
    }

    /// How many, NOWHERE included.
    pub fn count(&self) -> usize {
        self.begins.len() - 1
    }

    /// How many nodes there are, in components or not.
    pub fn nodes(&self) -> usize {
        self.number.len()
    }

    /// The component of a node.
    pub fn of(&self, node: Node) -> u32 {
        self.number[node as usize] & !CLOSED
    }

    /// The members of a component.
    pub fn members(&self, component: usize) -> &[Node] {
        &self.members[self.begins[component] as usize..self.begins[component + 1] as usize]
    }

    fn search(&mut self, root: Node, links: &[Vec<Link>], met: &mut u32) {
        let (mut node, mut place, mut at) = (root, self.meet(root, met), 0);
        loop {
            let ends = &links[node as usize][..];
            let mut earliest = self.number[node as usize];
            let mut unmet = None;
            while let Some(link) = ends.get(at) {
                let number = self.number[link.end as usize];
                if number < earliest {
                    if number == UNMET {
                        unmet = Some(link.end);
                        break;
                    }
                    earliest = number;
                }
                at += 1;
            }
            self.number[node as usize] = earliest;
            if let Some(end) = unmet {
                // This edge is looked at again when the search comes back: then its end has a number.
                self.path.push((node, place, at));
                (node, place, at) = (end, self.meet(end, met), 0);
                continue;
            }
            self.open.push(node);
            if earliest == place {
                self.close(place);
            }
            match self.path.pop() {
                Some(before) => (node, place, at) = before,
                None => return,
            }
        }
    }

    fn meet(&mut self, node: Node, met: &mut u32) -> u32 {
        *met += 1;
        self.number[node as usize] = *met;
        *met
    }

    /// The component that was first met at `place` is complete.
    fn close(&mut self, place: u32) {
        let component = CLOSED | self.count() as u32;
        while let Some(&member) = self.open.last().filter(|member| self.number[**member as usize] >= place) {
            self.open.pop();
            self.number[member as usize] = component;
            self.members.push(member);
        }
        self.begins.push(self.members.len() as u32);
    }
}
