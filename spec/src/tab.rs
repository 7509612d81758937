// SPDX-License-Identifier: GPL-2.0-only
//! The paper's own form (section 3): `pathname:type:C:T:flags:π:io`, one line for a program, `-` for what limelight is to choose.

use std::path::Path;
use std::time::Duration;

use crate::complaint::{Complaint, Found, lines, shown};
use crate::fields::{Draft, FLAG_LETTERS, Fault, Field, IO_MOST, pathname, time};
use crate::model::{Kind, NS_PER_MS, NS_PER_S, Source, Spec};

/// Fields behind the pathname.
const REST: usize = 6;

/// Read a file's content; `file` is its name in complaints and sources.
pub fn parse(file: &Path, content: &[u8]) -> Found {
    let mut found = Found::default();
    for (number, text) in lines(content) {
        let mut complain = |field: &str, wrong: String, allowed: String| {
            let field = field.to_owned();
            found.complaints.push(Complaint { file: file.to_owned(), line: number, field, wrong, allowed });
        };
        let text = match text {
            Ok(text) => text.trim_start(),
            Err(_) => {
                complain("line", "is not UTF-8".to_owned(), "write it in UTF-8".to_owned());
                continue;
            }
        };
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        match line(text, Source { file: file.to_owned(), line: number }) {
            Ok(spec) => found.specs.push(spec),
            Err(Wrong::Shape(wrong)) => {
                complain(
                    "line",
                    wrong,
                    "give pathname:type:C:T:flags:π:io, with '\\:' for a colon in the pathname".to_owned(),
                );
            }
            Err(Wrong::Fields(faults)) => {
                for Fault { field, wrong } in faults {
                    complain(field.in_tab().unwrap_or("line"), wrong, field.allowed());
                }
            }
        }
    }
    found.bounded()
}

/// Why a line is none.
enum Wrong {
    /// It does not have the seven fields.
    Shape(String),
    /// Of these fields.
    Fields(Vec<Fault>),
}

fn line(text: &str, source: Source) -> Result<Spec, Wrong> {
    let (path, rest) = split(text).ok_or_else(|| Wrong::Shape("has no field behind the pathname".to_owned()))?;
    let mut fields: Vec<&str> = rest.splitn(REST, ':').collect();
    let found = fields.len();
    // Only the last field can have a comment behind it: a pathname may contain '#'.
    if let Some(last) = fields.get_mut(REST - 1) {
        *last = last.split('#').next().unwrap_or_default();
        if last.contains(':') {
            return Err(Wrong::Shape("has more than 7 fields".to_owned()));
        }
    }
    let fields: Vec<&str> = fields.into_iter().map(str::trim).collect();
    let [kind, runtime, period, flags, protect, io] = fields[..] else {
        return Err(Wrong::Shape(format!("has {} of 7 fields", found + 1)));
    };
    let mut faults = Vec::new();
    let target = keep(&mut faults, Field::Path, pathname(path.trim_end()));
    let [inheritable, revocable, login, interactive_parent] =
        keep(&mut faults, Field::Flags, flags_of(flags)).unwrap_or_default();
    let draft = Draft {
        kind: keep(&mut faults, Field::Type, kind_of(kind)),
        runtime: keep(&mut faults, Field::Runtime, time_of(runtime, NS_PER_MS)).flatten(),
        period: keep(&mut faults, Field::Period, time_of(period, NS_PER_MS)).flatten(),
        inheritable,
        revocable,
        login,
        interactive_parent,
        protect: keep(&mut faults, Field::Protect, time_of(protect, NS_PER_S)).flatten(),
        io: keep(&mut faults, Field::Io, io_of(io)).flatten(),
        estimated: false,
    };
    let together = draft.faults(|field| faults.iter().any(|fault| fault.field == field));
    faults.extend(together);
    match target {
        Some(target) if faults.is_empty() => draft.spec(target, source).map_err(|fault| Wrong::Fields(vec![fault])),
        _ => Err(Wrong::Fields(faults)),
    }
}

/// The value of a field, or a fault more.
fn keep<T>(faults: &mut Vec<Fault>, field: Field, value: Result<T, String>) -> Option<T> {
    value.map_err(|wrong| faults.push(Fault { field, wrong })).ok()
}

/// The pathname without its backslashes, and what is behind its colon.
fn split(text: &str) -> Option<(String, &str)> {
    let mut path = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            ':' => return Some((path, &text[at + 1..])),
            '\\' => path.push(characters.next()?.1),
            other => path.push(other),
        }
    }
    None
}

fn kind_of(text: &str) -> Result<Kind, String> {
    let found = [Kind::Interactive, Kind::BestEffort].into_iter().find(|kind| kind.in_tab().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("{} is no type", shown(text)))
}

/// Whether it has I, R, L and P.
fn flags_of(text: &str) -> Result<[bool; 4], String> {
    if is_empty(text) || text.chars().all(|flag| FLAG_LETTERS.contains(flag)) {
        return Ok(['I', 'R', 'L', 'P'].map(|flag| text.contains(flag)));
    }
    Err(format!("{} are not flags", shown(text)))
}

/// Nothing was said: limelight chooses, or there is none.
fn is_empty(text: &str) -> bool {
    matches!(text, "" | "-")
}

fn time_of(text: &str, unit: u128) -> Result<Option<Duration>, String> {
    if is_empty(text) {
        return Ok(None);
    }
    // Not "inf", not "1e9", no sign.
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value = text.parse().ok().filter(|_| plain).and_then(|value| time(value, unit));
    value.map(Some).ok_or_else(|| format!("{} is no plain number", shown(text)))
}

fn io_of(text: &str) -> Result<Option<u8>, String> {
    if is_empty(text) {
        return Ok(None);
    }
    let level = text.parse().ok().filter(|level| text.len() == 1 && *level <= IO_MOST);
    level.map(Some).ok_or_else(|| format!("{} is no I/O priority", shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Target;

    fn read(text: &str) -> Found {
        parse(Path::new("/etc/spec/spec.tab"), text.as_bytes())
    }

    /// The complaints about a text of which nothing is left, without the file's name.
    fn complaints(text: &str) -> Vec<String> {
        let found = read(text);
        assert_eq!(found.specs, [], "{text}");
        found.complaints.iter().map(|complaint| complaint.to_string().replace("/etc/spec/spec.tab:", "")).collect()
    }

    /// The paper's example means what the paper says it means.
    #[test]
    fn the_papers_line_is_read() {
        let found = read("/usr/bin/mplayer:Iact:5:30:IR:-:-\n");
        let expected = Spec {
            target: Target::Path("/usr/bin/mplayer".into()),
            kind: Kind::Interactive,
            runtime: Duration::from_millis(5),
            period: Duration::from_millis(30),
            inheritable: true,
            revocable: true,
            login: false,
            interactive_parent: false,
            protect: None,
            io: None,
            estimated: false,
            source: Source { file: "/etc/spec/spec.tab".into(), line: 1 },
        };
        assert_eq!(found, Found { specs: vec![expected], complaints: Vec::new() });
        assert_eq!(found.specs[0].to_tab().unwrap(), "/usr/bin/mplayer:Iact:5:30:IR:-:-");
    }

    /// Comments, blank lines, spaces, lower case, decimals, escaped colons and empty fields are read; sources have the right lines.
    #[test]
    fn all_that_the_form_allows_is_read() {
        let text = "# head\n\n  /a\\:b\\\\c : iact : 0.5 : 1.25 : : 2.5 : 7 # why: because\r\n/opt/x#1/y:be:-:-:-:-:-\n\
                    /z:BE::::: \n/s:Iact:5:50:LR:-:-\n/p:Iact:5:50:PR:-:-\n";
        let found = read(text);
        assert_eq!(found.complaints, []);
        let lines: Vec<_> = found.specs.iter().map(|spec| (spec.source.line, spec.to_tab().unwrap())).collect();
        let expected = [
            (3, "/a\\:b\\\\c:Iact:0.5:1.25:-:2.5:7"),
            (4, "/opt/x#1/y:BE:-:-:-:-:-"),
            (5, "/z:BE:-:-:-:-:-"),
            (6, "/s:Iact:5:50:RL:-:-"),
            (7, "/p:Iact:5:50:RP:-:-"),
        ];
        assert_eq!(lines, expected.map(|(line, text)| (line, text.to_owned())));
    }

    /// Each mistake is named with line, field, the wrong text and what is allowed.
    #[test]
    fn mistakes_are_named() {
        for (line, begin, allowed) in [
            ("mplayer:Iact:5:30:IR:-:-", "1: pathname: 'mplayer' does not begin at the root", "from the root"),
            ("/m:RT:5:30:IR:-:-", "1: type: 'RT' is no type", "Iact or BE"),
            ("/m:Iact:five:30:IR:-:-", "1: C: 'five' is no plain number", "at least 0.1 ms"),
            ("/m:Iact:inf:30:IR:-:-", "1: C: 'inf' is no plain number", ""),
            ("/m:Iact:-5:30:IR:-:-", "1: C: '-5' is no plain number", ""),
            ("/m:Iact:0:30:IR:-:-", "1: C: 0 ms is too little", ""),
            ("/m:Iact:31:30:IR:-:-", "1: C: 31 ms is too much of 30 ms", "95 % of T"),
            ("/m:Iact:-:30:IR:-:-", "1: C: is missing", ""),
            ("/m:Iact:5:20000:IR:-:-", "1: T: 20000 ms is out of range", "1 to 10000 ms"),
            ("/m:Iact:5:30:RX:-:-", "1: flags: 'RX' are not flags", "I (children"),
            ("/m:Iact:5:30:RQ:-:-", "1: flags: 'RQ' are not flags", "P (only for"),
            ("/m:Iact:5:30:-I:-:-", "1: flags: '-I' are not flags", ""),
            ("/m:Iact:5:30:IR:3601:-", "1: π: 3601 s is too long", "0 to 3600 s"),
            ("/m:Iact:5:30:IR:-:8", "1: io: '8' is no I/O priority", "0 (first) to 7"),
            ("/m:Iact:5:30:IR:-", "1: line: has 6 of 7 fields", "pathname:type:C:T:flags:π:io"),
            ("/m:Iact:5:30:IR:-:-:-", "1: line: has more than 7 fields", ""),
            ("/m", "1: line: has no field behind the pathname", ""),
            ("/m\\", "1: line: has no field behind the pathname", ""),
        ] {
            let found = complaints(line);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{begin}; ")) && found[0].contains(allowed), "{}", found[0]);
        }
        assert_eq!(complaints("x:y:a:b:c:d:e").len(), 7);
    }

    /// A bad line, one that is not even text, leaves those around it in force.
    #[test]
    fn a_bad_line_disables_no_other() {
        let text = b"/a:Iact:5:30:R:-:-\n/b\xff:Iact:5:30:R:-:-\nnonsense\n/c:Iact:5:30:R:-:-";
        let found = parse(Path::new("x.tab"), text);
        assert_eq!(found.specs.iter().map(|spec| spec.source.line).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(found.complaints.iter().map(|complaint| complaint.line).collect::<Vec<_>>(), [2, 3]);
    }
}
