// SPDX-License-Identifier: GPL-2.0-only
//! One specification, and the paper's way to write it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a specification is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The program at this path, absolute and as the kernel shows it.
    Path(PathBuf),
    /// Every process of the app with this id, the name of its .desktop file, as desktops put it into the names of scopes and services:
    /// `org.mozilla.firefox` in `app-flatpak-org.mozilla.firefox-1234.scope`.
    App(String),
    /// Every process of the systemd unit of this name; `*` stands for any characters, also none.
    Unit(String),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Path(path) => write!(out, "{}", path.display()),
            Target::App(id) => write!(out, "app {id}"),
            Target::Unit(name) => write!(out, "unit {name}"),
        }
    }
}

/// Whether a program is to answer somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `Iact`: it has a reservation when it is admitted.
    Interactive,
    /// `BE`: it has none, whatever it would inherit.
    BestEffort,
}

impl Kind {
    /// As the paper writes it.
    pub fn in_tab(self) -> &'static str {
        match self {
            Kind::Interactive => "Iact",
            Kind::BestEffort => "BE",
        }
    }

    /// As TOML writes it.
    pub fn in_toml(self) -> &'static str {
        match self {
            Kind::Interactive => "interactive",
            Kind::BestEffort => "best-effort",
        }
    }
}

/// Where a specification stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// What a program is promised. Every value is inside the bounds of [`crate::fields`].
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// For which program.
    pub target: Target,
    /// Interactive or best-effort.
    pub kind: Kind,
    /// C: CPU time in each period; 0 in a best-effort one that gives none.
    pub runtime: Duration,
    /// T: the period; 0 in a best-effort one that gives none.
    pub period: Duration,
    /// Flag I: a child without a specification of its own gets this one.
    pub inheritable: bool,
    /// Flag R: it may be taken back while the machine is overloaded, and comes after the others then unless it serves the person.
    pub revocable: bool,
    /// Flag L, not the paper's: it is a way for the administrator to log in.
    pub login: bool,
    /// Flag P, not the paper's: it is only for who is executed by an interactive process or its child.
    pub interactive_parent: bool,
    /// π: what it touched in this time stays in memory; `None`: chosen by limelight.
    pub protect: Option<Duration>,
    /// I/O priority, 0 (first) to 7; `None`: chosen by limelight.
    pub io: Option<u8>,
    /// The figures were not measured.
    pub estimated: bool,
    /// Where it stands.
    pub source: Source,
}

impl Spec {
    /// The part of one CPU that it reserves, C / T; 0 without a reservation.
    pub fn bandwidth(&self) -> f64 {
        match (self.kind, self.period.is_zero()) {
            (Kind::Interactive, false) => self.runtime.as_secs_f64() / self.period.as_secs_f64(),
            _ => 0.0,
        }
    }

    /// The flags as the paper writes them: `I`, `R`, `L` and `P` where they are set, `-` where none is.
    pub fn flags(&self) -> String {
        let all = [(self.inheritable, 'I'), (self.revocable, 'R'), (self.login, 'L'), (self.interactive_parent, 'P')];
        let set: String = all.into_iter().filter_map(|(is, letter)| is.then_some(letter)).collect();
        if set.is_empty() { "-".to_owned() } else { set }
    }

    /// C and T in ms as the paper writes them: `5:30`, or `-:-`.
    pub fn figures(&self) -> String {
        if self.period.is_zero() {
            return "-:-".to_owned();
        }
        format!("{}:{}", decimal(self.runtime, NS_PER_MS), decimal(self.period, NS_PER_MS))
    }

    /// The line in the paper's form. `None` where that has no word for the target: an app or a unit, or a path that is not UTF-8. It has none for
    /// `estimated` either.
    pub fn to_tab(&self) -> Option<String> {
        let Target::Path(path) = &self.target else { return None };
        let path = path.to_str()?.replace('\\', "\\\\").replace(':', "\\:");
        let protect = self.protect.map_or_else(|| "-".to_owned(), |time| decimal(time, NS_PER_S));
        let io = self.io.map_or_else(|| "-".to_owned(), |io| io.to_string());
        Some(format!("{path}:{}:{}:{}:{protect}:{io}", self.kind.in_tab(), self.figures(), self.flags()))
    }
}

/// Nanoseconds of a millisecond.
pub(crate) const NS_PER_MS: u128 = 1_000_000;
/// Nanoseconds of a second.
pub(crate) const NS_PER_S: u128 = 1_000_000_000;

/// A time in units of `unit` ns, with as many digits behind the point as it needs.
pub(crate) fn decimal(time: Duration, unit: u128) -> String {
    let (whole, rest) = (time.as_nanos() / unit, time.as_nanos() % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are written without digits that say nothing.
    #[test]
    fn times_are_written_short() {
        for (ns, text) in
            [(5_000_000, "5"), (500_000, "0.5"), (1, "0.000001"), (10_000_000, "10"), (12_345_678, "12.345678")]
        {
            assert_eq!(decimal(Duration::from_nanos(ns), NS_PER_MS), text);
        }
        assert_eq!(decimal(Duration::from_millis(2_500), NS_PER_S), "2.5");
    }
}
