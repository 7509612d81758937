// SPDX-License-Identifier: GPL-2.0-only
//! `limelight spec suggest --recorded`: the specification of a program from a recording of the scheduler (`limelight_spec::recorded`). Nothing is started,
//! and nothing is tried. The text may be anybody's while the reader is root, so it is read a line at a time, and of a line as much as one can have.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limelight_spec::Kind;
use limelight_spec::recorded::{Recorded, Recording};
use limelight_spec::suggest::{BURSTS_LEAST, Seen, Verdict, WATCH_LEAST, judge};

use super::process::found;
use super::report::{self, Suggestion, tell};
use super::{START, line_of};

/// The longest line of an event is a tenth of this. A longer one is none.
const LINE_MOST: usize = 4_096;
/// A text has a newline now and then; what has none for so long is no text.
const LINE_ENDS_WITHIN: u64 = 1 << 20;

/// What the recordings themselves begin with, and what makes text of them.
const BINARY: [(&[u8], &str, &str); 3] = [
    (b"PERFILE2", "perf's", "perf script --ns -F +pid -i"),
    (b"2ELIFREP", "perf's", "perf script --ns -F +pid -i"),
    (b"\x17\x08Dtracing", "trace-cmd's", "trace-cmd report -t -i"),
];

/// Find the specification of `program` in the recording `file` (`-`: standard input), in which it was process `pid`.
///
/// # Errors
/// Why there is none.
pub fn suggest(file: &Path, pid: u32, program: &OsStr) -> Result<Suggestion> {
    let (program, mut notes) = path_of(program)?;
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let recorded =
        open(file).and_then(|input| read(input, file, pid)).with_context(|| format!("the recording, {name}"))?;
    notes.extend(about(&recorded, pid));
    let from_ns = recorded.from_ns + if recorded.has_begin { u64::try_from(START.as_nanos())? } else { 0 };
    let (seen, finding) = match judge(&recorded.stints, from_ns, recorded.to_ns) {
        Verdict::TooLittle(seen) => bail!("{}", too_little(&seen, recorded.has_begin)),
        Verdict::Starved(seen) => bail!(
            "{}: what it needs does not show while others take the CPU. Record it while fewer of them run",
            report::seen(&seen)
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
        is_recorded: true,
        untried: finding.as_ref().map(|_| "it was recorded".to_owned()),
        finding,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        ..Suggestion::default()
    };
    tell(&suggestion.told());
    Ok(suggestion)
}

/// The file that the line names, and what is to be known about it. The recording may be another machine's.
fn path_of(program: &OsStr) -> Result<(PathBuf, Vec<String>)> {
    if let Some(path) = found(program) {
        let is_script = File::open(&path).is_ok_and(|mut file| {
            let mut begin = [0; 2];
            file.read_exact(&mut begin).is_ok() && begin == *b"#!"
        });
        let note = format!(
            "{} is a script: the line has to name what runs it, and is for all that this runs then",
            path.display()
        );
        return Ok((path, if is_script { vec![note] } else { Vec::new() }));
    }
    let path = PathBuf::from(program);
    if !path.is_absolute() {
        bail!("there is no program {} here: give its path, from the root, as it is where it runs", path.display());
    }
    let note = format!("{} is not installed here", path.display());
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
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        number += 1;
        line.clear();
        let unread = || format!("line {number} cannot be read");
        let length = (&mut input).take(LINE_MOST as u64).read_until(b'\n', &mut line).with_context(unread)?;
        if length == 0 {
            return Ok(recording.end()?);
        }
        let magic = if number == 1 { BINARY.iter().find(|(magic, ..)| line.starts_with(magic)) } else { None };
        if let Some((_, whose, command)) = magic {
            let file = if file == Path::new("-") { Path::new("FILE") } else { file };
            bail!("it is {whose} own file, not text; make text of it: {command} {} >recorded.txt", file.display());
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
            "the recording does not say which threads are of process {pid}, so only thread {pid} was looked at (perf script -F +pid, or ftrace's option record-tgid \
             while it records, make it say so)"
        ));
    }
    if let Some(line) = recorded.broken {
        notes.push(format!("line {line} of the recording is the first that makes no sense, and was left out"));
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
            (&b"PERFILE2\x68\0\0"[..], "perf script --ns -F +pid -i x.data >recorded.txt"),
            (b"\x17\x08Dtracing6\0", "trace-cmd report -t -i x.data >recorded.txt"),
        ] {
            assert!(error(text).contains(command), "{}", error(text));
        }
        let endless = read(io::repeat(0), Path::new("/dev/zero"), 7).unwrap_err();
        assert!(format!("{endless:#}").contains("line 1 is longer than"), "{endless:#}");
        assert!(error(b"").contains("no line has an event of the scheduler's"), "{}", error(b""));
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
        assert!(path_of(script.path().as_os_str()).unwrap().1[0].contains("is a script"));
    }
}
