// SPDX-License-Identifier: GPL-2.0-only
//! Where files of specifications are, and whether what is there may be believed.
//!
//! Who can write a specification can take up to 95 % of a CPU from everybody else, so only files of root's count. Each is checked on the
//! opened file and not by its name, which could be another file's a moment later.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::makedev;
use thiserror::Error;

use crate::complaint::Complaint;

/// Most bytes of one file: a hundred times the largest of the shipped set.
pub const MAX_BYTES: u64 = 1 << 20;

/// Whose files are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Files and folders of this user that nobody else may write.
    Owner(u32),
    /// Everything: for drafts, and for tests.
    Anyone,
}

/// Where to look, each place before those that may replace what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Drop-in folders: files *.tab and *.toml, by name. A file replaces one of the same name in a folder before, and a link to /dev/null
    /// masks it.
    pub folders: Vec<PathBuf>,
    /// Single files, read after the folders: TOML where the name ends in .toml, else the paper's form.
    pub files: Vec<PathBuf>,
    /// Whose are believed.
    pub trust: Trust,
    /// Whether something that is not there is a mistake.
    pub must_exist: bool,
}

impl Places {
    /// Where the system's are: those of the distribution, those installed beside it, the administrator's, and the paper's own file.
    pub fn standard() -> Self {
        let folders = ["/usr/share/limelight/spec.d", "/usr/local/share/limelight/spec.d", "/etc/limelight/spec.d"];
        Places {
            folders: folders.map(PathBuf::from).to_vec(),
            files: vec!["/etc/spec/spec.tab".into()],
            trust: Trust::Owner(0),
            must_exist: false,
        }
    }

    /// These files and folders, whoever they belong to: drafts, to be checked before they are put in place.
    pub fn drafts(paths: &[PathBuf]) -> Self {
        let (folders, files) = paths.iter().cloned().partition(|path| path.is_dir());
        Places { folders, files, trust: Trust::Anyone, must_exist: true }
    }

    /// The bytes of every file that counts, in the order in which they are to be read.
    pub(crate) fn contents(&self, complaints: &mut Vec<Complaint>) -> Vec<(PathBuf, Vec<u8>)> {
        let mut dropped_in: Vec<(OsString, PathBuf, Content)> = Vec::new();
        for folder in &self.folders {
            let names = self.names(folder);
            for name in self.or_complain(folder, names, complaints).unwrap_or_default() {
                let path = folder.join(&name);
                let content = self.content(&path);
                // What may not be believed may not hide what may.
                if let Some(content) = self.or_complain(&path, content, complaints) {
                    dropped_in.retain(|(other, ..)| *other != name);
                    dropped_in.push((name, path, content));
                }
            }
        }
        let mut contents: Vec<_> = dropped_in.into_iter().map(|(_, path, content)| (path, content)).collect();
        for path in &self.files {
            let content = self.content(path);
            contents.extend(self.or_complain(path, content, complaints).map(|content| (path.clone(), content)));
        }
        let bytes = |(path, content)| match content {
            Content::Bytes(bytes) => Some((path, bytes)),
            Content::Mask => None,
        };
        contents.into_iter().filter_map(bytes).collect()
    }

    /// The names of a folder's drop-in files, sorted.
    fn names(&self, folder: &Path) -> Result<Vec<OsString>, Refusal> {
        self.believe(&File::open(folder)?.metadata()?)?;
        let names: io::Result<Vec<OsString>> =
            fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
        let mut names = names?;
        names.retain(|name| {
            let name = name.to_string_lossy();
            !name.starts_with('.') && (name.ends_with(".tab") || name.ends_with(".toml"))
        });
        names.sort_unstable();
        Ok(names)
    }

    fn content(&self, path: &Path) -> Result<Content, Refusal> {
        // Not to wait for the other end, should it be a pipe.
        let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
        let about = file.metadata()?;
        if about.file_type().is_char_device() && about.rdev() == makedev(1, 3) {
            return Ok(Content::Mask);
        }
        if !about.is_file() {
            return Err(Refusal::NoFile);
        }
        self.believe(&about)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        Ok(Content::Bytes(bytes))
    }

    fn believe(&self, about: &Metadata) -> Result<(), Refusal> {
        let Trust::Owner(owner) = self.trust else { return Ok(()) };
        let mode = about.permissions().mode() & 0o777;
        if about.uid() != owner {
            return Err(Refusal::Foreign { uid: about.uid(), owner });
        }
        if mode & 0o022 != 0 {
            return Err(Refusal::Writable { mode });
        }
        Ok(())
    }

    /// What was found, or a complaint, unless something is not there that need not be.
    fn or_complain<T>(&self, path: &Path, found: Result<T, Refusal>, complaints: &mut Vec<Complaint>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound && !self.must_exist => None,
            Err(refusal) => {
                let allowed = format!("{}; it is left out", refusal.fix());
                complaints.push(Complaint::of_file(path, refusal.to_string(), allowed));
                None
            }
        }
    }
}

/// What a file holds.
enum Content {
    /// This.
    Bytes(Vec<u8>),
    /// It is /dev/null, which hides a file of the same name.
    Mask,
}

/// Why a file or a folder does not count.
#[derive(Debug, Error)]
enum Refusal {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("is no file")]
    NoFile,
    #[error("belongs to user {uid}, not to user {owner}")]
    Foreign { uid: u32, owner: u32 },
    #[error("can be written by others than its owner (mode {mode:03o})")]
    Writable { mode: u32 },
    #[error("is larger than 1 MiB")]
    TooLarge,
}

impl Refusal {
    fn fix(&self) -> &'static str {
        match self {
            Refusal::Io(_) => "give a file or a folder that can be read",
            Refusal::NoFile => "put a file there",
            Refusal::Foreign { .. } | Refusal::Writable { .. } => "make it root's and writable for nobody else",
            Refusal::TooLarge => "a file of specifications has at most 1 MiB",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::{TempDir, tempdir};

    /// A share and an etc folder whose files of the test's own user are believed.
    fn folders() -> (TempDir, Places) {
        let top = tempdir().unwrap();
        let folders = ["share", "etc"].map(|name| top.path().join(name)).to_vec();
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let own = nix::unistd::geteuid().as_raw();
        let places =
            Places { folders, files: vec![top.path().join("spec.tab")], trust: Trust::Owner(own), must_exist: false };
        (top, places)
    }

    fn put(folder: &Path, name: &str, text: &str, mode: u32) {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// What is read, in order, and what is complained about.
    fn read(places: &Places) -> (Vec<String>, Vec<String>) {
        let mut complaints = Vec::new();
        let contents = places.contents(&mut complaints);
        let texts = contents.into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
        (texts, complaints.iter().map(Complaint::to_string).collect())
    }

    /// Folders are read in their order, files by name; other files, hidden ones and places that are not there are no matter.
    #[test]
    fn places_are_read_in_order() {
        let (top, places) = folders();
        put(&places.folders[0], "20.toml", "b", 0o644);
        put(&places.folders[0], "10.tab", "a", 0o644);
        put(&places.folders[1], "05.tab", "c", 0o644);
        put(&places.folders[1], "05.tab~", "-", 0o644);
        put(&places.folders[1], ".06.tab", "-", 0o644);
        put(&places.folders[1], "README", "-", 0o644);
        assert_eq!(read(&places), (vec!["a".into(), "b".into(), "c".into()], vec![]));
        put(top.path(), "spec.tab", "d", 0o600);
        assert_eq!(read(&places).0.last().unwrap(), "d");
    }

    /// A file in a later folder replaces its namesake, a link to /dev/null masks it, and neither does so when it may not be believed.
    #[test]
    fn later_folders_replace_and_mask() {
        let (_top, places) = folders();
        put(&places.folders[0], "10.toml", "shipped", 0o644);
        put(&places.folders[0], "20.toml", "other", 0o644);
        put(&places.folders[1], "10.toml", "own", 0o644);
        symlink("/dev/null", places.folders[1].join("20.toml")).unwrap();
        assert_eq!(read(&places), (vec!["own".into()], vec![]));
        put(&places.folders[1], "10.toml", "forged", 0o666);
        let (texts, complaints) = read(&places);
        assert_eq!(texts, ["shipped"]);
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].contains("etc/10.toml: file: can be written by others") && complaints[0].contains("666"),
            "{complaints:?}"
        );
    }

    /// What another user owns, or others may write, is left out with the reason: files, and folders with all that is in them.
    #[test]
    fn what_others_can_write_is_left_out() {
        let (_top, mut places) = folders();
        put(&places.folders[0], "10.tab", "a", 0o664);
        put(&places.folders[0], "20.tab", "b", 0o644);
        assert_eq!(read(&places).0, ["b"]);
        fs::set_permissions(&places.folders[0], fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(read(&places).0, Vec::<String>::new());
        let Trust::Owner(own) = places.trust else { panic!("somebody's") };
        places.trust = Trust::Owner(own + 1);
        let (texts, complaints) = read(&places);
        assert!(
            texts.is_empty() && complaints[0].contains(&format!("belongs to user {own}, not to user {}", own + 1)),
            "{complaints:?}"
        );
        places.trust = Trust::Anyone;
        assert_eq!(read(&places), (vec!["a".into(), "b".into()], vec![]));
    }

    /// A folder, a pipe with nobody at its other end and a file without end under a name of ours are left out at once.
    #[test]
    fn what_is_no_file_is_left_out() {
        let (_top, mut places) = folders();
        fs::create_dir(places.folders[0].join("10.tab")).unwrap();
        nix::unistd::mkfifo(&places.folders[0].join("20.tab"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        symlink("/dev/zero", places.folders[0].join("30.tab")).unwrap();
        symlink("nowhere", places.folders[0].join("40.tab")).unwrap();
        let (texts, complaints) = read(&places);
        assert!(texts.is_empty());
        assert_eq!(complaints.iter().filter(|complaint| complaint.contains("is no file")).count(), 3, "{complaints:?}");
        places.must_exist = true;
        assert!(read(&places).1.iter().any(|complaint| complaint.contains("40.tab: file: cannot be read")));
    }

    /// A file of 1 MiB is read, a larger one left out.
    #[test]
    fn large_files_are_left_out() {
        let (_top, places) = folders();
        put(&places.folders[0], "10.tab", &"#".repeat(1 << 20), 0o644);
        put(&places.folders[0], "20.tab", &"#".repeat((1 << 20) + 1), 0o644);
        let (texts, complaints) = read(&places);
        assert_eq!(texts.len(), 1);
        assert!(complaints[0].contains("20.tab: file: is larger than 1 MiB"), "{complaints:?}");
    }

    /// Drafts need not be root's, but have to be there.
    #[test]
    fn drafts_are_anyones_but_must_exist() {
        let (top, _) = folders();
        put(top.path(), "a.toml", "a", 0o666);
        let places = Places::drafts(&[top.path().join("a.toml"), top.path().join("share"), top.path().join("b.tab")]);
        let (texts, complaints) = read(&places);
        assert_eq!(texts, ["a"]);
        assert!(complaints.len() == 1 && complaints[0].contains("b.tab"), "{complaints:?}");
    }
}
