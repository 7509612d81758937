// SPDX-License-Identifier: GPL-2.0-only
//! When one process wanted the CPU and had it, from the text of a recording of the scheduler: what [`crate::suggest`] takes.
//!
//! The problem: not every program can be watched where its specification is written, and the field has recordings already. The idea: perf sched, trace-cmd
//! and ftrace all print the same two events, who went on a CPU in whose place and who was woken, a line each; that is all it takes. Their
//! lines differ in what stands before the event and in two spellings of the event ([`line`]).
//!
//! Each line comes by itself, so a recording of any length takes the room of what is known of its threads, and of the process' stints. The promise: whatever
//! the text is, that room is bounded, and so is the time to which its times lead.
//!
//! What it is bad at: which thread is of which process only the line of one that leaves a CPU tells, and only where the recording names processes; without
//! that a process is its first thread. Where events were lost it believes the ones that are there.
//!
//! No input or output, and no clock. No single time leaves it but in the stints.

mod line;

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::suggest::Stint;
use crate::text::printable;
use line::{Event, Left, Line, What};

/// Stays of the process on a CPU, at most: 34 MB, 50 while they grow. A program that plays makes some hundred a second.
const STINTS_MOST: usize = 1_000_000;
/// Threads of the whole machine that are known at a time, as many as 2^18 places of a `HashMap` take: 19 MB, 29 while they grow, and up to 19 more of names.
const THREADS_MOST: usize = 229_376;
/// A recording counts for so long: what its times lead to takes time and room by its length.
const LENGTH_MOST_NS: u64 = 3_600 * 1_000_000_000;
/// A time may be so much before the one of the line above it: some tools sort no better.
const BACK_MOST_NS: u64 = 1_000_000_000;
/// How many others are named where the process is not there.
const BUSIEST: usize = 5;

/// What is made of a recording while it is read.
#[derive(Debug)]
pub struct Recording {
    process: u32,
    threads: HashMap<u32, Thread>,
    /// Who is on each CPU, and since when.
    cpus: HashMap<u32, (u32, u64)>,
    /// The first event of each CPU, and whether the process ran on it.
    begins: HashMap<u32, (u64, bool)>,
    /// The oldest events were overwritten by newer ones, so it begins at another time on each CPU.
    is_overwritten: bool,
    /// Switches that could be read.
    switches: u64,
    stints: Vec<Stint>,
    lines: u64,
    /// The first line that names an event of the scheduler's and makes no sense, or whose time is before others'.
    broken: Option<u64>,
    first_ns: Option<u64>,
    now_ns: u64,
    /// What was known before this is not sure any more.
    lost_ns: u64,
    lost: u64,
    /// The stints from here on came after the last loss.
    sure: usize,
    unread: u64,
    /// What threads of the process ran before it was known that they are.
    unnamed_ns: u64,
    begun_ns: Option<u64>,
    ended: bool,
    names_processes: bool,
    is_full: bool,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Thread {
    process: Option<u32>,
    /// 0: it was not, since it last slept.
    woken_ns: u64,
    /// It had to leave a CPU then; 0: it did not.
    waits_ns: u64,
    cpu: Option<u32>,
    ran_ns: u64,
    name: String,
}

/// What a recording says of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// When its threads ran, in the order in which they stopped.
    pub stints: Vec<Stint>,
    /// When it was begun, if that is in the recording, else the recording's begin.
    pub from_ns: u64,
    /// Its end, or the recording's.
    pub to_ns: u64,
    /// It was begun in the recording.
    pub has_begin: bool,
    /// Events that are missing, of whatever thread.
    pub lost: u64,
    /// Lines of events that cannot be read, or whose time is before others'.
    pub unread: u64,
    /// The first of them, from 1.
    pub broken: Option<u64>,
    /// It says which threads are of the process; else only the first one was looked at.
    pub names_processes: bool,
    /// CPU time, in ns, that threads took while it did not say whose they are, those left out of which it later said so that they are of other processes.
    pub unnamed_ns: u64,
    /// The rest of the recording was left out: it is too long.
    pub is_cut: bool,
}

/// Why a recording says nothing of the process.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Missing {
    /// No line is an event of the scheduler's.
    #[error(
        "no line has an event of the scheduler's (sched_switch). It has to be the text that perf script, trace-cmd report or ftrace's file trace shows, of a \
         recording of sched_switch, sched_wakeup and sched_wakeup_new: perf sched record has them"
    )]
    Events,
    /// All that are cannot be read.
    #[error(
        "line {0} names an event of the scheduler's, but not in a form that is known: NAME-TID [CPU] SECONDS: sched_switch: ... is. Show the CPU, and times in \
         seconds (ftrace: echo mono >trace_clock; perf script: without --fields, or with tid,cpu,time,event,trace)"
    )]
    Form(u64),
    /// Nothing of that process.
    #[error("process {process} never left a CPU in it{}. {}", without(*missing), others(busiest))]
    Process {
        /// The one that was asked for.
        process: u32,
        /// Those that ran most, with their names.
        busiest: Vec<(u32, String)>,
        /// Events that are not there, or cannot be read.
        missing: u64,
    },
    /// It is a thread of another one.
    #[error("{thread} is a thread of process {process}: give that")]
    Thread {
        /// The one that was asked for.
        thread: u32,
        /// Whose it is.
        process: u32,
    },
}

fn without(missing: u64) -> String {
    if missing > 0 { format!(", where {missing} events are missing or cannot be read") } else { String::new() }
}

fn others(busiest: &[(u32, String)]) -> String {
    if busiest.is_empty() {
        return "Nobody did: record for longer".to_owned();
    }
    let named: Vec<_> = busiest.iter().map(|(process, name)| format!("{process} ({name})")).collect();
    format!("Give one that did; these ran most: {}", named.join(", "))
}

impl Recording {
    /// Of `process`; nothing of it has been read yet.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self {
            process,
            threads: HashMap::new(),
            cpus: HashMap::new(),
            begins: HashMap::new(),
            is_overwritten: false,
            switches: 0,
            stints: Vec::new(),
            lines: 0,
            broken: None,
            first_ns: None,
            now_ns: 0,
            lost_ns: 0,
            lost: 0,
            sure: 0,
            unread: 0,
            unnamed_ns: 0,
            begun_ns: None,
            ended: false,
            names_processes: false,
            is_full: false,
        }
    }

    /// The next line, with or without its newline. Whether more of them can change anything.
    pub fn take(&mut self, line: &[u8]) -> bool {
        self.lines += 1;
        match line::read(line) {
            Line::Event(event) => self.event(&event),
            Line::Lost(cpu, count) => self.lose(cpu, count),
            Line::Broken(cpu) => {
                self.cannot_read();
                // Whoever came on it is not known; the time of that one is not that of who was there.
                if cpu.is_some() {
                    self.lose(cpu, 0);
                }
            }
            Line::Other => {}
        }
        !self.is_full
    }

    /// A line was too long to be looked at.
    pub fn skip(&mut self) {
        self.lines += 1;
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// There is nothing of the process in it.
    pub fn end(mut self) -> Result<Recorded, Missing> {
        let Some(first_ns) = self.first_ns else {
            return Err(self.broken.map_or(Missing::Events, Missing::Form));
        };
        if let (0, Some(line)) = (self.switches, self.broken) {
            return Err(Missing::Form(line));
        }
        if let Some(whose) = self.threads.get(&self.process).and_then(|thread| thread.process)
            && whose != self.process
        {
            return Err(Missing::Thread { thread: self.process, process: whose });
        }
        // Who never leaves the CPU shows no other way.
        for (cpu, (thread, since_ns)) in self.cpus.clone() {
            self.stay(cpu, thread, since_ns, false);
        }
        let Some(last) = self.stints.last() else {
            return Err(Missing::Process {
                process: self.process,
                busiest: self.busiest(),
                missing: self.lost.saturating_add(self.unread),
            });
        };
        Ok(Recorded {
            from_ns: self.begun_ns.unwrap_or_else(|| self.begins_at(first_ns)),
            to_ns: if self.ended { last.end_ns } else { self.now_ns },
            has_begin: self.begun_ns.is_some(),
            lost: self.lost,
            unread: self.unread,
            broken: self.broken,
            names_processes: self.names_processes,
            unnamed_ns: self.unnamed_ns + self.nobodys_ns(),
            is_cut: self.is_full,
            stints: self.stints,
        })
    }

    /// From when on all is there where the process ran; a CPU on which little happens keeps its events for longer than others.
    fn begins_at(&self, first_ns: u64) -> u64 {
        let ran_on = self.begins.values().filter(|&&(_, ran)| ran && self.is_overwritten);
        ran_on.map(|&(begin_ns, _)| begin_ns).max().unwrap_or(first_ns)
    }

    /// No event has been read yet.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.first_ns.is_none()
    }

    fn event(&mut self, event: &Event<'_>) {
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        if event.time_ns + BACK_MOST_NS < self.now_ns {
            return self.cannot_read();
        }
        let now_ns = event.time_ns.max(self.now_ns);
        let is_too_long = now_ns - first_ns > LENGTH_MOST_NS;
        if is_too_long && self.stints.is_empty() {
            // A quiet CPU's events may reach far back; what counts is where the process does something.
            self.first_ns = Some(now_ns);
        } else if is_too_long || self.stints.len() >= STINTS_MOST {
            self.is_full = true;
            return;
        }
        self.now_ns = now_ns;
        self.on_cpu(event);
        match event.what {
            What::Switch { from, name, left, to } => self.switch(event.cpu, from, name, left, to),
            What::Woken(thread) => self.wake(thread),
            What::New(thread) => self.begin(thread),
        }
    }

    /// The line itself says who is on the CPU: at the begin, and after losses, that is the first to be known of it.
    fn on_cpu(&mut self, event: &Event<'_>) {
        let Some(thread) = event.thread else { return };
        if event.process.is_some() {
            let is_own = event.process == Some(self.process);
            let known = self.thread(thread);
            let is_late = known.process.replace(event.process.unwrap_or(thread)).is_none();
            let before_ns = if is_own && is_late { known.ran_ns } else { 0 };
            // Others may be named where this one is not: a tracer may have begun to keep processes after it began to run.
            self.names_processes |= is_own;
            self.unnamed_ns += if thread == self.process { 0 } else { before_ns };
        }
        let there = self.cpus.get(&event.cpu).map(|&(there, _)| there);
        if there.is_some_and(|there| there != thread) {
            // A switch is missing, though nobody says so.
            self.lose(Some(event.cpu), 1);
        }
        if there != Some(thread) {
            self.put_on(event.cpu, thread);
        }
        let now_ns = self.now_ns;
        self.begins.entry(event.cpu).or_insert((now_ns, false));
    }

    fn switch(&mut self, cpu: u32, from: u32, name: &[u8], left: Left, to: u32) {
        let since_ns = self.cpus.remove(&cpu).filter(|&(thread, _)| thread == from).map(|(_, since_ns)| since_ns);
        let now_ns = self.now_ns;
        self.switches += 1;
        if let Some(since_ns) = since_ns {
            self.stay(cpu, from, since_ns, left != Left::Preempted);
        }
        let thread = self.thread(from);
        thread.ran_ns += since_ns.map_or(0, |since_ns| now_ns - since_ns);
        thread.woken_ns = 0;
        thread.waits_ns = if left == Left::Preempted { now_ns } else { 0 };
        thread.cpu = None;
        if thread.name.as_bytes() != name {
            thread.name = shown(name);
        }
        self.ended |= from == self.process && left == Left::Ended;
        self.put_on(cpu, to);
    }

    fn put_on(&mut self, cpu: u32, thread: u32) {
        self.cpus.insert(cpu, (thread, self.now_ns));
        let thread = self.thread(thread);
        thread.cpu = Some(cpu);
        thread.waits_ns = 0;
    }

    /// `thread` was on `cpu` from `since_ns` until now.
    fn stay(&mut self, cpu: u32, thread: u32, since_ns: u64, slept: bool) {
        let known = self.threads.get(&thread);
        let whose = known.and_then(|known| known.process);
        if whose.unwrap_or(thread) != self.process || since_ns >= self.now_ns {
            return;
        }
        let woken_ns = known.map_or(0, |known| known.woken_ns);
        let woken_ns = if woken_ns > self.lost_ns { woken_ns } else { 0 };
        self.begins.entry(cpu).or_insert((since_ns, true)).1 = true;
        self.stints.push(Stint { thread, woken_ns, start_ns: since_ns, end_ns: self.now_ns, slept });
    }

    /// Of a thread that sleeps: the first of sched_waking and sched_wakeup is when it was woken. Who runs or waits is not woken.
    fn wake(&mut self, thread: u32) {
        let (now_ns, lost_ns) = (self.now_ns, self.lost_ns);
        let cpu = self.threads.get(&thread).and_then(|known| known.cpu);
        if cpu.and_then(|cpu| self.cpus.get(&cpu)).is_some_and(|&(running, _)| running == thread) {
            return;
        }
        let known = self.thread(thread);
        if known.woken_ns <= lost_ns && known.waits_ns <= lost_ns {
            known.woken_ns = now_ns;
        }
    }

    /// A thread begins, perhaps with the number of one that has ended.
    fn begin(&mut self, thread: u32) {
        // Not removed: the place of what was removed is not always free again, so the map would grow beyond its bound.
        if let Some(known) = self.threads.get_mut(&thread) {
            *known = Thread::default();
        }
        if thread == self.process {
            self.stints.clear();
            self.sure = 0;
            self.unnamed_ns = 0;
            self.begun_ns = Some(self.now_ns);
            self.ended = false;
        }
        self.wake(thread);
    }

    fn lose(&mut self, cpu: Option<u32>, count: u64) {
        self.lost = self.lost.saturating_add(count);
        self.lost_ns = self.now_ns;
        // ftrace says so before the first event.
        self.is_overwritten |= count > 0 && self.first_ns.is_none();
        match cpu {
            Some(cpu) => {
                self.cpus.remove(&cpu);
            }
            None => self.cpus.clear(),
        }
        self.end_waits();
    }

    /// Who had to leave a CPU before a loss may have had one since, and slept: nobody knows until when it waited. So what it wanted ends there. Looks at each
    /// stint once, however many losses there are.
    fn end_waits(&mut self) {
        let mut later = HashSet::new();
        for stint in self.stints[self.sure..].iter_mut().rev() {
            stint.slept |= later.insert(stint.thread);
        }
        self.sure = self.stints.len();
    }

    fn cannot_read(&mut self) {
        self.broken.get_or_insert(self.lines);
        self.unread += 1;
    }

    /// CPU time of threads that no line says the process of, the idle ones and the process' first one left out.
    fn nobodys_ns(&self) -> u64 {
        let nobodys = |(&thread, known): (&u32, &Thread)| {
            (known.process.is_none() && thread != 0 && thread != self.process).then_some(known.ran_ns)
        };
        self.threads.iter().filter_map(nobodys).sum()
    }

    /// What is known of `thread`. Where there are too many everything is forgotten: the next lines tell it again.
    fn thread(&mut self, thread: u32) -> &mut Thread {
        if self.threads.len() >= THREADS_MOST && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        self.threads.entry(thread).or_default()
    }

    /// Processes that ran most, or threads where no processes are named, and not the idle ones.
    fn busiest(&self) -> Vec<(u32, String)> {
        let mut sums: HashMap<u32, (u64, &str)> = HashMap::new();
        for (&thread, known) in self.threads.iter().filter(|&(&thread, known)| thread > 0 && known.ran_ns > 0) {
            let process = known.process.unwrap_or(thread);
            let (ran_ns, name) = sums.entry(process).or_default();
            *ran_ns += known.ran_ns;
            if name.is_empty() || thread == process {
                *name = &known.name;
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|&(process, (ran_ns, _))| (std::cmp::Reverse(ran_ns), process));
        sums.into_iter().take(BUSIEST).map(|(process, (_, name))| (process, name.to_owned())).collect()
    }
}

fn shown(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(&name[..name.len().min(16)]))
}

#[cfg(test)]
mod tests;
