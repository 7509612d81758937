// SPDX-License-Identifier: GPL-2.0-only
//! Every word of the command line. `--help`, the man pages and the completions are made from this.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::bounds::number;
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
    ///
    /// And what it has beside that: its reservation, and, of a program with libcoop or under coop-run, how many of its threads take part, whose releases are
    /// kept, and why others' are not.
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
    /// Look after the specifications: which program is promised how much CPU.
    Spec {
        /// What to do with them.
        #[command(subcommand)]
        command: SpecCommand,
    },
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

/// The subcommands of `limelight spec`.
#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// Check files of specifications, and show what is in force.
    ///
    /// Prints what is wrong, as FILE:LINE: FIELD: what is wrong; what is allowed. What is wrong is left out; everything else stays in
    /// force, and is shown after it: for which program, C and T in ms, the flags, the file and line, and whether the figures were measured. A
    /// path that is no program on this machine is marked (not installed here).
    ///
    /// Exit status 0: nothing is wrong; 1: something is.
    #[command(after_long_help = limelight_spec::fields::manual())]
    Check {
        /// Files or folders to check instead of those in force, as if they were put in place, whoever they belong to. A file ending in .toml is
        /// TOML, others have the paper's form.
        ///
        /// Without any: *.tab and *.toml in /usr/share/limelight/spec.d, /usr/local/share/limelight/spec.d and /etc/limelight/spec.d, and
        /// /etc/spec/spec.tab. A file replaces one of the same name in a folder before it, and a link to /dev/null masks it; an entry replaces
        /// earlier ones for the same program. Files and folders must be root's and writable for nobody else.
        #[arg(value_name = "FILE")]
        files: Vec<std::path::PathBuf>,
        #[command(flatten)]
        view: View,
    },
    /// Show who holds a reservation: what each asked for, got and used, and the load of each CPU.
    ///
    /// The columns I, R, L and P are its flags: children inherit it, under overload it may be revoked, it is a way to log in, and it is only for who
    /// is executed by an interactive process.
    ///
    /// Root sees every process, others their own.
    List(View),
    /// Read the specifications again, and let them take effect for who runs already, too. Needs root. SIGHUP to the daemon does the same.
    Reload,
    /// Ask for a reservation for a process of yours: so much CPU in every so much time, for as long as it runs.
    ///
    /// It is submitted to admission as one from a file is, can be taken back when there is too much load, and children do not inherit it. Each
    /// user can have 8 of them at once, of a quarter of a CPU together; root has no limit but admission. Exit status 0: it was asked for, and
    /// what is printed says whether it was admitted; 1: it may not be asked for, and why.
    Request {
        /// The process.
        pid: u32,
        /// CPU, in ms, at least 0.1.
        #[arg(value_name = "C", value_parser = number(0.1..=10_000.0, "ms"), allow_negative_numbers = true)]
        runtime_ms: f64,
        /// In every so much time, in ms, 1 to 10000.
        #[arg(value_name = "T", value_parser = number(1.0..=10_000.0, "ms"), allow_negative_numbers = true)]
        period_ms: f64,
        #[command(flatten)]
        view: View,
    },
    /// Find the specification of a program: watch it, try the figures, and print the line for a *.tab file. Needs root, but not of a recording.
    ///
    /// Starts the program, as whoever called sudo and with its output untouched, or takes one that runs already. It is to do what it is for:
    /// play, or be typed into. T is its own rhythm where it has one (a film of 25 frames a second: 40 ms), and otherwise 30 ms for what draws or
    /// plays and 100 ms for what answers now and then. C is what it used in 99.9 % of the stretches of T in which it did something, and a
    /// tenth more. Where the daemon answers, the process gets that reservation, C is raised where more than a period in a thousand was
    /// missed and lowered where less than half was used, and it is watched again, at most four times more. In the end it has what it had
    /// before. A program that would use any amount of CPU is said to be best-effort (BE).
    ///
    /// Only the process itself is watched, with all of its threads, not those it starts. The first 2 seconds of a program are left out: its start is
    /// not what it does. In the end a program that was started is told to end (SIGTERM). What was seen of it is summed up on standard error; no
    /// times are kept.
    ///
    /// With --recorded nothing is started, and the figures are not tried: they are those of a recording of the scheduler that was made before, here or on
    /// another machine, as text. Of perf: perf sched record sleep 20, then perf script --ns --show-lost-events -F +pid >FILE. Of trace-cmd: trace-cmd
    /// record -e sched_switch -e sched_wakeup -e sched_wakeup_new sleep 20, then trace-cmd report >FILE. Of ftrace: the file trace, best with the option
    /// record-tgid. Where the recording does not say which threads are of the process, only the one that has the process' number is looked at, and that
    /// is said. An hour of it counts, at most; if the process begins in it, all but the first 2 seconds from there.
    ///
    /// Exit status 0: the line was printed; 1: it was not, and why: it ended before it was seen for 3 seconds, or did less than 20 bursts of work.
    Suggest {
        /// Do not watch, but take this recording of the scheduler, the text of perf script, trace-cmd report or ftrace; -: standard input.
        #[arg(long, value_name = "FILE", requires_all = ["pid", "program"], conflicts_with = "seconds")]
        recorded: Option<std::path::PathBuf>,
        /// Watch this process, which runs already; with --recorded: which one of the recording it was.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        pid: Option<u32>,
        /// For how long, each time.
        #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = number(3..=600_u64, "seconds"), allow_negative_numbers = true)]
        seconds: u64,
        #[command(flatten)]
        view: View,
        /// The program to start, and its arguments; with --recorded: the program that the line is for.
        #[arg(
            value_name = "PROGRAM",
            required_unless_present = "pid",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        program: Vec<std::ffi::OsString>,
    },
}

impl Command {
    /// What clap has no word for: with --recorded, --pid and one PROGRAM go together; else they exclude each other.
    fn is_consistent(&self) -> Result<(), clap::Error> {
        let Command::Spec { command: SpecCommand::Suggest { recorded, pid, program, .. } } = self else {
            return Ok(());
        };
        let wrong = match (recorded, pid, program.len()) {
            (None, Some(_), 1..) => {
                "the argument '--pid <PID>' cannot be used with '[PROGRAM]...', but with '--recorded <FILE>'"
            }
            (None, None, 2..) if has_late_recording(program) => {
                "the option '--recorded <FILE>' goes before '[PROGRAM]' (what is behind it is the program's own; with '--' before it this may be, too)"
            }
            (Some(_), _, 2..) => {
                "the argument '--recorded <FILE>' can be used with one '[PROGRAM]' only, without arguments: nothing is started"
            }
            _ => return Ok(()),
        };
        let mut whole = command();
        whole.build();
        let named = whole.find_subcommand_mut("spec").and_then(|spec| spec.find_subcommand_mut("suggest"));
        Err(match named {
            Some(suggest) => suggest.error(ErrorKind::ArgumentConflict, wrong),
            None => whole.error(ErrorKind::ArgumentConflict, wrong),
        })
    }
}

/// Whether what looks like our option stands behind the program, which would start it, perhaps as root, where nothing was to be started. After `--` it is its.
fn has_late_recording(program: &[std::ffi::OsString]) -> bool {
    let typed: Vec<_> = std::env::args_os().collect();
    let before = typed.len().checked_sub(program.len() + 1).and_then(|at| typed.get(at));
    let is_ours =
        |word: &std::ffi::OsString| word == "--recorded" || word.as_encoded_bytes().starts_with(b"--recorded=");
    before.is_none_or(|word| word != "--") && program.iter().skip(1).any(is_ours)
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
            if let Err(error) = cli.command.is_consistent() {
                error.exit();
            }
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
