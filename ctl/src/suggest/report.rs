// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a program that was watched.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use limelight_spec::suggest::{Finding, Seen, Tried};
use serde_json::{Value, json};

/// A specification, and where it comes from.
#[derive(Debug, Default)]
pub struct Suggestion {
    /// The line in the paper's form.
    pub line: String,
    /// The program's path.
    pub program: PathBuf,
    /// What was seen of it.
    pub seen: Seen,
    /// Stays on a CPU that were not seen; of a recording, events.
    pub lost: u64,
    /// Lines of a recording that cannot be read.
    pub unread: u64,
    /// It was not watched but recorded.
    pub is_recorded: bool,
    /// What was found; `None`: it is bound by the CPU.
    pub finding: Option<Finding>,
    /// How the figures were tried.
    pub attempts: Vec<Attempt>,
    /// Why they were not, or not to the end.
    pub untried: Option<String>,
    /// What is to be known about the path.
    pub note: Option<String>,
}

/// One C that was tried.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// C.
    pub runtime: Duration,
    /// What came of it.
    pub tried: Tried,
}

impl Attempt {
    /// In words.
    pub fn told(&self, period: Duration) -> String {
        let Tried { periods, missed, windows, over, peak } = self.tried;
        format!(
            "tried {} ms in every {} ms: {windows} periods with work, {missed} missed of {periods} that \
             the scheduler counted, {over} in which it took more; the most was {} ms",
            ms(self.runtime),
            ms(period),
            ms(peak)
        )
    }
}

impl Suggestion {
    /// The end of the story, for standard error: the figures are in the line.
    pub fn told(&self) -> String {
        let mut sentences = Vec::new();
        if self.finding.is_none() {
            sentences.push(format!("{}: it would use any amount, so no reservation makes sense", seen(&self.seen)));
        } else if let Some(why) = &self.untried {
            let how_far = if self.attempts.is_empty() { "" } else { " to the end" };
            sentences.push(format!("the figures were not tried{how_far}: {why}"));
        }
        if self.attempts.last().is_some_and(|last| last.tried.is_short()) {
            sentences.push("even the last C that was tried was not always enough".to_owned());
        }
        if self.lost > 0 && self.is_recorded {
            sentences.push(missing(self.lost));
        } else if self.lost > 0 {
            sentences.push(format!("{} of its turns on a CPU were not seen: the figures may be too low", self.lost));
        }
        sentences.extend(self.note.clone());
        sentences.join("\nlimelight: ")
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let finding = self.finding.as_ref();
        let rhythm = finding.and_then(|finding| finding.rhythm.as_ref());
        let attempt = |attempt: &Attempt| {
            let Tried { periods, missed, windows, over, peak } = attempt.tried;
            json!({
                "runtime_ms": ms(attempt.runtime),
                "windows": windows,
                "periods": periods,
                "missed": missed,
                "over": over,
                "peak_ms": ms(peak),
            })
        };
        json!({
            "line": self.line,
            "program": self.program.to_string_lossy(),
            "type": if finding.is_some() { "interactive" } else { "best-effort" },
            "runtime_ms": finding.map(|finding| ms(finding.runtime)),
            "period_ms": finding.map(|finding| ms(finding.period)),
            "trust": finding.map(Finding::trust),
            "rhythm_ms": rhythm.map(|rhythm| ms(rhythm.period)),
            "rhythm_pct": rhythm.map(|rhythm| tenths(rhythm.regular * 100.0)),
            "cut": finding.is_some_and(|finding| finding.cut),
            "windows": finding.map(|finding| finding.windows),
            "peak_ms": finding.map(|finding| ms(finding.peak)),
            "watched_s": tenths(self.seen.watched.as_secs_f64()),
            "bursts": self.seen.bursts,
            "used_pct": tenths(self.seen.used * 100.0),
            "wanted_pct": tenths(self.seen.wanted * 100.0),
            "waited_pct": tenths(self.seen.waited() * 100.0),
            "lost": self.lost,
            "unread": self.unread,
            "recorded": self.is_recorded,
            "attempts": self.attempts.iter().map(attempt).collect::<Vec<_>>(),
            "untried": self.untried,
            "note": self.note,
        })
    }
}

/// What was seen of a program, in words.
pub fn seen(seen: &Seen) -> String {
    format!(
        "{} bursts of work in {} s, {} % of a CPU, of {} % that it wanted",
        seen.bursts,
        tenths(seen.watched.as_secs_f64()),
        tenths(seen.used * 100.0),
        tenths(seen.wanted * 100.0)
    )
}

/// What is missing of a recording, in words.
pub fn missing(lost: u64) -> String {
    format!(
        "{lost} of the recording's events are missing: the figures may be wrong; give it larger buffers, or record for shorter"
    )
}

/// What was found, in words.
pub fn found(finding: &Finding) -> String {
    let period = match &finding.rhythm {
        Some(rhythm) => {
            format!("a rhythm of {} ms, {} % of its work in it", ms(rhythm.period), tenths(rhythm.regular * 100.0))
        }
        None => format!("no rhythm of its own, so {} ms by the paper's rules", ms(finding.period)),
    };
    let cut = if finding.cut { "; it would take more than can be reserved for it" } else { "" };
    format!(
        "{}; {period}; at most {} ms in {} ms, {} such periods with work; figures: {}{cut}",
        seen(&finding.seen),
        ms(finding.peak),
        ms(finding.period),
        finding.windows,
        finding.trust()
    )
}

/// Say `text` on standard error, if there is any and it can be written.
pub fn tell(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(io::stderr(), "limelight: {text}");
    }
}

/// In ms, to a hundredth.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion() -> Suggestion {
        let seen = Seen { watched: Duration::from_secs(20), bursts: 500, used: 0.125, wanted: 0.25 };
        let finding = Finding {
            runtime: Duration::from_micros(5_600),
            period: Duration::from_millis(40),
            rhythm: None,
            cut: false,
            seen,
            peak: Duration::from_millis(5),
            windows: 500,
        };
        let tried = Tried { periods: 400, missed: 2, windows: 500, over: 1, peak: Duration::from_millis(5) };
        let attempts = vec![Attempt { runtime: finding.runtime, tried }];
        Suggestion {
            line: "/x:Iact:5.6:40:R:-:-".to_owned(),
            seen,
            finding: Some(finding),
            attempts,
            ..Suggestion::default()
        }
    }

    /// What was seen, found and tried is told in figures, and what is wrong with them.
    #[test]
    fn the_story_is_for_people() {
        let suggestion = suggestion();
        let found = found(suggestion.finding.as_ref().unwrap());
        for expected in
            ["500 bursts of work in 20 s", "12.5 % of a CPU, of 25 %", "by the paper's rules", "figures: fair"]
        {
            assert!(found.contains(expected), "{expected} in {found}");
        }
        let tried = suggestion.attempts[0].told(Duration::from_millis(40));
        assert!(tried.starts_with("tried 5.6 ms in every 40 ms: 500") && tried.contains("2 missed of 400"), "{tried}");
        assert!(suggestion.told().contains("not always enough"));
        let bound = Suggestion { seen: suggestion.seen, lost: 3, ..Suggestion::default() };
        assert!(bound.told().contains("any amount") && bound.told().contains("3 of its turns"));
        let recorded = Suggestion {
            lost: 3,
            is_recorded: true,
            untried: Some("it was recorded".to_owned()),
            finding: suggestion.finding,
            ..bound
        };
        assert!(
            recorded.told().contains("not tried: it was recorded")
                && recorded.told().contains("3 of the recording's events")
        );
    }

    /// JSON has the line, each figure, and no time of anything that happened.
    #[test]
    fn json_says_the_same() {
        let value = suggestion().json();
        for (field, expected) in [
            ("line", json!("/x:Iact:5.6:40:R:-:-")),
            ("runtime_ms", json!(5.6)),
            ("period_ms", json!(40.0)),
            ("rhythm_ms", Value::Null),
            ("waited_pct", json!(50.0)),
            ("trust", json!("fair")),
            ("untried", Value::Null),
        ] {
            assert_eq!(value[field], expected, "{field}");
        }
        assert_eq!(value["attempts"][0]["missed"], json!(2));
        assert_eq!(Suggestion::default().json()["type"], json!("best-effort"));
    }
}
