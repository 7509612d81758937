// SPDX-License-Identifier: GPL-2.0-only
//! Man pages and completions, made from the description of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::command;

/// Write `limelight.1` and a page for each subcommand into `folder`.
///
/// # Errors
/// The folder does not exist, or cannot be written to.
pub fn man(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        bail!("{} is not a folder: make it first, or name another", folder.display());
    }
    for (name, page) in pages()? {
        let path = folder.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Every page, by file name.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    pages_of("limelight", whole, &mut pages)?;
    Ok(pages)
}

/// The page of a command, and those of its subcommands.
fn pages_of(name: &str, command: clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        let name = format!("{name}-{}", part.get_name());
        let part = part.clone().display_name(name.clone()).version(env!("CARGO_PKG_VERSION"));
        pages_of(&name, part, pages)?;
    }
    pages.push(page(name.to_owned(), command)?);
    Ok(())
}

fn page(name: String, command: clap::Command) -> io::Result<(String, Vec<u8>)> {
    let mut page = Vec::new();
    // No date: the same sources make the same page.
    Man::new(command).date("").render(&mut page)?;
    Ok((format!("{name}.1"), page))
}

/// Write completions for `shell` to `out`.
pub fn completions(shell: Shell, out: &mut impl Write) {
    clap_complete::generate(shell, &mut command(), "limelight", out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages in docs/man are those that the command line makes now.
    #[test]
    fn the_pages_in_the_repository_are_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man");
        let mut there: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let pages = pages().unwrap();
        let mut made: Vec<_> = pages.iter().map(|(name, _)| name.clone()).collect();
        there.sort_unstable();
        made.sort_unstable();
        assert_eq!(there, made, "remake them: limelight man docs/man");
        for (name, page) in pages {
            assert!(fs::read(folder.join(&name)).unwrap() == page, "{name} is old: limelight man docs/man");
        }
    }

    /// Completions know the subcommands and the policy's flags, and not what is hidden.
    #[test]
    fn completions_are_complete() {
        let mut text = Vec::new();
        completions(Shell::Bash, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("explain") && text.contains("--input-memory-s"));
    }
}
