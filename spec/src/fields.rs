// SPDX-License-Identifier: GPL-2.0-only
//! The fields of a specification: their names in both forms, their bounds, and the reason of each bound. One text, for complaints and for the
//! manual.

use std::time::Duration;

use crate::complaint::shown;
use crate::model::{Kind, NS_PER_MS, NS_PER_S, Spec, Target, decimal};

/// Shortest period T. The paper measures what reservations cost at a switch every millisecond (8.1); nobody has measured more of them.
pub const PERIOD_LEAST: Duration = Duration::from_millis(1);
/// Longest period T. The paper has up to 3 s (section 8.1); load is measured over 4 s (6.1), and of a period much longer than that
/// nobody could say whether it was kept.
pub const PERIOD_MOST: Duration = Duration::from_secs(10);
/// Least C. Below this the switches to and fro cost a good part of what they bring.
pub const RUNTIME_LEAST: Duration = Duration::from_micros(100);
/// Most that C is of T, in per cent. The lower classes keep a share of 5 % of each CPU by default, so a specification of more could never be
/// admitted.
pub const BANDWIDTH_MOST_PCT: u32 = 95;
/// Longest π. What a program has not touched for an hour is not its working set (section 4).
pub const PROTECT_MOST: Duration = Duration::from_secs(3600);
/// Last I/O priority: the levels of ioprio_set(2).
pub const IO_MOST: u8 = 7;
/// Longest path, that of the kernel without its final 0 byte (PATH_MAX).
pub const PATH_MOST: usize = 4095;
/// Longest name of an app or a unit: a cgroup is a folder, whose name has no more (NAME_MAX).
pub const NAME_MOST: usize = 255;

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The program's path.
    Path,
    /// The app's id.
    App,
    /// The unit's name.
    Unit,
    /// Interactive or best-effort.
    Type,
    /// C.
    Runtime,
    /// T.
    Period,
    /// All flags, as the paper writes them.
    Flags,
    /// Flag I.
    Inheritable,
    /// Flag R.
    Revocable,
    /// Flag L.
    Login,
    /// Flag P.
    InteractiveParent,
    /// π.
    Protect,
    /// I/O priority.
    Io,
    /// Not measured.
    Estimated,
}

impl Field {
    /// Every field, in the order of the paper.
    pub const ALL: [Field; 14] = [
        Field::Path,
        Field::App,
        Field::Unit,
        Field::Type,
        Field::Runtime,
        Field::Period,
        Field::Flags,
        Field::Inheritable,
        Field::Revocable,
        Field::Login,
        Field::InteractiveParent,
        Field::Protect,
        Field::Io,
        Field::Estimated,
    ];

    /// Its name in the paper's form; `None`: that form does not have it.
    pub fn in_tab(self) -> Option<&'static str> {
        match self {
            Field::Path => Some("pathname"),
            Field::Type => Some("type"),
            Field::Runtime => Some("C"),
            Field::Period => Some("T"),
            Field::Flags => Some("flags"),
            Field::Protect => Some("π"),
            Field::Io => Some("io"),
            Field::App | Field::Unit | Field::Estimated => None,
            Field::Inheritable | Field::Revocable | Field::Login | Field::InteractiveParent => None,
        }
    }

    /// Its name in TOML; `None`: that form does not have it.
    pub fn in_toml(self) -> Option<&'static str> {
        match self {
            Field::Path => Some("path"),
            Field::App => Some("app"),
            Field::Unit => Some("unit"),
            Field::Type => Some("type"),
            Field::Runtime => Some("runtime_ms"),
            Field::Period => Some("period_ms"),
            Field::Flags => None,
            Field::Inheritable => Some("inheritable"),
            Field::Revocable => Some("revocable"),
            Field::Login => Some("login"),
            Field::InteractiveParent => Some("interactive_parent"),
            Field::Protect => Some("protect_s"),
            Field::Io => Some("io"),
            Field::Estimated => Some("estimated"),
        }
    }

    /// What is allowed in it, and why no more.
    pub fn allowed(self) -> String {
        let ms = |time| decimal(time, NS_PER_MS);
        match self {
            Field::Path => format!(
                "give the path as the kernel shows it, in at most {PATH_MOST} bytes: from the root, without '.', '..', \
                 '//', a '/' or white space at its end, or a control character"
            ),
            Field::App => format!(
                "give an app's id, the name of its .desktop file, in at most {NAME_MOST} bytes: letters, digits, \
                 '.', '_' and '-'"
            ),
            Field::Unit => format!(
                "give the name of a service or a scope, in at most {NAME_MOST} bytes, such as ssh.service or \
                 getty@*.service: '*' stands for any characters, but a letter or digit must be left before the ending"
            ),
            Field::Type => {
                "Iact or BE in the paper's form, \"interactive\" or \"best-effort\" in TOML; only a best-effort one may \
                 leave out C and T, both together"
                    .to_owned()
            }
            Field::Runtime => format!(
                "C is at least {} ms (switches cost too much of less) and at most {BANDWIDTH_MOST_PCT} % of T (more \
                 could never be admitted); decimals are allowed",
                ms(RUNTIME_LEAST)
            ),
            Field::Period => format!(
                "T is {} to {} ms (what shorter ones cost was never measured; load is measured over 4 s, so whether a \
                 much longer one is kept cannot be told); decimals are allowed",
                ms(PERIOD_LEAST),
                ms(PERIOD_MOST)
            ),
            Field::Flags => {
                "any of I (children inherit it; without R as long as all that is promised on a CPU stays below 80 %), R \
                 (under overload it comes after others, unless it serves the person, and may be revoked), and, not the paper's, L (a way to log in) and P (only for who is executed by an interactive \
                 process); '-' or nothing: none"
                    .to_owned()
            }
            Field::Inheritable => {
                "true: children without a specification of their own get this one, if it is not revocable as long as all \
                 that is promised on a CPU stays below 80 %; false, the default: they do not"
                    .to_owned()
            }
            Field::Revocable => {
                "true, the default: it may be taken back under overload, and comes after the others then unless it \
                 serves the person; false: never, which is for what nothing can be done without, and not for apps, \
                 whose ids are chosen by whoever starts them"
                    .to_owned()
            }
            Field::Login => LOGIN_ALLOWED.to_owned(),
            Field::InteractiveParent => INTERACTIVE_PARENT_ALLOWED.to_owned(),
            Field::Protect => format!(
                "0 to {} s, decimals allowed (what was not touched for longer is no working set); '-' in the paper's \
                 form or left out: chosen by limelight",
                decimal(PROTECT_MOST, NS_PER_S)
            ),
            Field::Io => format!(
                "0 (first) to {IO_MOST}, the levels of ionice(1); '-' in the paper's form or left out: \
                 chosen by limelight"
            ),
            Field::Estimated => "true: the figures were not measured; false, the default: they were".to_owned(),
        }
    }
}

/// The letters of the flags that the paper's form knows: inheritable, revocable, and ours, login and interactive_parent.
pub const FLAG_LETTERS: &str = "IRLP";

/// What is allowed in `login`.
const LOGIN_ALLOWED: &str = "true: a way for the administrator to log in: root's processes of this program and those \
                             that they start are of class HUCOUT for 2 s of CPU, which come back in 20 s, and go before \
                             reservations that may be revoked, of who does not serve the person; false, the default: \
                             they are not. Not for apps";

/// What is allowed in `interactive_parent`.
const INTERACTIVE_PARENT_ALLOWED: &str = "true: the entry counts only for who is executed by an interactive process, or \
                                          by its child or grandchild within its first 10 ms of CPU (the paper's rule, \
                                          Redline section 3, Figure 3, which has the child and 1 ms); for anyone else \
                                          it is as if the entry were not there; false, the default: it counts whoever \
                                          the parent is. Not for apps and units, which are found by their cgroup";

/// The manual of both forms, before the list of fields. A paragraph is one line: who shows it breaks it.
const FORMS: &str = "\
A file in the paper's form (*.tab) has a line for each program, pathname:type:C:T:flags:π:io, such as

    /usr/bin/mplayer:Iact:5:30:IR:-:-

which reserves 5 ms of CPU in every 30. In the pathname '\\:' is a colon and '\\\\' a backslash. Lines that begin with \
'#' are comments, and so is what follows a '#' behind the last field.

A TOML file has a [[spec]] for each, with one or more of path, app and unit, each a string or an array of strings:

    [[spec]]
    path = [\"/usr/bin/mpv\", \"/usr/local/bin/mpv\"]
    app = \"io.mpv.Mpv\"
    type = \"interactive\"
    runtime_ms = 5
    period_ms = 30
    inheritable = true

Fields, by their names in TOML / in the paper's form:
";

/// The manual of both forms.
pub fn manual() -> String {
    let mut text = FORMS.to_owned();
    for field in Field::ALL {
        let mut names: Vec<_> = [field.in_toml(), field.in_tab()].into_iter().flatten().collect();
        names.dedup();
        text.push_str(&format!("\n{}: {}.\n", names.join(" / "), field.allowed()));
    }
    text
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub field: Field,
    pub wrong: String,
}

/// A specification without its program, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub kind: Option<Kind>,
    pub runtime: Option<Duration>,
    pub period: Option<Duration>,
    pub inheritable: bool,
    pub revocable: bool,
    pub login: bool,
    pub interactive_parent: bool,
    pub protect: Option<Duration>,
    pub io: Option<u8>,
    pub estimated: bool,
}

impl Draft {
    /// What is wrong with the figures together. `bad` says which fields were given and could not be read: these are not missing.
    pub fn faults(&self, bad: impl Fn(Field) -> bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |field, wrong: String| faults.push(Fault { field, wrong });
        if self.kind.is_none() && !bad(Field::Type) {
            fault(Field::Type, "is missing".to_owned());
        }
        let needed = match self.kind {
            Some(Kind::BestEffort) => self.runtime.is_some() != self.period.is_some(),
            _ => true,
        };
        for (field, value) in [(Field::Runtime, self.runtime), (Field::Period, self.period)] {
            if needed && value.is_none() && !bad(field) {
                fault(field, "is missing".to_owned());
            }
        }
        let ms = |time| decimal(time, NS_PER_MS);
        let period = self.period.filter(|period| (PERIOD_LEAST..=PERIOD_MOST).contains(period));
        if let (Some(given), None) = (self.period, period) {
            fault(Field::Period, format!("{} ms is out of range", ms(given)));
        }
        match (self.runtime, period) {
            (Some(runtime), _) if runtime < RUNTIME_LEAST => {
                fault(Field::Runtime, format!("{} ms is too little", ms(runtime)))
            }
            (Some(runtime), Some(period)) if runtime * 100 > period * BANDWIDTH_MOST_PCT => {
                fault(Field::Runtime, format!("{} ms is too much of {} ms", ms(runtime), ms(period)));
            }
            _ => {}
        }
        if let Some(protect) = self.protect.filter(|protect| *protect > PROTECT_MOST) {
            fault(Field::Protect, format!("{} s is too long", decimal(protect, NS_PER_S)));
        }
        faults
    }

    /// What is wrong with these figures for this program. Figures that have faults of their own are not to be asked for.
    pub fn spec(&self, target: Target, source: crate::model::Source) -> Result<Spec, Fault> {
        let kind = self.kind.ok_or(Fault { field: Field::Type, wrong: "is missing".to_owned() })?;
        if matches!((&target, kind, self.revocable), (Target::App(_), Kind::Interactive, false)) {
            return Err(Fault { field: Field::Revocable, wrong: "is false for an app".to_owned() });
        }
        if matches!((&target, self.login), (Target::App(_), true)) {
            return Err(Fault { field: Field::Login, wrong: "is true for an app".to_owned() });
        }
        if self.interactive_parent && !matches!(target, Target::Path(_)) {
            return Err(Fault { field: Field::InteractiveParent, wrong: "is true for an app or a unit".to_owned() });
        }
        Ok(Spec {
            target,
            kind,
            runtime: self.runtime.unwrap_or_default(),
            period: self.period.unwrap_or_default(),
            inheritable: self.inheritable,
            revocable: self.revocable,
            login: self.login,
            interactive_parent: self.interactive_parent,
            protect: self.protect,
            io: self.io,
            estimated: self.estimated,
            source,
        })
    }
}

/// A path that can be compared with the kernel's, or what is wrong with it.
pub(crate) fn pathname(text: &str) -> Result<Target, String> {
    let wrong = if !text.starts_with('/') {
        "does not begin at the root"
    } else if text.len() > PATH_MOST {
        "is too long"
    } else if text.chars().any(char::is_control) {
        "has a control character"
    } else if text.ends_with(char::is_whitespace) {
        "ends in white space"
    } else if text[1..].split('/').any(|part| matches!(part, "" | "." | "..")) {
        "is not in its shortest form"
    } else {
        return Ok(Target::Path(text.into()));
    };
    Err(format!("{} {wrong}", shown(text)))
}

/// An app's id, or what is wrong with it.
pub(crate) fn app(text: &str) -> Result<Target, String> {
    let fits = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if text.is_empty() || text.len() > NAME_MOST || !fits {
        return Err(format!("{} is no app id", shown(text)));
    }
    Ok(Target::App(text.to_owned()))
}

/// A unit's name, or what is wrong with it.
pub(crate) fn unit(text: &str) -> Result<Target, String> {
    let stem = text.strip_suffix(".service").or_else(|| text.strip_suffix(".scope"));
    // The characters of unit names (systemd.unit(5)), and ours.
    let fits = text.chars().all(|c| c.is_ascii_alphanumeric() || ":-_.\\@*".contains(c));
    match stem {
        None => Err(format!("{} ends neither in .service nor in .scope", shown(text))),
        Some(stem) if !stem.contains(|c: char| c.is_ascii_alphanumeric()) => {
            Err(format!("{} would be nearly every unit, or none", shown(text)))
        }
        Some(_) if text.len() > NAME_MOST || !fits => Err(format!("{} is no name of a unit", shown(text))),
        Some(_) => Ok(Target::Unit(text.to_owned())),
    }
}

/// `value` units of `unit` ns, to the nearest ns; `None` for what is no time. What is far out of every range becomes the longest time there is.
pub(crate) fn time(value: f64, unit: u128) -> Option<Duration> {
    // A cast saturates: no value is out of it.
    (value >= 0.0).then(|| Duration::from_nanos((value * unit as f64).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(kind: Kind, runtime_us: u64, period_us: u64) -> Draft {
        let us = |us| (us > 0).then(|| Duration::from_micros(us));
        Draft { kind: Some(kind), runtime: us(runtime_us), period: us(period_us), ..Draft::default() }
    }

    fn faulty(draft: &Draft) -> Vec<Field> {
        draft.faults(|_| false).into_iter().map(|fault| fault.field).collect()
    }

    /// Every figure of the paper is inside the bounds, and their edges are where the constants say.
    #[test]
    fn bounds_hold_at_their_edges() {
        let iact = |runtime_us, period_us| faulty(&draft(Kind::Interactive, runtime_us, period_us));
        for (c, t) in [(2, 50), (10, 100), (15, 30), (2, 30), (3, 30), (5, 100), (5, 30), (6, 30), (1, 3), (1, 3000)] {
            assert_eq!(iact(c * 1000, t * 1000), [], "{c}:{t}");
        }
        assert_eq!(iact(100, 1_000), []);
        assert_eq!(iact(99, 1_000), [Field::Runtime]);
        assert_eq!(iact(100, 999), [Field::Period]);
        assert_eq!(iact(950, 1_000), []);
        assert_eq!(iact(951, 1_000), [Field::Runtime]);
        assert_eq!(iact(9_500_000, 10_000_000), []);
        assert_eq!(iact(100, 10_000_001), [Field::Period]);
        assert_eq!(iact(0, 30_000), [Field::Runtime]);
        assert_eq!(iact(5_000, 0), [Field::Period]);
        let mut long = draft(Kind::Interactive, 5_000, 30_000);
        long.protect = Some(PROTECT_MOST);
        assert_eq!(faulty(&long), []);
        long.protect = Some(PROTECT_MOST + Duration::from_nanos(1));
        assert_eq!(faulty(&long), [Field::Protect]);
    }

    /// A best-effort program needs no figures; half of them are a mistake, and wrong ones are no better for not being used.
    #[test]
    fn best_effort_needs_no_figures() {
        let be = |runtime_us, period_us| faulty(&draft(Kind::BestEffort, runtime_us, period_us));
        assert_eq!(be(0, 0), []);
        assert_eq!(be(5_000, 30_000), []);
        assert_eq!(be(5_000, 0), [Field::Period]);
        assert_eq!(be(40_000, 30_000), [Field::Runtime]);
    }

    /// Only names that can match something are taken.
    #[test]
    fn names_that_match_nothing_are_refused() {
        for good in ["/usr/bin/mpv", "/opt/My Player/a:b\\c"] {
            assert!(pathname(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "mpv",
            "/",
            "/usr//bin/mpv",
            "/usr/bin/../mpv",
            "/usr/bin/mpv/",
            "/usr/./mpv",
            "/usr/bin/mpv ",
            "/usr/\u{7}",
        ] {
            assert!(pathname(bad).is_err(), "{bad:?}");
        }
        assert!(pathname(&format!("/{}", "x".repeat(PATH_MOST))).is_err());
        assert!(app("io.gitlab.librewolf-community").is_ok());
        assert!(app("").is_err() && app("a/b").is_err() && app("*").is_err());
        for good in ["ssh.service", "getty@*.service", "snap.firefox.firefox*.scope", "app\\x2dx.service"] {
            assert!(unit(good).is_ok(), "{good}");
        }
        for bad in ["ssh", "*.service", "user.slice", ".service", "a b.service", "*@*.scope", ""] {
            assert!(unit(bad).is_err(), "{bad:?}");
        }
    }

    /// Nothing that a file can say as a number becomes a wrong time.
    #[test]
    fn odd_numbers_are_no_times() {
        assert_eq!(time(f64::NAN, NS_PER_MS), None);
        assert_eq!(time(-1.0, NS_PER_MS), None);
        assert_eq!(time(0.1, NS_PER_MS), Some(Duration::from_micros(100)));
        assert!(time(f64::INFINITY, NS_PER_MS).unwrap() > PERIOD_MOST);
    }

    /// Each field says what is allowed in it with the very bounds that are checked, and the manual has them all.
    #[test]
    fn the_manual_is_complete() {
        assert!(Field::Runtime.allowed().contains("0.1 ms") && Field::Runtime.allowed().contains("95 %"));
        assert!(Field::Period.allowed().contains("1 to 10000 ms"));
        assert!(Field::Protect.allowed().contains("0 to 3600 s"));
        for field in Field::ALL {
            assert!(field.in_tab().is_some() || field.in_toml().is_some());
            assert!(manual().contains(&field.allowed()));
        }
    }
}
