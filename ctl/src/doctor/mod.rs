// SPDX-License-Identifier: GPL-2.0-only
//! `limelight doctor`: what this kernel and desktop offer (`facts`), and what it means (`rules`).

mod facts;
mod rules;

use serde_json::json;

use crate::table::printable;
use rules::{Finding, Verdict};

/// What keeps the scheduler from being loaded on this kernel, with the fix and what works meanwhile, where anything does. `None`: nothing does.
///
/// The kernel would refuse as well, in words that help nobody.
pub fn hindrance() -> Option<String> {
    let facts = facts::kernel_only();
    let findings = rules::judge(&facts);
    let bad = findings.into_iter().filter(|finding| finding.verdict == Verdict::Bad);
    let sentences: Vec<String> = bad
        .map(|finding| format!("{}: {}. {}", finding.topic, printable(&finding.found), finding.fix.unwrap_or_default()))
        .collect();
    let meanwhile = printable(&rules::meanwhile(&facts));
    (!sentences.is_empty()).then(|| format!("{}; meanwhile {meanwhile}", sentences.join("; ")))
}

/// Look, judge, and say it, as text or as JSON. The second value: will limelight work here?
pub fn report(as_json: bool) -> (String, bool) {
    let findings = rules::judge(&facts::probe());
    let will_work = findings.iter().all(|finding| finding.verdict != Verdict::Bad);
    let text = match as_json {
        true => format!("{:#}\n", json!({ "will_work": will_work, "findings": findings })),
        false => text(&findings, will_work),
    };
    (text, will_work)
}

fn text(findings: &[Finding], will_work: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Good => "ok     ",
            Verdict::Less => "less   ",
            Verdict::Bad => "MISSING",
        };
        text.push_str(&format!("{mark}  {}: {}\n", finding.topic, printable(&finding.found)));
        for (label, words) in [("instead", &finding.instead), ("fix", &finding.fix)] {
            if let Some(words) = words {
                text.push_str(&format!("         {label}: {}\n", printable(words)));
            }
        }
    }
    text.push_str(match will_work {
        true => "\nlimelight will work here\n",
        false => "\nlimelight will not work here: see what is MISSING\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text says what was found, what happens instead and the fix, one under the other.
    #[test]
    fn findings_read_well() {
        let finding = Finding {
            topic: "displays",
            verdict: Verdict::Less,
            found: "none".to_owned(),
            instead: Some("fair shares".to_owned()),
            fix: Some("start X".to_owned()),
        };
        let expected = "less     displays: none\n         instead: fair shares\n         fix: start X\n\n\
                        limelight will work here\n";
        assert_eq!(text(&[finding], true), expected);
    }
}
