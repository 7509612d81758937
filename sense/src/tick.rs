// SPDX-License-Identifier: GPL-2.0-only
//! Five times a second: what changed on the screen since the last look.
//!
//! A window reports that it was damaged once, and is silent until the damage is taken from it (report level NonEmpty):
//! however often a client draws, it costs two requests per tick. HuC §4.1.3 counts every change, so a film at 25 frames
//! a second on half the screen is 1,250 % a second to it; a region looked at five times a second counts five times at
//! most, so it is 250 % here. The order of clients is the same wherever they draw more than five times a second.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use x11rb::cookie::Cookie;
use x11rb::errors::ReplyError;
use x11rb::protocol::damage::ConnectionExt as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, FetchRegionReply};
use x11rb::protocol::xproto::{ConnectionExt as _, QueryTreeReply, TranslateCoordinatesReply};
use x11rb::rust_connection::RustConnection;

use crate::clients::Deed;
use crate::error::SessionEnd;
use crate::looks::{LookQuestion, present, rect};
use crate::region::{Rect, Region};
use crate::session::{Question, Session};
use crate::windows::Window;

/// Time between two looks, at least.
const TICK: Duration = Duration::from_millis(200);
/// Most windows looked at in one group of requests; the rest follow when those are answered.
const MAX_WINDOWS: usize = 256;

/// A look under way.
pub(crate) struct Tick<'c> {
    stack: Option<Cookie<'c, RustConnection, QueryTreeReply>>,
    looks: Vec<LookQuestion<'c>>,
    damages: Vec<DamageQuestion<'c>>,
}

struct DamageQuestion<'c> {
    window: Window,
    region: Cookie<'c, RustConnection, FetchRegionReply>,
    place: Option<Cookie<'c, RustConnection, TranslateCoordinatesReply>>,
}

/// Damage of one window, in the coordinates of the screen where visibility is computed.
struct Damage {
    window: Window,
    region: Region,
}

impl<'c> Session<'c, '_> {
    /// When the next look is due, if anything changed.
    pub(crate) fn tick_due(&self, now: Instant) -> Option<Instant> {
        if self.dirty.is_empty() || self.tick_under_way {
            return None;
        }
        Some(self.last_tick.map_or(now, |last| last + TICK))
    }

    /// Looks, if it is time.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), SessionEnd> {
        if self.tick_due(now).is_some_and(|due| due <= now) {
            self.last_tick = Some(now);
            self.look()?;
        }
        Ok(())
    }

    /// Asks for the damage of dirty windows and, where the screen is composited, for what their visibility depends on.
    fn look(&mut self) -> Result<(), SessionEnd> {
        let conn = self.link.conn;
        let composited = self.compositor.is_some();
        let stack = (composited && self.stack_changed).then(|| conn.query_tree(self.windows.root())).transpose()?;
        if stack.is_some() {
            self.stack_changed = false;
        }
        let looks = if composited { self.ask_looks()? } else { Vec::new() };
        let dirty: Vec<Window> = self.dirty.iter().copied().take(MAX_WINDOWS).collect();
        let mut damages = Vec::with_capacity(dirty.len());
        for window in dirty {
            self.dirty.remove(&window);
            let Some(damage) = self.damages.get(&window) else { continue };
            // Where the window has gone meanwhile nothing is moved, and the damage of the one before would be taken for its own.
            conn.xfixes_set_region(self.parts, &[])?;
            conn.damage_subtract(*damage, x11rb::NONE, self.parts)?;
            let region = conn.xfixes_fetch_region(self.parts)?;
            let root = self.windows.root();
            let place = composited.then(|| conn.translate_coordinates(window, root, 0, 0)).transpose()?;
            damages.push(DamageQuestion { window, region, place });
        }
        self.tick_under_way = true;
        self.link.ask(Question::Tick(Box::new(Tick { stack, looks, damages })));
        Ok(())
    }

    /// Asks how every mapped window looks of which that is not known.
    fn ask_looks(&self) -> Result<Vec<LookQuestion<'c>>, SessionEnd> {
        let unknown = self.windows.tops().filter(|(_, top)| top.mapped && top.look.is_none());
        let mut looks = Vec::new();
        for (window, _) in unknown.take(MAX_WINDOWS) {
            let clients = self.windows.clients_in(window);
            looks.push(LookQuestion::ask(self.link.conn, &self.atoms, self.offers.shape, window, &clients)?);
        }
        Ok(looks)
    }

    /// Reads what a look found, and counts it.
    pub(crate) fn finish_tick(&mut self, tick: Tick<'c>) -> Result<(), SessionEnd> {
        self.tick_under_way = false;
        for question in tick.looks {
            let window = question.top;
            if let Some(answer) = question.read(&self.atoms, self.screen_depth, self.desktop)?
                && let Some(top) = self.windows.top_mut(window)
            {
                top.look = Some(answer.look);
                (top.rect, top.border) = answer.place;
            }
        }
        if let Some(tree) = tick.stack.map(|stack| present(stack.reply())).transpose()?.flatten() {
            self.stack = tree.children;
        }
        let damages = tick.damages.into_iter().filter_map(|question| read_damage(question).transpose());
        let damages = damages.collect::<Result<Vec<Damage>, ReplyError>>()?;
        let changed = if self.compositor.is_some() { self.visible_area(damages) } else { area(damages) };
        self.count(changed)?;
        if !self.dirty.is_empty() {
            // More windows than fit, or new ones: the former need not wait.
            self.last_tick = self.last_tick.filter(|_| self.dirty.len() < MAX_WINDOWS);
        }
        Ok(())
    }

    /// What of each window's damage can be seen on a composited screen, in pixels.
    fn visible_area(&self, damages: Vec<Damage>) -> Vec<(Window, u64)> {
        let top_of = |window| self.windows.top_of(window);
        let tops: HashSet<Window> = damages.iter().filter_map(|damage| top_of(damage.window)).collect();
        let screen = Rect::new(0, 0, self.screen.0.into(), self.screen.1.into());
        let visible = self.windows.visible(&self.stack, &tops, screen);
        let seen = |damage: &Damage| {
            let visible = top_of(damage.window).and_then(|top| visible.get(&top));
            visible.map_or(0, |visible| damage.region.intersect(visible).area())
        };
        damages.iter().map(|damage| (damage.window, seen(damage))).collect()
    }

    fn count(&mut self, changed: Vec<(Window, u64)>) -> Result<(), SessionEnd> {
        let mut of_client: HashMap<u32, u64> = HashMap::new();
        for (window, pixels) in changed.into_iter().filter(|(_, pixels)| *pixels > 0) {
            *of_client.entry(self.windows.base_of(window)).or_default() += pixels;
        }
        let screen_pixels = f64::from(self.screen.0) * f64::from(self.screen.1);
        let now = Instant::now();
        for (base, pixels) in of_client {
            // Pixels of a screen fit into the 53 bits of a f64 many times over.
            #[allow(clippy::cast_precision_loss)]
            let changed_pct = 100.0 * pixels as f64 / screen_pixels;
            if let Some(ask) = self.tally.credit(base, Deed::Output { changed_pct }, now)? {
                self.ask_pid(ask)?;
            }
        }
        Ok(())
    }
}

/// Without a compositing manager the server has clipped the damage to what can be seen.
fn area(damages: Vec<Damage>) -> Vec<(Window, u64)> {
    damages.into_iter().map(|damage| (damage.window, damage.region.area())).collect()
}

/// `None` if the window has gone.
fn read_damage(question: DamageQuestion<'_>) -> Result<Option<Damage>, ReplyError> {
    let region = present(question.region.reply())?;
    let place = match question.place {
        Some(place) => present(place.reply())?.map(|place| (i32::from(place.dst_x), i32::from(place.dst_y))),
        None => Some((0, 0)),
    };
    let (Some(region), Some((dx, dy))) = (region, place) else { return Ok(None) };
    let region = Region::from_disjoint(region.rectangles.iter().map(rect)).moved(dx, dy);
    Ok(Some(Damage { window: question.window, region }))
}
