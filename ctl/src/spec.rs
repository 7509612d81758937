// SPDX-License-Identifier: GPL-2.0-only
//! `limelight spec`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limelight_spec::{Complaint, Loaded, Places, Spec, Specs, Target};
use serde_json::{Value, json};

use crate::table::{Column, plain, table};

/// The columns of a specification: the one list behind the text, and the test that the text leaves nothing out.
const SPEC: &[Column] = &[
    Column { field: "target", head: "PROGRAM", cell: plain, left: true },
    Column { field: "type", head: "TYPE", cell: plain, left: true },
    Column { field: "figures", head: "C:T ms", cell: plain, left: false },
    Column { field: "flags", head: "FLAGS", cell: plain, left: true },
    Column { field: "protect_s", head: "PI s", cell: plain, left: false },
    Column { field: "io", head: "IO", cell: plain, left: false },
    Column { field: "origin", head: "FIGURES", cell: plain, left: true },
    Column { field: "source", head: "FROM", cell: plain, left: true },
    Column { field: "installed", head: "", cell: absence, left: true },
];

/// What is wrong and what is in force, as text or as JSON, and whether nothing is wrong. Without `files`, of the system's own.
pub fn check(files: &[PathBuf], as_json: bool) -> (String, bool) {
    let places = if files.is_empty() { Places::standard() } else { Places::drafts(files) };
    let Loaded { specs, complaints } = Specs::load(&places);
    let view = view(&specs, &complaints);
    (if as_json { format!("{view:#}\n") } else { text(&view) }, complaints.is_empty())
}

fn view(specs: &Specs, complaints: &[Complaint]) -> Value {
    json!({
        "complaints": complaints.iter().map(complaint).collect::<Vec<_>>(),
        "specs": specs.iter().map(spec).collect::<Vec<_>>(),
    })
}

fn complaint(complaint: &Complaint) -> Value {
    json!({
        "file": complaint.file.to_string_lossy(),
        "line": (complaint.line > 0).then_some(complaint.line),
        "field": complaint.field,
        "wrong": complaint.wrong,
        "allowed": complaint.allowed,
        "text": complaint.to_string(),
    })
}

fn spec(spec: &Spec) -> Value {
    json!({
        "target": spec.target.to_string(),
        "type": spec.kind.in_toml(),
        "figures": spec.figures(),
        "runtime_ms": ms(spec.runtime),
        "period_ms": ms(spec.period),
        "flags": spec.flags(),
        "protect_s": spec.protect.map(|time| time.as_secs_f64()),
        "io": spec.io,
        "origin": if spec.estimated { "estimated" } else { "measured" },
        "source": format!("{}:{}", spec.source.file.display(), spec.source.line),
        "file": spec.source.file.to_string_lossy(),
        "line": spec.source.line,
        "installed": is_installed(&spec.target),
    })
}

/// `None`: a best-effort one without figures.
fn ms(time: Duration) -> Option<f64> {
    (!time.is_zero()).then_some(time.as_secs_f64() * 1e3)
}

/// `None`: it cannot be told. An app or a unit shows only when it runs, and not every folder may be looked into.
fn is_installed(target: &Target) -> Option<bool> {
    let Target::Path(path) = target else { return None };
    is_program(path)
}

fn is_program(path: &Path) -> Option<bool> {
    match fs::metadata(path) {
        Ok(about) => Some(about.is_file() && about.permissions().mode() & 0o111 != 0),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(false),
    }
}

fn absence(installed: &Value) -> String {
    if *installed == Value::Bool(false) { "(not installed here)".to_owned() } else { String::new() }
}

/// For people: complaints first, for they are what is to be done.
fn text(view: &Value) -> String {
    let list = |name: &str| view[name].as_array().map_or(&[][..], Vec::as_slice);
    let (complaints, specs) = (list("complaints"), list("specs"));
    let mut text: String = complaints.iter().map(|complaint| format!("{}\n", plain(&complaint["text"]))).collect();
    if !complaints.is_empty() {
        text.push('\n');
    }
    if !specs.is_empty() {
        text.push_str(&table(SPEC, specs));
        text.push('\n');
    }
    let absent = specs.iter().filter(|spec| spec["installed"] == Value::Bool(false)).count();
    text.push_str(&format!(
        "in force: {}, of which {absent} for programs that are not installed here; complaints: {}\n",
        specs.len(),
        complaints.len()
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    fn checked(name: &str, content: &str, as_json: bool) -> (String, bool) {
        let folder = tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let (text, is_clean) = check(&[path], as_json);
        (text.replace(&format!("{}/", folder.path().display()), ""), is_clean)
    }

    /// What is in force is a table; what is not installed is marked, and nothing is said about what cannot be looked for.
    #[test]
    fn what_is_in_force_is_a_table() {
        let content = r#"[[spec]]
path = ["/bin/sh", "/bin/no-such-program"]
unit = "x.service"
type = "interactive"
runtime_ms = 5
period_ms = 30
estimated = true

[[spec]]
path = "/etc/passwd"
type = "best-effort"
protect_s = 1.5
io = 7
"#;
        let (text, is_clean) = checked("a.toml", content, false);
        assert!(is_clean);
        let expected = "\
PROGRAM               TYPE         C:T ms  FLAGS  PI s  IO  FIGURES    FROM
/bin/sh               interactive    5:30  R         -   -  estimated  a.toml:2
/bin/no-such-program  interactive    5:30  R         -   -  estimated  a.toml:2  (not installed here)
unit x.service        interactive    5:30  R         -   -  estimated  a.toml:3
/etc/passwd           best-effort     -:-  R       1.5   7  measured   a.toml:10  (not installed here)

in force: 4, of which 2 for programs that are not installed here; complaints: 0
";
        assert_eq!(text.replace("a.toml:2   (", "a.toml:2  ("), expected);
    }

    /// Complaints come first, as FILE:LINE: FIELD: what is wrong; what is allowed, and the rest is in force.
    #[test]
    fn complaints_come_first() {
        let (text, is_clean) = checked("a.tab", "/a:Iact:50:30:R:-:-\n/bin/sh:Iact:5:30:IR:-:-\n", false);
        assert!(!is_clean);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("a.tab:1: C: 50 ms is too much of 30 ms; C is at least"), "{text}");
        assert!(lines[3].starts_with("/bin/sh") && lines[3].contains("5:30  IR"), "{text}");
        assert!(lines[5].starts_with("in force: 1, ") && lines[5].ends_with("complaints: 1"), "{text}");
    }

    /// JSON has every column of the text, figures also as numbers, and each complaint in parts and as a line.
    #[test]
    fn json_says_the_same() {
        let (text, is_clean) = checked("a.tab", "nonsense\n/bin/sh:Iact:5:30:IR:2:3\n", true);
        assert!(!is_clean);
        let view: Value = serde_json::from_str(&text).unwrap();
        let spec = view["specs"][0].as_object().unwrap();
        assert!(SPEC.iter().all(|column| spec.contains_key(column.field)), "{spec:?}");
        assert_eq!((&spec["runtime_ms"], &spec["period_ms"], &spec["line"]), (&json!(5.0), &json!(30.0), &json!(2)));
        assert_eq!(view["complaints"][0]["line"], json!(1));
        assert!(view["complaints"][0]["text"].as_str().unwrap().starts_with("a.tab:1: line: "));
        assert_eq!(view["specs"][0]["installed"], json!(true));
    }

    /// A file that is not there is a complaint, not an empty answer.
    #[test]
    fn a_missing_file_is_a_complaint() {
        let (text, is_clean) = check(&["/no/such/file.tab".into()], false);
        assert!(!is_clean && text.starts_with("/no/such/file.tab: file: cannot be read: "), "{text}");
    }
}
