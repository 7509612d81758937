// SPDX-License-Identifier: GPL-2.0-only
//! The middle of the daemon: what was seen goes to the policy, what the policy asks for goes to the scheduler.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use anyhow::Result;
use limelight_abi::sched::{
    LL_RATING_HELPER, LL_RATING_HUB, LL_RATING_INDIRECT, LL_RATING_INHERITED, LL_RATING_LENT, LL_RATING_SELF,
    LL_STAT_edges_recorded, STATS, ll_rating,
};
use limelight_policy::hubs::role_of;
use limelight_policy::{Action, Class, Edge, Event, GivenKind, Rating, State, step};
use log::warn;

use crate::answers::Snapshot;
use crate::kernel::Kernel;
use crate::procfs;
use crate::told::Told;

/// A process that stays rated may have executed another program: its role is looked up again this often, in passes.
const ROLE_PASSES: u64 = 5;

/// Processes whose waiting tasks change queue at once when they become more urgent. One event reaches few; each takes a walk over the tasks
/// that wait, and beyond these they change with their next turn.
const MAX_AT_ONCE: usize = 8;

/// Milli-rating that keeps the daemon's helpers in class HUCIN, below whatever the person really uses.
const HELPER_MILLI: u32 = 1;

/// What outlives one scheduler: it is loaded again whenever the set of CPUs changes.
pub struct Memory {
    /// The policy's state.
    pub state: State,
    started: Instant,
    told: Told,
}

impl Memory {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self { state, started: Instant::now(), told: Told::default() }
    }
}

/// When waiting tasks of those who become more urgent change queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Now: the person waits for them.
    AtOnce,
    /// When they have run next.
    NextTurn,
}

/// Ratings, from events to the scheduler.
pub struct Core<K> {
    scheduler: K,
    state: State,
    started: Instant,
    /// What the scheduler was last told of each process.
    told: Told,
    /// Clients whose first input is to travel on over edges that have not been read yet.
    travellers: Vec<Event>,
    /// Our own processes: not the policy's business.
    own: BTreeSet<u32>,
    /// Pass in which the role of a process was last looked up.
    roles: HashMap<u32, u64>,
    /// CPU time of each rated process at the last pass, and its share of the second before that.
    cpu: HashMap<u32, (u64, f64)>,
    /// How many wake-ups the scheduler had recorded when the edges were last taken.
    edges_taken_at: u64,
    passes: u64,
    last_pass: Instant,
    tracking: bool,
}

impl<K: Kernel> Core<K> {
    /// Begin with a scheduler that was just loaded, and what was known before, if anything was.
    ///
    /// # Errors
    /// The scheduler cannot be told about the daemon.
    pub fn new(scheduler: K, memory: Memory) -> Result<Self> {
        let now = Instant::now();
        let mut core = Self {
            scheduler,
            state: memory.state,
            started: memory.started,
            told: memory.told,
            travellers: Vec::new(),
            own: BTreeSet::new(),
            roles: HashMap::new(),
            cpu: HashMap::new(),
            edges_taken_at: 0,
            passes: 0,
            last_pass: now,
            tracking: false,
        };
        core.adopt(std::process::id(), LL_RATING_SELF)?;
        core.retell()?;
        Ok(core)
    }

    /// The scheduler, to ask whether it still runs.
    #[must_use]
    pub fn scheduler(&self) -> &K {
        &self.scheduler
    }

    /// Give up the scheduler and keep what is known, for another one.
    #[must_use]
    pub fn into_parts(self) -> (K, Memory) {
        (self.scheduler, Memory { state: self.state, started: self.started, told: self.told })
    }

    /// Does anybody serve the person now?
    #[must_use]
    pub fn tracking(&self) -> bool {
        self.tracking
    }

    /// Processes with a rating.
    #[must_use]
    pub fn rated(&self) -> u64 {
        self.told.ratings().values().filter(|rating| (rating.in_milli | rating.out_milli) != 0).count() as u64
    }

    /// Seconds since the daemon started.
    #[must_use]
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// A process of ours started: it must run for the others to be seen, and passes no rating on.
    ///
    /// # Errors
    /// The scheduler cannot be told.
    pub fn adopt_helper(&mut self, pid: u32) -> Result<()> {
        self.adopt(pid, LL_RATING_HUB | LL_RATING_HELPER)
    }

    fn adopt(&mut self, pid: u32, flags: u32) -> Result<()> {
        self.own.insert(pid);
        let rating =
            ll_rating { in_milli: HELPER_MILLI, slice_pm: 1000, weight_pm: 1000, flags, ..ll_rating::default() };
        self.scheduler.set_rating(pid, &rating)?;
        self.scheduler.publish(self.tracking, Some(pid))
    }

    /// A process of ours ended.
    pub fn dismiss_helper(&mut self, pid: u32) {
        self.own.remove(&pid);
        self.scheduler.clear_rating(pid);
    }

    /// Something happened: decide, and let it take effect at once. What may wait until everybody who was reported has been told waits for
    /// [`Self::travel`].
    ///
    /// # Errors
    /// The scheduler cannot be told.
    pub fn handle(&mut self, event: Event) -> Result<()> {
        let about = match &event {
            Event::Input { pid, .. } | Event::Output { pid, .. } => Some(pid.tgid),
            _ => None,
        };
        if about.is_some_and(|pid| self.own.contains(&pid)) {
            return Ok(());
        }
        let now = self.now_ns();
        let reached = match &event {
            Event::Input { pid, display } => Some(Event::Reached { pid: *pid, display: display.clone() }),
            _ => None,
        };
        let actions = step(&mut self.state, event, now);
        self.travellers.extend(reached.filter(|_| !actions.is_empty()));
        self.carry_out(actions, if about.is_some() { Effect::AtOnce } else { Effect::NextTurn })
    }

    /// Whom the clients that [`Self::handle`] was told of woke before they could be reported: their input travels there at once, too. Only when
    /// all of them have been told, and once for all, because reading the edges takes several times as long as all the rest.
    ///
    /// # Errors
    /// The scheduler cannot be read or told.
    pub fn travel(&mut self) -> Result<()> {
        let travellers = std::mem::take(&mut self.travellers);
        if travellers.is_empty() {
            return Ok(());
        }
        let edges = self.take_edges()?;
        if edges.is_empty() {
            return Ok(());
        }
        let now = self.now_ns();
        let mut actions = step(&mut self.state, Event::Edges(edges), now);
        for reached in travellers {
            actions.extend(step(&mut self.state, reached, now));
        }
        self.carry_out(actions, Effect::AtOnce)
    }

    /// The pass of each second: what the scheduler saw, who is gone, and the new ratings.
    ///
    /// # Errors
    /// The scheduler cannot be read or told.
    pub fn pass(&mut self) -> Result<()> {
        self.passes += 1;
        self.learn_from_scheduler()?;
        let edges = self.take_edges()?;
        self.learn_roles(&edges)?;
        let now = self.now_ns();
        let mut actions = step(&mut self.state, Event::Edges(edges), now);
        actions.extend(step(&mut self.state, Event::Tick, now));
        self.carry_out(actions, Effect::NextTurn)?;
        self.measure_cpu();
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Ratings that BPF gave by itself, and processes that took their entry with them when they ended.
    fn learn_from_scheduler(&mut self) -> Result<()> {
        let now = self.now_ns();
        let held: BTreeMap<u32, ll_rating> = self.scheduler.ratings()?.into_iter().collect();
        let gone: Vec<u32> = self.told.ratings().keys().copied().filter(|pid| !held.contains_key(pid)).collect();
        for pid in gone {
            self.told.remove(pid);
            self.cpu.remove(&pid);
            self.roles.remove(&pid);
            let actions = step(&mut self.state, Event::Exit { pid: pid.into() }, now);
            self.carry_out(actions, Effect::NextTurn)?;
        }
        for (pid, rating) in held {
            let actions = self.take_over(pid, &rating);
            self.apply(&actions, &[])?;
        }
        Ok(())
    }

    /// The scheduler gave this process the rating by itself: what the policy makes of that. Nothing where it did not.
    fn take_over(&mut self, pid: u32, held: &ll_rating) -> Vec<Action> {
        let Some(kind) = given_kind(held) else { return Vec::new() };
        let (in_milli, out_milli) = (held.in_milli, held.out_milli);
        self.told.insert(
            pid,
            Rating {
                in_milli,
                out_milli,
                slice_pm: held.slice_pm,
                weight_pm: held.weight_pm,
                indirect: true,
                hub: false,
                from: Some(held.from_tgid),
            },
        );
        let given = Event::Given { pid: pid.into(), kind, from: held.from_tgid.into(), in_milli, out_milli };
        let now = self.now_ns();
        step(&mut self.state, given, now)
    }

    /// Reading the map costs 2 million instructions even when it is empty: not when nothing was recorded.
    fn take_edges(&mut self) -> Result<Vec<Edge>> {
        let recorded = self.scheduler.counter(LL_STAT_edges_recorded);
        if std::mem::replace(&mut self.edges_taken_at, recorded) == recorded {
            return Ok(Vec::new());
        }
        let drained = self.scheduler.drain_edges()?.into_iter();
        let of_others =
            drained.filter(|(edge, _)| !self.own.contains(&edge.from_tgid) && !self.own.contains(&edge.to_tgid));
        Ok(of_others
            .map(|(edge, count)| Edge { from: edge.from_tgid.into(), to: edge.to_tgid.into(), count })
            .collect())
    }

    fn learn_roles(&mut self, edges: &[Edge]) -> Result<()> {
        let now = self.now_ns();
        let seen: BTreeSet<u32> = edges
            .iter()
            .flat_map(|edge| [edge.from.tgid, edge.to.tgid])
            .chain(self.told.ratings().keys().copied())
            .collect();
        self.roles.retain(|pid, _| seen.contains(pid));
        for pid in seen {
            let known_since = self.roles.get(&pid).copied();
            if known_since.is_some_and(|pass| self.passes - pass < ROLE_PASSES) {
                continue;
            }
            let role = procfs::executable(pid).or_else(|| procfs::name(pid)).and_then(|name| role_of(&name));
            if role.is_some() || known_since.is_some() {
                let actions = step(&mut self.state, Event::Hub { pid: pid.into(), role }, now);
                self.carry_out(actions, Effect::NextTurn)?;
            }
            self.roles.insert(pid, self.passes);
        }
        Ok(())
    }

    /// Tell the scheduler. What it gave one of these processes by itself since the last pass is taken over first: an editor that was lent
    /// HUCIN for a key must not lose that to the report of what the key made it show. (What it gives between our look and our
    /// word, some microseconds, is lost all the same, until the next wake-up lends it anew.)
    fn carry_out(&mut self, mut actions: Vec<Action>, effect: Effect) -> Result<()> {
        let raised = if effect == Effect::AtOnce { self.raised(&actions) } else { Vec::new() };
        let mut seen = BTreeSet::new();
        let mut next = 0;
        while let Some(action) = actions.get(next) {
            next += 1;
            let pid = action.pid().tgid;
            // It gives nothing to who has an input rating.
            if !seen.insert(pid) || self.told.ratings().get(&pid).is_some_and(|rating| rating.in_milli > 0) {
                continue;
            }
            if let Some(held) = self.scheduler.rating(pid) {
                actions.extend(self.take_over(pid, &held));
            }
        }
        self.apply(&actions, &raised)
    }

    /// Who becomes more urgent by this, first come first.
    fn raised(&self, actions: &[Action]) -> Vec<u32> {
        let class = |pid: u32| self.told.ratings().get(&pid).map_or(Class::Other, Rating::class);
        let raised = actions.iter().filter_map(|action| match *action {
            Action::Set { pid, rating } => (rating.class() < class(pid.tgid)).then_some(pid.tgid),
            Action::Clear { .. } => None,
        });
        raised.take(MAX_AT_ONCE).collect()
    }

    fn apply(&mut self, actions: &[Action], raised: &[u32]) -> Result<()> {
        // The last who served the person may have ended, also one who had its rating from the scheduler and whom we never saw: of that nothing is
        // told but that nobody does.
        let serving = self.told.anybody_serves();
        if actions.is_empty() && self.tracking == serving && self.scheduler.is_tracking() == serving {
            return Ok(());
        }
        // One that finds no room must not keep the others from being told.
        let mut lost = Ok(());
        for action in actions {
            match *action {
                Action::Set { pid, rating } => {
                    self.told.insert(pid.tgid, rating);
                    lost = lost.and(self.scheduler.set_rating(pid.tgid, &entry(&rating)));
                }
                Action::Clear { pid } => {
                    self.told.remove(pid.tgid);
                    self.scheduler.clear_rating(pid.tgid);
                }
            }
        }
        self.tracking = self.told.anybody_serves();
        self.scheduler.publish(self.tracking, raised.first().copied())?;
        for &pid in raised.iter().skip(1) {
            self.scheduler.publish(self.tracking, Some(pid))?;
        }
        lost
    }

    /// A new scheduler knows nothing: tell it everything.
    fn retell(&mut self) -> Result<()> {
        let actions: Vec<Action> =
            self.told.ratings().iter().map(|(&pid, &rating)| Action::Set { pid: pid.into(), rating }).collect();
        self.apply(&actions, &[])
    }

    fn measure_cpu(&mut self) {
        let elapsed_ns = self.last_pass.elapsed().as_nanos().max(1) as f64;
        self.last_pass = Instant::now();
        for &pid in self.told.ratings().keys() {
            let run_ns = self.scheduler.process_stats(pid).map_or(0, |stats| stats.run_ns);
            let entry = self.cpu.entry(pid).or_insert((run_ns, 0.0));
            *entry = (run_ns, run_ns.saturating_sub(entry.0) as f64 * 100.0 / elapsed_ns);
        }
        self.cpu.retain(|pid, _| self.told.ratings().contains_key(pid));
    }

    /// The rated processes as they are now.
    ///
    /// # Errors
    /// The scheduler's map cannot be shared.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot {
            told: self.told.ratings().clone(),
            cpu_pct: self.cpu.iter().map(|(&pid, &(_, share))| (pid, share)).collect(),
            stats: self.scheduler.stats_reader()?,
        })
    }

    /// What the policy knows, to be copied.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The scheduler's counters by name.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        STATS.iter().map(|&(name, _)| name).zip(self.scheduler.counters()).collect()
    }
}

fn given_kind(rating: &ll_rating) -> Option<GivenKind> {
    if rating.flags & LL_RATING_INHERITED != 0 {
        return Some(GivenKind::Inherited);
    }
    (rating.flags & LL_RATING_LENT != 0).then_some(GivenKind::Lent)
}

fn entry(rating: &Rating) -> ll_rating {
    ll_rating {
        in_milli: rating.in_milli,
        out_milli: rating.out_milli,
        slice_pm: rating.slice_pm,
        weight_pm: rating.weight_pm,
        flags: if rating.hub { LL_RATING_HUB } else { 0 } | if rating.indirect { LL_RATING_INDIRECT } else { 0 },
        from_tgid: rating.from.unwrap_or(0),
        ..ll_rating::default()
    }
}

/// Report an effect that failed and go on: one rating lost is not a reason to stop.
pub fn report(result: Result<()>) {
    if let Err(error) = result {
        warn!("{error:#}");
    }
}

#[cfg(test)]
mod tests;
