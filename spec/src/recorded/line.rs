// SPDX-License-Identifier: GPL-2.0-only
//! One line of a recording: `WHO [CPU] SECONDS: EVENT: WHAT`, as perf, trace-cmd and ftrace print it.
//!
//! A command's name is its owner's choice, up to 15 bytes of anything, those that look like a part of the line included. What stands around it is
//! longer than that each time, so of the places where a name could end the first one from which on the line makes sense is the right one.

/// Bytes of a command's name, at most (`TASK_COMM_LEN` less the zero at its end).
const NAME_MOST: usize = 15;
/// CPUs that a kernel can be built for.
const CPUS_MOST: u32 = 8_192;
/// Digits of the seconds of a time; with so many it fits into 64 bits of ns.
const SECONDS_DIGITS: usize = 10;

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An event of the scheduler's.
    Event(Event<'a>),
    /// So many events are missing here, of this CPU if it says so.
    Lost(Option<u32>, u64),
    /// It names such an event, but makes no sense. On this CPU another thread may be now, if it says so.
    Broken(Option<u32>),
    /// Something else.
    Other,
}

/// An event, and who was on its CPU.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    pub cpu: u32,
    pub time_ns: u64,
    pub thread: Option<u32>,
    pub process: Option<u32>,
    pub what: What<'a>,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// The CPU went from one thread to another.
    Switch { from: u32, name: &'a [u8], left: Left, to: u32 },
    /// A thread was woken.
    Woken(u32),
    /// A thread was woken for the first time.
    New(u32),
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It wanted to run on.
    Preempted,
    /// It sleeps.
    Asleep,
    /// It has ended.
    Ended,
}

/// What `line`, without its newline, says.
pub fn read(line: &[u8]) -> Line<'_> {
    if let Some((cpu, lost)) = lost(line) {
        return Line::Lost(cpu, lost);
    }
    let mut other = Line::Other;
    for at in places(line, b"sched_").filter(|_| !line.starts_with(b"#")) {
        let Some(colon) = line[at..].iter().position(|&byte| byte == b':') else { break };
        let before = line[..at].strip_suffix(b"sched:").unwrap_or(&line[..at]);
        let (name, rest) = (&line[at..at + colon], line[at + colon + 1..].trim_ascii());
        if !before.last().is_some_and(u8::is_ascii_whitespace) {
            continue;
        }
        let read: fn(&[u8]) -> Option<What<'_>> = match name {
            b"sched_switch" => switch,
            b"sched_wakeup" | b"sched_waking" => |rest| woken(rest).map(What::Woken),
            b"sched_wakeup_new" => |rest| woken(rest).map(What::New),
            // The event of this line is another one, whatever stands around it. A command's name may end in the same letters; what follows it is none.
            _ if is_event(name) && head(before).is_some() => return Line::Other,
            _ => continue,
        };
        let head = head(before);
        let cpu = head.as_ref().map(|head| head.cpu).filter(|_| name == b"sched_switch");
        if let (Some(head), Some(what)) = (head, read(rest)) {
            let Head { cpu, time_ns, thread, process } = head;
            return Line::Event(Event { cpu, time_ns, thread, process, what });
        }
        if !matches!(other, Line::Broken(Some(_))) {
            other = Line::Broken(cpu);
        }
    }
    other
}

fn is_event(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// `CPU:2 [LOST 5 EVENTS]` of ftrace, `CPU:2 [5 EVENTS DROPPED]` of trace-cmd, either without a number where nobody counted; `PERF_RECORD_LOST lost 5`
/// of perf; and the head of ftrace's file, which counts what was overwritten.
fn lost(line: &[u8]) -> Option<(Option<u32>, u64)> {
    let line = line.trim_ascii();
    if let Some(counts) = line.strip_prefix(b"# entries-in-buffer/entries-written: ") {
        let (kept, rest) = digits(counts)?;
        let (written, _) = digits(rest.strip_prefix(b"/")?)?;
        return (written > kept).then(|| (None, written - kept));
    }
    // A file that a program names may have the same name: before that stands no time.
    if let Some(at) = places(line, b"PERF_RECORD_LOST").find(|&at| head(&line[..at]).is_some()) {
        let words = line[at..].split(u8::is_ascii_whitespace);
        return Some((None, words.filter_map(whole).next().unwrap_or(1)));
    }
    let (cpu, rest) = digits(line.strip_prefix(b"CPU:")?)?;
    let what = rest.strip_prefix(b" [")?.strip_suffix(b"]")?;
    let count = match (what.strip_prefix(b"LOST "), what.strip_suffix(b"EVENTS DROPPED")) {
        (Some(count), None) => count.strip_suffix(b"EVENTS")?,
        (None, Some(count)) => count,
        _ => return None,
    };
    let count = count.trim_ascii();
    Some((u32::try_from(cpu).ok(), if count.is_empty() { 1 } else { whole(count)? }))
}

struct Head {
    cpu: u32,
    time_ns: u64,
    thread: Option<u32>,
    process: Option<u32>,
}

/// What stands before the event, read from its end: `NAME-TID (TGID) [CPU] FLAGS SECONDS:` of ftrace and trace-cmd, or `NAME PID/TID [CPU] SECONDS:` of perf,
/// where TGID, FLAGS and PID need not be there, and perf may show how many such events a line stands for.
fn head(text: &[u8]) -> Option<Head> {
    let (mut rest, mut word) = last_word(text)?;
    if !word.ends_with(b":") {
        whole(word)?;
        (rest, word) = last_word(rest)?;
    }
    let time_ns = time(word.strip_suffix(b":")?)?;
    (rest, word) = last_word(rest)?;
    if cpu(word).is_none() {
        (rest, word) = last_word(rest)?;
    }
    let cpu = cpu(word)?;
    rest = rest.trim_ascii_end();
    let mut process = None;
    if let Some(inside) = rest.strip_suffix(b")") {
        let open = inside.iter().rposition(|&byte| byte == b'(')?;
        process = number(inside[open + 1..].trim_ascii());
        rest = inside[..open].trim_ascii_end();
    }
    // perf knows nothing any more of who has ended.
    let nobody = rest.ends_with(b" -1") || rest.ends_with(b"/-1");
    let (before, thread) = last_digits(rest);
    if before.ends_with(b"/") {
        process = number(last_digits(&before[..before.len() - 1]).1);
    }
    Some(Head { cpu, time_ns, thread: number(thread).filter(|_| !nobody), process })
}

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`, or `a:1 [120] S ==> b:2 [120]`.
fn switch(text: &[u8]) -> Option<What<'_>> {
    raw_switch(text).or_else(|| plugin_switch(text))
}

fn raw_switch(text: &[u8]) -> Option<What<'_>> {
    let text = text.strip_prefix(b"prev_comm=")?;
    let (name, [from, _, state], rest) =
        named(text, [b" prev_pid=", b" prev_prio=", b" prev_state="], b" ==> next_comm=")?;
    let (_, [to, _], _) = named(rest, [b" next_pid=", b" next_prio="], b"")?;
    Some(What::Switch { from: number(from)?, name, left: left(state)?, to: number(to)? })
}

fn plugin_switch(text: &[u8]) -> Option<What<'_>> {
    places(text, b" ==> ").find_map(|at| {
        let (before, state) = last_word(&text[..at])?;
        let (name, from) = plugin(before.trim_ascii_end())?;
        let (_, to) = plugin(&text[at + b" ==> ".len()..])?;
        Some(What::Switch { from, name, left: left(state)?, to })
    })
}

/// `comm=a pid=1 prio=120 target_cpu=000`, with ` success=1` of old kernels, or `a:1 [120] success=1 CPU:000`, where a plugin may say that it misses that.
fn woken(text: &[u8]) -> Option<u32> {
    raw_woken(text).or_else(|| plugin_woken(text))
}

fn raw_woken(text: &[u8]) -> Option<u32> {
    let text = text.strip_prefix(b"comm=")?;
    let ends: [&[u8]; 2] = [b" target_cpu=", b" success="];
    ends.into_iter().find_map(|end| number(named(text, [b" pid=", b" prio="], end)?.1[0]))
}

fn plugin_woken(text: &[u8]) -> Option<u32> {
    let before = match last_word(text) {
        Some((before, word)) if word.starts_with(b"CPU:") => before.trim_ascii_end(),
        _ => text,
    };
    let before = before.strip_suffix(b"<CANT FIND FIELD success>").unwrap_or(before);
    let before = match last_word(before) {
        Some((before, word)) if word.starts_with(b"success=") => before.trim_ascii_end(),
        _ => before,
    };
    Some(plugin(before)?.1)
}

/// A name, the words behind the labels that follow it, and the rest.
type Named<'a, const N: usize> = (&'a [u8], [&'a [u8]; N], &'a [u8]);

/// A name, the words behind `labels`, and what comes after `end`, which follows the last of them. All of that is longer than a name.
fn named<'a, const N: usize>(text: &'a [u8], labels: [&[u8]; N], end: &[u8]) -> Option<Named<'a, N>> {
    places(text, labels[0]).find_map(|at| {
        let (mut rest, mut values) = (&text[at..], [&text[..0]; N]);
        for (label, value) in labels.iter().zip(&mut values) {
            let word = rest.strip_prefix(*label)?;
            let length = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
            (*value, rest) = word.split_at(length);
        }
        number(values[0])?;
        Some((&text[..at], values, rest.strip_prefix(end)?))
    })
}

/// `NAME:TID [PRIORITY]`.
fn plugin(text: &[u8]) -> Option<(&[u8], u32)> {
    let (before, priority) = last_word(text)?;
    number(priority.strip_prefix(b"[")?.strip_suffix(b"]")?)?;
    let (name, thread) = last_digits(before.trim_ascii_end());
    let name = name.strip_suffix(b":").filter(|name| name.len() <= NAME_MOST)?;
    Some((name, number(thread)?))
}

/// R, or R+ of who was preempted; X and Z of who has ended; other letters of who sleeps.
fn left(state: &[u8]) -> Option<Left> {
    match state {
        [] => None,
        [b'R', ..] | [.., b'+'] | b"0" => Some(Left::Preempted),
        [b'X' | b'Z' | b'x', ..] => Some(Left::Ended),
        _ => Some(Left::Asleep),
    }
}

/// `[003]`.
fn cpu(word: &[u8]) -> Option<u32> {
    number(word.strip_prefix(b"[")?.strip_suffix(b"]")?).filter(|&cpu| cpu < CPUS_MOST)
}

/// Seconds, with a point, in ns.
fn time(word: &[u8]) -> Option<u64> {
    let point = word.iter().position(|&byte| byte == b'.')?;
    let (seconds, parts) = (&word[..point], &word[point + 1..]);
    if seconds.len() > SECONDS_DIGITS || parts.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(parts.len()).ok()?);
    Some(whole(seconds)? * 1_000_000_000 + whole(parts)? * scale)
}

/// What comes before the last word, and that.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let begin = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    (begin < text.len()).then(|| text.split_at(begin))
}

fn last_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let begin = text.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    text.split_at(begin)
}

/// The number that `text` begins with, and what comes after it.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((whole(&text[..end])?, &text[end..]))
}

fn number(word: &[u8]) -> Option<u32> {
    u32::try_from(whole(word)?).ok()
}

/// All of `word` as a number, without a sign.
fn whole(word: &[u8]) -> Option<u64> {
    if !word.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Where `what` is in `text`, each time.
fn places<'a>(text: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    text.windows(what.len()).enumerate().filter(move |(_, there)| *there == what).map(|(at, _)| at)
}
