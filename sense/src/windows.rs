// SPDX-License-Identifier: GPL-2.0-only
//! What is on the screen, from the server's own announcements: which windows to watch, and how much of each can be seen.
//!
//! Most window managers reparent: the root's child is their frame, with the client's window inside. Output counts for the
//! client, so the client's window is watched and the frame is not (a decoration redrawn is not the client's doing). A
//! window manager's own menus are windows of its own without a client inside, and are watched like anybody's.
//!
//! Pure: told of events, it answers which windows to watch and which no longer.

use std::collections::{HashMap, HashSet};

use crate::region::{Rect, Region};

/// A window's resource id.
pub type Window = u32;

/// More rectangles than this in what is covered already: lower windows are taken to be as visible as they then are. A
/// bound on work, reached only by windows of odd shapes by the hundred.
const MAX_COVERED_RECTS: usize = 1024;

/// A change of what to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Report damage of `window`, which is in (or is) the root's child `top`.
    Start {
        /// The window to watch.
        window: Window,
        /// The root's child it belongs to.
        top: Window,
    },
    /// No longer. (A destroyed window needs no telling: its damage went with it.)
    Stop {
        /// The window to leave alone.
        window: Window,
    },
}

/// What only the server can say about a root's child, needed where a compositing manager is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Its outline, relative to the window's origin, border included; [`Region::default`] for an input-only window.
    pub shape: Region,
    /// The part of it nothing shines through, relative to the window's origin.
    pub opaque: Region,
    /// Minimised, or on a workspace not shown: mapped, but nobody sees it.
    pub hidden: bool,
}

/// A child of the root window.
#[derive(Debug, Clone)]
pub struct Top {
    /// Where it is on the screen, border included.
    pub rect: Rect,
    /// Whether it is mapped.
    pub mapped: bool,
    /// Not managed by the window manager: menus, tooltips.
    pub override_redirect: bool,
    /// Width of its border.
    pub border: i32,
    /// How it looks; `None` until asked.
    pub look: Option<Look>,
    /// Windows of other clients that were put inside.
    inside: Vec<Window>,
    /// Whether it is a window manager's frame, or was: a frame left by its client is about to go, and no output.
    frame: bool,
}

impl Top {
    /// A root's child with its outer origin at (`x`, `y`), `width` by `height` inside its border.
    #[must_use]
    pub fn new(x: i32, y: i32, width: i32, height: i32, border: i32, override_redirect: bool) -> Self {
        Self {
            rect: Rect::new(x, y, width + 2 * border, height + 2 * border),
            mapped: false,
            override_redirect,
            border,
            look: None,
            inside: Vec::new(),
            frame: false,
        }
    }
}

/// The children of the root window.
#[derive(Debug)]
pub struct Windows {
    root: Window,
    /// The bits of a resource id that are not its client.
    id_mask: u32,
    /// Clients whose windows are never watched: ourselves, the compositing manager, the server.
    ignored_bases: HashSet<u32>,
    tops: HashMap<Window, Top>,
    /// The root's child each framed window is in.
    top_of: HashMap<Window, Window>,
    watched: HashSet<Window>,
}

impl Windows {
    /// An empty screen. `id_mask` is the setup's resource id mask.
    #[must_use]
    pub fn new(root: Window, id_mask: u32, own_bases: impl IntoIterator<Item = u32>) -> Self {
        let mut ignored_bases: HashSet<u32> = own_bases.into_iter().collect();
        ignored_bases.insert(0);
        Self { root, id_mask, ignored_bases, tops: HashMap::new(), top_of: HashMap::new(), watched: HashSet::new() }
    }

    /// The resource id base of the client that made `window`.
    #[must_use]
    pub fn base_of(&self, window: Window) -> u32 {
        window & !self.id_mask
    }

    /// The root's child `window`.
    #[must_use]
    pub fn top(&self, window: Window) -> Option<&Top> {
        self.tops.get(&window)
    }

    /// The root's child `window`, to be changed.
    pub fn top_mut(&mut self, window: Window) -> Option<&mut Top> {
        self.tops.get_mut(&window)
    }

    /// The windows by which a window manager or a person would know the root's child `top`: the clients in a frame, or
    /// the window itself.
    #[must_use]
    pub fn clients_in(&self, top: Window) -> Vec<Window> {
        match self.tops.get(&top) {
            Some(known) if !known.inside.is_empty() => known.inside.clone(),
            _ => vec![top],
        }
    }

    /// The root's child that `window` is, or is inside.
    #[must_use]
    pub fn top_of(&self, window: Window) -> Option<Window> {
        if self.tops.contains_key(&window) { Some(window) } else { self.top_of.get(&window).copied() }
    }

    /// All root's children, in no order.
    pub fn tops(&self) -> impl Iterator<Item = (Window, &Top)> {
        self.tops.iter().map(|(window, top)| (*window, top))
    }

    /// Forgets how every window looks: a compositing manager came or went.
    pub fn forget_looks(&mut self) {
        self.tops.values_mut().for_each(|top| top.look = None);
    }

    /// A client's windows are watched no longer (`ignored`), or from their next change on.
    pub fn set_ignored(&mut self, base: u32, ignored: bool) -> Vec<Watch> {
        let changed = if ignored { self.ignored_bases.insert(base) } else { self.ignored_bases.remove(&base) };
        if !changed {
            return Vec::new();
        }
        let owned: Vec<Window> = self.tops.keys().copied().filter(|top| self.base_of(*top) == base).collect();
        owned.into_iter().flat_map(|top| self.retarget(top)).collect()
    }

    /// `window` became a child of the root.
    pub fn created(&mut self, window: Window, top: Top) -> Vec<Watch> {
        // An id may be used again, by a window that has nothing to do with the old one.
        self.watched.remove(&window);
        self.top_of.remove(&window);
        self.tops.insert(window, top);
        self.retarget(window)
    }

    /// The root's child `window` moved or changed its size; `rect` includes its border.
    pub fn configured(&mut self, window: Window, rect: Rect, border: i32) {
        if let Some(top) = self.tops.get_mut(&window) {
            let resized =
                (top.rect.x2 - top.rect.x1, top.rect.y2 - top.rect.y1) != (rect.x2 - rect.x1, rect.y2 - rect.y1);
            top.rect = rect;
            top.border = border;
            if resized {
                top.look = None;
            }
        }
    }

    /// The root's child `window` was mapped or unmapped.
    pub fn set_mapped(&mut self, window: Window, mapped: bool) -> Vec<Watch> {
        let Some(top) = self.tops.get_mut(&window) else { return Vec::new() };
        top.mapped = mapped;
        // What a client says about itself may have changed while nobody looked.
        top.look = None;
        self.retarget(window)
    }

    /// `window` was destroyed.
    pub fn destroyed(&mut self, window: Window) {
        self.watched.remove(&window);
        if let Some(top) = self.tops.remove(&window) {
            for inside in top.inside {
                self.top_of.remove(&inside);
                // Destroyed with its frame. If it was saved from it instead, its ReparentNotify came before.
                self.watched.remove(&inside);
            }
        }
        if let Some(frame) = self.top_of.remove(&window)
            && let Some(top) = self.tops.get_mut(&frame)
        {
            top.inside.retain(|inside| *inside != window);
        }
    }

    /// `window` left the root for a window inside the root's child `top`, which is taken to be a frame.
    pub fn put_inside(&mut self, window: Window, top: Window) -> Vec<Watch> {
        let mut changes = self.leave(window);
        self.tops.remove(&window);
        if let Some(known) = self.tops.get_mut(&top) {
            known.inside.push(window);
            known.frame = true;
            known.look = None;
            self.top_of.insert(window, top);
            changes.extend(self.retarget(top));
        }
        changes
    }

    /// `window` came back to the root from inside another.
    pub fn came_back(&mut self, window: Window, top: Top) -> Vec<Watch> {
        let mut changes = self.leave(window);
        self.tops.insert(window, top);
        changes.extend(self.retarget(window));
        changes
    }

    /// Takes `window` out of the frame it is in.
    fn leave(&mut self, window: Window) -> Vec<Watch> {
        let mut changes = Vec::new();
        if self.watched.remove(&window) {
            changes.push(Watch::Stop { window });
        }
        if let Some(frame) = self.top_of.remove(&window) {
            if let Some(top) = self.tops.get_mut(&frame) {
                top.inside.retain(|inside| *inside != window);
            }
            changes.extend(self.retarget(frame));
        }
        changes
    }

    /// `window` follows the XEmbed protocol: what it is inside is no frame but an embedder (a panel with its icons), which
    /// speaks for what it embeds.
    pub fn is_embedded(&mut self, window: Window) -> Vec<Watch> {
        let Some(top) = self.top_of.remove(&window) else { return Vec::new() };
        let mut changes = Vec::new();
        if self.watched.remove(&window) {
            changes.push(Watch::Stop { window });
        }
        if let Some(known) = self.tops.get_mut(&top) {
            known.inside.retain(|inside| *inside != window);
            known.frame = !known.inside.is_empty();
        }
        changes.extend(self.retarget(top));
        changes
    }

    /// Compares what should be watched of `window` and inside it with what is.
    fn retarget(&mut self, window: Window) -> Vec<Watch> {
        let Some(top) = self.tops.get(&window) else { return Vec::new() };
        let frame = top.frame;
        let ignored = |window: Window| self.ignored_bases.contains(&self.base_of(window));
        // Toolkits make many windows that are never shown, and each watched one costs the server a little. A menu must be
        // watched before it is mapped (its only drawing follows at once); a managed window is known when it is.
        let shown = top.mapped || top.override_redirect || self.watched.contains(&window);
        let mut wanted: Vec<(Window, bool)> = vec![(window, shown && !frame && !ignored(window))];
        wanted.extend(top.inside.iter().map(|inside| (*inside, frame && !ignored(*inside))));

        let mut changes = Vec::new();
        for (target, wanted) in wanted {
            if wanted && self.watched.insert(target) {
                changes.push(Watch::Start { window: target, top: window });
            } else if !wanted && self.watched.remove(&target) {
                changes.push(Watch::Stop { window: target });
            }
        }
        changes
    }

    /// What can be seen of each root's child in `wanted`, on a screen put together by a compositing manager.
    ///
    /// `stack` are the root's children from the bottom up, as QueryTree tells them. A window whose look is not known yet
    /// is taken to be visible where nothing known covers it, and to cover nothing.
    #[must_use]
    pub fn visible(&self, stack: &[Window], wanted: &HashSet<Window>, screen: Rect) -> HashMap<Window, Region> {
        let screen_region = Region::from_rect(screen);
        let mut covered = Region::default();
        let mut seen = HashMap::new();
        for window in stack.iter().rev() {
            if seen.len() == wanted.len() {
                break;
            }
            let Some(top) = self.tops.get(window).filter(|top| top.mapped) else { continue };
            let look = top.look.as_ref();
            if look.is_some_and(|look| look.hidden) {
                continue;
            }
            let (dx, dy) = (top.rect.x1 + top.border, top.rect.y1 + top.border);
            if wanted.contains(window) {
                let whole = look.map_or_else(|| Region::from_rect(top.rect), |look| look.shape.moved(dx, dy));
                let mut visible = whole.intersect(&screen_region);
                visible.remove_region(&covered);
                seen.insert(*window, visible);
            }
            if let Some(look) = look
                && covered.rects().len() < MAX_COVERED_RECTS
            {
                covered.add_region(&look.opaque.moved(dx, dy).intersect(&screen_region));
            }
        }
        seen
    }

    /// The root window.
    #[must_use]
    pub fn root(&self) -> Window {
        self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Window = 0x1;
    const MASK: u32 = 0x1f_ffff;
    const OWN: u32 = 0x60_0000;
    const WM: u32 = 0x20_0000;
    const APP: u32 = 0x40_0000;

    fn windows() -> Windows {
        Windows::new(ROOT, MASK, [OWN])
    }

    fn top(x: i32, y: i32, side: i32, override_redirect: bool) -> Top {
        Top::new(x, y, side, side, 0, override_redirect)
    }

    fn start(window: Window, top: Window) -> Watch {
        Watch::Start { window, top }
    }

    fn solid(side: i32) -> Look {
        let whole = Region::from_rect(Rect::new(0, 0, side, side));
        Look { shape: whole.clone(), opaque: whole, hidden: false }
    }

    /// A managed window is watched from its mapping on, a menu from its creation on, and ours, the server's and unmapped
    /// helpers never.
    #[test]
    fn windows_are_watched_when_they_can_be_seen() {
        let mut windows = windows();
        assert_eq!(windows.created(APP, top(0, 0, 9, false)), []);
        assert_eq!(windows.set_mapped(APP, true), [start(APP, APP)]);
        assert_eq!(windows.set_mapped(APP, false), [], "a minimised window reports nothing; it may stay");
        assert_eq!(windows.created(APP + 1, top(0, 0, 9, true)), [start(APP + 1, APP + 1)]);
        for ignored in [OWN + 1, 0x99] {
            windows.created(ignored, top(0, 0, 9, true));
            assert_eq!(windows.set_mapped(ignored, true), []);
        }
    }

    /// A frame hands its place to the client inside, and gets nothing for its decorations, even when the client has left.
    #[test]
    fn frames_give_way_to_their_clients() {
        let mut windows = windows();
        windows.created(APP, top(0, 0, 9, false));
        let frame = WM + 5;
        assert_eq!(windows.created(frame, top(0, 0, 11, true)), [start(frame, frame)], "it could be a menu");
        assert_eq!(windows.put_inside(APP, frame), [Watch::Stop { window: frame }, start(APP, frame)]);
        assert_eq!(windows.set_mapped(frame, true), []);
        assert_eq!(windows.top_of(APP), Some(frame));
        assert_eq!(windows.came_back(APP, top(0, 0, 9, false)), [Watch::Stop { window: APP }]);
        assert_eq!(windows.top_of(APP), Some(APP));
    }

    /// A window manager's menu has no client inside and is output of its own.
    #[test]
    fn a_window_managers_menu_is_its_own() {
        let mut windows = windows();
        windows.created(WM + 7, top(0, 0, 9, false));
        assert_eq!(windows.set_mapped(WM + 7, true), [start(WM + 7, WM + 7)]);
    }

    /// A window that was mapped before a window manager came is watched on, as a part of its frame.
    #[test]
    fn a_late_window_manager_frames_what_is_there() {
        let mut windows = windows();
        windows.created(APP, top(0, 0, 9, false));
        assert_eq!(windows.set_mapped(APP, true), [start(APP, APP)]);
        windows.created(WM + 5, top(0, 0, 11, false));
        assert_eq!(windows.put_inside(APP, WM + 5), [Watch::Stop { window: APP }, start(APP, WM + 5)]);
    }

    /// A panel that embeds another client's icon keeps speaking for itself, and for the icon.
    #[test]
    fn embedders_are_not_frames() {
        let mut windows = windows();
        windows.created(APP, top(0, 0, 9, false));
        windows.set_mapped(APP, true);
        let icon = 0x80_0000;
        windows.created(icon, top(0, 0, 2, true));
        let taken = [Watch::Stop { window: icon }, Watch::Stop { window: APP }, start(icon, APP)];
        assert_eq!(windows.put_inside(icon, APP), taken);
        assert_eq!(windows.is_embedded(icon), [Watch::Stop { window: icon }, start(APP, APP)]);
        assert_eq!(windows.is_embedded(icon), []);
    }

    /// Ten thousand windows that came and went leave nothing behind.
    #[test]
    fn churn_leaves_nothing_behind() {
        let mut windows = windows();
        for n in 0..10_000 {
            windows.created(WM + n, top(0, 0, 9, true));
            windows.created(APP + n, top(0, 0, 9, false));
            windows.put_inside(APP + n, WM + n);
            windows.set_mapped(WM + n, true);
            windows.destroyed(if n % 2 == 0 { APP + n } else { WM + n });
            windows.destroyed(WM + n);
        }
        assert!(windows.tops.is_empty() && windows.watched.is_empty() && windows.top_of.is_empty());
    }

    fn desktop() -> (Windows, Vec<Window>) {
        let mut windows = windows();
        let stack: Vec<Window> = (0..3).map(|n| APP + n).collect();
        for (n, window) in stack.iter().enumerate() {
            windows.created(*window, top(10 * i32::try_from(n).unwrap(), 0, 20, false));
            windows.set_mapped(*window, true);
            windows.top_mut(*window).unwrap().look = Some(solid(20));
        }
        (windows, stack)
    }

    fn seen(windows: &Windows, stack: &[Window]) -> Vec<u64> {
        let wanted = stack.iter().copied().collect();
        let visible = windows.visible(stack, &wanted, Rect::new(0, 0, 100, 10));
        stack.iter().map(|window| visible.get(window).map_or(0, Region::area)).collect()
    }

    /// Windows cover what is below them, the screen cuts off what is outside, and raising a window changes both.
    #[test]
    fn upper_windows_cover_lower_ones() {
        let (windows, mut stack) = desktop();
        assert_eq!(seen(&windows, &stack), [100, 100, 200]);
        stack.rotate_right(1);
        assert_eq!(seen(&windows, &stack), [100, 100, 200], "bottom to top: the third, the first, the second");
    }

    /// What is translucent, shaped away, hidden, unmapped or not known yet covers nothing.
    #[test]
    fn only_opaque_windows_cover() {
        type Change = fn(&mut Top);
        let cases: [(&str, Change); 5] = [
            ("translucent", |top| top.look.as_mut().unwrap().opaque = Region::default()),
            ("shaped away", |top| {
                top.look.as_mut().unwrap().shape = Region::default();
                top.look.as_mut().unwrap().opaque = Region::default();
            }),
            ("hidden", |top| top.look.as_mut().unwrap().hidden = true),
            ("unmapped", |top| top.mapped = false),
            ("unknown", |top| top.look = None),
        ];
        for (name, change) in cases {
            let (mut windows, stack) = desktop();
            change(windows.top_mut(stack[1]).unwrap());
            change(windows.top_mut(stack[2]).unwrap());
            assert_eq!(seen(&windows, &stack)[0], 200, "{name} windows covered the lowest");
        }
    }

    /// A hidden window shows nothing itself, however little covers it.
    #[test]
    fn hidden_windows_show_nothing() {
        let (mut windows, stack) = desktop();
        windows.top_mut(stack[2]).unwrap().look.as_mut().unwrap().hidden = true;
        assert_eq!(seen(&windows, &stack), [100, 200, 0]);
    }
}
