// SPDX-License-Identifier: GPL-2.0-only
//! The rating pass as section 4 of the paper has it, step by step and without any care for time, beside the one that is
//! used: both must come to the same. For tests only.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use crate::event::{ClientPeriod, Edge, Event, GivenKind, ProcessId};
use crate::graph::{Arc, Node};
use crate::hubs::HubRole;
use crate::reach::{Side, Source};
use crate::settings::Settings;
use crate::state::State;
use crate::step::step;
use crate::table::{DisplayIx, Facet, Origin, Process};

const SIDES: [Side; 2] = [Side::In, Side::Out];

/// Everything about a process that a pass decides, but what the scheduler is told.
type Outcome = (ProcessId, Option<HubRole>, u32, u32, [(u32, Option<Origin>); 2]);

fn outcome(process: &Process) -> Outcome {
    let facet = |facet: &Facet| (facet.rating_milli, facet.origin);
    let facets = [facet(&process[Side::In]), facet(&process[Side::Out])];
    (process.id, process.hub, process.fan_out_passes, process.input_left_s, facets)
}

/// Whom a node reaches in one step, in ascending order.
fn ends(arcs: &[Arc], side: Side, node: Node) -> Vec<(Node, u32)> {
    let end = |arc: &Arc| match side {
        Side::In => (arc.from == node).then_some((arc.to, arc.weight)),
        Side::Out => (arc.to == node).then_some((arc.from, arc.weight)),
    };
    arcs.iter().filter_map(end).collect()
}

/// 4.3, step 2: a breadth-first search from each source, adding as it goes, stopping at hubs.
fn sums(arcs: &[Arc], side: Side, hubs: &BTreeSet<Node>, sources: &[Source]) -> BTreeMap<Node, u64> {
    let mut sums = BTreeMap::new();
    for source in sources {
        let (mut seen, mut queue) = (BTreeSet::from([source.node]), VecDeque::from([source.node]));
        while let Some(node) = queue.pop_front() {
            *sums.entry(node).or_default() += u64::from(source.milli);
            if !hubs.contains(&node) {
                queue.extend(ends(arcs, side, node).iter().map(|(end, _)| *end).filter(|end| seen.insert(*end)));
            }
        }
    }
    sums
}

/// The shortest way from the strongest source.
fn ways(arcs: &[Arc], side: Side, hubs: &BTreeSet<Node>, sources: &[Source]) -> BTreeMap<Node, Origin> {
    let mut sources = sources.to_vec();
    sources.sort_by_key(|source| (std::cmp::Reverse(source.milli), source.node));
    let (mut ways, mut queue) = (BTreeMap::new(), VecDeque::new());
    for source in sources {
        if let Entry::Vacant(vacant) = ways.entry(source.node) {
            vacant.insert(Origin::Device(source.display));
            queue.push_back(source.node);
        }
    }
    while let Some(node) = queue.pop_front() {
        if hubs.contains(&node) {
            continue;
        }
        for (end, count) in ends(arcs, side, node) {
            if let Entry::Vacant(vacant) = ways.entry(end) {
                vacant.insert(Origin::Edge { with: Some(node), count });
                queue.push_back(end);
            }
        }
    }
    ways
}

/// Who is a hub, decided anew.
fn hub(state: &State, arcs: &[Arc], node: Node) -> (Option<HubRole>, u32) {
    let process = &state.table[node];
    let nodes = |side| ends(arcs, side, node).into_iter().map(|(end, _)| end).collect::<BTreeSet<_>>();
    let both = nodes(Side::In).intersection(&nodes(Side::Out)).copied().collect::<Vec<_>>();
    let few = nodes(Side::In).len().min(nodes(Side::Out).len()) < state.settings.hub_leave as usize;
    let strangers = both.iter().filter(|other| !state.table.descends(**other, node)).count() as u32;
    let fan_out = if few { 0 } else { strangers };
    match process.hub {
        Some(HubRole::FanOut) if fan_out < state.settings.hub_leave => (None, 0),
        Some(role) => (Some(role), process.fan_out_passes),
        None if fan_out < state.settings.hub_enter => (None, 0),
        None => {
            let passes = process.fan_out_passes + 1;
            ((passes >= state.settings.hub_passes).then_some(HubRole::FanOut), passes)
        }
    }
}

/// What a pass must make of this state, and the edges that it must leave. Nobody who exited is at a display.
fn expected(mut state: State, elapsed_s: u32) -> (BTreeMap<Node, Outcome>, Vec<Arc>) {
    let mut arcs: Vec<Arc> = state.edges.arcs().collect();
    arcs.retain(|arc| state.table.is_live(arc.from) && state.table.is_live(arc.to));
    let live: Vec<Node> = state.table.live().map(|(node, _)| node).collect();
    let decided: Vec<_> = live.iter().map(|node| hub(&state, &arcs, *node)).collect();
    for (node, decided) in live.iter().zip(decided) {
        (state.table[*node].hub, state.table[*node].fan_out_passes) = decided;
    }
    let hubs = live.iter().copied().filter(|node| state.table[*node].hub.is_some()).collect();
    for (side, sources) in SIDES.into_iter().zip([state.input_sources(), state.output_sources()]) {
        let mut sums = sums(&arcs, side, &hubs, &sources);
        let mut ways = ways(&arcs, side, &hubs, &sources);
        for (place, display) in state.displays.iter().enumerate() {
            let Some(server) = display.server.filter(|node| state.table.is_live(*node)) else { continue };
            let of_clients = sources.iter().filter(|source| source.display as usize == place);
            let sum = sums.entry(server).or_default();
            *sum = (*sum).max(of_clients.map(|source| u64::from(source.milli)).sum());
            ways.insert(server, Origin::Device(place as DisplayIx));
        }
        for node in &live {
            let facet = &mut state.table[*node][side];
            let average = (u64::from(facet.rating_milli) + sums.get(node).unwrap_or(&0)) / 2;
            facet.rating_milli =
                if average < u64::from(state.settings.rating_least_milli) { 0 } else { average as u32 };
            let way = ways.get(node).copied().or(facet.origin);
            facet.origin = way.filter(|_| facet.rating_milli > 0);
        }
    }
    for (place, display) in state.displays.iter().enumerate() {
        for node in display.serving().filter(|node| state.table.is_live(*node)).collect::<Vec<_>>() {
            let facet = &mut state.table[node][Side::In];
            facet.rating_milli = facet.rating_milli.max(state.settings.server_least_milli);
            facet.origin = Some(Origin::Device(place as DisplayIx));
        }
    }
    let outcomes = state.table.live_mut().map(|(node, process)| {
        process.input_left_s = process.input_left_s.saturating_sub(elapsed_s);
        (node, outcome(process))
    });
    let outcomes = outcomes.collect();
    arcs.iter_mut().for_each(|arc| arc.weight = arc.weight.checked_shr(elapsed_s).unwrap_or(0));
    arcs.retain(|arc| arc.weight > 0);
    (outcomes, arcs)
}

fn pid() -> impl Strategy<Value = ProcessId> {
    (1u32..50).prop_map(ProcessId::from)
}

fn event() -> impl Strategy<Value = Event> {
    let display = || prop::sample::select(vec![":0", ":1", ":2"]);
    let client = (pid(), prop::bool::weighted(0.3), prop_oneof![Just(0.0), 0.0..90.0f64]);
    let client = client.prop_map(|(pid, input, changed_pct)| ClientPeriod { pid, input, changed_pct });
    let edge = || (pid(), pid(), 1u64..40).prop_map(|(from, to, count)| Edge { from, to, count });
    // Everybody and one, both ways: what makes a hub of it.
    let star = (pid(), 30u32..50).prop_map(|(centre, to)| {
        let both = |other: u32| [(centre, other.into()), (other.into(), centre)];
        let edge = |(from, to)| Edge { from, to, count: 40 };
        Event::Edges((1..to).flat_map(both).map(edge).collect())
    });
    prop_oneof![
        4 => (display(), prop::collection::vec(client, 0..6))
            .prop_map(|(display, clients)| Event::Period { display: display.into(), clients }),
        6 => prop::collection::vec(edge(), 0..40).prop_map(Event::Edges),
        1 => star,
        1 => (display(), pid()).prop_map(|(d, pid)| Event::Display { display: d.into(), server: Some(pid) }),
        1 => (display(), pid()).prop_map(|(d, manager)| Event::Manager { display: d.into(), manager }),
        1 => display().prop_map(|d| Event::DisplayGone { display: d.into() }),
        1 => (pid(), prop::option::of(Just(HubRole::MessageBus))).prop_map(|(pid, role)| Event::Hub { pid, role }),
        1 => (pid(), pid(), 0u32..9000, 0u32..9000).prop_map(|(pid, from, in_milli, out_milli)| Event::Given {
            pid, kind: GivenKind::Inherited, from, in_milli, out_milli
        }),
        2 => pid().prop_map(|pid| Event::Exit { pid }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Over any seconds: ratings, the ways they came, hubs, counters and edges are the paper's.
    #[test]
    fn a_pass_is_the_papers(seconds in prop::collection::vec((prop::collection::vec(event(), 0..8), 1u32..4), 1..14)) {
        let settings = Settings { hub_enter: 20, hub_leave: 10, hub_passes: 2, ..Settings::default() };
        let mut state = State::new(settings).unwrap();
        let mut now_s = 0;
        step(&mut state, Event::Tick, 0);
        for (events, elapsed_s) in seconds {
            for event in events {
                step(&mut state, event, now_s * 1_000_000_000);
            }
            now_s += u64::from(elapsed_s);
            let before = {
                let mut before = state.clone();
                // Who exited is no source any more; a pass begins with that.
                before.drop_gone();
                before
            };
            let (outcomes, arcs) = expected(before, elapsed_s);
            step(&mut state, Event::Tick, now_s * 1_000_000_000);
            prop_assert_eq!(state.edges.arcs().collect::<Vec<_>>(), &arcs[..]);
            for (node, process) in state.table.live() {
                // Ways that led through somebody who has left since end there.
                let cut = |mut found: Outcome| {
                    for (_, origin) in &mut found.4 {
                        let before = origin.as_mut().and_then(Origin::before_mut);
                        before.into_iter().for_each(|node| *node = node.filter(|node| state.table.is_live(*node)));
                    }
                    found
                };
                prop_assert_eq!(cut(outcome(process)), cut(outcomes[&node]));
            }
            let rated = outcomes.iter().filter(|(_, found)| found.4.iter().any(|(milli, _)| *milli > 0));
            for (node, _) in rated {
                prop_assert!(state.table.is_live(*node));
            }
            prop_assert_eq!(SIDES.map(|side| state.edges.lists(side).iter().flatten().count()), [arcs.len(); 2]);
        }
    }
}
