// SPDX-License-Identifier: GPL-2.0-only
//! `limelight`: the one command.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use limelight_daemon::control::{SOCKET, ask};
use limelight_daemon::view::Request;
use limelight_sched::{Policy, Settings};
use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};

/// Keeps what you are attending to smooth on a loaded machine.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Huc,
    Unified,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon.
    Run {
        /// Which paper's rules are in force.
        #[arg(long, value_enum, default_value = "unified")]
        policy: PolicyName,
    },
    /// Who serves the person now, and what they get.
    Status,
    /// Why a process is in its class.
    Explain {
        /// The process.
        pid: u32,
    },
    /// Watch one display (started by the daemon).
    #[command(hide = true)]
    Watch {
        /// The display.
        #[arg(long)]
        display: String,
        /// Where to report.
        #[arg(long)]
        report_fd: i32,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let config = ConfigBuilder::new().set_time_level(LevelFilter::Off).build();
    TermLogger::init(LevelFilter::Info, config, TerminalMode::Stderr, ColorChoice::Never)?;
    match cli.command {
        Command::Run { policy } => {
            let policy = match policy {
                PolicyName::Huc => Policy::Huc,
                PolicyName::Unified => Policy::Unified,
            };
            let program: PathBuf = std::env::current_exe().context("cannot find my own binary")?;
            limelight_daemon::run(&limelight_daemon::Options {
                settings: Settings { policy, ..Settings::default() },
                policy: limelight_policy::Settings::default(),
                program,
            })
        }
        Command::Status => show(&Request::Status),
        Command::Explain { pid } => show(&Request::Explain { pid }),
        Command::Watch { display, report_fd } => watch(&display, report_fd),
    }
}

fn show(request: &Request) -> Result<()> {
    println!("{:#}", ask(Path::new(SOCKET), request)?);
    Ok(())
}

fn watch(display: &str, report_fd: i32) -> Result<()> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the daemon passes this descriptor for us to own; nothing else in this process uses it.
    let report = unsafe { OwnedFd::from_raw_fd(report_fd) };
    limelight_sense::watch(limelight_sense::WatchOptions { display: display.to_owned(), report })?;
    Ok(())
}
