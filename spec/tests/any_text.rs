// SPDX-License-Identifier: GPL-2.0-only
//! What holds for any text, and for any specification.

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::path::Path;
use std::time::Duration;

use limelight_spec::{Found, Kind, Source, Spec, Specs, Target, tab, toml};
use proptest::option;
use proptest::prelude::*;

const FILE: &str = "/etc/spec/any";

/// Text that looks enough like ours to get past the first check.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("[[spec]]\n"),
        Just("[spec]\n"),
        Just("spec = [{ path = \"/a\" }]\n"),
        Just("path = \"/a\"\n"),
        Just("path = [\"/a\", \"b\", 3, []]\n"),
        Just("app = \"a\"\n"),
        Just("unit = \"a*.service\"\n"),
        Just("type = \"interactive\"\n"),
        Just("runtime_ms = 5\n"),
        Just("period_ms = 1e400\n"),
        Just("period_ms = 30\n"),
        Just("protect_s = -nan\n"),
        Just("io = 9999999999999999999\n"),
        Just("revocable = false\n"),
        Just("revocable.x = false\n"),
        Just("interactive_parent = true\n"),
        Just("/a:Iact:5:30:IR:-:-\n"),
        Just("/a\\:Iact:5:30"),
        Just("'''"),
        Just("é:"),
        Just("\n"),
    ];
    prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

fn spec() -> impl Strategy<Value = Spec> {
    // Any C and T in ns that the bounds allow, and any path of printable characters.
    let figures = (1_000_000u64..=10_000_000_000).prop_flat_map(|t| (100_000..=t / 100 * 95, Just(t)));
    let kind = prop_oneof![
        figures.clone().prop_map(|figures| (Kind::Interactive, figures)),
        figures.prop_map(|figures| (Kind::BestEffort, figures)),
        Just((Kind::BestEffort, (0, 0))),
    ];
    let path = prop::collection::vec("[ -.0-~é]{0,8}[!-.0-~é]", 1..4)
        .prop_filter("in its shortest form", |parts| parts.iter().all(|part| part != "." && part != ".."))
        .prop_map(|parts| format!("/{}", parts.join("/")));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let rest = (option::of(0u64..=3_600_000_000_000), option::of(0u8..=7));
    (path, kind, flags, rest).prop_map(
        |(path, (kind, (c, t)), (inheritable, revocable, login, interactive_parent), (protect, io))| Spec {
            target: Target::Path(path.into()),
            kind,
            runtime: Duration::from_nanos(c),
            period: Duration::from_nanos(t),
            inheritable,
            revocable,
            login,
            interactive_parent,
            protect: protect.map(Duration::from_nanos),
            io,
            estimated: false,
            source: Source { file: FILE.into(), line: 1 },
        },
    )
}

/// Each complaint is one line that begins with the file.
fn complaints_are_lines(found: &Found) {
    for complaint in &found.complaints {
        let text = complaint.to_string();
        assert!(text.starts_with(FILE) && !text.chars().any(char::is_control), "{text:?}");
    }
}

proptest! {
    /// No bytes make a reader panic or complain in more than one line each.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        complaints_are_lines(&tab::parse(Path::new(FILE), &bytes));
        complaints_are_lines(&toml::parse(Path::new(FILE), &bytes));
    }

    /// Nor does any text, nor what is nearly right; and what it holds can be looked up.
    #[test]
    fn any_text_is_survived(text in prop_oneof![".{0,200}", nearly()], cgroup in "[a-z./@\\\\x-]{0,40}") {
        for found in [tab::parse(Path::new(FILE), text.as_bytes()), toml::parse(Path::new(FILE), text.as_bytes())] {
            complaints_are_lines(&found);
            let specs: Specs = found.specs.into_iter().collect();
            let _ = specs.for_cgroup(&cgroup);
        }
    }

    /// Every specification written in the paper's form reads back the same.
    #[test]
    fn the_papers_form_reads_back(spec in spec()) {
        let line = spec.to_tab().unwrap();
        let found = tab::parse(Path::new(FILE), line.as_bytes());
        prop_assert_eq!(&found.complaints, &[]);
        prop_assert_eq!(found.specs, [spec]);
    }
}
