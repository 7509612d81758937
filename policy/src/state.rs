// SPDX-License-Identifier: GPL-2.0-only
//! What the policy remembers between events.

use std::collections::BTreeMap;

use crate::action::{Action, Class, Rating};
use crate::crowd;
use crate::event::{ClientPeriod, DisplayId, Edge, ProcessId};
use crate::graph::{Arc, Edges, Node};
use crate::hubs::HubRole;
use crate::pass::Workspace;
use crate::rating::{changed_mpct, slice_share_pm};
use crate::reach::Side;
use crate::settings::{Settings, SettingsError};
use crate::table::{DisplayIx, Origin, Process, Table};

/// Passes that one report of a display is good for. Reporter and pass both run once a second, but not in step: of two
/// passes one may fall between two reports.
const REPORT_LASTS_PASSES: u32 = 2;

/// As many displays as are remembered at once; more are refused. A machine has a few.
const MAX_DISPLAYS: usize = 256;

/// One display. It keeps its place in the list when it is gone, because what was typed there is still remembered; when
/// the list is full, another gets the place once nothing names it any more.
#[derive(Debug, Clone)]
pub(crate) struct Display {
    pub id: DisplayId,
    pub server: Option<Node>,
    pub manager: Option<Node>,
    /// C_tout of its clients in the last period (4.1.3), thousandths of % of the screen, one entry per client, and how
    /// many more passes it holds.
    pub changed_mpct: Vec<(Node, u64)>,
    pub holds_passes: u32,
    /// What was reported at once since the last pass; the period's report will contain it.
    pub at_once_mpct: BTreeMap<Node, u64>,
}

impl Display {
    fn new(id: &DisplayId) -> Self {
        Display {
            id: id.clone(),
            server: None,
            manager: None,
            changed_mpct: Vec::new(),
            holds_passes: 0,
            at_once_mpct: BTreeMap::new(),
        }
    }

    /// Whether nothing is known of it but its name: it is closed, or its server is unknown and nothing happens there.
    fn is_blank(&self) -> bool {
        self.serving().next().is_none() && self.changed_mpct.is_empty() && self.at_once_mpct.is_empty()
    }

    /// Who must run for anything to be seen there.
    pub fn serving(&self) -> impl Iterator<Item = Node> {
        self.server.into_iter().chain(self.manager)
    }
}

/// Everything the policy remembers. See [`step`](crate::step()) for what changes it.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) table: Table,
    pub(crate) edges: Edges,
    pub(crate) displays: Vec<Display>,
    /// Time up to which edges and counters have been aged.
    pub(crate) aged_until_ns: Option<u64>,
    /// Largest C_tout of the last pass: what output reported at once is measured against.
    pub(crate) most_changed_mpct: u64,
    /// What passes work with.
    pub(crate) workspace: Workspace,
    refused: u64,
    /// What the scheduler must be told of those who made room, before anything else.
    evicted: Vec<Action>,
}

impl State {
    /// A state that has seen nothing.
    ///
    /// # Errors
    /// Settings out of range or in contradiction.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(State {
            settings,
            table: Table::default(),
            edges: Edges::default(),
            displays: Vec::new(),
            aged_until_ns: None,
            most_changed_mpct: 0,
            workspace: Workspace::default(),
            refused: 0,
            evicted: Vec::new(),
        })
    }

    /// How many reports were ignored because the table of processes (16,384), of edges (131,072) or of displays
    /// (256) was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The node of a process, entered if need be; `None` (and counted) where there is no room.
    pub(crate) fn enter(&mut self, pid: ProcessId) -> Option<Node> {
        let node = self.table.enter(pid);
        if node.is_none() && pid.tgid != 0 {
            self.refused += 1;
        }
        node
    }

    /// The same for one that the person waits for: where there is no room, another leaves.
    pub(crate) fn admit(&mut self, pid: ProcessId) -> Option<Node> {
        self.evicted.extend(self.table.make_room(pid).map(|pid| Action::Clear { pid }));
        self.enter(pid)
    }

    /// The actions of an event, after those for whoever had to leave: the scheduler has no more room than the table.
    pub(crate) fn after_evictions(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        if self.evicted.is_empty() {
            return actions;
        }
        let mut all = std::mem::take(&mut self.evicted);
        all.append(&mut actions);
        all
    }

    /// The place of a display in the list, entered if need be; `None` (and counted) where there is no room.
    pub(crate) fn display(&mut self, id: &DisplayId) -> Option<DisplayIx> {
        let known = self.displays.iter().position(|display| display.id == *id);
        let place = match known {
            Some(place) => place,
            None if self.displays.len() < MAX_DISPLAYS => {
                self.displays.push(Display::new(id));
                self.displays.len() - 1
            }
            None => {
                let Some(place) = self.unused_display() else {
                    self.refused += 1;
                    return None;
                };
                self.displays[place] = Display::new(id);
                place
            }
        };
        Some(place as DisplayIx)
    }

    /// The place of a display that would not be missed. Looks through all processes, so only for a list that is full.
    fn unused_display(&self) -> Option<usize> {
        let mut is_named = vec![false; self.displays.len()];
        for place in self.table.displays_named() {
            is_named[place as usize] = true;
        }
        (0..self.displays.len()).find(|place| !is_named[*place] && self.displays[*place].is_blank())
    }

    /// Count wake-ups (4.2.1).
    pub(crate) fn add_edges(&mut self, edges: Vec<Edge>) {
        let mut arcs = Vec::with_capacity(edges.len());
        for edge in edges {
            if edge.from.tgid == edge.to.tgid || edge.count == 0 {
                continue;
            }
            if let (Some(from), Some(to)) = (self.enter(edge.from), self.enter(edge.to)) {
                let weight = u32::try_from(edge.count).unwrap_or(u32::MAX);
                arcs.push(Arc { from, to, weight });
            }
        }
        self.refused += self.edges.add(arcs) as u64;
    }

    /// Remember what the clients of a display did in the last second (4.1.2, 4.1.3).
    pub(crate) fn report(&mut self, id: &DisplayId, clients: Vec<ClientPeriod>) {
        let Some(place) = self.display(id) else {
            return;
        };
        let mut changed: Vec<(Node, u64)> = Vec::new();
        for client in clients {
            let changed_mpct = changed_mpct(client.changed_pct);
            if !client.input && changed_mpct == 0 {
                continue;
            }
            let node = if client.input { self.admit(client.pid) } else { self.enter(client.pid) };
            let Some(node) = node else {
                continue;
            };
            if client.input {
                self.table[node].input_left_s = self.settings.input_memory_s;
                self.table[node].input_display = place;
            }
            if changed_mpct > 0 {
                changed.push((node, changed_mpct));
            }
        }
        changed.sort_unstable_by_key(|(node, _)| *node);
        changed.dedup_by(|next, first| {
            let same = next.0 == first.0;
            first.1 += if same { next.1 } else { 0 };
            same
        });
        let display = &mut self.displays[place as usize];
        display.changed_mpct = changed;
        display.holds_passes = REPORT_LASTS_PASSES;
    }

    /// A display is there: its server is a hub, and rated so that it can take the first event.
    pub(crate) fn open_display(&mut self, id: &DisplayId, server: Option<ProcessId>) -> Vec<Action> {
        let Some(place) = self.display(id) else {
            return Vec::new();
        };
        let Some(node) = server.and_then(|pid| self.admit(pid)) else {
            return Vec::new();
        };
        let former = self.displays[place as usize].server.replace(node);
        self.enlist(node, HubRole::DisplayServer, place, former)
    }

    /// Somebody manages the windows of a display: a hub, and rated so that the next window does not wait for it.
    pub(crate) fn set_manager(&mut self, id: &DisplayId, manager: ProcessId) -> Vec<Action> {
        let (Some(place), Some(node)) = (self.display(id), self.admit(manager)) else {
            return Vec::new();
        };
        let former = self.displays[place as usize].manager.replace(node);
        // A compositor that manages the windows, too, stays one.
        let role = self.table[node].hub.unwrap_or(HubRole::WindowManager);
        self.enlist(node, role, place, former)
    }

    /// `node` serves a display from now on, `former` no longer.
    fn enlist(&mut self, node: Node, role: HubRole, place: DisplayIx, former: Option<Node>) -> Vec<Action> {
        let least_milli = self.settings.server_least_milli;
        let process = &mut self.table[node];
        process.hub = Some(role);
        let facet = &mut process[Side::In];
        facet.rating_milli = facet.rating_milli.max(least_milli);
        facet.origin = Some(Origin::Device(place));
        match former.filter(|former| *former != node) {
            Some(former) => {
                self.retire(former);
                self.announce(&[node, former])
            }
            None => self.announce(&[node]),
        }
    }

    /// A display went away: nothing is seen on it any more. What was typed there is forgotten in its time (K).
    pub(crate) fn close_display(&mut self, id: &DisplayId) -> Vec<Action> {
        let Some(display) = self.displays.iter_mut().find(|display| display.id == *id) else {
            return Vec::new();
        };
        display.changed_mpct.clear();
        display.at_once_mpct.clear();
        let served: Vec<Node> = [display.server.take(), display.manager.take()].into_iter().flatten().collect();
        served.iter().for_each(|node| self.retire(*node));
        self.announce(&served)
    }

    /// Whether a process is a display's server or manages its windows.
    pub(crate) fn serves_display(&self, node: Node) -> bool {
        self.displays.iter().any(|display| display.serving().any(|serving| serving == node))
    }

    /// A process that serves no display any more is no hub for it.
    fn retire(&mut self, node: Node) {
        let for_display = |role: &HubRole| matches!(role, HubRole::DisplayServer | HubRole::WindowManager);
        if !self.serves_display(node)
            && self.table.is_live(node)
            && self.table[node].hub.as_ref().is_some_and(for_display)
        {
            self.table[node].hub = None;
        }
    }

    /// The highest rating of each class, hubs left out: a hub's rating adds up those of everybody it serves, and beside
    /// it every program would look small.
    fn highest_milli(&self) -> [u32; 2] {
        let mut most = [0, 0];
        for (_, process) in self.table.live().filter(|(_, process)| process.hub.is_none()) {
            let (input, output) = (process.milli(Side::In), process.milli(Side::Out));
            let (class, milli) = if input > 0 { (0, input) } else { (1, output) };
            most[class] = most[class].max(milli);
        }
        most
    }

    fn standards(&self) -> Standards {
        Standards {
            most_milli: self.highest_milli(),
            shared_by: crowd::crowds(&self.table),
            crowd_weight_pm: self.settings.crowd_weight_pm,
        }
    }

    /// Tell the scheduler what changed for these processes.
    pub(crate) fn announce(&mut self, nodes: &[Node]) -> Vec<Action> {
        let standards = self.standards();
        let mut actions = Vec::new();
        for &node in nodes {
            if self.table.is_live(node) {
                actions.extend(tell(&mut self.table[node], node, &standards));
            }
        }
        actions
    }

    /// The same for all.
    pub(crate) fn announce_all(&mut self) -> Vec<Action> {
        let standards = self.standards();
        // Room for all of them at once: copying thousands of actions while their list grows costs as much as finding them.
        let mut actions = Vec::with_capacity(self.table.count());
        actions.extend(self.table.live_mut().filter_map(|(node, process)| tell(process, node, &standards)));
        actions
    }
}

/// What the processes are measured against.
struct Standards {
    /// The highest rating of HUCIN and of HUCOUT.
    most_milli: [u32; 2],
    /// For each slot how many share one weight; empty where nobody does.
    shared_by: Vec<u32>,
    /// What they share, in thousandths; 0 where they do not share.
    crowd_weight_pm: u32,
}

/// What the scheduler is to be told about a process, if anything; remembers it as told.
fn tell(process: &mut Process, node: Node, standards: &Standards) -> Option<Action> {
    let pid = process.id;
    let rating = rating(process, node, standards);
    let wanted = (rating.hub || rating.class() != Class::Other).then_some(rating);
    if process.told == wanted {
        return None;
    }
    process.told = wanted;
    Some(wanted.map_or(Action::Clear { pid }, |rating| Action::Set { pid, rating }))
}

/// What the scheduler is to know about a process.
fn rating(process: &Process, node: Node, standards: &Standards) -> Rating {
    let mut rating = Rating {
        in_milli: process.milli(Side::In),
        out_milli: process.milli(Side::Out),
        hub: process.hub.is_some(),
        ..Rating::default()
    };
    let Some(side) = crowd::side_of(process) else {
        return rating;
    };
    if let Some(Origin::Given { from_tgid, .. }) = process[side].origin {
        rating.from = Some(from_tgid);
    }
    rating.indirect = crowd::is_indirect(process, side);
    if rating.hub {
        return rating;
    }
    rating.slice_pm = slice_share_pm(process.milli(side), standards.most_milli[side as usize]);
    rating.weight_pm = rating.slice_pm;
    if rating.indirect && standards.crowd_weight_pm > 0 {
        let shared_by = standards.shared_by.get(node as usize).copied().unwrap_or(1);
        rating.weight_pm = (rating.slice_pm * standards.crowd_weight_pm / 1000 / shared_by).clamp(1, 1000);
    }
    rating
}
