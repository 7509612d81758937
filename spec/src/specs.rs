// SPDX-License-Identifier: GPL-2.0-only
//! All specifications in force, and which of them is for a program.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use crate::cgroup;
use crate::complaint::{Complaint, Found};
use crate::model::{Spec, Target};
use crate::places::Places;
use crate::{tab, toml};

/// Most specifications: forty times the paper's hundred programs. What each exec looks through is bounded by this.
pub const MAX_SPECS: usize = 4096;

/// What all files together say, one specification for each target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Specs {
    all: Vec<Spec>,
    by_target: HashMap<Target, usize>,
    /// Units with a `*`, the last one first.
    patterns: Vec<usize>,
}

/// What [`Specs::load`] found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// Everything that is in force.
    pub specs: Specs,
    /// Everything that is not, and why.
    pub complaints: Vec<Complaint>,
}

impl Specs {
    /// Read all files of these places. Never fails as a whole: what is wrong is left out, and complained about.
    pub fn load(places: &Places) -> Loaded {
        let mut complaints = Vec::new();
        let mut specs = Vec::new();
        for (file, content) in places.contents(&mut complaints) {
            let mut found = match file.extension().is_some_and(|ending| ending == "toml") {
                true => toml::parse(&file, &content),
                false => tab::parse(&file, &content),
            };
            complain_of_doubles(&mut found);
            complaints.append(&mut found.complaints);
            let room = MAX_SPECS - specs.len();
            let left_out = found.specs.len().saturating_sub(room);
            if left_out > 0 {
                let wrong = format!("has {left_out} specifications too many");
                let allowed =
                    format!("all files together can have {MAX_SPECS}; the last ones of this file are left out");
                complaints.push(Complaint::of_file(&file, wrong, allowed));
            }
            specs.extend(found.specs.into_iter().take(room));
        }
        Loaded { specs: specs.into_iter().collect(), complaints }
    }

    /// The specification of the program at this path, as the files write it: no link is followed.
    pub fn by_path(&self, path: &Path) -> Option<&Spec> {
        self.get(&Target::Path(path.to_owned()))
    }

    /// The specification of the app or the unit that this cgroup is of. A path of the process's own program goes before it: ask
    /// [`Specs::by_path`] first.
    ///
    /// The innermost service or scope counts. A unit's whole name goes before the app's id, and that before a name with a `*`, of which the
    /// last one counts. A specification that cannot be revoked, or of a login, is found for the system's own units only: users name theirs as they
    /// like.
    pub fn for_cgroup(&self, cgroup: &str) -> Option<&Spec> {
        let unit = cgroup::unit(cgroup)?;
        let may_be = |spec: &&Spec| (spec.revocable && !spec.login) || unit.is_of_system;
        let by_name = self.get(&Target::Unit(unit.name.to_owned())).filter(may_be);
        let by_app = || cgroup::app_ids(unit.name).into_iter().find_map(|id| self.get(&Target::App(id)));
        let by_pattern = || {
            let mut specs = self.patterns.iter().filter_map(|at| self.all.get(*at)).filter(may_be);
            specs.find(|spec| matches!(&spec.target, Target::Unit(pattern) if cgroup::matches(pattern, unit.name)))
        };
        by_name.or_else(by_app).or_else(by_pattern)
    }

    /// All of them, in the order of the files.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Spec> {
        self.all.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn get(&self, target: &Target) -> Option<&Spec> {
        self.by_target.get(target).and_then(|at| self.all.get(*at))
    }
}

/// Of several for one target the last counts.
impl FromIterator<Spec> for Specs {
    fn from_iter<T: IntoIterator<Item = Spec>>(specs: T) -> Self {
        let given: Vec<Spec> = specs.into_iter().collect();
        let last: HashMap<Target, usize> =
            given.iter().enumerate().map(|(at, spec)| (spec.target.clone(), at)).collect();
        let in_force = given.into_iter().enumerate().filter(|(at, spec)| last.get(&spec.target) == Some(at));
        let all: Vec<Spec> = in_force.map(|(_, spec)| spec).collect();
        let by_target = all.iter().enumerate().map(|(at, spec)| (spec.target.clone(), at)).collect();
        let is_pattern = |spec: &Spec| matches!(&spec.target, Target::Unit(name) if name.contains('*'));
        let patterns = (0..all.len()).rev().filter(|at| is_pattern(&all[*at])).collect();
        Specs { all, by_target, patterns }
    }
}

/// Complain about what one file says twice: across files the later is meant to replace the earlier, inside one it is a slip.
fn complain_of_doubles(found: &mut Found) {
    let mut lines: HashMap<&Target, usize> = HashMap::new();
    for spec in &found.specs {
        match lines.entry(&spec.target) {
            Entry::Vacant(first) => {
                first.insert(spec.source.line);
            }
            Entry::Occupied(mut first) => {
                let earlier = first.insert(spec.source.line);
                found.complaints.push(Complaint {
                    file: spec.source.file.clone(),
                    line: spec.source.line,
                    field: "entry".to_owned(),
                    wrong: format!("is the second in this file for {}, after line {earlier}", spec.target),
                    allowed: "keep one of them; this one is in force".to_owned(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Trust;
    use std::fs;
    use std::path::PathBuf;
    use tempfile::tempdir;

    /// Specifications from TOML that has no mistake.
    fn specs(text: &str) -> Specs {
        let found = toml::parse(Path::new("x.toml"), text.as_bytes());
        assert_eq!(found.complaints, []);
        found.specs.into_iter().collect()
    }

    fn entry(target: &str, runtime_ms: u32) -> String {
        format!("[[spec]]\n{target}\ntype = \"interactive\"\nruntime_ms = {runtime_ms}\nperiod_ms = 30\n")
    }

    fn runtime_ms(spec: Option<&Spec>) -> Option<u128> {
        spec.map(|spec| spec.runtime.as_millis())
    }

    fn load(files: &[(&str, &str)]) -> (Loaded, Vec<String>) {
        let folder = tempdir().unwrap();
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
        for ((_, text), path) in files.iter().zip(&paths) {
            fs::write(path, text).unwrap();
        }
        let loaded = Specs::load(&Places { folders: Vec::new(), files: paths, trust: Trust::Anyone, must_exist: true });
        let place = format!("{}/", folder.path().display());
        let complaints = loaded.complaints.iter().map(|complaint| complaint.to_string().replace(&place, "")).collect();
        (loaded, complaints)
    }

    /// A later file replaces what an earlier one says of the same program, whatever their forms, and nothing else.
    #[test]
    fn later_files_replace() {
        let toml = entry("path = [\"/a\", \"/b\"]", 1);
        let (loaded, complaints) = load(&[("1.toml", &toml), ("2.tab", "/b:Iact:2:30:R:-:-\n/c:Iact:3:30:R:-:-")]);
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(
            ["/a", "/b", "/c", "/d"].map(|path| runtime_ms(loaded.specs.by_path(Path::new(path)))),
            [Some(1), Some(2), Some(3), None]
        );
        assert_eq!(loaded.specs.len(), 3);
        assert_eq!(loaded.specs.by_path(Path::new("/b")).unwrap().source.line, 1);
    }

    /// One file that says two things of one program is complained about; the later one is in force.
    #[test]
    fn twice_in_one_file_is_a_slip() {
        let (loaded, complaints) = load(&[("1.tab", "/b:Iact:2:30:R:-:-\n\n/b:Iact:3:30:R:-:-")]);
        assert_eq!(
            complaints,
            ["1.tab:3: entry: is the second in this file for /b, after line 1; keep one of them; this one is in force"]
        );
        assert_eq!(runtime_ms(loaded.specs.by_path(Path::new("/b"))), Some(3));
    }

    /// There are at most 4096, and what is left out is counted.
    #[test]
    fn there_are_not_too_many() {
        let many: String = (0..4000).map(|number| format!("/a{number}:Iact:2:30:R:-:-\n")).collect();
        let more: String = (0..100).map(|number| format!("/b{number}:Iact:2:30:R:-:-\n")).collect();
        let (loaded, complaints) = load(&[("1.tab", &many), ("2.tab", &more), ("3.tab", "/c:Iact:2:30:R:-:-")]);
        assert_eq!(loaded.specs.len(), MAX_SPECS);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(
            complaints[0].starts_with("2.tab: file: has 4 ") && complaints[1].starts_with("3.tab: file: has 1 "),
            "{complaints:?}"
        );
    }

    /// A cgroup's specification is that of its unit's name, else of its app, else of the last pattern.
    #[test]
    fn a_cgroup_finds_its_spec() {
        let entries = [
            ("app = \"org.mozilla.firefox\"", 1),
            ("unit = \"ssh.service\"", 2),
            ("unit = \"ssh*.service\"", 3),
            ("unit = \"s*.service\"", 4),
            ("unit = \"app-org.kde.kate@7.service\"", 5),
            ("app = \"org.kde.kate\"", 6),
            ("unit = \"app-org.kde.*.service\"", 7),
        ];
        let specs = specs(&entries.map(|(target, runtime_ms)| entry(target, runtime_ms)).concat());
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        for (cgroup, expected) in [
            (format!("{user}/app-flatpak-org.mozilla.firefox-1234.scope"), Some(1)),
            (format!("{user}/app-flatpak-org.mozilla.firefox-1234.scope/inner"), Some(1)),
            ("/system.slice/ssh.service".to_owned(), Some(2)),
            ("/system.slice/sshd.service".to_owned(), Some(4)),
            (format!("{user}/app-org.kde.kate@7.service"), Some(5)),
            (format!("{user}/app-org.kde.kate@8.service"), Some(6)),
            (format!("{user}/app-org.kde.kwrite@8.service"), Some(7)),
            (format!("{user}/app-org.mozilla.firefox.slice/vte-spawn-1.scope"), None),
            ("/".to_owned(), None),
        ] {
            assert_eq!(runtime_ms(specs.for_cgroup(&cgroup)), expected, "{cgroup}");
        }
    }

    /// A user who gives a unit the name of a system's one does not get what cannot be revoked.
    #[test]
    fn a_forged_unit_gets_nothing_irrevocable() {
        let specs = specs(&entry("unit = [\"ssh.service\", \"getty@*.service\"]\nrevocable = false", 2));
        assert!(specs.for_cgroup("/system.slice/ssh.service").is_some());
        assert!(specs.for_cgroup("/system.slice/system-getty.slice/getty@tty1.service").is_some());
        for name in ["ssh", "getty@x"] {
            let forged = format!("/user.slice/user-1000.slice/user@1000.service/{name}.service");
            assert_eq!(specs.for_cgroup(&forged), None, "{forged}");
        }
    }
}
