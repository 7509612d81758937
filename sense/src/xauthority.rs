// SPDX-License-Identifier: GPL-2.0-only
//! Reads cookies out of Xauthority files, to see whether a person's file opens a server.
//!
//! The daemon reads these as root, so a file counts only if it is a regular one, belongs to the person it is said to be
//! of, and is no link; and its content is compared, never used.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH};

/// Largest file read, in bytes; a cookie takes some sixty.
const MAX_BYTES: u64 = 64 * 1024;

/// A cookie's name (the protocol) and value.
pub(crate) type Cookie = (Vec<u8>, Vec<u8>);

/// The cookies for display `number` in the file at `path`, which must belong to `uid`; none if it does not.
pub(crate) fn cookies(path: &Path, uid: u32, number: u32) -> Vec<Cookie> {
    let Some(file) = open_of(path, uid) else { return Vec::new() };
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES).read_to_end(&mut bytes) {
        Ok(_) => parse(&bytes, number),
        Err(_) => Vec::new(),
    }
}

/// Whether the file at `path` is a regular file of `uid`'s, and no link.
pub(crate) fn belongs_to(path: &Path, uid: u32) -> bool {
    open_of(path, uid).is_some()
}

fn open_of(path: &Path, uid: u32) -> Option<File> {
    if !path.is_absolute() {
        return None;
    }
    // Anybody can name any file, and opening some has effects: a terminal would become the daemon's, whose hanging up ends it, a tape would be
    // rewound, a watchdog armed. So it is only looked at first (open(2), O_PATH).
    let found = OpenOptions::new().read(true).custom_flags(O_PATH | O_NOFOLLOW).open(path).ok()?;
    let metadata = found.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != uid || metadata.len() > MAX_BYTES {
        return None;
    }
    // The very file that was looked at, whatever has its name by now.
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(found).ok()
}

/// Entries are a family (16 bits, big-endian) and four counted strings: address, display number, name, value (Xau(3)). An
/// entry without a number is for every display.
fn parse(mut bytes: &[u8], number: u32) -> Vec<Cookie> {
    let number = number.to_string();
    let mut cookies = Vec::new();
    while bytes.len() >= 2 {
        bytes = &bytes[2..];
        let fields: Option<Vec<&[u8]>> = (0..4).map(|_| take_string(&mut bytes)).collect();
        let Some([_address, display, name, value]) = fields.as_deref() else { break };
        if display.is_empty() || *display == number.as_bytes() {
            cookies.push((name.to_vec(), value.to_vec()));
        }
    }
    cookies
}

fn take_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (string, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(string)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    /// An entry as `xauth` writes it.
    pub(crate) fn entry(display: &str, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1, 0];
        for field in [b"host".as_slice(), display.as_bytes(), b"MIT-MAGIC-COOKIE-1", value] {
            bytes.extend_from_slice(&u16::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }

    fn our_uid() -> u32 {
        nix::unistd::Uid::effective().as_raw()
    }

    /// Cookies of the display asked for and of every display are found, others are not.
    #[test]
    fn cookies_are_found_by_display() {
        let bytes = [entry("0", b"zero"), entry("1", b"one"), entry("", b"any")].concat();
        let values: Vec<Vec<u8>> = parse(&bytes, 1).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [b"one".to_vec(), b"any".to_vec()]);
    }

    /// A file that ends in the middle of an entry gives the entries before.
    #[test]
    fn cut_files_give_what_is_whole() {
        let bytes = [entry("0", b"first"), entry("0", b"second")].concat();
        for length in 0..bytes.len() {
            let whole = usize::from(length >= bytes.len() / 2 - 1) * usize::from(length >= entry("0", b"first").len());
            assert_eq!(parse(&bytes[..length], 0).len(), whole, "cut at {length}");
        }
    }

    /// Links, foreign files, directories, pipes and relative names are not read.
    #[test]
    fn only_a_file_of_the_persons_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cookies");
        std::fs::write(&file, entry("0", b"zero")).unwrap();
        assert_eq!(cookies(&file, our_uid(), 0).len(), 1);
        assert!(cookies(&file, our_uid() + 1, 0).is_empty(), "another's file was read");
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for not_a_file in [link.as_path(), pipe.as_path(), dir.path(), Path::new("cookies"), Path::new("/nowhere")] {
            assert!(!belongs_to(not_a_file, our_uid()), "{} was opened", not_a_file.display());
        }
    }

    /// Files that are no cookie files are not even opened: anybody may name a terminal or a watchdog, which take note of that. Here a
    /// pipe, whose writer waits until somebody opens it.
    #[test]
    fn nothing_but_a_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (sender, opened) = std::sync::mpsc::channel();
        let at = pipe.clone();
        std::thread::spawn(move || sender.send(OpenOptions::new().write(true).open(at).map(drop)));
        // As often as the thread may take to come to its waiting.
        for _ in 0..50 {
            assert!(!belongs_to(&pipe, our_uid()));
            assert!(opened.try_recv().is_err(), "the pipe was opened");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // Lets the thread go.
        OpenOptions::new().read(true).open(pipe).unwrap();
        opened.recv().unwrap().unwrap();
    }

    proptest! {
        /// Garbage gives no panic and no more cookies than it could hold.
        #[test]
        fn garbage_is_harmless(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(parse(&bytes, 0).len() <= bytes.len() / 10);
        }
    }
}
