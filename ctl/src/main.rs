// SPDX-License-Identifier: GPL-2.0-only
//! `limelight`: the one command.

mod bounds;
mod cli;
mod docs;
mod doctor;
mod explain;
mod graph;
mod reservations;
mod settings;
mod spec;
mod status;
mod suggest;
mod table;

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limelight_daemon::control::{SOCKET, ask};
use limelight_daemon::view::Request;
use limelight_sense::spawn::Owner;
use serde_json::Value;
use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};

use cli::{Command, SpecCommand, View};
use settings::RunArgs;

fn main() -> ExitCode {
    match obey(cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // Not `eprintln!`, which panics where it cannot be written. The status tells all the same.
            let _ = writeln!(io::stderr(), "limelight: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn obey(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run(&arguments)?,
        Command::Status(view) => show(view, &Request::Status, status::text)?,
        Command::Explain { pid, view } => show(view, &Request::Explain { pid }, explain::text)?,
        Command::Graph(view) => show(view, &Request::Graph, |answer| graph::dot(answer, graph::name_of))?,
        Command::Doctor(view) => {
            let (text, will_work) = doctor::report(view.json);
            print(text.as_bytes())?;
            return Ok(if will_work { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Spec { command: SpecCommand::Check { files, view } } => {
            let (text, is_clean) = spec::check(&files, view.json);
            print(text.as_bytes())?;
            return Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Spec { command: SpecCommand::List(view) } => show(view, &Request::Reservations, reservations::text)?,
        Command::Spec { command: SpecCommand::Reload } => {
            ask(Path::new(SOCKET), &Request::Reload)?;
        }
        Command::Spec { command: SpecCommand::Request { pid, runtime_ms, period_ms, view } } => {
            let (runtime_us, period_us) = (micros(runtime_ms), micros(period_ms));
            show(view, &Request::Reserve { pid, runtime_us, period_us }, reservations::answer)?;
        }
        Command::Spec { command: SpecCommand::Suggest { recorded, pid, seconds, view, program } } => {
            let found = match (&recorded, pid, &program[..]) {
                (Some(file), Some(pid), [program, ..]) => suggest::recorded::suggest(file, pid, program)?,
                _ => suggest::suggest(pid, &program, Duration::from_secs(seconds))?,
            };
            let text = if view.json { format!("{:#}\n", found.json()) } else { found.line.clone() + "\n" };
            print(text.as_bytes())?;
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            docs::completions(shell, &mut text);
            print(&text)?;
        }
        Command::Man { folder } => docs::man(&folder)?,
        Command::Watch { display, report_fd, owner } => watch(display, report_fd, owner)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &RunArgs) -> Result<()> {
    let options = limelight_daemon::Options {
        settings: arguments.scheduler()?,
        policy: arguments.ratings()?,
        coop_pages_per_user: arguments.coop_pages_per_user(),
        program: std::env::current_exe().context("cannot find my own binary, which the helpers run")?,
    };
    if nix::unistd::geteuid().is_root()
        && let Some(hindrance) = doctor::hindrance()
    {
        bail!("the scheduler cannot be loaded: {hindrance} (limelight doctor tells more; nothing was changed)");
    }
    log_to_stderr(if arguments.verbose { LevelFilter::Debug } else { LevelFilter::Info })?;
    limelight_daemon::run(&options)
}

/// No times: the journal has its own, and no log of ours may say when somebody did something.
fn log_to_stderr(level: LevelFilter) -> Result<()> {
    let config = ConfigBuilder::new()
        .set_time_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off)
        .set_location_level(LevelFilter::Off)
        .build();
    TermLogger::init(level, config, TerminalMode::Stderr, ColorChoice::Never).context("cannot write a log")
}

fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

fn show(view: View, request: &Request, text: impl Fn(&Value) -> String) -> Result<()> {
    let answer = ask(Path::new(SOCKET), request)?;
    let text = if view.json { format!("{answer:#}\n") } else { text(&answer) };
    print(text.as_bytes())
}

/// Who closes the pipe early (`| head`) has seen enough: no error.
fn print(text: &[u8]) -> Result<()> {
    match io::stdout().write_all(text).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write the answer"),
        _ => Ok(()),
    }
}

fn watch(display: String, report_fd: RawFd, owner: Option<Owner>) -> Result<()> {
    let options = limelight_sense::WatchOptions::from_numbers(display, report_fd, owner)?;
    log_to_stderr(LevelFilter::Info)?;
    limelight_sense::watch(options)?;
    Ok(())
}
