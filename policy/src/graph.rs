// SPDX-License-Identifier: GPL-2.0-only
//! The process dependency graph (HuC tech report, 4.2): who recently woke whom, how often.
//!
//! A second changes few of the edges there are, so nothing here looks at all of them: a pass that touched each edge
//! once more to halve it, and once more to turn the graph around, would cost more than the search it is made for.
//!
//! * Each process has two sorted lists, whom it woke and who woke it, kept from pass to pass. They are what a search
//!   walks over, in either direction, as they are.
//! * A weight is written down with the second it was true in; how often it has been halved since follows from that.
//!   How long an edge lasts is known from its weight, so a calendar of the coming seconds says which end in each.
//!
//! Bad at: lists of thousands, where each new edge would move half of the list. Those are brought up to date once for
//! each report, by merging.

use crate::reach::Side;

/// Index of a process in the table.
pub(crate) type Node = u32;

/// As many edges as can be pending between scheduler and daemon. Beyond it new edges are refused (see
/// [`State::refused`](crate::State::refused)): memory and the time of a pass stay bounded whatever the machine does.
pub(crate) const MAX_EDGES: usize = 131_072;

/// From this length on a list is not shifted for each newcomer.
const LONG: usize = 128;

/// Seconds the calendar looks ahead: more than the 32 that a weight can last.
const CALENDAR_S: usize = 64;

/// An edge of PDG_in: `from` woke `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arc {
    pub from: Node,
    pub to: Node,
    /// Wake-ups, halved each second; never 0 in the graph (4.2.3).
    pub weight: u32,
}

/// An edge, seen from one of its ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The other end.
    pub end: Node,
    /// Its place among the records, for [`Edges::weight`].
    pub edge: u32,
}

/// What is known of an edge.
#[derive(Debug, Clone, Copy)]
struct Record {
    arc: Arc,
    /// The second in which the weight was what is written here.
    as_of_s: u32,
}

impl Record {
    /// The second in which its weight becomes 0.
    fn ends_s(&self) -> u32 {
        self.as_of_s.wrapping_add(u32::BITS - self.arc.weight.leading_zeros())
    }
}

/// The lists of one direction.
#[derive(Debug, Clone, Default)]
struct Lists {
    /// By node, sorted by the other end.
    of: Vec<Vec<Link>>,
    /// Which long ones hold edges that have ended, and whether each is among those.
    stale: Vec<Node>,
    is_stale: Vec<bool>,
    /// New links of lists that are long.
    late: Vec<(Node, Link)>,
}

impl Lists {
    fn cover(&mut self, nodes: usize) {
        if self.of.len() < nodes {
            self.of.resize_with(nodes, Vec::new);
            self.is_stale.resize(nodes, false);
        }
    }

    /// Add a link that is not there, at its `place` where that is known. One to a long list takes its place in
    /// [`Lists::merge_late`].
    fn insert(&mut self, node: Node, link: Link, place: Option<usize>) {
        let list = &mut self.of[node as usize];
        if list.len() >= LONG {
            self.late.push((node, link));
        } else {
            let place = place.unwrap_or_else(|| list.partition_point(|known| known.end < link.end));
            list.insert(place, link);
        }
    }

    /// Put the late links in their places, each long list in one go.
    fn merge_late(&mut self) {
        self.late.sort_unstable_by_key(|(node, link)| (*node, link.end));
        for of_node in self.late.chunk_by(|a, b| a.0 == b.0) {
            let list = &mut self.of[of_node[0].0 as usize];
            let mut known = list.len();
            list.extend(of_node.iter().map(|(_, link)| *link));
            // From the end: what is moved makes room for what is still to come.
            let mut room = list.len();
            for (_, link) in of_node.iter().rev() {
                while known > 0 && list[known - 1].end > link.end {
                    (known, room) = (known - 1, room - 1);
                    list[room] = list[known];
                }
                room -= 1;
                list[room] = *link;
            }
        }
        self.late.clear();
    }

    /// Take a link off; that of a long list goes with the next [`Lists::tidy`].
    fn remove(&mut self, node: Node, end: Node) {
        let list = &mut self.of[node as usize];
        if list.len() < LONG {
            if let Ok(place) = list.binary_search_by_key(&end, |link| link.end) {
                list.remove(place);
            }
        } else if !std::mem::replace(&mut self.is_stale[node as usize], true) {
            self.stale.push(node);
        }
    }

    /// Take the edges that have ended off the long lists.
    fn tidy(&mut self, records: &[Record]) {
        for node in self.stale.drain(..) {
            self.is_stale[node as usize] = false;
            let list = &mut self.of[node as usize];
            list.retain(|link| records[link.edge as usize].arc.weight > 0);
            if list.is_empty() && list.capacity() > LONG {
                *list = Vec::new();
            }
        }
    }
}

/// All edges.
#[derive(Debug, Clone)]
pub(crate) struct Edges {
    /// By waker, then by woken.
    lists: [Lists; 2],
    /// An edge that has ended has weight 0; its record is used again once the calendar has come to it.
    records: Vec<Record>,
    unused: Vec<u32>,
    /// For each second, modulo its length: the edges to look at then. Each record in use is in it once, at the second
    /// in which its edge ends or, where it was reported again since, at an earlier one.
    calendar: Vec<Vec<u32>>,
    /// Seconds that the graph has been aged by.
    aged_s: u32,
    /// Edges that have not ended.
    count: usize,
}

impl Default for Edges {
    fn default() -> Self {
        Edges {
            lists: Default::default(),
            records: Vec::new(),
            unused: Vec::new(),
            calendar: vec![Vec::new(); CALENDAR_S],
            aged_s: 0,
            count: 0,
        }
    }
}

impl Edges {
    /// All edges, sorted by (from, to).
    pub fn arcs(&self) -> impl Iterator<Item = Arc> {
        let links = self.lists[Side::In as usize].of.iter().flatten();
        links.map(|link| Arc { weight: self.weight(link.edge), ..self.records[link.edge as usize].arc })
    }

    /// The lists of one direction, by node, sorted: whom it woke (the way input takes), or who woke it (output's).
    /// Those of nodes that [`Edges::cover`] was not told of may be missing.
    pub fn lists(&self, side: Side) -> &[Vec<Link>] {
        &self.lists[side as usize].of
    }

    /// The list of one node.
    pub fn of(&self, side: Side, node: Node) -> &[Link] {
        self.lists(side).get(node as usize).map_or(&[], Vec::as_slice)
    }

    /// The weight of an edge now.
    pub fn weight(&self, edge: u32) -> u32 {
        let record = &self.records[edge as usize];
        record.arc.weight.checked_shr(self.aged_s.wrapping_sub(record.as_of_s)).unwrap_or(0)
    }

    /// Have lists for this many nodes.
    pub fn cover(&mut self, nodes: usize) {
        self.lists.iter_mut().for_each(|lists| lists.cover(nodes));
    }

    /// Count wake-ups. Returns how many new edges there was no room for.
    pub fn add(&mut self, news: Vec<Arc>) -> usize {
        let mut refused = 0;
        let mut to_long = Vec::new();
        for arc in news.into_iter().filter(|arc| arc.weight > 0 && arc.from != arc.to) {
            let last = arc.from.max(arc.to) as usize;
            if last >= self.lists(Side::In).len() {
                self.cover(last + 1);
            }
            let list = &self.lists[Side::In as usize].of[arc.from as usize];
            match list.binary_search_by_key(&arc.to, |link| link.end) {
                Ok(place) => self.count_more(list[place].edge, arc.weight),
                Err(_) if list.len() >= LONG => to_long.push(arc),
                Err(_) if self.count >= MAX_EDGES => refused += 1,
                Err(place) => {
                    self.begin(arc, Some(place));
                }
            }
        }
        refused += self.add_to_long(to_long);
        self.lists.iter_mut().for_each(Lists::merge_late);
        refused
    }

    /// The same for edges that may be new and begin at long lists.
    fn add_to_long(&mut self, mut news: Vec<Arc>) -> usize {
        let mut refused = 0;
        news.sort_unstable_by_key(|arc| (arc.from, arc.to));
        for same in news.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to)) {
            if self.count == MAX_EDGES {
                refused += same.len();
                continue;
            }
            let edge = self.begin(same[0], None);
            same[1..].iter().for_each(|arc| self.count_more(edge, arc.weight));
        }
        refused
    }

    /// A new edge; `place` is where it belongs in the list of its waker, if that is known.
    fn begin(&mut self, arc: Arc, place: Option<usize>) -> u32 {
        let record = Record { arc, as_of_s: self.aged_s };
        let edge = self.unused.pop().unwrap_or(self.records.len() as u32);
        match self.records.get_mut(edge as usize) {
            Some(unused) => *unused = record,
            None => self.records.push(record),
        }
        self.calendar[record.ends_s() as usize % CALENDAR_S].push(edge);
        self.lists[Side::In as usize].insert(arc.from, Link { end: arc.to, edge }, place);
        self.lists[Side::Out as usize].insert(arc.to, Link { end: arc.from, edge }, None);
        self.count += 1;
        edge
    }

    /// More wake-ups over an edge that there is.
    fn count_more(&mut self, edge: u32, weight: u32) {
        let record = &mut self.records[edge as usize];
        let left = record.arc.weight.checked_shr(self.aged_s.wrapping_sub(record.as_of_s)).unwrap_or(0);
        record.arc.weight = left.saturating_add(weight);
        record.as_of_s = self.aged_s;
    }

    /// Halve every weight `seconds` times; edges that reach 0 are removed (4.2.3).
    pub fn halve(&mut self, seconds: u32) {
        if seconds >= u32::BITS {
            let lists = std::mem::take(&mut self.lists);
            *self = Edges::default();
            self.cover(lists[0].of.len());
            return;
        }
        let mut ended = Vec::new();
        for _ in 0..seconds {
            self.aged_s = self.aged_s.wrapping_add(1);
            let today = self.aged_s as usize % CALENDAR_S;
            let mut due = std::mem::take(&mut self.calendar[today]);
            for edge in due.drain(..) {
                let record = self.records[edge as usize];
                if record.arc.weight == 0 {
                    self.unused.push(edge);
                } else if record.ends_s() == self.aged_s {
                    self.end(edge);
                    ended.push(edge);
                } else {
                    self.calendar[record.ends_s() as usize % CALENDAR_S].push(edge);
                }
            }
            self.calendar[today] = due;
        }
        self.tidy();
        self.unused.append(&mut ended);
    }

    /// Keep only edges whose two ends are to be kept.
    pub fn retain_ends(&mut self, keep: &[bool]) {
        self.cover(keep.len());
        for (node, _) in keep.iter().enumerate().filter(|(_, keep)| !**keep) {
            for side in [Side::In, Side::Out] {
                let links = std::mem::take(&mut self.lists[side as usize].of[node]);
                links.iter().for_each(|link| self.end(link.edge));
            }
        }
        self.tidy();
        if self.records.len() > 2 * MAX_EDGES {
            // Processes came and went faster than the calendar gets to their edges.
            let is_left = |edge: &u32| self.records[*edge as usize].arc.weight > 0;
            for due in &mut self.calendar {
                self.unused.extend(due.extract_if(.., |edge| !is_left(edge)));
            }
        }
    }

    fn end(&mut self, edge: u32) {
        let arc = &mut self.records[edge as usize].arc;
        if std::mem::take(&mut arc.weight) > 0 {
            let Arc { from, to, .. } = *arc;
            self.lists[Side::In as usize].remove(from, to);
            self.lists[Side::Out as usize].remove(to, from);
            self.count -= 1;
        }
    }

    fn tidy(&mut self) {
        self.lists.iter_mut().for_each(|lists| lists.tidy(&self.records));
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

    fn all(edges: &Edges) -> Vec<Arc> {
        edges.arcs().collect()
    }

    /// 4.2.3: eight keys make an edge of weight 8, positive for three more halvings and gone at the fourth.
    #[test]
    fn eight_keys_last_three_seconds() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 2, 1); 8]);
        assert_eq!(all(&edges), [arc(1, 2, 8)]);
        for left in [4, 2, 1] {
            edges.halve(1);
            assert_eq!(all(&edges), [arc(1, 2, left)]);
        }
        edges.halve(1);
        assert!(all(&edges).is_empty());
    }

    /// An edge from a process to itself and a count of nothing are not edges.
    #[test]
    fn loops_and_zeroes_are_no_edges() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 1, 5), arc(1, 2, 0)]);
        assert!(all(&edges).is_empty());
    }

    /// A long sleep ages by as many halvings as it lasted, also beyond the width of a weight.
    #[test]
    fn several_seconds_age_at_once() {
        let mut edges = Edges::default();
        edges.add(vec![arc(1, 2, u32::MAX), arc(1, 2, 1)]);
        edges.halve(31);
        assert_eq!(all(&edges), [arc(1, 2, 1)]);
        edges.halve(40);
        assert!(all(&edges).is_empty());
    }

    /// A full graph counts on for the edges it has and refuses new ones.
    #[test]
    fn a_full_graph_refuses_new_edges_only() {
        let mut edges = Edges::default();
        let many = (0..MAX_EDGES as u32).map(|to| arc(0, to + 1, 1)).collect();
        assert_eq!(edges.add(many), 0);
        assert_eq!(edges.add(vec![arc(0, 1, 4), arc(7, 8, 1)]), 1);
        assert_eq!(all(&edges)[0], arc(0, 1, 5));
        assert_eq!(all(&edges).len(), MAX_EDGES);
    }

    /// More than a long list has room for.
    const NODES: u32 = 2 * LONG as u32;

    #[derive(Debug, Clone)]
    enum Happening {
        Report(Vec<Arc>),
        Halve(u32),
        Leave(u32),
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let weight = || prop_oneof![0u32..20, Just(u32::MAX)];
        let among_few = (0u32..12, 0u32..12, weight()).prop_map(|(from, to, weight)| arc(from, to, weight));
        let of_node_0 = (any::<bool>(), 1..NODES, weight()).prop_map(|(turned, other, weight)| match turned {
            true => arc(other, 0, weight),
            false => arc(0, other, weight),
        });
        prop_oneof![
            prop::collection::vec(among_few, 0..30).prop_map(Happening::Report),
            prop::collection::vec(of_node_0, 0..300).prop_map(Happening::Report),
            prop_oneof![4 => 1u32..3, 1 => 1u32..40].prop_map(Happening::Halve),
            (0u32..7).prop_map(Happening::Leave),
        ]
    }

    /// Processes that come and go in one second do not make the records grow without a bound.
    #[test]
    fn edges_of_those_who_leave_do_not_pile_up() {
        let mut edges = Edges::default();
        for _ in 0..5 {
            edges.add((0..MAX_EDGES as u32).map(|to| arc(0, to + 1, u32::MAX)).collect());
            edges.retain_ends(&vec![false; MAX_EDGES + 1]);
            assert!(all(&edges).is_empty());
        }
        assert!(edges.records.len() <= 3 * MAX_EDGES, "{}", edges.records.len());
        assert_eq!(edges.add((0..MAX_EDGES as u32).map(|to| arc(0, to + 1, 1)).collect()), 0);
        edges.halve(1);
        assert!(all(&edges).is_empty());
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
                prop_assert_eq!(all(&edges), expected);
            }
        }

        /// Whatever happens, in whatever order: the graph is a map of counts that is halved and filtered, and both
        /// directions hold the same edges, sorted. Node 0 has lists of any length.
        #[test]
        fn the_graph_is_a_map_of_counts(events in prop::collection::vec(happening(), 0..40)) {
            let mut edges = Edges::default();
            let mut counted: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for event in events {
                match event {
                    Happening::Report(report) => {
                        for arc in report.iter().filter(|arc| arc.from != arc.to && arc.weight > 0) {
                            let known = counted.entry((arc.from, arc.to)).or_default();
                            *known = known.saturating_add(arc.weight);
                        }
                        prop_assert_eq!(edges.add(report), 0);
                    }
                    Happening::Halve(seconds) => {
                        counted.values_mut().for_each(|weight| *weight = weight.checked_shr(seconds).unwrap_or(0));
                        counted.retain(|_, weight| *weight > 0);
                        edges.halve(seconds);
                    }
                    Happening::Leave(gone) => {
                        counted.retain(|(from, to), _| *from % 7 != gone && *to % 7 != gone);
                        edges.retain_ends(&(0..NODES).map(|node| node % 7 != gone).collect::<Vec<_>>());
                    }
                }
                let expected: Vec<Arc> = counted.iter().map(|((from, to), weight)| arc(*from, *to, *weight)).collect();
                prop_assert_eq!(all(&edges), expected);
                let back = (0..NODES).flat_map(|to| {
                    let edges = &edges;
                    edges.of(Side::Out, to).iter().map(move |link| arc(link.end, to, edges.weight(link.edge)))
                });
                let mut expected: Vec<Arc> =
                    counted.iter().map(|((from, to), weight)| arc(*from, *to, *weight)).collect();
                expected.sort_by_key(|arc| (arc.to, arc.from));
                prop_assert_eq!(back.collect::<Vec<_>>(), expected);
                prop_assert!(edges.records.len() <= edges.count + edges.unused.len() + edges.calendar.concat().len());
            }
        }
    }
}
