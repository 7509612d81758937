// SPDX-License-Identifier: GPL-2.0-only
//! The policy's reasons, for people: why a process has its class, for how long, and the graph behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::action::{Class, Rating};
use crate::event::{DisplayId, GivenKind, ProcessId};
use crate::graph::Node;
use crate::hubs::HubRole;
use crate::reach::Side;
use crate::state::State;
use crate::table::{Origin, Process};

/// Why a process got what the one before it on the path had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It received input from this display, whose server is the process given, where known.
    Input {
        /// The display.
        display: DisplayId,
        /// Its server's process.
        server: Option<u32>,
    },
    /// It changed what is seen on this display.
    Output {
        /// The display.
        display: DisplayId,
        /// Its server's process.
        server: Option<u32>,
    },
    /// HUCIN: the one before it woke it. HUCOUT: it woke the one before it. So often, in the last seconds.
    Woke {
        /// The edge's weight when the path was found.
        count: u32,
    },
    /// The one before it forked it.
    Inherited,
    /// The one before it woke it, and lent it its rating at once.
    Lent,
}

/// One step of the path from a device to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The process.
    pub pid: u32,
    /// How it got there.
    pub why: Why,
}

/// Why a process has its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The process.
    pub pid: ProcessId,
    /// Its class.
    pub class: Class,
    /// Its ratings, as the scheduler has them.
    pub rating: Rating,
    /// Why it is a hub, if it is one.
    pub hub: Option<HubRole>,
    /// Seconds (passes) until it leaves its class if nothing more happens; `None`: a display's server stays as long
    /// as its display.
    pub seconds_left: Option<u32>,
    /// From the process nearest to the person to this one; the first step says which device. Empty for class OTHER.
    /// Where the process it came from has exited, the path starts after it.
    pub path: Vec<Step>,
}

/// A process of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphNode {
    /// The process.
    pub pid: u32,
    /// Its class.
    pub class: Class,
    /// Why it is a hub, if it is one.
    pub hub: Option<HubRole>,
    /// Its ratings.
    pub rating: Rating,
}

/// An edge of PDG_in; PDG_out is the same backwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphEdge {
    /// The waker.
    pub from: u32,
    /// The woken.
    pub to: u32,
    /// Recent wake-ups, halved each second.
    pub weight: u32,
}

/// The process dependency graph as it is now, sorted by pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphView {
    /// Processes that are rated, hubs, or at an edge.
    pub nodes: Vec<GraphNode>,
    /// Edges between them.
    pub edges: Vec<GraphEdge>,
}

impl State {
    /// Why a process has its class. `None`: nothing is known of it, so its class is OTHER.
    ///
    /// Finds how long it lasts by letting a copy of the state age until the class changes: as many passes as seconds are
    /// left. Whoever may ask should not be allowed to ask all the time.
    pub fn explain(&self, pid: ProcessId) -> Option<Explanation> {
        let node = self.table.find(pid)?;
        let left = self.seconds_left(&BTreeSet::from([self.table[node].id]));
        Some(self.explain_node(node, &left))
    }

    /// The same for every process that is rated or a hub, by pid; ages only one copy for all.
    pub fn explain_all(&self) -> Vec<Explanation> {
        let told = |process: &&Process| process.told.is_some();
        let ids: BTreeSet<_> =
            self.table.live().map(|(_, process)| process).filter(told).map(|process| process.id).collect();
        let left = self.seconds_left(&ids);
        let nodes = self.table.live().filter(|(_, process)| told(process));
        let mut all: Vec<_> = nodes.map(|(node, _)| self.explain_node(node, &left)).collect();
        all.sort_unstable_by_key(|explanation| explanation.pid);
        all
    }

    fn explain_node(&self, node: Node, left: &BTreeMap<ProcessId, u32>) -> Explanation {
        let process = &self.table[node];
        let rating = process.told.unwrap_or_default();
        let class = rating.class();
        let (seconds_left, path) = match class {
            Class::HucIn => (left.get(&process.id).copied(), self.path(node, Side::In)),
            Class::HucOut => (left.get(&process.id).copied(), self.path(node, Side::Out)),
            Class::Other => (Some(0), Vec::new()),
        };
        Explanation { pid: process.id, class, rating, hub: process.hub, seconds_left, path }
    }

    /// Follow the origins from a process to the device.
    fn path(&self, node: Node, side: Side) -> Vec<Step> {
        let mut path: Vec<Step> = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            let process = &self.table[node];
            // Origins of different passes may lead in a circle.
            if path.iter().any(|step| step.pid == process.id.tgid) {
                break;
            }
            let Some(origin) = &process[side].origin else {
                break;
            };
            path.push(Step { pid: process.id.tgid, why: self.why(side, origin) });
            at = origin.before();
        }
        path.reverse();
        path
    }

    /// An origin in words.
    fn why(&self, side: Side, origin: &Origin) -> Why {
        match origin {
            Origin::Device(place) => {
                let display = &self.displays[*place as usize];
                let server = display.server.map(|node| self.table[node].id.tgid);
                let display = display.id.clone();
                match side {
                    Side::In => Why::Input { display, server },
                    Side::Out => Why::Output { display, server },
                }
            }
            Origin::Edge { count, .. } => Why::Woke { count: *count },
            Origin::Given { kind: GivenKind::Inherited, .. } => Why::Inherited,
            Origin::Given { kind: GivenKind::Lent, .. } => Why::Lent,
        }
    }

    /// For those of `ids` that are rated: passes until they leave their class if nothing more happens. Those that stay
    /// are left out.
    fn seconds_left(&self, ids: &BTreeSet<ProcessId>) -> BTreeMap<ProcessId, u32> {
        // K seconds of input, 32 halvings of an edge, 32 of a rating.
        let longest = self.settings.input_memory_s + 64;
        let mut left = BTreeMap::new();
        let mut waiting = self.classes();
        waiting.retain(|id, _| ids.contains(id));
        if waiting.is_empty() {
            return left;
        }
        let mut copy = self.clone();
        let mut now_ns = copy.aged_until_ns.unwrap_or(0);
        for passes in 1..=longest {
            now_ns += 1_000_000_000;
            copy.pass(now_ns);
            let now = copy.classes();
            waiting.retain(|id, class| {
                let same = now.get(id) == Some(class);
                if !same {
                    left.insert(*id, passes);
                }
                same
            });
            let serves = |id: &ProcessId| {
                let node = copy.table.find(*id);
                node.is_some_and(|node| copy.serves_display(node))
            };
            if waiting.keys().all(serves) {
                break;
            }
        }
        left
    }

    /// The classes of the rated processes.
    fn classes(&self) -> BTreeMap<ProcessId, Class> {
        let class = |process: &Process| {
            let (in_milli, out_milli) = (process.milli(Side::In), process.milli(Side::Out));
            (process.id, Rating { in_milli, out_milli, ..Rating::default() }.class())
        };
        let all = self.table.live().map(|(_, process)| class(process));
        all.filter(|(_, class)| *class != Class::Other).collect()
    }

    /// The process dependency graph, for drawing.
    pub fn graph(&self) -> GraphView {
        let mut nodes: Vec<GraphNode> = Vec::new();
        let mut at_edge = vec![false; self.table.slots()];
        let mut edges = Vec::new();
        for arc in self.edges.arcs() {
            if self.table.is_live(arc.from) && self.table.is_live(arc.to) {
                at_edge[arc.from as usize] = true;
                at_edge[arc.to as usize] = true;
                let (from, to) = (self.table[arc.from].id.tgid, self.table[arc.to].id.tgid);
                edges.push(GraphEdge { from, to, weight: arc.weight });
            }
        }
        for (node, process) in self.table.live() {
            if at_edge[node as usize] || process.told.is_some() {
                let rating = process.told.unwrap_or_default();
                nodes.push(GraphNode { pid: process.id.tgid, class: rating.class(), hub: process.hub, rating });
            }
        }
        nodes.sort_unstable_by_key(|node| node.pid);
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to));
        GraphView { nodes, edges }
    }
}
