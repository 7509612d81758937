// SPDX-License-Identifier: GPL-2.0-only
//! Strongly connected components of the part of the graph that ratings travel through.
//!
//! Tarjan's algorithm (1972) as Pearce has it ("A space-efficient algorithm for finding strongly connected components",
//! 2016): one number for each node, which says everything there is to know of it while the search runs, so that looking
//! at an edge is one look at that number. Without recursion: a chain of 10,000 processes is no reason to overflow a
//! stack.
//!
//! Where no cycle is, no search is needed (Kahn, 1962): whoever leads nowhere but to complete components is one by itself.
//! That takes one subtraction an edge. It is done only where most nodes take part, because it begins by looking at
//! the edges of all that do not.

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
    /// For each node: how many of its edges lead to nodes that are not complete.
    left: Vec<u32>,
}

impl Components {
    /// Find the components of all nodes but those `outside`. An edge leads from a node of the list `wakers` to the node whose
    /// list it is, and the other way round in `woken`.
    pub fn find(&mut self, woken: &[Vec<Link>], wakers: &[Vec<Link>], outside: &[Node], nodes: usize) {
        self.number.clear();
        self.number.resize(nodes, UNMET);
        outside.iter().for_each(|node| self.number[*node as usize] = CLOSED | NOWHERE);
        self.members.clear();
        self.begins.clear();
        // NOWHERE has no members.
        self.begins.extend([0, 0]);
        if outside.len() < nodes / 2 {
            self.peel(woken, wakers, outside);
        }
        let mut met = UNMET;
        if self.members.len() + outside.len() < nodes {
            for root in 0..nodes {
                if self.number[root] == UNMET {
                    self.search(root as Node, woken, &mut met);
                }
            }
        }
    }

    /// Close whoever is in no cycle and leads to none.
    fn peel(&mut self, woken: &[Vec<Link>], wakers: &[Vec<Link>], outside: &[Node]) {
        let Components { number, members, begins, left, .. } = self;
        left.clear();
        left.extend(woken[..number.len()].iter().map(|list| list.len() as u32));
        let left = &mut left[..];
        for node in outside {
            wakers[*node as usize].iter().for_each(|link| left[link.end as usize] -= 1);
        }
        // Never 0, so that nobody takes them for one that has become complete.
        outside.iter().for_each(|node| left[*node as usize] = u32::MAX);
        members.extend((0..).zip(&*left).filter(|(_, left)| **left == 0).map(|(node, _)| node));
        let mut next = 0;
        while let Some(&node) = members.get(next) {
            next += 1;
            number[node as usize] = CLOSED | (begins.len() as u32 - 1);
            begins.push(next as u32);
            for link in &wakers[node as usize] {
                let left = &mut left[link.end as usize];
                *left -= 1;
                if *left == 0 {
                    members.push(link.end);
                }
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

    /// The members of all components before this one.
    pub fn members_before(&self, component: usize) -> &[Node] {
        &self.members[..self.begins[component] as usize]
    }

    /// The members of this component and all after it.
    pub fn members_from(&self, component: usize) -> &[Node] {
        &self.members[self.begins[component] as usize..]
    }

    fn search(&mut self, root: Node, links: &[Vec<Link>], met: &mut u32) {
        let (mut node, mut place, mut at) = (root, self.meet(root, met), 0);
        loop {
            let ends = &links[node as usize][..];
            let mut earliest = self.number[node as usize];
            let mut unmet = None;
            let number = &self.number[..];
            while let Some(link) = ends.get(at) {
                let of_end = number[link.end as usize];
                if of_end < earliest {
                    if of_end == UNMET {
                        unmet = Some(link.end);
                        break;
                    }
                    earliest = of_end;
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
