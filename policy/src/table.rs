// SPDX-License-Identifier: GPL-2.0-only
//! The processes the policy knows of, each in a slot with a small number for as long as anything refers to it.

use std::ops::{Index, IndexMut};

use crate::action::Rating;
use crate::event::{GivenKind, ProcessId};
use crate::graph::Node;
use crate::hubs::HubRole;
use crate::reach::Side;

/// As many processes as can hold a rating at once in the scheduler. Beyond it newcomers are refused until others leave,
/// except those with input ([`Table::make_room`]).
pub(crate) const MAX_PROCESSES: usize = 16_384;

/// How many of the least rated are looked up in one go: newcomers may come hundreds in one report.
const LEAST_AT_ONCE: usize = 256;

/// A display's place in the list of displays.
pub(crate) type DisplayIx = u16;

/// Where a rating last came from. A process that exited since is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From the person, by way of this display.
    Device(DisplayIx),
    /// Over an edge of the graph, from this process.
    Edge { with: Option<Node>, count: u32 },
    /// From the scheduler, which copied it.
    Given { kind: GivenKind, from_tgid: u32, giver: Option<Node> },
}

impl Origin {
    /// The process it leads back to.
    pub fn before(&self) -> Option<Node> {
        match self {
            Origin::Device(_) => None,
            Origin::Edge { with, .. } => *with,
            Origin::Given { giver, .. } => *giver,
        }
    }

    pub fn before_mut(&mut self) -> Option<&mut Option<Node>> {
        match self {
            Origin::Device(_) => None,
            Origin::Edge { with, .. } => Some(with),
            Origin::Given { giver, .. } => Some(giver),
        }
    }
}

/// P_in or P_out of one process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facet {
    /// Thousandths.
    pub rating_milli: u32,
    /// Where it last came from, while it is positive.
    pub origin: Option<Origin>,
}

/// One process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub id: ProcessId,
    /// It exited; the slot is freed by the next pass, when nothing refers to it any more.
    pub gone: bool,
    pub hub: Option<HubRole>,
    /// Passes in a row with the fan-out of a hub.
    pub fan_out_passes: u32,
    /// C_tin in seconds, and the display it came from (4.1.2).
    pub input_left_s: u32,
    pub input_display: DisplayIx,
    pub facets: [Facet; 2],
    /// Who forked it, where that was reported.
    pub parent: Option<Node>,
    /// What the scheduler was last told; `None` when it has no entry.
    pub told: Option<Rating>,
}

impl Process {
    fn new(id: ProcessId) -> Self {
        Process {
            id,
            gone: false,
            hub: None,
            fan_out_passes: 0,
            input_left_s: 0,
            input_display: 0,
            facets: Default::default(),
            parent: None,
            told: None,
        }
    }

    pub fn milli(&self, side: Side) -> u32 {
        self[side].rating_milli
    }

    /// Whether it may lose its place to one that has input.
    fn is_expendable(&self) -> bool {
        !self.gone && self.hub.is_none() && self.input_left_s == 0
    }

    /// Its ratings by the order of the classes: any input rating is more than any output rating.
    fn strength(&self) -> [u32; 2] {
        [self.milli(Side::In), self.milli(Side::Out)]
    }

    /// Whether it would be missed if its slot were freed, leaving edges aside.
    fn matters(&self) -> bool {
        self.hub.is_some()
            || self.input_left_s > 0
            || self.told.is_some()
            || self.facets.iter().any(|facet| facet.rating_milli > 0)
    }
}

impl Index<Side> for Process {
    type Output = Facet;
    fn index(&self, side: Side) -> &Facet {
        &self.facets[side as usize]
    }
}

impl IndexMut<Side> for Process {
    fn index_mut(&mut self, side: Side) -> &mut Facet {
        &mut self.facets[side as usize]
    }
}

/// Larger than any process number: twice what the kernel gives at most (PID_MAX_LIMIT), because tests name processes that
/// no machine has.
const TGIDS: u32 = 1 << 23;

/// Process numbers of one page of [`ByTgid`].
const PAGE: usize = 256;

/// Which node has a process number: in pages, as hardware finds memory. A report names twenty thousand processes, and
/// a hash costs more than all the rest of looking one up. Bad at: numbers far from each other, for each of which there
/// is a page of 1 KiB; 16 MiB when all are.
#[derive(Debug, Clone, Default)]
struct ByTgid {
    pages: Vec<Option<Box<[Node; PAGE]>>>,
    count: usize,
}

const NOBODY: Node = Node::MAX;

impl ByTgid {
    fn get(&self, tgid: u32) -> Option<Node> {
        let page = self.pages.get(tgid as usize / PAGE)?.as_ref()?;
        Some(page[tgid as usize % PAGE]).filter(|node| *node != NOBODY)
    }

    /// For a number below [`TGIDS`] that has no node.
    fn insert(&mut self, tgid: u32, node: Node) {
        let page = tgid as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([NOBODY; PAGE]));
        page[tgid as usize % PAGE] = node;
        self.count += 1;
    }

    /// For a number that has a node.
    fn remove(&mut self, tgid: u32) {
        self.count -= 1;
        let of_page = &mut self.pages[tgid as usize / PAGE];
        if let Some(page) = of_page {
            page[tgid as usize % PAGE] = NOBODY;
            if page.iter().all(|node| *node == NOBODY) {
                *of_page = None;
            }
        }
    }
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Process>>,
    free: Vec<Node>,
    by_tgid: ByTgid,
    any_gone: bool,
    /// Who had the least rating when it was last looked up, the very least at the end.
    least: Vec<([u32; 2], Node)>,
}

impl Table {
    /// Number of slots: nodes are below it.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Number of live processes.
    pub fn count(&self) -> usize {
        self.by_tgid.count
    }

    /// The live process an id stands for now.
    #[inline]
    pub fn find(&self, id: ProcessId) -> Option<Node> {
        let node = self.by_tgid.get(id.tgid)?;
        let is_same = |known: Option<u64>| known.is_none() || id.start_ns == known;
        let same = id.start_ns.is_none() || is_same(self[node].id.start_ns);
        same.then_some(node)
    }

    /// The same, made known if it was not. A different start time means that the number was recycled: the old
    /// process is gone, and nothing of it passes to the new one. `None` for a number that no process has and when the
    /// table is full.
    #[inline]
    pub fn enter(&mut self, id: ProcessId) -> Option<Node> {
        if let Some(node) = self.find(id) {
            if id.start_ns.is_some() {
                self[node].id.start_ns = id.start_ns;
            }
            return Some(node);
        }
        self.enter_new(id)
    }

    /// The same for one that is not in the table.
    #[cold]
    fn enter_new(&mut self, id: ProcessId) -> Option<Node> {
        if id.tgid == 0 || id.tgid >= TGIDS {
            return None;
        }
        self.forget(ProcessId::from(id.tgid));
        if self.by_tgid.count >= MAX_PROCESSES {
            return None;
        }
        let node = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as Node - 1
        });
        self.slots[node as usize] = Some(Process::new(id));
        self.by_tgid.insert(id.tgid, node);
        Some(node)
    }

    /// Room for a process that received input: where the table is full, the one with the least rating leaves, but no hub
    /// and none with input of its own; otherwise one user's processes could keep everybody's input out. Returns who left,
    /// if the scheduler has an entry of it.
    pub fn make_room(&mut self, newcomer: ProcessId) -> Option<ProcessId> {
        let has_room = self.by_tgid.count < MAX_PROCESSES || self.by_tgid.get(newcomer.tgid).is_some();
        if has_room || newcomer.tgid == 0 || newcomer.tgid >= TGIDS {
            return None;
        }
        let node = self.next_least().or_else(|| {
            self.look_up_least();
            self.next_least()
        })?;
        let (id, told) = (self[node].id, self[node].told.is_some());
        self.forget(id);
        told.then_some(id)
    }

    fn look_up_least(&mut self) {
        let expendable = self.live().filter(|(_, process)| process.is_expendable());
        let mut least: Vec<_> = expendable.map(|(node, process)| (process.strength(), node)).collect();
        if least.len() > LEAST_AT_ONCE {
            least.select_nth_unstable(LEAST_AT_ONCE);
            least.truncate(LEAST_AT_ONCE);
        }
        least.sort_unstable_by(|a, b| b.cmp(a));
        self.least = least;
    }

    /// The next of those looked up that has not become more since.
    fn next_least(&mut self) -> Option<Node> {
        while let Some((strength, node)) = self.least.pop() {
            if self.is_live(node) && self[node].is_expendable() && self[node].strength() <= strength {
                return Some(node);
            }
        }
        None
    }

    /// The process is gone; its number may come back as another's. Its slot waits for [`Table::sweep`].
    pub fn forget(&mut self, id: ProcessId) {
        if let Some(node) = self.find(id) {
            self.by_tgid.remove(id.tgid);
            self[node].gone = true;
            self.any_gone = true;
        }
    }

    /// Whether the node is a process that has not exited.
    pub fn is_live(&self, node: Node) -> bool {
        matches!(self.slots.get(node as usize), Some(Some(process)) if !process.gone)
    }

    /// All processes that have not exited, by slot.
    pub fn live(&self) -> impl Iterator<Item = (Node, &Process)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(node, slot)| slot.as_ref().filter(|p| !p.gone).map(|p| (node as Node, p)))
    }

    /// The same, to change.
    pub fn live_mut(&mut self) -> impl Iterator<Item = (Node, &mut Process)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(node, slot)| slot.as_mut().filter(|p| !p.gone).map(|p| (node as Node, p)))
    }

    /// The displays that somebody's input or rating came from, more than once where that is so. Those who exited count as
    /// long as they have a slot: the way of a rating may lead through it.
    pub fn displays_named(&self) -> impl Iterator<Item = DisplayIx> {
        self.slots.iter().flatten().flat_map(|process| {
            let input = (process.input_left_s > 0).then_some(process.input_display);
            let device = |facet: &Facet| match facet.origin {
                Some(Origin::Device(place)) => Some(place),
                _ => None,
            };
            input.into_iter().chain(process.facets.iter().filter_map(device))
        })
    }

    /// Whether each slot holds a live process; `None` when nobody has exited since the last sweep.
    pub fn leavers(&self) -> Option<Vec<bool>> {
        self.any_gone.then(|| (0..self.slots.len() as Node).map(|node| self.is_live(node)).collect())
    }

    /// Free every slot that does not matter and is not `in_use`, and the tail of the table where it is empty.
    pub fn sweep(&mut self, in_use: &[bool]) {
        let mut freed = vec![false; self.slots.len()];
        for (node, slot) in self.slots.iter_mut().enumerate() {
            let Some(process) = slot else { continue };
            if process.gone || !(process.matters() || in_use[node]) {
                if !process.gone {
                    self.by_tgid.remove(process.id.tgid);
                }
                *slot = None;
                freed[node] = true;
            }
        }
        self.any_gone = false;
        self.least.clear();
        if !freed.contains(&true) {
            return;
        }
        // Nothing may lead to a slot that will have another tenant.
        let leave = |link: &mut Option<Node>| *link = link.filter(|node| !freed[*node as usize]);
        for process in self.slots.iter_mut().flatten() {
            leave(&mut process.parent);
            let origins = process.facets.iter_mut().filter_map(|facet| facet.origin.as_mut());
            origins.filter_map(Origin::before_mut).for_each(leave);
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        let empty = |node: &Node| self.slots[*node as usize].is_none();
        self.free = (0..self.slots.len() as Node).rev().filter(empty).collect();
    }

    /// Whether `node` is `ancestor` or was forked by it or by its offspring, as far as known.
    pub fn descends(&self, node: Node, ancestor: Node) -> bool {
        // Families are shallow; the bound is for the case of a loop, which only a lie could make.
        const MAX_GENERATIONS: usize = 64;
        let mut at = Some(node);
        for _ in 0..MAX_GENERATIONS {
            match at {
                Some(node) if node == ancestor => return true,
                Some(node) => at = self[node].parent,
                None => return false,
            }
        }
        false
    }
}

impl Index<Node> for Table {
    type Output = Process;
    /// Only nodes that came from this table and have not been swept exist.
    #[allow(clippy::expect_used)]
    fn index(&self, node: Node) -> &Process {
        self.slots[node as usize].as_ref().expect("a node in use has a process")
    }
}

impl IndexMut<Node> for Table {
    #[allow(clippy::expect_used)]
    fn index_mut(&mut self, node: Node) -> &mut Process {
        self.slots[node as usize].as_mut().expect("a node in use has a process")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tgid: u32, start_ns: u64) -> ProcessId {
        ProcessId { tgid, start_ns: Some(start_ns) }
    }

    /// A number with another start time is another process; without one it is whoever has it now.
    #[test]
    fn a_recycled_number_is_a_new_process() {
        let mut table = Table::default();
        let old = table.enter(id(7, 1)).unwrap();
        assert_eq!(table.enter(7.into()), Some(old));
        let new = table.enter(id(7, 2)).unwrap();
        assert_ne!(old, new);
        assert!(!table.is_live(old));
        assert_eq!(table.find(id(7, 1)), None);
        assert_eq!(table.find(7.into()), Some(new));
    }

    /// A late exit of the former owner of a number leaves the present one alone.
    #[test]
    fn a_late_exit_does_not_hit_the_next_owner() {
        let mut table = Table::default();
        table.enter(id(7, 1));
        let new = table.enter(id(7, 2)).unwrap();
        table.forget(id(7, 1));
        assert!(table.is_live(new));
    }

    /// A start time that becomes known later belongs to the process that is there.
    #[test]
    fn a_start_time_may_come_later() {
        let mut table = Table::default();
        let node = table.enter(7.into()).unwrap();
        assert_eq!(table.enter(id(7, 1)), Some(node));
        assert_ne!(table.enter(id(7, 2)), Some(node));
    }

    /// A number that no process can have is refused, and takes no memory; a page whose last process has left is given back.
    #[test]
    fn numbers_beyond_all_are_refused() {
        let mut table = Table::default();
        for beyond in [0, TGIDS, u32::MAX] {
            assert_eq!(table.enter(beyond.into()), None);
            assert_eq!(table.make_room(beyond.into()), None);
        }
        assert!(table.by_tgid.pages.is_empty());
        assert!(table.enter((TGIDS - 1).into()).is_some());
        table.forget((TGIDS - 1).into());
        assert_eq!((table.find((TGIDS - 1).into()), table.count()), (None, 0));
        assert!(table.by_tgid.pages.iter().all(Option::is_none));
    }

    /// Swept slots are used again, and a full table refuses newcomers until somebody leaves.
    #[test]
    fn a_full_table_refuses_until_somebody_leaves() {
        let mut table = Table::default();
        for tgid in 1..=MAX_PROCESSES as u32 {
            assert!(table.enter(tgid.into()).is_some());
        }
        assert_eq!(table.enter(99_999.into()), None);
        table.forget(5.into());
        let mut in_use = vec![true; table.slots()];
        in_use[6] = false;
        table.sweep(&in_use);
        assert!(table.enter(99_999.into()).is_some());
        assert!(table.enter(99_998.into()).is_some());
        assert_eq!(table.enter(99_997.into()), None);
        assert_eq!(table.slots(), MAX_PROCESSES);
    }
}
