// SPDX-License-Identifier: GPL-2.0-only
//! Words of somebody else's in what is told.

/// `text`, which others chose, so that it neither steers a terminal nor turns what stands around it.
#[must_use]
pub fn printable(text: &str) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not to be seen in a name is shown as a question mark, and letters of any script stay.
    #[test]
    fn a_name_steers_nothing() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{202e}c\u{200b}\u{2066}"), "a?[2J?b?c??");
        assert_eq!(printable("löschen \u{5e9}\u{5dc}"), "löschen \u{5e9}\u{5dc}");
    }
}
