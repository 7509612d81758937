// SPDX-License-Identifier: GPL-2.0-only
//! `limelight explain PID`: "vim (300): HUCIN, 6 s left: keyboard/pointer :0 -> Xorg -> xterm -> vim", and below it what the process has beside its class: a
//! reservation, and how its cooperative threads stand.

use serde_json::Value;

use crate::reservations;
use crate::table::printable;

/// The daemon's answer, for people.
pub fn text(view: &Value) -> String {
    let who = format!("{} ({})", name(view, &view["pid"]), view["pid"]);
    let explanation = &view["explanation"];
    let beside = promise(view) + &cooperation(&view["cooperative"]);
    if let Some(ruled) = ruled(view) {
        return format!("{who}: {ruled}\n{beside}");
    }
    if let Some(login) = login(view) {
        return format!("{who}: {login}\n{beside}");
    }
    if explanation.is_null() {
        return format!(
            "{who}: OTHER: it neither received input nor showed anything lately, nor did anybody it works for\n{beside}"
        );
    }
    let class = explanation["class"].as_str().unwrap_or("OTHER");
    let mut text = format!("{who}: {class}");
    match (class, explanation["seconds_left"].as_u64()) {
        ("OTHER", _) => {}
        (_, Some(seconds)) => text.push_str(&format!(", {seconds} s left")),
        (_, None) => text.push_str(", as long as its display is there"),
    }
    if let Some(role) = explanation["hub"].as_str() {
        text.push_str(&format!(", a hub ({}): ratings do not travel through it", role.replace('_', " ")));
    }
    let path = path(view, class == "HUCOUT");
    if !path.is_empty() {
        text.push_str(&format!(": {path}"));
    }
    text.push('\n');
    text + &beside
}

/// Of what no rating rules: when it runs.
fn ruled(view: &Value) -> Option<String> {
    if let Some(class) = view["real_time"].as_str() {
        return Some(format!("{class}: the kernel runs it before all of limelight's classes, whatever it is rated"));
    }
    // As goes_with_others() in rating.bpf.h and makes_way_for_huc() in timer.bpf.h have it.
    let words = match (view["kernel_thread_nice"].as_i64()?, view["kernel_worker"].as_bool()) {
        (1.., _) => {
            "OTHER: a kernel thread of positive nice value; while somebody is at the desk, the first of its class for 30 ms of work"
        }
        (_, Some(true)) => {
            "KTHREAD: a kernel thread that works for others runs before everybody, but where a process that serves the person waits it has \
             0.1 ms first, and then waits for that, 0.8 ms at most"
        }
        _ => {
            "KTHREAD: a kernel thread runs before everybody for 0.1 ms of each wake-up, and then as the first of class OTHER"
        }
    };
    Some(words.to_owned())
}

/// Of a login, and what it started, that has no better class by its rating.
fn login(view: &Value) -> Option<String> {
    let left_ms = view["login_left_ms"].as_u64()?;
    if is_rated(view) {
        return None;
    }
    Some(match left_ms {
        0 => "OTHER: a login, or started by one, that has used its CPU as such; that comes back while it sleeps"
            .to_owned(),
        _ => format!("HUCOUT: a login, or started by one, for {left_ms} ms of CPU more"),
    })
}

/// Which of the two serves it, a reservation or its rating alone.
fn promise(view: &Value) -> String {
    match &view["reservation"] {
        Value::Null if is_rated(view) && ruled(view).is_none() => {
            "  no reservation: its rating serves it, which goes before others and promises it no CPU time\n".to_owned()
        }
        Value::Null => String::new(),
        held => reserved(held),
    }
}

/// Whether it has a better class by its rating.
fn is_rated(view: &Value) -> bool {
    !view["explanation"].is_null() && view["explanation"]["class"] != "OTHER"
}

/// What it holds, and under which flags.
fn reserved(held: &Value) -> String {
    let mut text = format!("  {}\n", reservations::sentence(held));
    let flags = reservations::flags(held);
    if !flags.is_empty() {
        text.push_str(&format!("  {flags}\n"));
    }
    text
}

/// How the threads of a cooperative process stand.
fn cooperation(view: &Value) -> String {
    if view.is_null() {
        return String::new();
    }
    let number = |field: &str| view[field].as_u64().unwrap_or(0);
    let parts = |parts: &[(&str, &str)]| -> Vec<String> {
        let there = parts.iter().filter(|(field, _)| number(field) > 0);
        there.map(|(field, words)| format!("{} {words}", number(field))).collect()
    };
    let mut text = match number("registered") {
        0 => "  cooperative (libcoop), and none of its threads takes part now".to_owned(),
        1 => "  cooperative (libcoop) with 1 thread".to_owned(),
        threads => format!("  cooperative (libcoop) with {threads} threads"),
    };
    let standings = parts(&[
        ("good", "in good standing"),
        ("demoted", "demoted until the next call"),
        ("not_called", "yet to call"),
    ]);
    if !standings.is_empty() {
        text.push_str(&format!(": {}", standings.join(", ")));
    }
    let reasons = parts(&[
        ("overran", "ran on after the slice"),
        ("slept", "slept other than by libcoop"),
        ("ahead", "ahead of the share"),
    ]);
    if !reasons.is_empty() {
        text.push_str(&format!("\n  demoted: {}", reasons.join(", ")));
    }
    let beyond = parts(&[
        (
            "ungrouped",
            "alone for now, though a group is named: the user has as many as each may, all are taken, or it has just moved",
        ),
        (
            "not_believed",
            "with a place and not believed: of a real-time class, more than each user may have, or all taken",
        ),
    ]);
    for line in beyond {
        text.push_str(&format!("\n  threads: {line}"));
    }
    text + "\n"
}

/// From the device to the process. Output flows the other way, and so do the arrows.
fn path(view: &Value, to_the_screen: bool) -> String {
    let arrow = if to_the_screen { " <- " } else { " -> " };
    let mut words = Vec::new();
    for step in view["explanation"]["path"].as_array().into_iter().flatten() {
        let pid = &step["pid"];
        let why = &step["why"];
        for (kind, device) in [("input", "keyboard/pointer"), ("output", "screen")] {
            if let Some(from) = why.get(kind) {
                words.push(format!("{device} {}", from["display"].as_str().map(printable).unwrap_or_default()));
                if !from["server"].is_null() && from["server"] != *pid {
                    words.push(name(view, &from["server"]));
                }
            }
        }
        let how = match why.as_str() {
            Some("inherited") => " (forked)",
            Some("lent") => " (woken, and lent the rating at once)",
            _ => "",
        };
        words.push(format!("{}{how}", name(view, pid)));
    }
    words.join(arrow)
}

/// The name of a process, or its number where it is gone.
fn name(view: &Value, pid: &Value) -> String {
    let own = if *pid == view["pid"] { view["name"].as_str() } else { None };
    own.or_else(|| view["names"][pid.to_string()].as_str()).map_or_else(|| format!("process {pid}"), printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a rated process that holds no reservation.
    const ALONE: &str =
        "  no reservation: its rating serves it, which goes before others and promises it no CPU time\n";
    use limelight_abi::sched::{LL_RESERVATION_ADMITTED, LL_RESERVATION_REVOKED, LL_SPEC_REVOCABLE, ll_reservation};
    use limelight_daemon::view::{CooperativeProcess, ExplainView, ReservationStatus};
    use limelight_policy::{Edge, Event, GivenKind, HubRole, State, step};
    use std::collections::BTreeMap;

    /// What the policy says about `pid`, with the names of Figure 5.
    fn view(state: &State, pid: u32) -> Value {
        json_of(state, pid, |_| {})
    }

    fn json_of(state: &State, pid: u32, change: impl Fn(&mut ExplainView)) -> Value {
        let names = BTreeMap::from([(100, "Xorg"), (200, "xterm"), (300, "vim"), (50, "dbus-daemon")]);
        let names: BTreeMap<u32, String> = names.into_iter().map(|(pid, name)| (pid, name.to_owned())).collect();
        let mut view = ExplainView {
            pid,
            name: names.get(&pid).cloned().unwrap_or_else(|| "cc".to_owned()),
            explanation: state.explain(pid.into()),
            real_time: None,
            kernel_thread_nice: None,
            kernel_worker: false,
            login_left_ms: None,
            names,
            reservation: None,
            cooperative: None,
        };
        change(&mut view);
        serde_json::to_value(view).unwrap()
    }

    fn figure_5() -> State {
        let mut state = State::new(limelight_policy::Settings::default()).unwrap();
        let edge = |from: u32, to: u32| Edge { from: from.into(), to: to.into(), count: 1 };
        for event in [
            Event::Display { display: ":0".into(), server: Some(100.into()) },
            Event::Hub { pid: 50.into(), role: Some(HubRole::MessageBus) },
            Event::Input { pid: 200.into(), display: ":0".into() },
            Event::Edges(vec![edge(200, 300), edge(300, 200), edge(200, 50)]),
            Event::Tick,
        ] {
            step(&mut state, event, 0);
        }
        state
    }

    /// The sentence of the design, from a real state of the policy.
    #[test]
    fn the_path_is_told_from_the_device_on() {
        let state = figure_5();
        assert_eq!(
            text(&view(&state, 300)),
            "vim (300): HUCIN, 5 s left: keyboard/pointer :0 -> Xorg -> xterm -> vim\n\
             \x20 no reservation: its rating serves it, which goes before others and promises it no CPU time\n"
        );
        assert_eq!(
            text(&view(&state, 100)),
            "Xorg (100): HUCIN, as long as its display is there, a hub (display server): ratings do not travel through it: \
             keyboard/pointer :0 -> Xorg\n\
             \x20 no reservation: its rating serves it, which goes before others and promises it no CPU time\n"
        );
        assert!(text(&view(&state, 50)).contains("a hub (message bus)"));
    }

    /// Output is told towards the screen.
    #[test]
    fn output_is_told_towards_the_screen() {
        let mut state = State::new(limelight_policy::Settings::default()).unwrap();
        step(&mut state, Event::Display { display: ":0".into(), server: Some(100.into()) }, 0);
        step(&mut state, Event::Output { pid: 200.into(), display: ":0".into(), changed_pct: 50.0 }, 0);
        let told = text(&view(&state, 200));
        assert!(told.ends_with(&format!(": screen :0 <- Xorg <- xterm\n{ALONE}")), "{told}");
    }

    /// A rating given by the scheduler says how.
    #[test]
    fn given_ratings_say_how() {
        let mut state = figure_5();
        let given =
            |pid: u32, kind| Event::Given { pid: pid.into(), kind, from: 200.into(), in_milli: 9000, out_milli: 0 };
        step(&mut state, given(301, GivenKind::Lent), 0);
        step(&mut state, given(302, GivenKind::Inherited), 0);
        let how = |pid, how: &str| text(&view(&state, pid)).ends_with(&format!("xterm -> cc ({how})\n{ALONE}"));
        assert!(how(301, "woken, and lent the rating at once"));
        assert!(how(302, "forked"));
    }

    /// A kernel thread is of class KTHREAD whatever the person does, and of class OTHER where it is nice; a worker makes way.
    #[test]
    fn a_kernel_thread_is_no_stranger() {
        let of = |nice: i8, works_for_others| {
            text(&json_of(&figure_5(), 2, |view| {
                (view.kernel_thread_nice, view.kernel_worker) = (Some(nice), works_for_others)
            }))
        };
        for nice in [-20, 0] {
            assert!(of(nice, false).starts_with("cc (2): KTHREAD: a kernel thread runs"), "{}", of(nice, false));
            assert!(
                of(nice, true).contains("KTHREAD") && of(nice, true).contains("0.1 ms first"),
                "{}",
                of(nice, true)
            );
        }
        assert!(of(19, true).starts_with("cc (2): OTHER: a kernel thread"), "{}", of(19, true));
    }

    /// What the kernel runs in a class above limelight's is told so, though it is rated.
    #[test]
    fn a_real_time_process_is_above_the_classes() {
        let text = text(&json_of(&figure_5(), 300, |view| view.real_time = Some("SCHED_RR")));
        assert!(
            text.starts_with("vim (300): SCHED_RR: the kernel runs it before all of limelight's classes"),
            "{text}"
        );
        assert!(!text.contains("reservation"), "no rating serves it: {text}");
    }

    /// A login that nobody rates is no stranger; one that is rated is told by its rating.
    #[test]
    fn a_login_is_told() {
        let of = |pid, left_ms| text(&json_of(&figure_5(), pid, |view| view.login_left_ms = Some(left_ms)));
        assert_eq!(of(999, 1900), "cc (999): HUCOUT: a login, or started by one, for 1900 ms of CPU more\n");
        assert!(of(999, 0).starts_with("cc (999): OTHER: a login"), "{}", of(999, 0));
        assert!(of(300, 1900).starts_with("vim (300): HUCIN, 5 s left"), "{}", of(300, 1900));
    }

    /// Beside its class a process is told what it holds: while that is admitted, what it serves; when it was taken back, why.
    #[test]
    fn a_reservation_is_told_beside_the_class() {
        let of = |pid, state| {
            text(&json_of(&figure_5(), pid, |view| {
                let held = ll_reservation {
                    runtime_ns: 5_000_000,
                    period_ns: 30_000_000,
                    state,
                    flags: LL_SPEC_REVOCABLE,
                    home: 1,
                    judged_load_ppm: 962_000,
                    judged_max_ppm: 900_000,
                    judged_use_ppm: 410_000,
                    ..ll_reservation::default()
                };
                view.reservation = Some(ReservationStatus::of(&held, "/usr/bin/vim".to_owned(), 3.0, 12));
            }))
        };
        let admitted = of(300, LL_RESERVATION_ADMITTED);
        assert!(
            admitted.starts_with("vim (300): HUCIN, 5 s left: keyboard/pointer :0 -> Xorg -> xterm -> vim\n  a"),
            "{admitted}"
        );
        assert!(
            admitted.contains("a reservation of 5 ms in every 30 ms, on CPU 1, serves it before all classes"),
            "{admitted}"
        );
        let revocable = "\n  R: it may be taken back when there is too much load, and comes after others then, unless it \
                         serves the person\n";
        assert!(admitted.ends_with(revocable), "{admitted}");
        let revoked = of(999, LL_RESERVATION_REVOKED);
        assert!(revoked.starts_with("cc (999): OTHER: it neither"), "{revoked}");
        let why = "taken back 12 s ago: those of CPU 1 took 96.2 % of it, of which they may have 90.0 %, and of those that may be taken \
                   back, which go by whom they serve and then by what they use up, it was the first, with 41.0 %;";
        assert!(revoked.contains(why), "{revoked}");
    }

    /// Of a cooperative process it is told, beside its class, how its threads stand, and why those that are demoted are; of others nothing is.
    #[test]
    fn cooperation_is_told_beside_the_class() {
        let of = |pid, standing: CooperativeProcess| {
            text(&json_of(&figure_5(), pid, |view| view.cooperative = Some(standing.clone())))
        };
        let one = CooperativeProcess { registered: 1, good: 1, ..CooperativeProcess::default() };
        let kept = of(100, one.clone());
        let beside = format!(" -> Xorg\n{ALONE}  cooperative (libcoop) with 1 thread: 1 in good standing\n");
        assert!(kept.ends_with(&beside), "{kept}");
        assert!(of(999, one.clone()).contains("\n  cooperative (libcoop) with 1 thread: 1 in good standing\n"));
        let several = CooperativeProcess {
            registered: 6,
            good: 2,
            demoted: 3,
            overran: 2,
            slept: 1,
            ahead: 1,
            not_called: 1,
            ungrouped: Some(0),
            not_believed: Some(0),
        };
        let demoted = of(100, several.clone());
        let expected = "\n  cooperative (libcoop) with 6 threads: 2 in good standing, 3 demoted until the next call, 1 yet to call\n  \
                        demoted: 2 ran on after the slice, 1 slept other than by libcoop, 1 ahead of the share\n";
        assert!(demoted.ends_with(expected), "{demoted}");
        let beyond = of(100, CooperativeProcess { ungrouped: Some(2), not_believed: Some(9), ..one });
        let expected = "1 in good standing\n  \
                        threads: 2 alone for now, though a group is named: the user has as many as each may, all are taken, or it has just moved\n  \
                        threads: 9 with a place and not believed: of a real-time class, more than each user may have, or all taken\n";
        assert!(beyond.ends_with(expected), "{beyond}");
        let none = of(100, CooperativeProcess::default());
        assert!(none.ends_with("\n  cooperative (libcoop), and none of its threads takes part now\n"), "{none}");
        assert!(!text(&view(&figure_5(), 100)).contains("cooperative"));
    }

    /// Whatever is known of a cooperative process is told: each number changes the text.
    #[test]
    fn nothing_of_a_standing_is_left_out() {
        let said = |standing: &Value| cooperation(standing);
        let nothing = serde_json::to_value(CooperativeProcess::default()).unwrap();
        for field in nothing.as_object().unwrap().keys() {
            let mut some = nothing.clone();
            some[field] = 7.into();
            assert!(said(&some).contains('7'), "{field} is not told: {}", said(&some));
        }
    }

    /// A process nothing is known of is of class OTHER, in words.
    #[test]
    fn a_stranger_is_other() {
        let text = text(&view(&figure_5(), 999));
        assert!(text.starts_with("cc (999): OTHER: it neither"), "{text}");
    }
}
