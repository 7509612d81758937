// SPDX-License-Identifier: GPL-2.0-only
//! How much CPU a process may take beside others of its class: its weight.
//!
//! HuC's queues are round robin with slices by rating (5.1), so CPU is shared as slices are. Ours are ordered by virtual
//! time, where the weight decides: it is the slice's share, which comes to the same.
//!
//! One thing is added. A compilation that prints into a visible terminal reaches the terminal over the graph, each of
//! its processes. Rated one by one, forty of them would outweigh a film forty times. So all that serve the person only
//! through the same process, a *crowd*, together weigh as much as `crowd_weight_pm` says, in parts of that one process.

use crate::graph::Node;
use crate::reach::Side;
use crate::table::{Origin, Process, Table};

/// The side that decides a process's class, if it has one.
pub(crate) fn side_of(process: &Process) -> Option<Side> {
    [Side::In, Side::Out].into_iter().find(|side| process.milli(*side) > 0)
}

/// Whether its class is only through others: by fork, by a wake-up or over the graph.
pub(crate) fn is_indirect(process: &Process, side: Side) -> bool {
    !matches!(process[side].origin, Some(Origin::Device(_)) | None)
}

/// For each slot how many processes share the weight of one; 1 for those that have their own. Empty where all do.
pub(crate) fn crowds(table: &Table) -> Vec<u32> {
    let side = |process| side_of(process).filter(|side| is_indirect(process, *side));
    let indirect = table.live().filter_map(|(node, process)| Some((node, side(process)?))).collect::<Vec<_>>();
    if indirect.is_empty() {
        return Vec::new();
    }
    let mut root = [vec![UNKNOWN; table.slots()], vec![UNKNOWN; table.slots()]];
    let mut members = [vec![0u32; table.slots()], vec![0u32; table.slots()]];
    let (mut led_back, mut trail) = (Vec::with_capacity(indirect.len()), Vec::new());
    for (node, side) in indirect {
        let to = lead_back(table, side, node, &mut root[side as usize], &mut trail);
        members[side as usize][to as usize] += 1;
        led_back.push((node, side, to));
    }
    let mut shared_by = vec![1; table.slots()];
    for (node, side, to) in led_back {
        // Powers of two: the scheduler need not be told anew of everybody when one more compiler has started.
        shared_by[node as usize] = members[side as usize][to as usize].next_power_of_two();
    }
    shared_by
}

const UNKNOWN: Node = Node::MAX;

/// The process that a rating leads back to: `start` itself where the trail ends there. `root` knows of those looked up
/// before; `trail` is empty.
fn lead_back(table: &Table, side: Side, start: Node, root: &mut [Node], trail: &mut Vec<Node>) -> Node {
    let mut at = start;
    let found = loop {
        let known = root[at as usize];
        if known != UNKNOWN {
            break known;
        }
        // Marks it as visited, so that a loop of origins ends here.
        root[at as usize] = at;
        trail.push(at);
        match table[at][side].origin.and_then(|origin| origin.before()).filter(|node| table.is_live(*node)) {
            Some(before) => at = before,
            None => break at,
        }
    };
    trail.drain(..).for_each(|node| root[node as usize] = found);
    found
}
