// SPDX-License-Identifier: GPL-2.0-only
//! What holds for whatever is seen of a program.

use std::time::Duration;

use limelight_spec::recorded::Recording;
use limelight_spec::suggest::{Stint, Verdict, judge, over};
use limelight_spec::{Kind, tab};
use proptest::prelude::*;

/// What the command leaves out of a process that begins in a recording, in ns.
const START_NS: u64 = 2_000_000_000;

/// Gaps, waits and costs in µs, of a thread, and whether it went to sleep: what the kernel can report, in any order of sizes.
fn stints() -> impl Strategy<Value = Vec<Stint>> {
    let one = (0_u64..200_000, 0_u64..50_000, 0_u64..60_000, 1_u32..4, any::<bool>(), any::<bool>());
    prop::collection::vec(one, 0..300).prop_map(|parts| {
        let mut now_us = 1;
        let mut each = |(gap, wait, cost, thread, is_woken, slept): (u64, u64, u64, u32, bool, bool)| {
            let woken_us = now_us + gap;
            let start_us = woken_us + wait;
            now_us = start_us + if thread == 1 { cost } else { cost / 2 };
            Stint {
                thread,
                woken_ns: if is_woken { woken_us * 1_000 } else { 0 },
                start_ns: start_us * 1_000,
                end_ns: (start_us + cost) * 1_000,
                slept,
            }
        };
        parts.into_iter().map(&mut each).collect()
    })
}

/// Parts of lines of a recording, in any order.
fn nearly_a_line() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("a-7 "),
        Just("  a:b  6/7 "),
        Just("(7) "),
        Just("[000] "),
        Just("[001] "),
        Just("d..2. "),
        Just("1.5: "),
        Just("4.000001: "),
        Just("9999999999.999999999: "),
        Just("sched:"),
        Just("sched_switch: "),
        Just("sched_wakeup_new: "),
        Just("prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> "),
        Just("next_comm=a next_pid=7 next_prio=1"),
        Just("comm=a pid=7 prio=1 target_cpu=000"),
        Just("a:7 [1] "),
        Just("S ==> "),
        Just("a:7 [1]<CANT FIND FIELD success> CPU:000"),
        Just("CPU:0 [LOST 99999999999999999999 EVENTS]"),
        Just("PERF_RECORD_LOST lost 18446744073709551615"),
        Just("\u{e9}"),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// A switch of threads 6 to 8 to each other on one of two CPUs, at any time.
fn switch() -> impl Strategy<Value = String> {
    (6_u32..9, 6_u32..9, 0_u32..2, 0_u32..40_000, prop_oneof![Just("S"), Just("R"), Just("Z")]).prop_map(
        |(from, to, cpu, ms, state)| {
            format!(
                "a-{from} (7) [{cpu:03}] {}.{:03}: sched_switch: a:{from} [1] {state} ==> a:{to} [1]",
                ms / 1_000,
                ms % 1_000
            )
        },
    )
}

/// Process 7 begins.
fn begin() -> impl Strategy<Value = String> {
    (0_u32..40_000, 0_u32..2).prop_map(|(ms, cpu)| {
        format!(
            "a-6 (6) [{cpu:03}] {}.{:03}: sched_wakeup_new: comm=a pid=7 prio=1 target_cpu=000",
            ms / 1_000,
            ms % 1_000
        )
    })
}

proptest! {
    /// No text makes the reading of a recording fail, and what is found in it can be judged: each stint has an end after its begin, in the recording.
    #[test]
    fn any_recording_is_survived(lines in prop::collection::vec(prop_oneof![nearly_a_line(), switch(), begin(), any::<String>()], 0..60)) {
        let mut recording = Recording::of(7);
        for line in &lines {
            recording.take(line.as_bytes());
        }
        if let Ok(recorded) = recording.end() {
            let from_ns = recorded.from_ns + if recorded.has_begin { START_NS } else { 0 };
            let _ = judge(&recorded.stints, from_ns, recorded.to_ns);
            for stint in &recorded.stints {
                prop_assert!(stint.start_ns < stint.end_ns && stint.end_ns <= recorded.to_ns, "{recorded:?}");
            }
        }
    }

    /// What is found can be written into a file and read again, and C does not exceed what was ever taken in a T by more than the margin; the
    /// work in the windows is the work that was done.
    #[test]
    fn a_finding_is_a_specification(stints in stints(), from_ms in 0_u64..5_000, length_ms in 0_u64..40_000) {
        let (from_ns, to_ns) = (from_ms * 1_000_000, (from_ms + length_ms) * 1_000_000);
        if let Verdict::Found(finding) = judge(&stints, from_ns, to_ns) {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let line = format!("/x:Iact:{}:{}:R:-:-", ms(finding.runtime), ms(finding.period));
            let read = tab::parse("x.tab".as_ref(), line.as_bytes());
            prop_assert_eq!(read.complaints, vec![]);
            prop_assert_eq!(read.specs[0].kind, Kind::Interactive);
            let most = finding.peak * 11 / 10 + Duration::from_micros(100);
            prop_assert!(finding.runtime <= most.max(Duration::from_micros(100)), "{finding:?}");
            let again = over(&stints, from_ns, to_ns, finding.peak, finding.period);
            prop_assert!(again.over == 0 && again.windows <= finding.windows as u64);
        }
    }

    /// Times that make no sense do not make it fail.
    #[test]
    fn nonsense_is_survived(times in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>()), 0..50), to in any::<u32>()) {
        let each = |&(woken, start, end, slept): &(u32, u32, u32, bool)| Stint {
            thread: 1, woken_ns: woken.into(), start_ns: start.into(), end_ns: end.into(), slept,
        };
        let stints: Vec<Stint> = times.iter().map(each).collect();
        let _ = judge(&stints, 0, to.into());
    }
}
