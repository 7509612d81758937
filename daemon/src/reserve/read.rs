// SPDX-License-Identifier: GPL-2.0-only
//! Reading specifications, and looking for what they are about, off the loop: it opens files and goes through all of `/proc` or of the cgroups.
//!
//! Reading: the files of specifications, the executables they name, and who runs those already. Looking: has an executable been
//! replaced (a package upgrade), and who is in a unit or an app that has a specification. Looking comes again and again; it rests after
//! each time for a hundred times the CPU that it took.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use limelight_spec::{Complaint, Kind, Loaded, Places, Spec, Specs, Target};
use nix::libc;

use crate::procfs;

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Levels of cgroups that are looked through, and how many of them in all: users nest theirs as deep as they like.
const MAX_DEPTH: usize = 12;
const MAX_CGROUPS: usize = 16_384;

/// An executable that has a specification.
pub struct Executable {
    /// What the kernel is asked which file it is.
    pub file: File,
    /// Its specification.
    pub spec: Spec,
}

/// What tells that there is another file in a file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed_ns: i64,
}

/// What was read.
#[derive(Default)]
pub struct Read {
    /// Each executable that is there.
    pub executables: Vec<Executable>,
    /// What names no executable: apps and units.
    pub by_cgroup: Vec<Spec>,
    /// What is wrong with the files.
    pub complaints: Vec<Complaint>,
}

/// What the thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read everything anew.
    Read,
    /// See what has changed.
    Look,
    /// Find who runs one of the executables. After the scheduler was told of these: who executes one before that is found here, and who does so later is
    /// noticed there.
    Run,
}

/// What it found.
pub enum Found {
    /// The specifications, of which the executables may be other files than before.
    Read(Read),
    /// Processes in an app or a unit that has a specification, with that.
    InCgroups(Vec<(u32, Spec)>),
    /// Processes that run one of the executables.
    Running(Vec<u32>),
}

/// The thread's own memory.
pub struct Reader {
    places: Places,
    specs: Specs,
    /// What was found at each path of a specification; `None`: nothing.
    stamps: HashMap<PathBuf, Option<Stamp>>,
    /// Where the executables are in the end that processes have reservations by.
    wanted: HashSet<PathBuf>,
}

impl Reader {
    /// Of the system's own places, or others.
    pub fn new(places: Places) -> Self {
        Self { places, specs: Specs::default(), stamps: HashMap::new(), wanted: HashSet::new() }
    }

    /// Do `job`.
    pub fn work(&mut self, job: Job) -> Found {
        if job == Job::Read {
            let Loaded { specs, complaints } = Specs::load(&self.places);
            self.specs = specs;
            return Found::Read(Read { complaints, ..self.open() });
        }
        if job == Job::Run {
            return Found::Running(running(&self.wanted));
        }
        if self.stamps.iter().any(|(path, stamp)| stamp_of(path) != *stamp) {
            return Found::Read(self.open());
        }
        Found::InCgroups(self.in_cgroups())
    }

    fn open(&mut self) -> Read {
        let mut read = Read::default();
        self.stamps.clear();
        self.wanted.clear();
        for spec in self.specs.iter() {
            let Target::Path(path) = &spec.target else {
                read.by_cgroup.push(spec.clone());
                continue;
            };
            let opened = open(path);
            self.stamps.insert(path.clone(), opened.as_ref().map(|opened| opened.stamp));
            let Some(Opened { file, path, .. }) = opened else { continue };
            if spec.kind == Kind::Interactive {
                self.wanted.insert(path);
            }
            read.executables.push(Executable { file, spec: spec.clone() });
        }
        read
    }

    /// Who is in an app or a unit that has a specification, and runs no program that has one of its own.
    fn in_cgroups(&self) -> Vec<(u32, Spec)> {
        if self.specs.iter().all(|spec| matches!(spec.target, Target::Path(_))) {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut folders = vec![(PathBuf::from(CGROUPS), 0)];
        let mut left = MAX_CGROUPS;
        while let Some((folder, depth)) = folders.pop() {
            let name = folder.strip_prefix(CGROUPS).ok().and_then(Path::to_str);
            if let Some(spec) = name.and_then(|name| self.specs.for_cgroup(&format!("/{name}"))) {
                let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                let pids = pids.lines().filter_map(|pid| pid.parse().ok()).filter(|&pid| !self.has_own(pid));
                found.extend(pids.map(|pid| (pid, spec.clone())));
            }
            if depth < MAX_DEPTH && left > 0 {
                let below = subfolders(&folder);
                left = left.saturating_sub(below.len());
                folders.extend(below.into_iter().map(|folder| (folder, depth + 1)));
            }
        }
        found
    }

    fn has_own(&self, pid: u32) -> bool {
        // One that is for the children of interactive processes only may be none for this one. Who has it by that is left alone by who asks.
        let counts = |spec: &Spec| !spec.interactive_parent;
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| self.specs.by_path(&path).is_some_and(counts))
    }
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// A file that can be executed.
struct Opened {
    file: File,
    stamp: Stamp,
    /// Where it is in the end, behind all links.
    path: PathBuf,
}

/// The file at `path`, if it is one that can be executed. Not opened to be read: that might wait, or do something, where it is no plain file.
fn open(path: &Path) -> Option<Opened> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()?;
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let path = fs::canonicalize(path).ok()?;
    Some(Opened { file, stamp: stamp(&meta), path })
}

fn stamp(meta: &fs::Metadata) -> Stamp {
    Stamp { device: meta.dev(), inode: meta.ino(), changed_ns: meta.ctime() * 1_000_000_000 + meta.ctime_nsec() }
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|meta| stamp(&meta))
}

/// Processes that seem to run one of `wanted`: by name, which a mount namespace may lie about. The scheduler looks at the file.
fn running(wanted: &HashSet<PathBuf>) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| wanted.contains(&path));
    parents_first(pids.filter(runs).collect(), procfs::began)
}

/// Parents before their children, which may have theirs by what the parent has. Of those that began in the same tick the one of the lower number,
/// which is wrong where the numbers began anew in that tick.
fn parents_first(mut pids: Vec<u32>, began: impl Fn(u32) -> Option<u64>) -> Vec<u32> {
    pids.sort_by_cached_key(|&pid| (began(pid), pid));
    pids
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use limelight_spec::Trust;

    use super::*;

    fn reader(folder: &Path) -> Reader {
        let places =
            Places { folders: vec![folder.to_owned()], files: Vec::new(), trust: Trust::Anyone, must_exist: false };
        Reader::new(places)
    }

    /// The test's own executable is found by a link to it, with who runs it; another file in its place is noticed.
    #[test]
    fn executables_are_found_behind_links_and_noticed_when_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        let line = format!("{}:Iact:5:30:IR:-:-\n/no/such/program:Iact:5:30:-:-:-\n", link.display());
        fs::write(folder.path().join("a.tab"), line).unwrap();
        let mut reader = reader(folder.path());
        let Found::Read(read) = reader.work(Job::Read) else { panic!("not read") };
        assert!(read.complaints.is_empty(), "{:?}", read.complaints);
        assert_eq!(read.executables.len(), 1, "what is not there is no executable");
        let runs = |reader: &mut Reader| matches!(reader.work(Job::Run), Found::Running(pids) if pids.contains(&std::process::id()));
        assert!(runs(&mut reader));
        assert!(matches!(reader.work(Job::Look), Found::InCgroups(found) if found.is_empty()));

        fs::remove_file(&link).unwrap();
        fs::File::create(&link).unwrap().write_all(b"another").unwrap();
        let Found::Read(read) = reader.work(Job::Look) else { panic!("not noticed") };
        assert_eq!(read.executables.len(), 1);
        assert!(!runs(&mut reader), "it runs the old one");
    }

    /// Who began earlier comes first, whatever its number: numbers begin anew when they have been used up.
    #[test]
    fn parents_come_before_their_children() {
        let began = |pid| [(400, 7), (9, 8), (12, 8)].into_iter().find_map(|(of, tick)| (of == pid).then_some(tick));
        assert_eq!(parents_first(vec![9, 12, 400], began), [400, 9, 12]);
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert!(procfs::began(parent).unwrap() <= procfs::began(own).unwrap());
    }

    /// A file that appears where a specification had found none is noticed, too.
    #[test]
    fn a_program_that_is_installed_later_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(folder.path().join("a.tab"), format!("{}:Iact:5:30:IR:-:-\n", program.display())).unwrap();
        let mut reader = reader(folder.path());
        assert!(matches!(reader.work(Job::Read), Found::Read(read) if read.executables.is_empty()));
        assert!(matches!(reader.work(Job::Look), Found::InCgroups(_)));
        fs::write(&program, "").unwrap();
        assert!(matches!(reader.work(Job::Look), Found::Read(read) if read.executables.len() == 1));
    }
}
