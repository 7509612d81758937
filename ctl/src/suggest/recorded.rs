// SPDX-License-Identifier: GPL-2.0-only
//! `limelight spec suggest --recorded`: the specification of a program from a recording of the scheduler (`limelight_spec::recorded`). Nothing is started,
//! and nothing is tried. The text may be anybody's while the reader is root, so it is read a line at a time, and of a line as much as one can have.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limelight_spec::recorded::{Recorded, Recording};
use limelight_spec::suggest::{BURSTS_LEAST, Seen, Verdict, WATCH_LEAST, judge};
use limelight_spec::{Kind, printable};

use super::process::found;
use super::report::{self, Suggestion, tell};
use super::{START, line_of};

/// The longest line of an event is a third of this. A longer one is none.
const LINE_MOST: usize = 1_024;
/// A text has a newline now and then; what has none for so long is no text.
const LINE_ENDS_WITHIN: u64 = 1 << 20;

/// What has no event for so long has none: a device may have no end.
const BLANK_MOST: u64 = 64 << 20;

/// Threads of nobody knows which process are told if they ran for more than the process by this: each short one that ended is such a one to perf.
const UNNAMED_PART: u64 = 100;

/// What the recordings themselves begin with, and what makes text of them.
const BINARY: [(&[u8], &str, &str); 3] = [
    (b"PERFILE2", "perf's", "perf script --ns --show-lost-events -F +pid -i"),
    (b"2ELIFREP", "perf's", "perf script --ns --show-lost-events -F +pid -i"),
    (b"\x17\x08Dtracing", "trace-cmd's", "trace-cmd report -t -i"),
];

/// Find the specification of `program` in the recording `file` (`-`: standard input), in which it was process `pid`.
///
/// # Errors
/// Why there is none.
pub fn suggest(file: &Path, pid: u32, program: &OsStr) -> Result<Suggestion> {
    let (program, mut notes) = path_of(program)?;
    // Before the recording is read, which takes a while.
    line_of(&program, Kind::BestEffort, Duration::ZERO, Duration::ZERO)?;
    let name = if file == Path::new("-") { "standard input".to_owned() } else { shown(file) };
    let recorded =
        open(file).and_then(|input| read(input, file, pid)).with_context(|| format!("the recording, {name}"))?;
    notes.extend(about(&recorded, pid));
    let from_ns = recorded.from_ns + if recorded.has_begin { u64::try_from(START.as_nanos())? } else { 0 };
    let (seen, finding) = match judge(&recorded.stints, from_ns, recorded.to_ns) {
        Verdict::TooLittle(seen) => bail!("{}{}", too_little(&seen, recorded.has_begin), also(&recorded, notes)),
        Verdict::Starved(seen) => bail!(
            "{}: what it needs does not show while others take the CPU. Record it while fewer of them run{}",
            report::seen(&seen),
            also(&recorded, notes)
        ),
        Verdict::CpuBound(seen) => (seen, None),
        Verdict::Found(finding) => (finding.seen, Some(finding)),
    };
    let (kind, runtime, period) = match &finding {
        Some(finding) => (Kind::Interactive, finding.runtime, finding.period),
        None => (Kind::BestEffort, Duration::ZERO, Duration::ZERO),
    };
    if let Some(finding) = &finding {
        tell(&report::found(finding));
    }
    let suggestion = Suggestion {
        line: line_of(&program, kind, runtime, period)?,
        program,
        seen,
        lost: recorded.lost,
        unread: recorded.unread,
        is_recorded: true,
        untried: finding.as_ref().map(|_| "it was recorded".to_owned()),
        finding,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        ..Suggestion::default()
    };
    tell(&suggestion.told());
    Ok(suggestion)
}

/// What may be why it is not enough.
fn also(recorded: &Recorded, mut notes: Vec<String>) -> String {
    if recorded.lost > 0 {
        notes.push(report::missing(recorded.lost));
    }
    notes.into_iter().map(|note| format!(". Also, {note}")).collect()
}

/// A path, for a terminal.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// A path, for a shell.
fn quoted(path: &Path) -> String {
    let text = shown(path);
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+:,@%".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The file that the line names, and what is to be known about it. The recording may be another machine's.
fn path_of(program: &OsStr) -> Result<(PathBuf, Vec<String>)> {
    if let Some(path) = found(program) {
        let is_script = File::open(&path).is_ok_and(|mut file| {
            let mut begin = [0; 2];
            file.read_exact(&mut begin).is_ok() && begin == *b"#!"
        });
        // The kernel shows what runs it, so a line with its path would be for nobody.
        if is_script {
            bail!(
                "{} is a script: give what runs it (its first line says), or name an app or a unit in TOML",
                shown(&path)
            );
        }
        if fs::metadata(&path).is_ok_and(|about| about.permissions().mode() & 0o111 == 0) {
            bail!("{} is not a program: it cannot be run", shown(&path));
        }
        return Ok((path, Vec::new()));
    }
    let path = PathBuf::from(program);
    if fs::metadata(&path).is_ok_and(|about| !about.is_file()) {
        bail!("{} is not a program: give the program's file", shown(&path));
    }
    if !path.is_absolute() {
        bail!("there is no program {} here: give its path, from the root, as it is where it runs", shown(&path));
    }
    let note = format!("{} is not installed here", shown(&path));
    Ok((path, vec![note]))
}

fn open(file: &Path) -> Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let opened =
        File::open(file).context("it cannot be opened; give a file that can be read, or - and standard input")?;
    if fs::metadata(file).is_ok_and(|about| about.is_dir()) {
        bail!("it is a folder: give the file");
    }
    Ok(Box::new(opened))
}

fn read(input: impl Read, file: &Path, pid: u32) -> Result<Recorded> {
    let mut input = BufReader::new(input);
    let mut recording = Recording::of(pid);
    let (mut line, mut number, mut bytes) = (Vec::new(), 0_u64, 0_u64);
    loop {
        number += 1;
        line.clear();
        let unread = || format!("line {number} cannot be read");
        let length = (&mut input).take(LINE_MOST as u64).read_until(b'\n', &mut line).with_context(unread)?;
        bytes += length as u64;
        if length == 0 || (bytes > BLANK_MOST && recording.is_blank()) {
            return Ok(recording.end()?);
        }
        let magic = if number == 1 { BINARY.iter().find(|(magic, ..)| line.starts_with(magic)) } else { None };
        if let Some((_, whose, command)) = magic {
            let file = if file == Path::new("-") { Path::new("FILE") } else { file };
            bail!("it is {whose} own file, not text; make text of it: {command} {} >recorded.txt", quoted(file));
        }
        if length < LINE_MOST || line.ends_with(b"\n") {
            if !recording.take(&line) {
                return Ok(recording.end()?);
            }
            continue;
        }
        recording.skip();
        if !ends(&mut input).with_context(unread)? {
            bail!(
                "line {number} is longer than {LINE_ENDS_WITHIN} bytes: it is not text that perf script, trace-cmd report or ftrace made"
            );
        }
    }
}

/// Passes over the rest of a line; whether it ended in time.
fn ends(input: &mut impl BufRead) -> io::Result<bool> {
    let mut passed = 0;
    while passed < LINE_ENDS_WITHIN {
        let mut rest = Vec::new();
        let length = input.take(LINE_MOST as u64).read_until(b'\n', &mut rest)?;
        if length == 0 || rest.ends_with(b"\n") {
            return Ok(true);
        }
        passed += length as u64;
    }
    Ok(false)
}

/// What is to be known about the recording.
fn about(recorded: &Recorded, pid: u32) -> Vec<String> {
    let mut notes = Vec::new();
    if !recorded.names_processes {
        notes.push(format!(
            "the recording does not say which threads are of process {pid}, so only thread {pid} was looked at (perf script --show-lost-events -F +pid, or \
             ftrace's option record-tgid while it records, make it say so)"
        ));
    }
    let own_ns: u64 = recorded.stints.iter().map(|stint| stint.end_ns - stint.start_ns).sum();
    if recorded.names_processes && recorded.unnamed_ns > own_ns / UNNAMED_PART {
        notes.push(format!(
            "the recording does not say whose threads ran for {:.2} s in all: if they are of process {pid}, which ran for {:.2} s, they are missing (set ftrace's \
             option record-tgid before it records)",
            Duration::from_nanos(recorded.unnamed_ns).as_secs_f64(),
            Duration::from_nanos(own_ns).as_secs_f64()
        ));
    }
    match (recorded.unread, recorded.broken) {
        (0, _) | (_, None) => {}
        (1, Some(line)) => notes.push(format!("line {line} of the recording makes no sense and was left out")),
        (count, Some(line)) => notes.push(format!(
            "{count} lines of the recording, of which the first is line {line}, make no sense and were left out"
        )),
    }
    if recorded.is_cut {
        notes.push(
            "the recording is longer than what counts, an hour or a million turns on a CPU: its end was left out"
                .to_owned(),
        );
    }
    notes
}

fn too_little(seen: &Seen, has_begin: bool) -> String {
    let start = if has_begin { "; the first 2 s of a program do not count" } else { "" };
    format!(
        "{} is too little to tell what it needs: {} s and {BURSTS_LEAST} bursts of work are the least{start}. \
         Record for longer, while it does what it is for",
        report::seen(seen),
        WATCH_LEAST.as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &[u8]) -> String {
        format!("{:#}", read(text, Path::new("x.data"), 7).unwrap_err())
    }

    /// What is no text is named, with the command that makes text of it; what never ends ends.
    #[test]
    fn what_is_no_text_is_named() {
        for (text, command) in [
            (&b"PERFILE2\x68\0\0"[..], "perf script --ns --show-lost-events -F +pid -i x.data >recorded.txt"),
            (b"\x17\x08Dtracing6\0", "trace-cmd report -t -i x.data >recorded.txt"),
        ] {
            assert!(error(text).contains(command), "{}", error(text));
        }
        let endless = read(io::repeat(0), Path::new("/dev/zero"), 7).unwrap_err();
        assert!(format!("{endless:#}").contains("line 1 is longer than"), "{endless:#}");
        assert!(error(b"").contains("no line has an event of the scheduler's"), "{}", error(b""));
    }

    /// What has lines but no event, and no end, ends; the command that is told can be typed, whatever the file's name is.
    #[test]
    fn what_has_no_event_ends() {
        let lines = BufReader::new(Lines);
        let error = format!("{:#}", read(lines, Path::new("x"), 7).unwrap_err());
        assert!(error.contains("no line has an event"), "{error}");
        let told = format!("{:#}", read(&b"PERFILE2"[..], Path::new("a b;$'\u{1b}"), 7).unwrap_err());
        assert!(told.contains(r"-i 'a b;$'\''?' >recorded"), "{told}");
    }

    /// Lines without end.
    struct Lines;

    impl Read for Lines {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'\n');
            buffer[0] = b'x';
            Ok(buffer.len())
        }
    }

    /// A line of no event that is far too long is passed over; the ones after it keep their numbers.
    #[test]
    fn a_long_line_is_passed_over() {
        let mut text = vec![b'x'; LINE_MOST * 3];
        text.extend(b"\na-1 [000] 5: sched_switch: a:1 [1] S ==> b:7 [1]\n");
        assert!(error(&text).contains("line 2 names an event"), "{}", error(&text));
        let mut text = vec![b'x'; LINE_MOST];
        text.extend(b"\na-1 [000] 5: sched_switch: a:1 [1] S ==> b:7 [1]");
        assert!(error(&text).contains("line 2 names an event"), "{}", error(&text));
    }

    /// The line names the file that a name or a link leads to; of a program that is not here, what was given, if that is a path.
    #[test]
    fn the_program_is_a_path() {
        let (path, notes) = path_of(OsStr::new("cat")).unwrap();
        assert!(path.is_absolute() && notes.is_empty(), "{path:?} {notes:?}");
        let (path, notes) = path_of(OsStr::new("/nowhere/player")).unwrap();
        assert!(path == Path::new("/nowhere/player") && notes[0].contains("not installed here"));
        assert!(format!("{:#}", path_of(OsStr::new("no-such-program")).unwrap_err()).contains("give its path"));
        let script = tempfile::Builder::new().tempfile().unwrap();
        fs::write(script.path(), "#!/bin/sh\n").unwrap();
        for path in [
            "/nowhere/a\n/usr/bin/env",
            "/nowhere/x ",
            "/nowhere/x\t",
            "/nowhere//x",
            "/nowhere/x/",
            "/nowhere/../x",
            "/",
        ] {
            let error = format!(
                "{:#}",
                line_of(Path::new(path), Kind::BestEffort, Duration::ZERO, Duration::ZERO).unwrap_err()
            );
            assert!(error.contains("no line can name") && !error.contains('\n'), "{path:?}: {error}");
        }
        for (what, why) in [
            (script.path(), "is a script: give what runs it"),
            (Path::new("/usr"), "not a program: give the program's file"),
            (Path::new("/dev/null"), "not a program"),
            (Path::new("/etc/passwd"), "cannot be run"),
        ] {
            let error = format!("{:#}", path_of(what.as_os_str()).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    /// What is told of a recording: lines that cannot be read as such, by number, and threads of nobody knows whom by how much they ran.
    #[test]
    fn what_is_wrong_with_it_is_told() {
        let text = "a-1 [000] 15: sched_switch: a:1 [1] S ==> b:7 [1]\n".repeat(2)
            + "a-1 (1) [000] 1.0: sched_switch: a:1 [1] S ==> b:7 [1]\n\
               b-7 (7) [000] 2.0: sched_switch: b:7 [1] S ==> c:8 [1]\n\
               c-8 (-) [000] 2.5: sched_switch: c:8 [1] S ==> a:1 [1]\n";
        let told = |text: &str| about(&read(text.as_bytes(), Path::new("x"), 7).unwrap(), 7).join("; ");
        let notes = told(&text);
        assert!(notes.contains("2 lines of the recording, of which the first is line 1, make no sense"), "{notes}");
        assert!(notes.contains("ran for 0.50 s in all") && notes.contains("ran for 1.00 s, they"), "{notes}");
        assert_eq!(told(&text.replace(" 2.5:", " 2.01:")), notes.split("; ").last().unwrap());
        let other = told(&text.replace("(7)", "(-)"));
        assert!(other.contains("only thread 7 was looked at") && other.contains("--show-lost-events"), "{other}");
    }
}
