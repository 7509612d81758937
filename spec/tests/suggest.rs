// SPDX-License-Identifier: GPL-2.0-only
//! What holds for whatever is seen of a program.

use std::time::Duration;

use limelight_spec::suggest::{Stint, Verdict, judge, over};
use limelight_spec::{Kind, tab};
use proptest::prelude::*;

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

proptest! {
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
