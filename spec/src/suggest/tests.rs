// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const MS: u64 = 1_000_000;

/// Pseudo-random numbers below `below`, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn stint(thread: u32, woken_ns: u64, wait_ns: u64, cost_ns: u64) -> Stint {
    let start_ns = woken_ns + wait_ns;
    Stint { thread, woken_ns, start_ns, end_ns: start_ns + cost_ns, slept: true }
}

/// A thread that takes `cost_us` every `period_us` for 20 s, each up to `jitter_us` late.
fn periodic(thread: u32, cost_us: u64, period_us: u64, jitter_us: u64) -> Vec<Stint> {
    let mut dice = Dice(1);
    let each = |n: u64| stint(thread, n * period_us * 1_000 + dice.roll(jitter_us.max(1)) * 1_000, 0, cost_us * 1_000);
    (1..20_000_000 / period_us).map(each).collect()
}

fn sorted(mut stints: Vec<Stint>) -> Vec<Stint> {
    stints.sort_by_key(|stint| stint.end_ns);
    stints
}

fn found(stints: &[Stint]) -> Finding {
    match judge(stints, 0, 20_000 * MS) {
        Verdict::Found(finding) => finding,
        other => panic!("{other:?}"),
    }
}

fn figures(finding: &Finding) -> (f64, f64) {
    (finding.runtime.as_secs_f64() * 1e3, finding.period.as_secs_f64() * 1e3)
}

/// Films and sound show their own T, whatever their rate, and C is what a frame takes and a tenth.
#[test]
fn what_plays_shows_its_rhythm() {
    for (cost_us, period_us, expected) in [
        (5_000, 40_000, (5.5, 40.0)),
        (5_000, 41_708, (5.5, 42.0)),
        (3_000, 33_367, (3.3, 33.0)),
        (2_000, 16_667, (2.2, 16.0)),
        (800, 10_667, (0.9, 10.0)),
        (300, 5_333, (0.4, 5.0)),
        (4_000, 100_000, (4.4, 100.0)),
        (25_000, 40_000, (27.5, 40.0)),
    ] {
        for jitter_us in [0, period_us / 40] {
            let finding = found(&periodic(1, cost_us, period_us, jitter_us));
            assert_eq!(figures(&finding), expected, "{cost_us} in {period_us}: {finding:?}");
            assert_eq!(finding.trust(), "good", "{finding:?}");
        }
    }
}

/// A film's decoder beside a timer of little work, and a screen that is drawn in several steps: T is the frame's.
#[test]
fn the_rhythm_that_takes_more_counts() {
    let mut stints = periodic(1, 5_000, 40_000, 500);
    stints.extend(periodic(2, 100, 7_000, 0));
    stints.extend(periodic(3, 1_000, 40_000, 500).into_iter().map(|was| stint(3, was.woken_ns + 9 * MS, 0, MS)));
    let finding = found(&sorted(stints));
    assert_eq!(finding.period, Duration::from_millis(40));
    // 5 ms, 1 ms and up to six times 0.1 ms, and a tenth.
    assert!((6.6..=7.4).contains(&figures(&finding).0), "{finding:?}");
}

/// Waiting for the CPU changes neither T nor C.
#[test]
fn waits_are_left_out() {
    let mut dice = Dice(7);
    let stints: Vec<_> = (1..500).map(|n| stint(1, n * 40 * MS, dice.roll(30) * MS, 5 * MS)).collect();
    let finding = found(&stints);
    assert_eq!(figures(&finding), (5.5, 40.0));
    assert!((0.6..0.8).contains(&finding.seen.waited()), "{:?}", finding.seen);
}

/// A burst that was preempted is one burst still.
#[test]
fn a_preempted_burst_is_one() {
    let halves = |n: u64| {
        let first = Stint { slept: false, ..stint(1, n * 40 * MS, 0, 3 * MS) };
        [first, Stint { woken_ns: 0, ..stint(1, n * 40 * MS + 20 * MS, 0, 2 * MS) }]
    };
    let stints: Vec<_> = (1..500).flat_map(halves).collect();
    let finding = found(&stints);
    assert_eq!((figures(&finding), finding.seen.bursts), ((5.5, 40.0), 499));
}

/// Without a rhythm the rules of section 3 hold: 100 ms for what answers now and then, 30 for what works nearly all the time.
#[test]
fn without_a_rhythm_the_papers_rules_hold() {
    let mut dice = Dice(3);
    let mut at = |spread_ms: u64, count: u64| -> Vec<Stint> {
        let mut now = MS;
        let mut next = |_| {
            now += (1 + dice.roll(spread_ms)) * MS + dice.roll(MS);
            stint(1, now, 0, MS)
        };
        (0..count).map(&mut next).collect()
    };
    let answers = found(&at(1_500, 25));
    assert_eq!((answers.rhythm.clone(), answers.period), (None, ANSWERS), "{answers:?}");
    assert_eq!(answers.trust(), "poor");
    let draws = found(&at(40, 900));
    assert_eq!((draws.rhythm.clone(), draws.period, draws.trust()), (None, DRAWS, "fair"), "{draws:?}");
}

/// Who works through something long now and then gets half of a CPU at most, and it is said.
#[test]
fn long_work_without_a_rhythm_is_cut() {
    let mut dice = Dice(5);
    let mut now = 0;
    let mut next = |_| {
        now += 600 * MS + dice.roll(300) * MS;
        stint(1, now, 0, 300 * MS)
    };
    let finding = found(&(0..22).map(&mut next).collect::<Vec<_>>());
    assert!(finding.cut && finding.runtime == finding.period / 2 && finding.trust() == "poor", "{finding:?}");
}

/// Who never sleeps is bound by the CPU if it has it, and starved if it does not; who does nothing shows nothing.
#[test]
fn what_shows_nothing_is_said() {
    let spinning = |cost_ms: u64, turn_ms: u64| -> Vec<Stint> {
        let turn = |n| Stint { woken_ns: 0, slept: false, ..stint(1, n * turn_ms * MS, 0, cost_ms * MS) };
        (0..20_000 / turn_ms).map(turn).collect()
    };
    let whole = 20_000 * MS;
    assert!(matches!(judge(&spinning(20_000, 20_000), 0, whole), Verdict::CpuBound(_)));
    assert!(matches!(judge(&spinning(19, 20), 0, whole), Verdict::CpuBound(_)));
    assert!(matches!(judge(&spinning(2, 20), 0, whole), Verdict::Starved(_)));
    assert!(matches!(judge(&[], 0, whole), Verdict::TooLittle(_)));
    let few: Vec<_> = (0..19).map(|n| stint(1, n * 1_000 * MS, 0, MS)).collect();
    assert!(matches!(judge(&few, 0, whole), Verdict::TooLittle(seen) if seen.bursts == 19));
    assert!(matches!(judge(&periodic(1, 5_000, 40_000, 0), 0, 2_999 * MS), Verdict::TooLittle(_)));
}

/// One frame in hundreds that took far more than all others does not make C; several do.
#[test]
fn what_stands_alone_is_left_out() {
    let mut stints = periodic(1, 5_000, 40_000, 0);
    stints[100].end_ns += 30 * MS;
    assert_eq!(figures(&found(&stints)), (5.5, 40.0));
    for n in [150, 200, 250, 300] {
        stints[n].end_ns += 30 * MS;
    }
    assert_eq!(figures(&found(&stints)), (38.0, 40.0));
    assert!(found(&stints).cut);
}

/// C is raised by a quarter, up to what T has room for, while more than one period in a thousand is short; lowered where half is not used;
/// and kept otherwise.
#[test]
fn c_is_adjusted_by_what_was_tried() {
    let finding = found(&periodic(1, 5_000, 40_000, 0));
    let ms = Duration::from_millis;
    let tried = Tried { periods: 400, windows: 500, peak: ms(5), ..Tried::default() };
    assert_eq!(tried.next(&finding, finding.runtime), Step::Keep);
    assert_eq!(Tried { missed: 1, ..tried }.next(&finding, ms(8)), Step::Raise(ms(10)));
    assert_eq!(Tried { over: 1, ..tried }.next(&finding, ms(8)), Step::Raise(ms(10)));
    assert_eq!(Tried { missed: 1, windows: 1_000, ..tried }.next(&finding, ms(8)), Step::Keep);
    assert_eq!(Tried { missed: 9, ..tried }.next(&finding, ms(36)), Step::Raise(ms(38)));
    assert_eq!(Tried { missed: 9, ..tried }.next(&finding, ms(38)), Step::Keep);
    assert_eq!(tried.next(&finding, ms(11)), Step::Lower(Duration::from_micros(5_500)));
    let watched = over(&periodic(1, 5_000, 40_000, 0), 0, 20_000 * MS, ms(4), ms(40));
    assert_eq!((watched.windows, watched.over, watched.peak), (499, 499, ms(5)));
}
