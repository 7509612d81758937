// SPDX-License-Identifier: GPL-2.0-only
//! The form with named fields: a `[[spec]]` for each program.
//!
//! A TOML document with one mistake is none at all, to any reader of TOML. So a file is cut in front of each line that begins with `[[`, and
//! each piece is a document of its own: a mistake costs the entry it is in.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml_edit::{Document, Item, TableLike, Value};

use crate::complaint::{Complaint, Found, shown};
use crate::fields::{Draft, Fault, Field, IO_MOST, app, pathname, time, unit};
use crate::model::{Kind, NS_PER_MS, NS_PER_S, Source, Target};

/// Read a file's content; `file` is its name in complaints and sources.
pub fn parse(file: &Path, content: &[u8]) -> Found {
    let mut found = Found::default();
    for (first_line, bytes) in pieces(content) {
        let mut piece = Piece { file, first_line, text: "", found: &mut found };
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                piece.text = text;
                piece.read();
            }
            Err(error) => {
                piece.first_line += newlines(&bytes[..error.valid_up_to()]);
                piece.complain(0, "line", "is not UTF-8", "write it in UTF-8; its entry is left out");
            }
        }
    }
    found.bounded()
}

/// The file, cut in front of each line that begins with `[[`, with the number of each piece's first line.
fn pieces(content: &[u8]) -> Vec<(usize, &[u8])> {
    let mut pieces = Vec::new();
    let (mut begin, mut first_line, mut at) = (0, 1, 0);
    for (before, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii_start().starts_with(b"[[") && at > begin {
            pieces.push((first_line, &content[begin..at]));
            (begin, first_line) = (at, before + 1);
        }
        at += line.len();
    }
    pieces.push((first_line, &content[begin..]));
    pieces
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// A fault and where in the piece it is.
type Placed = (Fault, usize);

/// One piece of a file.
struct Piece<'a> {
    file: &'a Path,
    first_line: usize,
    text: &'a str,
    found: &'a mut Found,
}

impl Piece<'_> {
    fn line_of(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        self.first_line + newlines(before)
    }

    fn complain(&mut self, at: usize, field: &str, wrong: &str, allowed: &str) {
        self.found.complaints.push(Complaint {
            file: self.file.to_owned(),
            line: self.line_of(at),
            field: field.to_owned(),
            wrong: wrong.to_owned(),
            allowed: allowed.to_owned(),
        });
    }

    fn complain_of(&mut self, (fault, at): &Placed) {
        self.complain(*at, fault.field.in_toml().unwrap_or("entry"), &fault.wrong, &fault.field.allowed());
    }

    fn read(&mut self) {
        let text = self.text;
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let wrong = format!("is not TOML: {}", error.message().replace(char::is_control, " "));
                return self.complain(start(error.span()), "entry", &wrong, "mend it; this entry is left out");
            }
        };
        for (name, item) in document.iter() {
            let at = key_start(document.as_table(), name);
            match item {
                Item::ArrayOfTables(tables) if name == "spec" => {
                    tables.iter().for_each(|table| self.entry(table, start(table.span())));
                }
                Item::Value(Value::Array(array)) if name == "spec" => array.iter().for_each(|value| match value {
                    Value::InlineTable(table) => self.entry(table, start(value.span())),
                    _ => self.complain(start(value.span()), "spec", "is no table", "write [[spec]] above each entry"),
                }),
                _ if name == "spec" => {
                    self.complain(at, "spec", "is no array of tables", "write [[spec]] above each entry")
                }
                _ => self.complain(at, &shown(name), "is no field outside an entry", "write [[spec]] above each entry"),
            }
        }
    }

    /// One `[[spec]]`. A fault in its figures costs the entry, one in a name only that name.
    fn entry(&mut self, table: &dyn TableLike, head: usize) {
        let mut draft = Draft { revocable: true, ..Draft::default() };
        let mut faults: Vec<Placed> = Vec::new();
        let (mut targets, mut names, mut unknown) = (Vec::new(), 0, false);
        for (name, item) in table.iter() {
            let Some(field) = Field::ALL.into_iter().find(|field| field.in_toml() == Some(name)) else {
                let known: Vec<_> = Field::ALL.into_iter().filter_map(Field::in_toml).collect();
                self.complain(
                    key_start(table, name),
                    &shown(name),
                    "is no field",
                    &format!("there are {}", known.join(", ")),
                );
                unknown = true;
                continue;
            };
            if let Field::Path | Field::App | Field::Unit = field {
                names += 1;
                targets.extend(self.targets(field, item));
                continue;
            }
            if let Err(wrong) = set(&mut draft, field, item, self.text) {
                faults.push((Fault { field, wrong }, start(item.span())));
            }
        }
        for fault in draft.faults(|field| faults.iter().any(|(fault, _)| fault.field == field)) {
            let at = fault.field.in_toml().and_then(|name| table.get(name)).map_or(head, |item| start(item.span()));
            faults.push((fault, at));
        }
        if names == 0 {
            self.complain(head, "entry", "says for no program", "give one or more of path, app and unit");
        }
        faults.iter().for_each(|fault| self.complain_of(fault));
        if faults.is_empty() && !unknown {
            targets.into_iter().for_each(|(target, at)| self.spec(&draft, target, at, table));
        }
    }

    fn spec(&mut self, draft: &Draft, target: Target, at: usize, table: &dyn TableLike) {
        let source = Source { file: self.file.to_owned(), line: self.line_of(at) };
        match draft.spec(target, source) {
            Ok(spec) => self.found.specs.push(spec),
            Err(fault) => {
                let at = fault.field.in_toml().and_then(|name| table.get(name)).map_or(at, |item| start(item.span()));
                self.complain_of(&(fault, at));
            }
        }
    }

    /// The programs that a string or an array of strings names; a complaint for each that is none.
    fn targets(&mut self, field: Field, item: &Item) -> Vec<(Target, usize)> {
        let values: Vec<&Value> = match item {
            Item::Value(Value::Array(array)) => array.iter().collect(),
            Item::Value(value) => vec![value],
            _ => Vec::new(),
        };
        if values.is_empty() {
            self.complain_of(&(Fault { field, wrong: "names nothing".to_owned() }, start(item.span())));
        }
        let mut targets = Vec::new();
        for value in values {
            let at = start(value.span());
            let text = value.as_str().ok_or_else(|| format!("is {}", kind_of_value(value.type_name())));
            let target = text.and_then(|text| match field {
                Field::App => app(text),
                Field::Unit => unit(text),
                _ => pathname(text),
            });
            match target {
                Ok(target) => targets.push((target, at)),
                Err(wrong) => self.complain_of(&(Fault { field, wrong }, at)),
            }
        }
        targets
    }
}

fn start(span: Option<Range<usize>>) -> usize {
    span.map_or(0, |span| span.start)
}

fn key_start(table: &dyn TableLike, name: &str) -> usize {
    table.get_key_value(name).map_or(0, |(key, _)| start(key.span()))
}

/// As TOML calls it, with its article.
fn kind_of_value(name: &str) -> String {
    let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// Put a field into the draft, or say what is wrong with it.
fn set(draft: &mut Draft, field: Field, item: &Item, text: &str) -> Result<(), String> {
    let is = || format!("is {}", kind_of_value(item.type_name()));
    let flag = || item.as_bool().ok_or_else(is);
    match field {
        Field::Type => {
            let given = item.as_str().ok_or_else(is)?;
            let kind = [Kind::Interactive, Kind::BestEffort].into_iter().find(|kind| kind.in_toml() == given);
            draft.kind = Some(kind.ok_or_else(|| format!("{} is no type", shown(given)))?);
        }
        Field::Runtime => draft.runtime = Some(time_of(item, NS_PER_MS, text)?),
        Field::Period => draft.period = Some(time_of(item, NS_PER_MS, text)?),
        Field::Protect => draft.protect = Some(time_of(item, NS_PER_S, text)?),
        Field::Inheritable => draft.inheritable = flag()?,
        Field::Revocable => draft.revocable = flag()?,
        Field::Login => draft.login = flag()?,
        Field::InteractiveParent => draft.interactive_parent = flag()?,
        Field::Estimated => draft.estimated = flag()?,
        Field::Io => {
            let level = item.as_integer().ok_or_else(is)?;
            let level = u8::try_from(level).ok().filter(|level| *level <= IO_MOST);
            draft.io = Some(level.ok_or_else(|| format!("{} is no I/O priority", written(item, text)))?);
        }
        Field::Path | Field::App | Field::Unit | Field::Flags => {}
    }
    Ok(())
}

fn time_of(item: &Item, unit: u128, text: &str) -> Result<Duration, String> {
    let value = item.as_float().or(item.as_integer().map(|value| value as f64));
    let value = value.ok_or_else(|| format!("is {}", kind_of_value(item.type_name())))?;
    time(value, unit).ok_or_else(|| format!("{} is no time", written(item, text)))
}

/// A value as it stands in the file.
fn written(item: &Item, text: &str) -> String {
    shown(item.span().and_then(|span| text.get(span)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Spec;

    const GOOD: &str = "[[spec]]\npath = \"/usr/bin/mpv\"\ntype = \"interactive\"\nruntime_ms = 5\nperiod_ms = 30\n";

    fn read(text: &str) -> Found {
        parse(Path::new("x.toml"), text.as_bytes())
    }

    fn complaints(text: &str) -> Vec<String> {
        read(text).complaints.iter().map(Complaint::to_string).collect()
    }

    /// The programs and lines of what is in force.
    fn in_force(found: &Found) -> Vec<(String, usize)> {
        found.specs.iter().map(|spec| (spec.target.to_string(), spec.source.line)).collect()
    }

    /// All fields arrive, and an entry may name several programs, each with its own line.
    #[test]
    fn every_field_arrives() {
        let text = r#"# head

[[spec]]
path = [
  "/usr/bin/mpv",
  "/opt/mpv",
]
app = "io.mpv.Mpv"
unit = "mpv@*.service"
type = "interactive"
runtime_ms = 0.5
period_ms = 30
inheritable = true
revocable = true
login = false
interactive_parent = false
protect_s = 2.5
io = 7
estimated = true
"#;
        let found = read(text);
        assert_eq!(found.complaints, []);
        let targets = [("/usr/bin/mpv", 5), ("/opt/mpv", 6), ("app io.mpv.Mpv", 8), ("unit mpv@*.service", 9)];
        assert_eq!(in_force(&found), targets.map(|(target, line)| (target.to_owned(), line)));
        let expected = Spec {
            target: Target::Path("/usr/bin/mpv".into()),
            kind: Kind::Interactive,
            runtime: Duration::from_micros(500),
            period: Duration::from_millis(30),
            inheritable: true,
            revocable: true,
            login: false,
            interactive_parent: false,
            protect: Some(Duration::from_millis(2500)),
            io: Some(7),
            estimated: true,
            source: Source { file: "x.toml".into(), line: 5 },
        };
        assert_eq!(found.specs[0], expected);
    }

    /// What is left out is the safe choice: children do not inherit, and it can be taken back.
    #[test]
    fn defaults_are_safe() {
        let found = read(GOOD);
        let spec = &found.specs[0];
        assert_eq!(spec.to_tab().unwrap(), "/usr/bin/mpv:Iact:5:30:R:-:-");
        assert!(!spec.estimated);
    }

    /// Each mistake is named with line, field, what is wrong and what is allowed.
    #[test]
    fn mistakes_are_named() {
        for (line, begin, allowed) in [
            ("io = 8", "x.toml:6: io: '8' is no I/O priority", "0 (first) to 7"),
            ("io = -1", "x.toml:6: io: '-1' is no I/O priority", ""),
            ("io = 1.5", "x.toml:6: io: is a float", ""),
            ("protect_s = 3601", "x.toml:6: protect_s: 3601 s is too long", "0 to 3600 s"),
            ("protect_s = nan", "x.toml:6: protect_s: 'nan' is no time", ""),
            ("inheritable = \"yes\"", "x.toml:6: inheritable: is a string", "true: children"),
            ("interactive_parent = 1", "x.toml:6: interactive_parent: is an integer", "Redline section 3"),
            ("app = [\"x\", 3]", "x.toml:6: app: is an integer", ".desktop file"),
            ("app = []", "x.toml:6: app: names nothing", ""),
            ("unit = \"*.service\"", "x.toml:6: unit: '*.service' would be nearly every unit, or none", "ssh.service"),
            (
                "revokable = false",
                "x.toml:6: 'revokable': is no field",
                "inheritable, revocable, login, interactive_parent",
            ),
            ("[spec.more]", "x.toml:6: 'more': is no field", ""),
            ("[other]", "x.toml:6: 'other': is no field outside an entry", "[[spec]]"),
            ("runtime_ms = 6", "x.toml:6: entry: is not TOML: duplicate key", "left out"),
            ("io = ", "x.toml:6: entry: is not TOML: ", "left out"),
        ] {
            let found = complaints(&format!("{GOOD}{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with(begin) && found[0].contains(allowed), "{}", found[0]);
        }
        // Who misspells a field means something else than its default.
        assert_eq!(in_force(&read(&format!("{GOOD}revokable = false\n"))), []);
        for (from, to, begin) in [
            ("\"interactive\"", "\"Iact\"", "x.toml:3: type: 'Iact' is no type; "),
            ("\"interactive\"", "3", "x.toml:3: type: is an integer; "),
            ("= 5", "= 29", "x.toml:4: runtime_ms: 29 ms is too much of 30 ms; "),
            ("= 5", "= -5", "x.toml:4: runtime_ms: '-5' is no time; "),
            ("= 30", "= 30000", "x.toml:5: period_ms: 30000 ms is out of range; "),
            ("period_ms = 30", "", "x.toml:1: period_ms: is missing; "),
            ("path = \"/usr/bin/mpv\"", "", "x.toml:1: entry: says for no program; "),
            ("/usr/bin/mpv", "mpv", "x.toml:2: path: 'mpv' does not begin at the root; "),
            ("[[spec]]", "[spec]", "x.toml:1: spec: is no array of tables; "),
            ("[[spec]]", "[[specs]]", "x.toml:1: 'specs': is no field outside an entry; "),
        ] {
            let found = complaints(&GOOD.replace(from, to));
            assert_eq!(found.len(), 1, "{to}: {found:?}");
            assert!(found[0].starts_with(begin), "{}", found[0]);
        }
    }

    /// Whoever starts a program chooses its app id: such a one cannot be irrevocable. The path beside it can.
    #[test]
    fn an_app_must_be_revocable() {
        let found = read(&format!("{GOOD}app = \"io.mpv.Mpv\"\nrevocable = false\n"));
        assert_eq!(in_force(&found), [("/usr/bin/mpv".to_owned(), 2)]);
        assert_eq!(found.complaints.len(), 1);
        assert!(found.complaints[0].to_string().starts_with("x.toml:7: revocable: is false for an app; "));
    }

    /// Apps and units are found by their cgroup, whoever executes what: only a path can ask for an interactive parent. The path beside them can.
    #[test]
    fn only_a_path_has_an_interactive_parent() {
        let found = read(&format!("{GOOD}app = \"io.mpv.Mpv\"\nunit = \"mpv.service\"\ninteractive_parent = true\n"));
        assert_eq!(in_force(&found), [("/usr/bin/mpv".to_owned(), 2)]);
        assert_eq!(found.specs[0].to_tab().unwrap(), "/usr/bin/mpv:Iact:5:30:RP:-:-");
        let begin = "x.toml:8: interactive_parent: is true for an app or a unit; ";
        assert_eq!(found.complaints.len(), 2);
        assert!(found.complaints.iter().all(|complaint| complaint.to_string().starts_with(begin)), "{found:?}");
    }

    /// A mistake of any kind costs its own entry, or its own name, and no other.
    #[test]
    fn a_bad_entry_disables_no_other() {
        let good = |name: &str| GOOD.replace("mpv", name);
        for bad in
            ["io = = 3\n", "x = \"\n", "path = [\n", "= 3\n", "type = \"\"\"\n", "}\n", "runtime_ms = 0\n", "\u{1}\n"]
        {
            let found = read(&format!("{}{}{}{}", good("a"), good("b"), bad, good("c")));
            assert_eq!(in_force(&found), [("/usr/bin/a".to_owned(), 2), ("/usr/bin/c".to_owned(), 13)], "{bad}");
            assert_eq!(found.complaints.len(), 1, "{bad}: {:?}", found.complaints);
        }
        let found = read(&GOOD.replace("\"/usr/bin/mpv\"", "[\"/a\", \"b\", \"/c\"]"));
        assert_eq!(found.specs.len(), 2);
        assert_eq!(found.complaints.len(), 1);
    }

    /// Bytes that are no text cost the entry they are in, and the complaint has their line.
    #[test]
    fn what_is_no_text_costs_one_entry() {
        let mut bytes = format!("{GOOD}# ").into_bytes();
        bytes.extend(b"\xff\n");
        bytes.extend(GOOD.replace("mpv", "c").bytes());
        let found = parse(Path::new("x.toml"), &bytes);
        assert_eq!(in_force(&found), [("/usr/bin/c".to_owned(), 8)]);
        assert!(found.complaints[0].to_string().starts_with("x.toml:6: line: is not UTF-8; "));
    }

    /// Entries written as an array of tables in one value are read, too.
    #[test]
    fn inline_entries_are_read() {
        let inline = r#"spec = [
  { path = "/a", type = "best-effort" },
  { path = "/b", type = "best-effort" },
  3,
]
"#;
        let found = read(inline);
        assert_eq!(in_force(&found), [("/a".to_owned(), 2), ("/b".to_owned(), 3)]);
        assert!(found.complaints[0].to_string().starts_with("x.toml:4: spec: is no table; "), "{:?}", found.complaints);
    }
}
