// SPDX-License-Identifier: GPL-2.0-only
//! Every word of the command line. `--help`, the man pages and the completions are made from this.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::settings::{self, RunArgs};

/// Keeps what you are attending to smooth on a loaded machine.
///
/// limelight finds out by itself which programs serve the person at this machine, from the input they receive, from
/// what they change on the screen and from who wakes whom, and runs those first. Everything else shares what is
/// left, fairly, and never starves.
#[derive(Debug, Parser)]
#[command(name = "limelight", version, after_help = EXIT)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT: &str = "Exit status: 0 done; 1 not done, the reason is on standard error; 2 wrong arguments.";

/// How a view is shown.
#[derive(Debug, Clone, Copy, Args)]
pub struct View {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: load the scheduler and watch who serves the person. Needs root.
    ///
    /// Ends on SIGTERM and SIGINT, and whenever the kernel takes the scheduler off; the kernel's own scheduler
    /// carries on then and nothing else was changed.
    Run(RunArgs),
    /// Show who serves the person now, and what they get.
    ///
    /// Root sees every process, others their own.
    Status(View),
    /// Tell why a process is in its class, and for how long.
    Explain {
        /// The process.
        pid: u32,
        #[command(flatten)]
        view: View,
    },
    /// Print the process dependency graph, in DOT. Needs root.
    ///
    /// An edge says who recently woke whom, and how often. To draw it: limelight graph | dot -Tsvg > graph.svg
    Graph(View),
    /// Check what this kernel and desktop offer, what is missing, and what happens instead.
    ///
    /// Exit status 0: limelight will work here; 1: it will not.
    Doctor(View),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder; it must exist.
        folder: std::path::PathBuf,
    },
    /// Watch one display. The daemon starts this by itself.
    #[command(hide = true)]
    Watch {
        /// The display.
        #[arg(long)]
        display: String,
        /// Where to report: an open socket.
        #[arg(long)]
        report_fd: i32,
        /// Whose display it is, as UID:GID; the process becomes theirs.
        #[arg(long)]
        owner: Option<limelight_sense::spawn::Owner>,
    },
}

/// The whole command line, the policy's settings included.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("run", settings::with_policy_flags)
}

/// What was typed. Ends the process for `--help`, `--version` and mistakes, as is usual.
pub fn parse() -> Cli {
    let matches = command().get_matches();
    match Cli::from_arg_matches(&matches) {
        Ok(mut cli) => {
            if let (Command::Run(run), Some(("run", matches))) = (&mut cli.command, matches.subcommand()) {
                run.take_policy_flags(matches);
            }
            cli
        }
        Err(error) => error.exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description of the command line does not contradict itself.
    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
