// SPDX-License-Identifier: GPL-2.0-only
//! `limelight status`.

use serde_json::Value;

use crate::table::{Column, plain, printable, table, tenths, thousandths};

/// The columns of a rated process: the one list behind the text, and the test that the text leaves nothing out.
const PROCESS: &[Column] = &[
    Column { field: "pid", head: "PID", cell: plain, left: false },
    Column { field: "name", head: "NAME", cell: plain, left: true },
    Column { field: "class", head: "CLASS", cell: plain, left: true },
    Column { field: "input_rating", head: "INPUT", cell: tenths, left: false },
    Column { field: "output_rating", head: "OUTPUT", cell: tenths, left: false },
    Column { field: "hub", head: "HUB", cell: plain, left: true },
    Column { field: "cpu_pct", head: "CPU%", cell: tenths, left: false },
    Column { field: "wakeups", head: "WAKEUPS", cell: plain, left: false },
    Column { field: "wait_p50_ms", head: "P50 ms", cell: thousandths, left: false },
    Column { field: "wait_p99_ms", head: "P99 ms", cell: thousandths, left: false },
    Column { field: "wait_max_ms", head: "MAX ms", cell: thousandths, left: false },
];

const DISPLAY: &[Column] = &[
    Column { field: "name", head: "DISPLAY", cell: plain, left: true },
    Column { field: "uid", head: "UID", cell: plain, left: false },
    Column { field: "state", head: "STATE", cell: plain, left: true },
];

/// The daemon's answer, for people.
pub fn text(status: &Value) -> String {
    let uptime_s = status["uptime_s"].as_u64().unwrap_or(0);
    let attended = match status["tracking"].as_bool() {
        Some(true) => "somebody is being served",
        _ => "nobody is being served now",
    };
    let mut text = format!(
        "limelight {}, policy {}, for {}; {attended}\n",
        plain(&status["version"]),
        plain(&status["policy"]),
        duration(uptime_s)
    );
    match status["displays"].as_array().map_or(&[][..], Vec::as_slice) {
        [] => {
            text.push_str("\nno display found: nobody's input or screen is seen; everything shares the CPUs fairly\n")
        }
        displays => text.push_str(&format!("\n{}", table(DISPLAY, displays))),
    }
    text.push_str(&format!("\ncooperative processes: {}\n", cooperative(&status["cooperative"])));
    match status["processes"].as_array().map_or(&[][..], Vec::as_slice) {
        [] => text.push_str("\nno process of yours is rated\n"),
        processes => text.push_str(&format!("\n{}", table(PROCESS, processes))),
    }
    let counters = status["counters"].as_object().into_iter().flatten();
    let moved: Vec<String> = counters
        .filter(|(_, value)| value.as_u64() != Some(0))
        .map(|(name, value)| format!("{} {value}", printable(name)))
        .collect();
    if !moved.is_empty() {
        text.push_str(&format!("\ncounters: {}\n", moved.join(", ")));
    }
    text
}

/// How many of each user's are cooperative, in a line.
fn cooperative(status: &Value) -> String {
    if let Some(problem) = status["problem"].as_str() {
        return format!("none can be: {}", printable(problem));
    }
    let users = status["users"].as_array().map_or(&[][..], Vec::as_slice);
    let mut words: Vec<String> =
        users.iter().map(|user| format!("{} of user {}", plain(&user["processes"]), plain(&user["uid"]))).collect();
    if words.is_empty() {
        words.push("none".to_owned());
    }
    let refused = status["refused"].as_u64().filter(|refused| *refused > 0);
    words.extend(refused.map(|refused| format!("{refused} times refused")));
    words.join(", ")
}

fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limelight_daemon::view::{CooperativeStatus, CooperativeUser, DisplayStatus, ProcessStatus, Status};
    use limelight_policy::Class;
    use std::collections::BTreeMap;

    fn status() -> Value {
        let process = ProcessStatus {
            pid: 300,
            name: "vim".to_owned(),
            class: Class::HucIn,
            input_rating: 9.5,
            output_rating: 0.0,
            hub: false,
            cpu_pct: 1.25,
            wakeups: 12,
            wait_p50_ms: 0.032,
            wait_p99_ms: 0.131,
            wait_max_ms: 0.2,
        };
        let status = Status {
            version: "0.1.0",
            policy: "unified",
            uptime_s: 61,
            tracking: true,
            displays: vec![DisplayStatus { name: ":0".to_owned(), uid: 1000, state: "watched, 1280x800".to_owned() }],
            cooperative: CooperativeStatus {
                problem: None,
                users: vec![CooperativeUser { uid: 0, processes: 2 }, CooperativeUser { uid: 1000, processes: 1 }],
                refused: 3,
            },
            processes: vec![process],
            counters: BTreeMap::from([("lent", 3), ("rescues", 0)]),
        };
        serde_json::to_value(status).unwrap()
    }

    /// Every field that `--json` has is in the text, and the text names no field that does not exist.
    #[test]
    fn text_and_json_have_the_same_fields() {
        let value = status();
        for (columns, row) in [(PROCESS, &value["processes"][0]), (DISPLAY, &value["displays"][0])] {
            let mut shown: Vec<_> = columns.iter().map(|column| column.field).collect();
            let mut there: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
            shown.sort_unstable();
            there.sort_unstable();
            assert_eq!(shown, there);
        }
    }

    /// The whole text, once.
    #[test]
    fn the_text_reads_well() {
        let expected = "limelight 0.1.0, policy unified, for 1 min 1 s; somebody is being served\n\n\
                        DISPLAY   UID  STATE\n\
                        :0       1000  watched, 1280x800\n\n\
                        cooperative processes: 2 of user 0, 1 of user 1000, 3 times refused\n\n\
                        PID  NAME  CLASS  INPUT  OUTPUT  HUB  CPU%  WAKEUPS  P50 ms  P99 ms  MAX ms\n\
                        300  vim   HUCIN    9.5     0.0  -     1.2       12   0.032   0.131   0.200\n\n\
                        counters: lent 3\n";
        assert_eq!(text(&status()), expected);
    }

    /// Where there is no display and nobody is rated, that is said, and what it means.
    #[test]
    fn nothing_is_said_in_words() {
        let mut value = status();
        value["displays"] = Value::Array(vec![]);
        value["processes"] = Value::Array(vec![]);
        value["tracking"] = Value::Bool(false);
        let text = text(&value);
        assert!(text.contains("nobody is being served now") && text.contains("no display found"), "{text}");
        assert!(text.contains("no process of yours is rated"), "{text}");
        value["cooperative"] = serde_json::to_value(CooperativeStatus::default()).unwrap();
        assert!(super::text(&value).contains("\ncooperative processes: none\n"));
        value["cooperative"]["problem"] = "no map".into();
        assert!(super::text(&value).contains("\ncooperative processes: none can be: no map\n"));
    }
}
