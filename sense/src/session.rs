// SPDX-License-Identifier: GPL-2.0-only
//! One life of a display: from the connection to the moment it breaks.
//!
//! One thread, one `poll` over the recordings, the control connection and the socket to the daemon. Where nothing happens
//! on the display nothing runs here: there is a timer only while something waits to be told.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use limelight_abi::sense::{Missing, SENSE_VERSION, SenseMessage};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use x11rb::connection::Connection;
use x11rb::cookie::Cookie;
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::res::{ConnectionExt as _, QueryClientIdsReply};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{self, ConnectionExt as _, GetSelectionOwnerReply};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::clients::Deed;
use crate::error::{SessionEnd, WatchError};
use crate::link::Link;
use crate::looks::{Atoms, present, words};
use crate::record::Recorded;
use crate::recording::{Events, Recording};
use crate::report::{Closed, Report};
use crate::setup::{self, Offers};
use crate::tally::{AskPid, PERIOD, Tally};
use crate::tick::Tick;
use crate::windows::{Watch, Window, Windows};

/// Recordings that bring more than one batch in this time are busy: a pointer reports up to 1,000 motions a second.
const BUSY_RECORDING: Duration = Duration::from_millis(8);
/// Busy recordings are left alone for so long, which bounds our wake-ups; who receives its first input meanwhile is told
/// that much later.
const RECORDING_REST: Duration = Duration::from_millis(4);
/// Events handled before input is looked at again.
const MAX_EVENTS: usize = 1024;
/// Window managers wrap clients less deep than this.
const MAX_FRAME_DEPTH: u8 = 4;

/// A question under way.
pub(crate) enum Question<'c> {
    /// Which process a client is.
    Pid(AskPid, Cookie<'c, RustConnection, QueryClientIdsReply>),
    /// Whether a window follows XEmbed.
    Embedded(Window, Cookie<'c, RustConnection, xproto::GetPropertyReply>),
    /// Whose child a window's parent is; how many levels up were asked already.
    Ancestor(Window, u8, Cookie<'c, RustConnection, xproto::QueryTreeReply>),
    /// Which window stands for the window manager, and who owns the window manager's selection.
    Manager(Cookie<'c, RustConnection, xproto::GetPropertyReply>, Cookie<'c, RustConnection, GetSelectionOwnerReply>),
    /// Which workspace is shown.
    Desktop(Cookie<'c, RustConnection, xproto::GetPropertyReply>),
    /// What changed on the screen.
    Tick(Box<Tick<'c>>),
}

/// What has something to read.
#[derive(Debug, Default)]
struct Ready {
    report: bool,
    control: bool,
    recordings: Vec<bool>,
}

impl Ready {
    fn everything(recordings: usize) -> Self {
        Self { report: true, control: true, recordings: vec![true; recordings] }
    }
}

/// A session with a server.
pub(crate) struct Session<'c, 'r> {
    pub(crate) link: Link<'c, Question<'c>>,
    pub(crate) tally: Tally<'r>,
    pub(crate) windows: Windows,
    pub(crate) atoms: Atoms,
    pub(crate) offers: Offers,
    display: String,
    own_bases: Vec<u32>,
    recordings: Vec<Recording>,
    /// Width and height of the screen, in pixels.
    pub(crate) screen: (u16, u16),
    /// Whether the screen has another size than the daemon was told.
    pub(crate) size_is_news: bool,
    last_hello: Instant,
    /// Depth of windows nothing shines through.
    pub(crate) screen_depth: u8,
    /// Damage of each watched window.
    pub(crate) damages: HashMap<Window, damage::Damage>,
    /// Watched windows that reported damage since they were last looked at.
    pub(crate) dirty: HashSet<Window>,
    /// The server-side region damage is moved to.
    pub(crate) parts: u32,
    compositor_selection: xproto::Atom,
    manager_selection: xproto::Atom,
    /// Resource id base of the compositing manager, if there is one.
    pub(crate) compositor: Option<u32>,
    /// The root's children from the bottom up, and whether they may have changed since.
    pub(crate) stack: Vec<Window>,
    pub(crate) stack_changed: bool,
    pub(crate) desktop: u32,
    pub(crate) last_tick: Option<Instant>,
    pub(crate) tick_under_way: bool,
    last_record: Option<Instant>,
    rest_until: Option<Instant>,
    /// When the period ends for which each recording knows whose input it has seen.
    period_end: Instant,
}

/// Watches `display` until that ends.
pub(crate) fn run(display: &str, report: &mut Report) -> SessionEnd {
    let (conn, screen) = match RustConnection::connect(Some(display)) {
        Ok(connected) => connected,
        Err(error) => return WatchError::connect(display, error).into(),
    };
    match Session::start(&conn, screen, display, report).and_then(|mut session| session.watch()) {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

impl<'c, 'r> Session<'c, 'r> {
    fn start(
        conn: &'c RustConnection,
        screen_number: usize,
        display: &str,
        report: &'r mut Report,
    ) -> Result<Self, SessionEnd> {
        let offers = setup::offers(conn)?;
        let setup = conn.setup();
        let screen = setup.roots.get(screen_number).ok_or_else(|| WatchError::NoScreen { display: display.into() })?;
        let root = screen.root;
        let atoms = Atoms::new(conn)?.reply()?;
        let mut recordings = Vec::new();
        if offers.record {
            recordings.push(Recording::start(display, conn, Events::Core, None)?);
            if offers.xinput_opcode.is_some() {
                recordings.push(Recording::start(display, conn, Events::Generic, offers.xinput_opcode)?);
            }
        }
        let mut own_bases: Vec<u32> = recordings.iter().map(Recording::base).collect();
        own_bases.push(setup.resource_id_base);
        let windows = Windows::new(root, setup.resource_id_mask, own_bases.iter().copied());
        let tally = Tally::new(report, Instant::now());
        let mut session = Self {
            link: Link::new(conn, root)?,
            period_end: tally.period_end(),
            tally,
            windows,
            atoms,
            offers,
            display: display.to_owned(),
            own_bases,
            recordings,
            screen: (screen.width_in_pixels, screen.height_in_pixels),
            size_is_news: false,
            last_hello: Instant::now(),
            screen_depth: screen.root_depth,
            damages: HashMap::new(),
            dirty: HashSet::new(),
            parts: conn.generate_id()?,
            compositor_selection: x11rb::NONE,
            manager_selection: setup::manager_selection(conn, screen_number)?,
            compositor: None,
            stack: Vec::new(),
            stack_changed: true,
            desktop: 0,
            last_tick: None,
            tick_under_way: false,
            last_record: None,
            rest_until: None,
        };
        session.look_around(screen_number)?;
        session.warn_of_missing();
        session.say_hello()?;
        Ok(session)
    }

    /// Learns who is connected and what is on the screen.
    fn look_around(&mut self, screen_number: usize) -> Result<(), SessionEnd> {
        let conn = self.link.conn;
        setup::learn_clients(conn, &mut self.tally.clients)?;
        for base in &self.own_bases {
            self.tally.clients.learn(*base, None);
        }
        if !self.offers.damage {
            return Ok(());
        }
        let root = self.windows.root();
        conn.xfixes_create_region(self.parts, &[])?.check()?;
        setup::select_root_events(conn, root)?;
        let (selection, owner) = setup::watch_compositor(conn, root, screen_number)?;
        self.compositor_selection = selection;
        self.set_compositor(owner)?;
        let changes = setup::scan(conn, &mut self.windows, self.atoms._XEMBED_INFO)?;
        self.apply(changes)?;
        // Who is told that we watch may rely on it.
        Ok(conn.sync()?)
    }

    fn warn_of_missing(&self) {
        let display = &self.display;
        if !self.offers.record {
            log::warn!(
                "{display} has no RECORD extension: who receives input is not seen, visible output still is; start its \
                 server without `-extension RECORD`"
            );
        }
        if !self.offers.damage {
            log::warn!(
                "{display} has no DAMAGE or XFIXES extension: visible output is not seen, who receives input still is; \
                 start its server without `-extension DAMAGE` and `-extension XFIXES`"
            );
        }
    }

    /// When a new size of the screen is told: once a period, since any client can change it as often as it likes.
    fn size_due(&self) -> Option<Instant> {
        self.size_is_news.then(|| self.last_hello + PERIOD)
    }

    /// Tells a new size of the screen, if it is time.
    pub(crate) fn tell_size(&mut self, now: Instant) -> Result<(), SessionEnd> {
        if self.size_due().is_some_and(|due| due <= now) { self.say_hello() } else { Ok(()) }
    }

    fn say_hello(&mut self) -> Result<(), SessionEnd> {
        self.size_is_news = false;
        self.last_hello = Instant::now();
        let mut missing = Vec::new();
        if !self.offers.record {
            missing.push(Missing::Input);
        }
        if !self.offers.damage {
            missing.push(Missing::Output);
        }
        self.tally.say(&SenseMessage::Hello {
            version: SENSE_VERSION,
            display: self.display.clone(),
            server_pid: setup::server_pid(self.link.conn),
            width: self.screen.0.into(),
            height: self.screen.1.into(),
            missing,
        })?;
        Ok(())
    }

    fn watch(&mut self) -> Result<std::convert::Infallible, SessionEnd> {
        let mut ready = Ready::everything(self.recordings.len());
        self.ask_manager()?;
        loop {
            if ready.report {
                self.tally.report().flush()?;
            }
            if ready.recordings.contains(&true) {
                self.read_recordings(&ready.recordings)?;
            }
            let now = Instant::now();
            self.tick(now)?;
            self.tell_size(now)?;
            self.end_period(now)?;
            let asked = self.link.send()?;
            // Sending may have read events, which poll would not tell of.
            let handled = if ready.control || asked { self.read_control()? } else { 0 };
            ready = match handled {
                0 => self.wait()?,
                // Input comes first, also in a flood of other events.
                MAX_EVENTS => Ready::everything(self.recordings.len()),
                _ => Ready { control: true, ..Ready::default() },
            };
        }
    }

    /// Ends the period if its time is over.
    fn end_period(&mut self, now: Instant) -> Result<(), SessionEnd> {
        // Whatever was counted since may have ended it already.
        self.tally.end_period(now)?;
        if self.tally.period_end() == self.period_end {
            return Ok(());
        }
        self.period_end = self.tally.period_end();
        if !self.offers.record {
            // Deaths are not told of without RECORD: a base may be another client's by now.
            self.tally.clients.forget_all_but(&self.own_bases);
        }
        self.recordings.iter_mut().try_for_each(|recording| recording.listen_again(self.link.conn))
    }

    /// When everybody's input has to be recorded again.
    fn listening_due(&self) -> Option<Instant> {
        self.recordings.iter().any(Recording::is_deaf).then_some(self.period_end)
    }

    /// Waits for something to do.
    fn wait(&mut self) -> Result<Ready, SessionEnd> {
        let now = Instant::now();
        let resting = self.rest_until.is_some_and(|until| until > now);
        let resting_until = self.rest_until.filter(|_| resting);
        let due = [self.tick_due(now), self.tally.period_due(), self.listening_due(), self.size_due(), resting_until];
        let timeout = due.into_iter().flatten().min().map_or(PollTimeout::NONE, |due| {
            // Rounded up: a timer that ends early would only be set again.
            let millis = due.saturating_duration_since(now).as_nanos().div_ceil(1_000_000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let waiting = self.tally.report().is_waiting();
        let report_events = if waiting { PollFlags::POLLOUT } else { PollFlags::empty() };
        let report = self.tally.report();
        let mut fds = vec![
            PollFd::new(report.as_fd(), report_events),
            PollFd::new(self.link.conn.stream().as_fd(), PollFlags::POLLIN),
        ];
        if !resting {
            fds.extend(self.recordings.iter().map(|recording| PollFd::new(recording.as_fd(), PollFlags::POLLIN)));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(SessionEnd::Connection(format!("cannot wait for the display: {}", errno.desc()))),
        }
        let ready: Vec<PollFlags> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        if ready[0].intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return Err(SessionEnd::ReportClosed);
        }
        let any = |flags: &PollFlags| !flags.is_empty();
        Ok(Ready { report: any(&ready[0]), control: any(&ready[1]), recordings: ready[2..].iter().map(any).collect() })
    }

    fn read_recordings(&mut self, ready: &[bool]) -> Result<(), SessionEnd> {
        let now = Instant::now();
        let busy = self.last_record.replace(now).is_some_and(|last| now - last < BUSY_RECORDING);
        self.rest_until = busy.then(|| now + RECORDING_REST);
        let mut input = HashSet::new();
        let mut asks = Vec::new();
        let mut died = Vec::new();
        let (tally, mut closed) = (&mut self.tally, Ok(()));
        for (recording, _) in self.recordings.iter_mut().zip(ready).filter(|(_, ready)| **ready) {
            input.clear();
            recording.read(|item| match item {
                // One deed says it all until the next read.
                Recorded::Input { base } if input.insert(base) => match tally.credit(base, Deed::Input, now) {
                    Ok(ask) => asks.extend(ask),
                    Err(end) => closed = Err(end),
                },
                Recorded::Died { base } => {
                    tally.clients.died(base);
                    input.remove(&base);
                    died.push(base);
                }
                Recorded::Input { .. } | Recorded::Ended => {}
            })?;
            input.iter().try_for_each(|base| recording.has_seen(self.link.conn, *base))?;
        }
        for base in died {
            self.recordings.iter_mut().for_each(|recording| recording.forget(base));
        }
        closed?;
        asks.into_iter().try_for_each(|ask| self.ask_pid(ask))
    }

    pub(crate) fn ask_pid(&mut self, ask: AskPid) -> Result<(), SessionEnd> {
        let answer = self.link.conn.res_query_client_ids(&[setup::pid_question(ask.base)])?;
        self.link.ask(Question::Pid(ask, answer));
        Ok(())
    }

    /// Handles what the control connection brought; how many events that were, [`MAX_EVENTS`] at most.
    fn read_control(&mut self) -> Result<usize, SessionEnd> {
        for handled in 0..MAX_EVENTS {
            let Some(event) = self.link.conn.poll_for_event()? else { return Ok(handled) };
            self.handle(event)?;
            while let Some(question) = self.link.next_answered() {
                self.answered(question)?;
            }
        }
        Ok(MAX_EVENTS)
    }

    fn answered(&mut self, question: Question<'c>) -> Result<(), SessionEnd> {
        match question {
            Question::Pid(ask, answer) => {
                let ids = present(answer.reply())?.map(|reply| reply.ids).unwrap_or_default();
                let pid = ids.first().and_then(setup::local_pid);
                Ok(self.tally.answer(ask, pid, Instant::now())?)
            }
            Question::Embedded(window, answer) => {
                if present(answer.reply())?.is_some_and(|info| info.type_ != x11rb::NONE) {
                    let changes = self.windows.is_embedded(window);
                    self.apply(changes)?;
                }
                Ok(())
            }
            Question::Ancestor(window, depth, answer) => match present(answer.reply())? {
                Some(tree) => self.found_parent(window, tree.parent, depth),
                None => Ok(()),
            },
            Question::Desktop(answer) => {
                self.desktop = words(answer)?.first().copied().unwrap_or(0);
                self.windows.forget_looks();
                Ok(())
            }
            Question::Manager(answer, owner) => {
                let owner = present(owner.reply())?.map_or(x11rb::NONE, |reply| reply.owner);
                match words(answer)?.first() {
                    Some(window) => self.found_manager(*window, owner),
                    None => Ok(()),
                }
            }
            Question::Tick(tick) => self.finish_tick(*tick),
        }
    }

    /// `window` was put into `parent`, or into something inside it.
    pub(crate) fn found_parent(&mut self, window: Window, parent: Window, depth: u8) -> Result<(), SessionEnd> {
        if self.windows.top(parent).is_some() {
            let changes = self.windows.put_inside(window, parent);
            self.apply(changes)?;
            let conn = self.link.conn;
            let info = conn.get_property(false, window, self.atoms._XEMBED_INFO, xproto::AtomEnum::ANY, 0, 0)?;
            self.link.ask(Question::Embedded(window, info));
        } else if depth < MAX_FRAME_DEPTH && parent != x11rb::NONE && parent != self.windows.root() {
            let tree = self.link.conn.query_tree(parent)?;
            self.link.ask(Question::Ancestor(window, depth + 1, tree));
        }
        Ok(())
    }

    /// Starts and stops watching windows as told.
    pub(crate) fn apply(&mut self, changes: Vec<Watch>) -> Result<(), SessionEnd> {
        for change in changes {
            match change {
                Watch::Start { window, .. } => {
                    let damage = self.link.conn.generate_id()?;
                    self.link.conn.damage_create(damage, window, damage::ReportLevel::NON_EMPTY)?;
                    // The first damage is the whole window, which nobody drew just now.
                    self.link.conn.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
                    self.damages.insert(window, damage);
                }
                Watch::Stop { window } => {
                    self.dirty.remove(&window);
                    if let Some(damage) = self.damages.remove(&window) {
                        self.link.conn.damage_destroy(damage)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The compositing manager's selection has a new owner, or none.
    pub(crate) fn set_compositor(&mut self, owner: Window) -> Result<(), SessionEnd> {
        let new = (owner != x11rb::NONE).then(|| self.windows.base_of(owner));
        if new == self.compositor {
            return Ok(());
        }
        if let Some(old) = self.compositor.take() {
            let changes = self.windows.set_ignored(old, false);
            self.apply(changes)?;
        }
        self.compositor = new;
        self.windows.forget_looks();
        self.stack_changed = true;
        if let Some(base) = new {
            // It draws every other client's windows again; what it shows of its own does not outweigh that.
            let changes = self.windows.set_ignored(base, true);
            self.apply(changes)?;
            self.ask_desktop()?;
        }
        Ok(())
    }

    pub(crate) fn ask_desktop(&mut self) -> Result<(), SessionEnd> {
        let (root, name) = (self.windows.root(), self.atoms._NET_CURRENT_DESKTOP);
        let answer = self.link.conn.get_property(false, root, name, xproto::AtomEnum::ANY, 0, 1)?;
        self.link.ask(Question::Desktop(answer));
        Ok(())
    }

    pub(crate) fn ask_manager(&mut self) -> Result<(), SessionEnd> {
        let (root, name) = (self.windows.root(), self.atoms._NET_SUPPORTING_WM_CHECK);
        let answer = self.link.conn.get_property(false, root, name, xproto::AtomEnum::ANY, 0, 1)?;
        let owner = self.link.conn.get_selection_owner(self.manager_selection)?;
        self.link.ask(Question::Manager(answer, owner));
        Ok(())
    }

    /// The window manager shows that it is there by this window of its own (EWMH, _NET_SUPPORTING_WM_CHECK). Anybody can set that
    /// property; the selection WM_Sn (ICCCM 2.8), where it has an owner, nobody else can have while the window manager is there.
    fn found_manager(&mut self, window: Window, owner: Window) -> Result<(), SessionEnd> {
        let base = self.windows.base_of(window);
        if owner != x11rb::NONE && self.windows.base_of(owner) != base {
            return Ok(());
        }
        match self.tally.credit(base, Deed::Manages, Instant::now())? {
            Some(ask) => self.ask_pid(ask),
            None => Ok(()),
        }
    }

    /// Whether `selection` is the compositing manager's on this screen.
    pub(crate) fn is_compositor_selection(&self, selection: xproto::Atom) -> bool {
        selection == self.compositor_selection
    }
}

impl From<Closed> for SessionEnd {
    fn from(_: Closed) -> Self {
        Self::ReportClosed
    }
}
