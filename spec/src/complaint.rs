// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a file of specifications, in words that name the place and the fix.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::model::Spec;
use crate::text::printable;

/// Complaints kept of one file. A file of another kind, under a name of ours, would fill the journal otherwise.
const MAX_PER_FILE: usize = 100;
/// Characters of a file's text that a complaint repeats.
const MAX_SHOWN: usize = 80;

/// One thing that is wrong. What it is about is left out; everything else stays in force.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {field}: {wrong}; {allowed}", self.place())]
pub struct Complaint {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0: the whole file.
    pub line: usize,
    /// The field, as the file's form calls it; or `file`, `line` or `entry`.
    pub field: String,
    /// What is wrong.
    pub wrong: String,
    /// What is allowed instead, or what to do.
    pub allowed: String,
}

impl Complaint {
    /// About a file as a whole.
    pub(crate) fn of_file(file: &Path, wrong: impl Into<String>, allowed: impl Into<String>) -> Self {
        let (wrong, allowed) = (wrong.into(), allowed.into());
        Complaint { file: file.to_owned(), line: 0, field: "file".to_owned(), wrong, allowed }
    }

    fn place(&self) -> String {
        // The name comes from a folder's listing.
        let file = printable(&self.file.to_string_lossy());
        if self.line == 0 { file } else { format!("{file}:{}", self.line) }
    }
}

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The specifications, in the file's order.
    pub specs: Vec<Spec>,
    /// What is wrong, in the file's order.
    pub complaints: Vec<Complaint>,
}

impl Found {
    /// Keep the first complaints, and say how many more there are.
    pub(crate) fn bounded(mut self) -> Self {
        let more = self.complaints.len().saturating_sub(MAX_PER_FILE);
        if more > 0 {
            self.complaints.truncate(MAX_PER_FILE);
            let file = self.complaints[0].file.clone();
            let allowed = "is this file meant to hold specifications? mend the first ones and check again";
            self.complaints.push(Complaint::of_file(&file, format!("{more} more lines are wrong"), allowed));
        }
        self
    }
}

/// A part of a file in a message: quoted, shortened, and without what would steer a terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        short.push_str("...");
    }
    format!("'{short}'")
}

/// The lines of a file with their numbers, from 1; what is not UTF-8 in one leaves the others readable.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<&str, std::str::Utf8Error>)> {
    bytes.split(|byte| *byte == b'\n').enumerate().map(|(before, line)| (before + 1, std::str::from_utf8(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A complaint is one line: place, field, what is wrong, what is allowed; no control character of a file reaches the terminal.
    #[test]
    fn a_complaint_is_one_harmless_line() {
        let mut complaint =
            Complaint::of_file(Path::new("/etc/a\u{1b}b"), format!("is {}", shown("\u{1b}[2J")), "say more");
        assert_eq!(complaint.to_string(), "/etc/a?b: file: is '\\u{1b}[2J'; say more");
        complaint.line = 3;
        complaint.field = "T".to_owned();
        assert!(complaint.to_string().starts_with("/etc/a?b:3: T: is "));
        assert!(shown(&"x".repeat(1000)).len() < 100);
    }

    /// A file of nonsense yields a bounded number of complaints, and the last says how many more there were.
    #[test]
    fn complaints_are_bounded() {
        let complaints = vec![Complaint::of_file(Path::new("/x"), "is wrong", "mend it"); 1234];
        let bounded = Found { specs: Vec::new(), complaints }.bounded().complaints;
        assert_eq!(bounded.len(), MAX_PER_FILE + 1);
        assert!(bounded[MAX_PER_FILE].wrong.starts_with("1134 more"), "{bounded:?}");
    }
}
