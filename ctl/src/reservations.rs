// SPDX-License-Identifier: GPL-2.0-only
//! `limelight spec list` and `limelight spec request`.

use serde_json::Value;

use crate::table::{Column, plain, table, tenths};

/// The columns of a reservation.
const RESERVATION: &[Column] = &[
    Column { field: "pid", head: "PID", cell: plain, left: false },
    Column { field: "name", head: "NAME", cell: plain, left: true },
    Column { field: "state", head: "STATE", cell: plain, left: true },
    Column { field: "since_s", head: "FOR s", cell: plain, left: false },
    Column { field: "runtime_ms", head: "C ms", cell: short, left: false },
    Column { field: "period_ms", head: "T ms", cell: short, left: false },
    Column { field: "reserved_pct", head: "GOT %", cell: tenths, left: false },
    Column { field: "used_pct", head: "USED %", cell: tenths, left: false },
    Column { field: "cpu", head: "CPU", cell: plain, left: false },
    Column { field: "periods", head: "PERIODS", cell: plain, left: false },
    Column { field: "missed", head: "MISSED", cell: plain, left: false },
    Column { field: "serves", head: "SERVES", cell: flag, left: true },
    Column { field: "inheritable", head: "I", cell: flag, left: true },
    Column { field: "revocable", head: "R", cell: flag, left: true },
    Column { field: "login", head: "L", cell: flag, left: true },
    Column { field: "interactive_parent", head: "P", cell: flag, left: true },
    Column { field: "target", head: "BY", cell: plain, left: true },
];

/// What each flag means, by its column.
const FLAGS: &[(&str, &str)] = &[
    ("inheritable", "I: a child that executes nothing of its own specification asks for one like it"),
    (
        "revocable",
        "R: it may be taken back when there is too much load, and comes after others then, unless it serves the person",
    ),
    ("login", "L: a way to log in: where root runs it, it and what it starts are of class HUCOUT for a while"),
    (
        "interactive_parent",
        "P: its specification is only for who is executed by an interactive process, or soon by its child or grandchild",
    ),
];

/// Who holds what, for people.
pub fn text(view: &Value) -> String {
    let mut text = format!("{} specifications in force", view["specifications"]);
    if view["complaints"].as_u64().unwrap_or(0) > 0 {
        text.push_str(&format!("; {} complaints: limelight spec check", view["complaints"]));
    }
    text.push('\n');
    let rows = view["reservations"].as_array().map_or(&[][..], Vec::as_slice);
    let waits = rows.iter().any(|row| ["refused", "revoked"].contains(&row["state"].as_str().unwrap_or_default()));
    for (number, cpu) in view["cpus"].as_array().into_iter().flatten().enumerate() {
        if cpu["reservations"].as_u64().unwrap_or(0) > 0 || tenths(&cpu["recent_pct"]) != "0.0" || waits {
            text.push_str(&format!(
                "CPU {number}: {} reservations of {} % together take {} %, and {} % are expected; programs that serve the person take {} % beside\n",
                cpu["reservations"],
                tenths(&cpu["admitted_pct"]),
                tenths(&cpu["recent_pct"]),
                tenths(&cpu["expected_pct"]),
                tenths(&cpu["huc_pct"])
            ));
        }
    }
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(RESERVATION, rows));
        for (row, lacks) in rows.iter().filter_map(|row| Some((row, shortage(row)?))) {
            text.push_str(&format!("{}: {}: {lacks}\n", who(row), row["state"].as_str().unwrap_or_default()));
        }
    }
    text
}

/// Of one that does not serve the person: what is no room for it (`LL_HUC_ROOM_PPM` of the scheduler).
const BESIDE_THE_PERSON: &str = " beside what programs that serve the person take (half of it at most)";

/// What became of a request.
pub fn answer(held: &Value) -> String {
    format!("{}: {}\n", who(held), sentence(held))
}

fn who(held: &Value) -> String {
    format!("{} ({})", crate::table::printable(held["name"].as_str().unwrap_or_default()), held["pid"])
}

/// What keeps one from being given back, though its CPU may have room: the memory for what is paged out of its process.
fn shortage(held: &Value) -> Option<String> {
    let mib = |value: &Value| value.as_u64().map(|kb| tenths(&Value::from(kb as f64 / 1024.0)));
    let paged_out = mib(&held["short"]["paged_out_kb"])?;
    let available = mib(&held["short"]["available_kb"]).map_or_else(
        || "it is not known how much memory is available".to_owned(),
        |available| format!("{available} MiB are available"),
    );
    Some(format!("{paged_out} MiB of its process are paged out and {available}: it has to wait until that fits in"))
}

/// What a reservation means for its process now.
pub fn sentence(held: &Value) -> String {
    let lacks = shortage(held).map_or_else(String::new, |lacks| format!("; {lacks}"));
    let beside = if held["serves"].as_bool() == Some(true) { "" } else { BESIDE_THE_PERSON };
    let asked = format!("{} ms in every {} ms", short(&held["runtime_ms"]), short(&held["period_ms"]));
    match held["state"].as_str() {
        Some("admitted") => format!(
            "a reservation of {asked}, on CPU {}, serves it before all classes; beyond that its class does",
            held["cpu"]
        ),
        Some("refused") => format!(
            "its reservation of {asked} was refused {} s ago: no CPU has room for it{beside}; it is admitted when there is{lacks}",
            held["since_s"]
        ),
        Some("revoked") => format!(
            "its reservation of {asked} was taken back {} s ago: those of CPU {} took {} % of it, of which they may have {} %, and of \
             those that may be taken back, which go by whom they serve and then by what they use up, it was the first, with {} %; once \
             reservations take less than --load-low-pct (R_lo) of a CPU it is given back{beside} when there is room{lacks}",
            held["since_s"],
            held["cpu"],
            tenths(&held["judged"]["load_pct"]),
            tenths(&held["judged"]["max_pct"]),
            tenths(&held["judged"]["use_pct"])
        ),
        _ => format!("its reservation of {asked} is no longer in force"),
    }
}

/// What each flag of a reservation means for its process; nothing where none is set, or they are no longer in force.
pub fn flags(held: &Value) -> String {
    let set = |field: &&(&str, &str)| held[field.0].as_bool() == Some(true) && held["state"] != "ended";
    FLAGS.iter().filter(set).map(|(_, meaning)| *meaning).collect::<Vec<_>>().join("; ")
}

fn short(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{}", (number * 1e3).round() / 1e3))
}

fn flag(value: &Value) -> String {
    if value.as_bool() == Some(true) { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limelight_daemon::view::{Judgement, ReservationStatus, Reservations, ReservedCpu, Shortage};
    use limelight_spec::fields::FLAG_LETTERS;

    fn held(state: &'static str) -> ReservationStatus {
        ReservationStatus {
            pid: 7,
            name: "mpv".to_owned(),
            target: "/usr/bin/mpv".to_owned(),
            runtime_ms: 5.0,
            period_ms: 30.0,
            state,
            since_s: 12,
            cpu: 1,
            reserved_pct: 10.04,
            used_pct: 31.0,
            periods: 900,
            missed: 0,
            inheritable: true,
            revocable: false,
            login: false,
            interactive_parent: false,
            serves: false,
            judged: (state == "revoked").then_some(Judgement { load_pct: 97.04, max_pct: 90.0, use_pct: 41.5 }),
            short: None,
        }
    }

    /// Who waits for memory is told so beside what it waits for otherwise, and in the list below the table; who lacks none is not.
    #[test]
    fn who_waits_for_memory_is_told() {
        for state in ["revoked", "refused"] {
            let of = |available_kb| {
                let short = Some(Shortage { paged_out_kb: 262_144, available_kb });
                let held = ReservationStatus { short, ..held(state) };
                let cpus = Vec::new();
                let view = Reservations { specifications: 1, complaints: 0, cpus, reservations: vec![held] };
                let view = serde_json::to_value(view).unwrap();
                (sentence(&view["reservations"][0]), text(&view))
            };
            let why =
                "256.0 MiB of its process are paged out and 96.2 MiB are available: it has to wait until that fits in";
            let (sentence_of_it, list) = of(Some(98_500));
            assert!(
                sentence_of_it.contains("12 s ago") && sentence_of_it.ends_with(&format!("; {why}")),
                "{sentence_of_it}"
            );
            assert!(list.ends_with(&format!("\nmpv (7): {state}: {why}\n")), "{list}");
            assert!(of(None).0.contains("paged out and it is not known how much memory is available"));
        }
        let none = serde_json::to_value(held("revoked")).unwrap();
        assert!(sentence(&none).ends_with("when there is room"), "{}", sentence(&none));
    }

    /// Each field of a reservation is in the table.
    #[test]
    fn the_table_leaves_nothing_out() {
        let value = serde_json::to_value(held("admitted")).unwrap();
        let mut fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns: Vec<&str> = RESERVATION.iter().map(|column| column.field).collect();
        fields.sort_unstable();
        columns.sort_unstable();
        assert_eq!(fields, columns);
    }

    /// The list says how much is reserved, what that takes, and who has it.
    #[test]
    fn the_list_is_for_people() {
        let cpu =
            ReservedCpu { recent_pct: 10.0, expected_pct: 12.5, admitted_pct: 16.7, reservations: 1, huc_pct: 33.3 };
        let view =
            Reservations { specifications: 3, complaints: 2, cpus: vec![cpu], reservations: vec![held("admitted")] };
        let text = text(&serde_json::to_value(view).unwrap());
        for expected in [
            "3 specifications",
            "2 complaints",
            "CPU 0: 1 reservations of 16.7 % together take 10.0 %",
            "programs that serve the person take 33.3 % beside",
            "/usr/bin/mpv",
            "31.0",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    /// Each flag that a specification may have is in the list where it is in force, and explained.
    #[test]
    fn each_flag_is_shown_and_explained() {
        for letter in FLAG_LETTERS.chars() {
            let letter = letter.to_string();
            let column = RESERVATION.iter().find(|column| column.head == letter).expect(&letter);
            let mut one = serde_json::to_value(held("admitted")).unwrap();
            for &(field, _) in FLAGS {
                one[field] = Value::Bool(field == column.field);
            }
            let explained = flags(&one);
            assert!(explained.starts_with(&format!("{letter}: ")) && !explained.contains("; "), "{explained}");
            one["state"] = Value::from("ended");
            assert_eq!(flags(&one), "", "no longer in force");
        }
        assert_eq!(FLAGS.len(), FLAG_LETTERS.len());
        let both = serde_json::to_value(ReservationStatus { revocable: true, ..held("refused") }).unwrap();
        assert_eq!(flags(&both).matches("; ").count(), 1);
    }

    /// Each state is explained.
    #[test]
    fn each_state_is_a_sentence() {
        for (state, expected) in [
            ("admitted", "on CPU 1"),
            ("refused", "no CPU has room for it beside what programs that serve the person take"),
            ("revoked", "taken back 12 s ago: those of CPU 1 took 97.0 % of it, of which they may have 90.0 %"),
            ("ended", "no longer"),
        ] {
            let sentence = sentence(&serde_json::to_value(held(state)).unwrap());
            assert!(sentence.contains(expected) && sentence.contains("5 ms in every 30 ms"), "{sentence}");
            let serves =
                self::sentence(&serde_json::to_value(ReservationStatus { serves: true, ..held(state) }).unwrap());
            assert!(!serves.contains("serve the person"), "theirs is room for it: {serves}");
        }
    }
}
