// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::suggest::{Verdict, judge};

const MS: u64 = 1_000_000;

/// How a tool prints the same events.
struct Form {
    tool: &'static str,
    names_processes: bool,
    head: fn(&str, u32, u32, u64) -> String,
    is_raw: bool,
}

fn seconds(ns: u64, digits: usize) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text[..text.len() - (9 - digits)].to_owned()
}

/// perf script with and without -F +pid, and --ns; trace-cmd report, old and new; ftrace's trace with and without record-tgid.
const FORMS: [Form; 7] = [
    Form {
        tool: "perf script",
        names_processes: false,
        head: |name, _, tid, ns| format!("{name:>16} {tid:>7} [001] {}: sched:", seconds(ns, 6)),
        is_raw: true,
    },
    Form {
        tool: "perf script with plugins",
        names_processes: false,
        head: |name, _, tid, ns| format!("{name:>16} {tid:>5} [001] {}:          1 sched:", seconds(ns, 6)),
        is_raw: false,
    },
    Form {
        tool: "perf script -F +pid --ns",
        names_processes: true,
        head: |name, pid, tid, ns| format!("{name:>16} {pid:>7}/{tid:<7} [001] {}:    sched:", seconds(ns, 9)),
        is_raw: true,
    },
    Form {
        tool: "trace-cmd report",
        names_processes: false,
        head: |name, _, tid, ns| format!("{:>22}  [001]  {}: ", format!("{name}-{tid}"), seconds(ns, 6)),
        is_raw: false,
    },
    Form {
        tool: "trace-cmd report, new",
        names_processes: false,
        head: |name, _, tid, ns| format!("{:>22}  [001] dNh2.  {}: ", format!("{name}-{tid}"), seconds(ns, 9)),
        is_raw: true,
    },
    Form {
        tool: "ftrace",
        names_processes: false,
        head: |name, _, tid, ns| format!("{name:>16}-{tid:<7} [001] d..2. {}: ", seconds(ns, 6)),
        is_raw: true,
    },
    Form {
        tool: "ftrace, record-tgid",
        names_processes: true,
        head: |name, pid, tid, ns| {
            let tgid = if pid == 0 { "-------".to_owned() } else { format!("{pid:>7}") };
            format!("{name:>16}-{tid:<7} ({tgid}) [001] d..2. {}: ", seconds(ns, 6))
        },
        is_raw: true,
    },
];

/// Process 70, of threads 70 and 71, and process 80 that preempts. Every 40 ms 70 is woken, waits for 1 ms, works for 1, waits for 2 of 80's and works for
/// 4 more; 71, woken meanwhile, works for 1 after it. So for `count` times, from 100 s on.
fn film(form: &Form, name: &str, count: u64) -> Vec<String> {
    let mut lines = vec!["# tracer: nop".to_owned(), "cpus=2".to_owned(), String::new()];
    let idle = ("swapper/1", 0, 0);
    let (first, second, other) = ((name, 70, 70), (name, 70, 71), ("kworker/u8:1-ev", 80, 80));
    let mut event = |at_ns: u64, on: (&str, u32, u32), what: String| {
        lines.push((form.head)(on.0, on.1, on.2, 100_000 * MS + at_ns) + &what);
    };
    let switch = |from: (&str, u32, u32), state: &str, to: (&str, u32, u32)| {
        if form.is_raw {
            format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
                from.0, from.2, to.0, to.2
            )
        } else {
            format!("sched_switch:         {}:{} [120] {state} ==> {}:{} [120]", from.0, from.2, to.0, to.2)
        }
    };
    let wake = |event: &str, who: (&str, u32, u32), plugin: bool| {
        if plugin {
            format!("{event}:         {}:{} [120]<CANT FIND FIELD success> CPU:001", who.0, who.2)
        } else {
            format!("{event}: comm={} pid={} prio=120 target_cpu=001", who.0, who.2)
        }
    };
    for n in 1..=count {
        let at = n * 40 * MS;
        event(at, idle, wake("sched_waking", first, false));
        event(at + 1_000, idle, wake("sched_wakeup", first, !form.is_raw));
        event(at + MS, idle, switch(idle, "R", first));
        event(at + 2 * MS, first, switch(first, "R+", other));
        event(at + 4 * MS, other, switch(other, "I", first));
        event(at + 5 * MS, first, wake("sched_wakeup", second, !form.is_raw));
        event(at + 8 * MS, first, switch(first, "S", second));
        event(at + 8 * MS + 1_000, second, "sched_stat_runtime: comm=x pid=71 runtime=1 [ns]".to_owned());
        event(at + 9 * MS, second, switch(second, "D|K", idle));
    }
    lines
}

fn recorded(lines: &[String], process: u32) -> Result<Recorded, Missing> {
    let mut recording = Recording::of(process);
    assert!(lines.iter().all(|line| recording.take(line.as_bytes())));
    recording.end()
}

/// Whatever tool prints it, and whatever the program calls itself, what comes out is when its threads ran, what for, and how they left; of a
/// recording that does not name processes, of the first thread.
#[test]
fn every_form_says_the_same() {
    for form in &FORMS {
        for name in [
            "film",
            "",
            "a b: [1] ==> c-2",
            "x:1 [1] S ==> y",
            "a prev_pid=1 ==",
            "a pid=1 prio=2",
            "sched_switch: ",
            "comm=[0] 1.2: z",
            "[0] 1.1: sched_",
        ] {
            let name = &name[..name.len().min(15)];
            let text = film(form, name, 1);
            let recorded =
                recorded(&text, 70).unwrap_or_else(|error| panic!("{}, {name:?}: {error}\n{text:#?}", form.tool));
            let begin = 100_040 * MS;
            let stint = |thread, woken_ns, start_ns, end_ns, slept| Stint {
                thread,
                woken_ns,
                start_ns: begin + start_ns,
                end_ns: begin + end_ns,
                slept,
            };
            let mut expected = vec![stint(70, begin, MS, 2 * MS, false), stint(70, 0, 4 * MS, 8 * MS, true)];
            if form.names_processes {
                expected.push(stint(71, begin + 5 * MS, 8 * MS, 9 * MS, true));
            }
            assert_eq!(recorded.stints, expected, "{}, {name:?}: {text:#?}", form.tool);
            assert_eq!(
                (recorded.names_processes, recorded.lost, recorded.unread),
                (form.names_processes, 0, 0),
                "{}, {name:?}",
                form.tool
            );
            assert_eq!((recorded.from_ns, recorded.to_ns), (begin, begin + 9 * MS), "{}", form.tool);
        }
    }
}

/// Of 20 s the figures come out: T of 40 ms, and C of 6 ms and a tenth, what was preempted and waited for left out.
#[test]
fn figures_come_out() {
    for form in FORMS.iter().filter(|form| form.names_processes) {
        let recorded = recorded(&film(form, "film", 500), 70).unwrap();
        let Verdict::Found(finding) = judge(&recorded.stints, recorded.from_ns, recorded.to_ns) else {
            panic!("{}", form.tool)
        };
        assert_eq!((finding.period.as_millis(), finding.runtime.as_micros()), (40, 6_600), "{finding:?}");
    }
}

const HEAD: &str = "a-1 [000] ";

fn read(lines: &[&str], process: u32) -> Result<Recorded, Missing> {
    recorded(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>(), process)
}

/// Old kernels' wake-ups, and states that only some kernels have.
#[test]
fn other_spellings_are_read() {
    let event = |what: &str| format!("{HEAD}1.5: {what}");
    for (text, expected) in [
        ("sched_wakeup: comm=b pid=7 prio=120 success=1 target_cpu=000", What::Woken(7)),
        ("sched_wakeup: b:7 [120] success=1 CPU:000", What::Woken(7)),
        ("sched_wakeup: b:7 [120] CPU:000", What::Woken(7)),
        ("sched_wakeup_new: b:7 [120] success=1 CPU:000", What::New(7)),
        ("sched_switch: a:1 [120] 0 ==> b:7 [9]", What::Switch { from: 1, name: b"a", left: Left::Preempted, to: 7 }),
        ("sched_switch: a:1 [120] X|Z ==> b:7 [9]", What::Switch { from: 1, name: b"a", left: Left::Ended, to: 7 }),
        ("sched_switch: a:1 [120] t ==> b:7 [9]", What::Switch { from: 1, name: b"a", left: Left::Asleep, to: 7 }),
    ] {
        let line = event(text);
        match line::read(line.as_bytes()) {
            Line::Event(Event { cpu: 0, time_ns: 1_500_000_000, thread: Some(1), process: None, what }) => {
                assert_eq!(what, expected)
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for broken in [
        "sched_switch: (__probe+0x4/0x10) preempt=0",
        "sched_switch: a:1 [120] S ==> b:99999999999 [120]",
        "sched_switch: a:1 [120] S",
        "sched_wakeup: comm=b pid=7",
    ] {
        assert_eq!(
            line::read(event(broken).as_bytes()),
            Line::Broken(Some(0).filter(|_| broken.contains("switch"))),
            "{broken}"
        );
    }
    for head in ["a-1 [000] 15: ", "a-1 1.5: ", "a-1 [9999] 1.5: ", "a-1 [000] 99999999999.5: "] {
        assert_eq!(
            line::read(format!("{head}sched_switch: a:1 [1] S ==> b:2 [1]").as_bytes()),
            Line::Broken(None),
            "{head}"
        );
    }
    for other in [
        "",
        "# sched_switch: x",
        "  ffffffff81 __sched_text+0x1 ([kernel])",
        "a-1 [000] 1.5: sched_migrate_task: comm=b pid=1",
    ] {
        assert_eq!(line::read(other.as_bytes()), Line::Other, "{other}");
    }
}

/// What is missing is counted, in each tool's words, and what was under way there is not known any more.
#[test]
fn losses_are_counted() {
    for (text, expected) in [
        ("CPU:2 [LOST 123 EVENTS]", Line::Lost(Some(2), 123)),
        ("CPU:2 [LOST EVENTS]", Line::Lost(Some(2), 1)),
        ("CPU:7 [204600 EVENTS DROPPED]", Line::Lost(Some(7), 204_600)),
        ("CPU:7 [EVENTS DROPPED]", Line::Lost(Some(7), 1)),
        ("  a  1 [000] 1.5: PERF_RECORD_LOST lost 9", Line::Lost(None, 9)),
        ("# entries-in-buffer/entries-written: 140080/250280   #P:4", Line::Lost(None, 110_200)),
        ("# entries-in-buffer/entries-written: 5/5   #P:4", Line::Other),
        ("  a  1 [000] 1.5: sched:sched_process_exec: filename=/tmp/PERF_RECORD_LOST pid=1", Line::Other),
    ] {
        assert_eq!(line::read(text.as_bytes()), expected, "{text}");
    }
    let lines = [
        "a-1 [000] 1.0: sched_switch: a:1 [1] S ==> b:7 [1]",
        "CPU:0 [LOST 3 EVENTS]",
        "b-7 [000] 9.0: sched_switch: b:7 [1] S ==> a:1 [1]",
        "a-1 [000] 9.1: sched_switch: a:1 [1] S ==> b:7 [1]",
        "b-7 [000] 9.2: sched_switch: b:7 [1] S ==> a:1 [1]",
    ];
    let with = read(&lines, 7).unwrap();
    assert_eq!((with.lost, with.stints.len(), with.stints[0].start_ns), (3, 1, 9_100 * MS));
    assert_eq!(read(&[&lines[..1], &lines[2..]].concat(), 7).unwrap().stints[0].start_ns, 1_000 * MS);
}

/// Who was preempted before a loss is not believed to wait all through it, on whichever CPU it was and however many losses are told; what is known of
/// waits before it stays.
#[test]
fn no_wait_lasts_through_a_loss() {
    for loss in ["CPU:0 [LOST 3 EVENTS]", "CPU:3 [EVENTS DROPPED]", "  b  7/7 [000] 8.9: PERF_RECORD_LOST lost 9"] {
        let lines = [
            "a-1 [000] 0.8: sched_switch: a:1 [1] S ==> b:7 [1]",
            "b-7 [000] 0.9: sched_switch: b:7 [1] R ==> a:1 [1]",
            "a-1 [000] 0.95: sched_switch: a:1 [1] S ==> b:7 [1]",
            "b-7 [000] 1.0: sched_switch: b:7 [1] R ==> a:1 [1]",
            loss,
            loss,
            "a-1 [000] 9.0: sched_switch: a:1 [1] S ==> b:7 [1]",
            "b-7 [000] 9.1: sched_switch: b:7 [1] S ==> a:1 [1]",
        ];
        let recorded = read(&lines, 7).unwrap();
        assert_eq!(recorded.stints.iter().map(|stint| stint.slept).collect::<Vec<_>>(), [false, true, true], "{loss}");
        let Verdict::TooLittle(seen) = judge(&recorded.stints, recorded.from_ns, recorded.to_ns) else {
            panic!("{loss}")
        };
        let wanted_ms = seen.wanted * seen.watched.as_secs_f64() * 1e3;
        assert!((wanted_ms - 300.0).abs() < 1.0, "{loss}: {wanted_ms}");
    }
}

/// Whom an unreadable switch put on a CPU is not the process, nor whom the next line names there without one: their time is not its own.
#[test]
fn time_of_others_is_not_its_own() {
    let broken = [
        "b-7 [000] 2.0: sched_switch: prev_comm=b prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=c",
        "d next_pid=8 next_prio=1",
    ];
    let silent = ["c-8 [000] 2.0: sched_wakeup: e:9 [1] CPU:001", ""];
    for (middle, told) in [(broken, (0, 1)), (silent, (2, 0))] {
        let lines = [
            "a-1 [000] 1.0: sched_switch: a:1 [1] S ==> b:7 [1]",
            "b-7 [000] 1.1: sched_switch: b:7 [1] S ==> a:1 [1]",
            "a-1 [000] 1.2: sched_switch: a:1 [1] S ==> b:7 [1]",
            middle[0],
            middle[1],
            "b-7 [000] 9.0: sched_switch: b:7 [1] S ==> a:1 [1]",
        ];
        let recorded = read(&lines, 7).unwrap();
        assert_eq!((recorded.stints.len(), (recorded.lost, recorded.unread)), (1, told), "{middle:?}: {recorded:?}");
    }
}

/// A buffer that was overwritten begins where the CPUs do on which the process ran, not where a quiet one does; any other one with its first event. One of
/// which no switch can be read is of no form that is known.
#[test]
fn an_overwritten_buffer_begins_late() {
    let lines = [
        "# entries-in-buffer/entries-written: 5/9   #P:2",
        "a-1 [001] 1.0: sched_wakeup: x:9 [1] CPU:001",
        "a-1 [000] 5.0: sched_switch: a:1 [1] S ==> b:7 [1]",
        "b-7 [000] 6.0: sched_switch: b:7 [1] S ==> a:1 [1]",
    ];
    assert_eq!(read(&lines, 7).unwrap().from_ns, 5_000 * MS);
    assert_eq!(read(&lines[1..], 7).unwrap().from_ns, 1_000 * MS);
    let odd = [lines[1], "a-1 [000] 5.0: sched_switch: what"];
    assert_eq!(read(&odd, 7), Err(Missing::Form(2)));
}

/// That other processes are named says nothing of this one's threads; what ran while nobody said whose it was is counted, until it is known to be another's.
#[test]
fn what_is_nobodys_is_told() {
    let lines = [
        "a-1 (1) [000] 1.0: sched_switch: a:1 [1] S ==> b:7 [1]",
        "b-7 (-------) [000] 2.0: sched_switch: b:7 [1] S ==> c:8 [1]",
        "c-8 (-------) [000] 4.0: sched_switch: c:8 [1] S ==> swapper/0:0 [1]",
        "<idle>-0 (-------) [000] 8.0: sched_switch: swapper/0:0 [1] R ==> b:7 [1]",
        ":-1 -1/-1 [000] 8.1: sched_wakeup: d:9 [1] CPU:000",
        "b-7 (-------) [000] 9.0: sched_switch: b:7 [1] S ==> c:8 [1]",
    ];
    let recorded = read(&lines, 7).unwrap();
    assert_eq!((recorded.names_processes, recorded.unnamed_ns), (false, 2_000 * MS), "{recorded:?}");
    for (whose, names, unnamed_ms) in [("7", true, 2_000), ("5", false, 0)] {
        let late = format!("c-8 ({whose}) [000] 9.5: sched_switch: c:8 [1] S ==> b:7 [1]");
        let recorded = read(&[&lines[..], &[late.as_str()]].concat(), 7).unwrap();
        assert_eq!((recorded.names_processes, recorded.unnamed_ns), (names, unnamed_ms * MS), "{whose}: {recorded:?}");
    }
    let named = "b-7 (7) [000] 9.0: sched_switch: b:7 [1] S ==> c:8 [1]";
    let recorded = read(&[&lines[..5], &[named]].concat(), 7).unwrap();
    assert_eq!((recorded.names_processes, recorded.unnamed_ns), (true, 2_000 * MS), "{recorded:?}");
}

/// Who ran before the first event and after the last one is seen for as long as it is known.
#[test]
fn what_never_leaves_is_seen() {
    let lines = [
        "b-7 [000] 1.0: sched_wakeup: c:8 [1] CPU:001",
        "b-7 [000] 5.0: sched_switch: b:7 [1] R ==> c:8 [1]",
        "c-8 [000] 6.0: sched_switch: c:8 [1] S ==> b:7 [1]",
        "b-7 [000] 9.0: sched_wakeup: c:8 [1] CPU:001",
    ];
    let stints: Vec<_> = read(&lines, 7)
        .unwrap()
        .stints
        .iter()
        .map(|stint| (stint.start_ns / MS, stint.end_ns / MS, stint.slept))
        .collect();
    assert_eq!(stints, [(1_000, 5_000, false), (6_000, 9_000, false)]);
}

/// The begin and the end of the process are its own, where they are in the recording, and not those of who had its number before.
#[test]
fn begin_and_end_are_the_process_own() {
    let lines = [
        "x-7 [000] 1.0: sched_switch: x:7 [1] S ==> a:1 [1]",
        "a-1 [000] 1.5: sched_switch: a:1 [1] S ==> x:7 [1]",
        "x-7 [000] 2.0: sched_switch: x:7 [1] Z ==> a:1 [1]",
        "a-1 [000] 3.0: sched_wakeup_new: comm=b pid=7 prio=120 target_cpu=000",
        "a-1 [000] 4.0: sched_switch: a:1 [1] S ==> b:7 [1]",
        "b-7 [000] 5.0: sched_switch: b:7 [1] X ==> a:1 [1]",
        "a-1 [000] 9.0: sched_switch: a:1 [1] S ==> c:8 [1]",
    ];
    let recorded = read(&lines, 7).unwrap();
    assert_eq!((recorded.from_ns, recorded.to_ns, recorded.has_begin), (3_000 * MS, 5_000 * MS, true));
    assert_eq!((recorded.stints.len(), recorded.stints[0].woken_ns), (1, 3_000 * MS));
    let recorded = read(&lines, 1).unwrap();
    assert_eq!((recorded.from_ns, recorded.to_ns, recorded.has_begin), (1_000 * MS, 9_000 * MS, false));
}

/// Why nothing came out is said, with the line, and with whom to ask for instead.
#[test]
fn what_is_missing_is_named() {
    assert_eq!(read(&["hello", ""], 7), Err(Missing::Events));
    assert_eq!(read(&["hello", "a-1 [000] 15: sched_switch: a:1 [1] S ==> b:7 [1]"], 7), Err(Missing::Form(2)));
    let switches = [
        "a-1 (5) [000] 1.0: sched_switch: a:1 [1] S ==> b:7 [1]",
        "b-7 (6) [000] 3.0: sched_switch: b:7 [1] S ==> a:1 [1]",
        "a-1 (5) [000] 4.0: sched_switch: prev_comm=\u{1b}[2J prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=b next_pid=7 next_prio=1",
    ];
    let busiest = vec![(6, "b".to_owned()), (5, "?[2J".to_owned())];
    let missing = read(&switches, 9).unwrap_err();
    assert_eq!(missing, Missing::Process { process: 9, busiest, missing: 0 });
    assert!(missing.to_string().contains("ran most: 6 (b), 5 (?[2J)"), "{missing}");
    assert_eq!(read(&switches, 7), Err(Missing::Thread { thread: 7, process: 6 }));
    assert!(read(&switches[..1], 9).unwrap_err().to_string().contains("Nobody did"));
}

/// A recording that goes back in time, or on for more than an hour, is used as far as it goes.
#[test]
fn times_that_make_no_sense_are_left_out() {
    let at =
        |time: &str, from: u32, to: u32| format!("a-{from} [000] {time}: sched_switch: a:{from} [1] S ==> a:{to} [1]");
    let lines = [at("100.0", 1, 7), at("101.0", 7, 1), at("5.0", 1, 7), at("102.0", 1, 7), at("103.0", 7, 1)];
    let recorded = recorded(&lines, 7).unwrap();
    assert_eq!((recorded.stints.len(), recorded.lost, recorded.unread, recorded.broken), (2, 0, 1, Some(3)));
    let mut recording = Recording::of(7);
    assert!(lines.iter().all(|line| recording.take(line.as_bytes())));
    assert!(!recording.take(at("9999999999.9", 1, 7).as_bytes()));
    let early = [at("0.5", 2, 3), at("9000.0", 1, 7), at("9001.0", 7, 1)];
    let after = self::recorded(&early, 7).unwrap();
    assert_eq!((after.stints.len(), after.from_ns, after.is_cut), (1, 9_000_000 * MS, false));
    let recorded = recording.end().unwrap();
    assert!(recorded.is_cut && recorded.to_ns == 103_000 * MS, "{recorded:?}");
}

/// More threads than are remembered do not take more room, and what comes after them is seen.
#[test]
fn many_threads_are_bounded() {
    let mut recording = Recording::of(7);
    for thread in 0..u32::try_from(THREADS_MOST * 2).unwrap() {
        recording.take(format!("a-1 [000] 1.0: sched_wakeup: x:{} [1] CPU:000", thread + 10).as_bytes());
        assert!(recording.threads.len() <= THREADS_MOST);
        if thread % 3 == 0 {
            recording.take(format!("a-1 [000] 1.0: sched_wakeup_new: x:{} [1] CPU:000", thread + 10).as_bytes());
        }
    }
    // The room that the constant's comment tells: 72 bytes for each place, and one.
    assert_eq!((recording.threads.capacity(), size_of::<(u32, Thread)>()), (THREADS_MOST, 72));
    recording.take(b"a-1 (1) [000] 1.0: sched_switch: a:1 [1] S ==> b:8 [1]");
    recording.take(b"b-8 (7) [000] 2.0: sched_switch: b:8 [1] S ==> a:1 [1]");
    assert_eq!(recording.end().unwrap().stints.len(), 1);
}
