// SPDX-License-Identifier: GPL-2.0-only
//! The helper's life: one session after another, for as long as the daemon listens.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use limelight_abi::sense::{MAX_STRING_BYTES, SenseMessage};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;

use crate::error::{SessionEnd, WatchError};
use crate::procs::LAST_DISPLAY;
use crate::report::Report;
use crate::session;
use crate::spawn::Owner;

/// Time between two attempts to reach a display that went away.
const RETRY: Duration = Duration::from_millis(500);
/// A display that is back may refuse us for so long: its new cookie is written about when it starts. After that the
/// daemon must look for a new one, so the helper ends.
const REFUSED_AFTER_RETURN: Duration = Duration::from_secs(5);

/// What to watch, and whom to tell.
#[derive(Debug)]
pub struct WatchOptions {
    /// The display's name, such as `:0`. Its cookie is looked for as every X client does, by `XAUTHORITY` or in `HOME`.
    pub display: String,
    /// A `SOCK_SEQPACKET` socket for [`SenseMessage`] packets.
    pub report: OwnedFd,
    /// As whom, where the process is not the owner's yet.
    pub owner: Option<Owner>,
}

impl WatchOptions {
    /// The options of `limelight watch --display DISPLAY --report-fd NUMBER`.
    ///
    /// # Errors
    /// [`WatchError::NotASocket`] if no descriptor of that number was handed over.
    pub fn from_numbers(display: String, report_fd: RawFd, owner: Option<Owner>) -> Result<Self, WatchError> {
        let refused = |reason: &str| WatchError::NotASocket { reason: format!("descriptor {report_fd} {reason}") };
        if report_fd < 3 {
            return Err(refused("is not one that was handed over"));
        }
        // SAFETY: used for one system call that fails cleanly on a closed descriptor.
        let inherited = unsafe { BorrowedFd::borrow_raw(report_fd) };
        // A duplicate is owned here without doubt; the original stays open until exit, which nobody notices: the daemon
        // holds the only other end.
        let report = inherited.try_clone_to_owned().map_err(|error| refused(&error.to_string()))?;
        Ok(Self { display, report, owner })
    }
}

/// Watches a display and reports until the other end of the report socket is closed.
///
/// The process cannot be inspected or dumped afterwards (`PR_SET_DUMPABLE` 0): key events pass through its memory.
///
/// # Errors
/// [`WatchError`] where the display cannot be watched at all. A display that was watched and went away is no error: the
/// daemon is told, and the display is waited for.
pub fn watch(options: WatchOptions) -> Result<(), WatchError> {
    if let Some(owner) = options.owner {
        owner.become_owner().map_err(|source| WatchError::System { action: "become the display's owner", source })?;
    }
    prctl::set_dumpable(false)
        .map_err(|errno| WatchError::System { action: "protect this process's memory", source: errno.into() })?;
    let mut report = Report::new(options.report)?;
    let display = options.display;
    if !is_name(&display) {
        return Err(WatchError::BadName { display });
    }
    let mut gone_since: Option<Instant> = None;
    loop {
        let end = session::run(&display, &mut report);
        if matches!(end, SessionEnd::ReportClosed) {
            return Ok(());
        }
        if report.has_greeted() {
            let reason = end.to_string();
            log::info!("{display} went away: {reason}");
            if report.send(&gone(reason)).is_err() {
                return Ok(());
            }
            gone_since = Some(Instant::now());
        } else if !may_come_back(&end, gone_since) {
            let failure = failure(end, display);
            // Whoever started us shows it to the person; the error is for the log. It is gone or it hears it: either will do.
            let _ = report.send(&gone(failure.to_string()));
            return Err(failure);
        }
        if pause(&mut report) {
            return Ok(());
        }
    }
}

fn gone(mut reason: String) -> SenseMessage {
    reason.truncate(reason.floor_char_boundary(MAX_STRING_BYTES));
    SenseMessage::Gone { reason }
}

/// Whether x11rb can read this name; it takes numbers whose TCP port would not be one, and then fails.
fn is_name(display: &str) -> bool {
    let parsed = x11rb::reexports::x11rb_protocol::parse_display::parse_display(Some(display));
    parsed.is_ok_and(|parsed| u32::from(parsed.display) <= LAST_DISPLAY)
}

/// Whether a session that never began is worth another try: only for a display that was there before.
fn may_come_back(end: &SessionEnd, gone_since: Option<Instant>) -> bool {
    let Some(since) = gone_since else { return false };
    match end {
        SessionEnd::Connect(WatchError::NoServer { .. }) | SessionEnd::Connection(_) | SessionEnd::Record(_) => true,
        // While it starts or stops, a server answers in all kinds of ways.
        SessionEnd::Connect(_) => since.elapsed() < REFUSED_AFTER_RETURN,
        SessionEnd::MissingExtension(_) | SessionEnd::ReportClosed => false,
    }
}

fn failure(end: SessionEnd, display: String) -> WatchError {
    match end {
        SessionEnd::Connect(error) => error,
        SessionEnd::MissingExtension(extension) => WatchError::MissingExtension { display, extension },
        other => WatchError::Lost { display, reason: other.to_string() },
    }
}

/// Waits for [`RETRY`]; true if the daemon went away meanwhile.
fn pause(report: &mut Report) -> bool {
    let until = Instant::now() + RETRY;
    loop {
        if report.flush().is_err() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(report.as_fd(), PollFlags::empty())];
        if poll(&mut fds, timeout).is_ok_and(|ready| ready > 0) {
            return true;
        }
    }
}
