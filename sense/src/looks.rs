// SPDX-License-Identifier: GPL-2.0-only
//! How the root's children look, where a compositing manager puts the screen together.
//!
//! Without one the server clips damage to what can be seen. With one, windows are drawn off screen and damage says
//! nothing about visibility: it is computed in [`crate::windows`] from what is asked here. A look is asked for once and
//! again when the window announces a change, all in one group of requests.

use x11rb::cookie::Cookie;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    self, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, GetPropertyReply, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use crate::region::{Rect, Region};
use crate::windows::{Look, Window};

x11rb::atom_manager! {
    /// Names the helper asks the server about.
    pub(crate) Atoms: AtomsCookie {
        _XEMBED_INFO,
        _NET_CURRENT_DESKTOP,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_DESKTOP,
        _NET_WM_STATE,
        _NET_WM_STATE_HIDDEN,
        _NET_WM_OPAQUE_REGION,
        _NET_WM_WINDOW_OPACITY,
    }
}

impl Atoms {
    /// Whether a change of this property of a client's window changes how it looks.
    pub(crate) fn changes_look(&self, property: xproto::Atom) -> bool {
        [self._NET_WM_DESKTOP, self._NET_WM_STATE, self._NET_WM_OPAQUE_REGION, self._NET_WM_WINDOW_OPACITY]
            .contains(&property)
    }
}

/// Value of `_NET_WM_DESKTOP` for a window on every workspace (EWMH).
const ALL_DESKTOPS: u32 = u32::MAX;
/// Value of `_NET_WM_WINDOW_OPACITY` for an opaque window.
const OPAQUE: u32 = u32::MAX;
/// Longest property read, in units of four bytes: sixty-four rectangles, or as many states.
const PROPERTY_WORDS: u32 = 256;

type Answer<'c, R> = Cookie<'c, RustConnection, R>;

/// A question about one client window in a root's child.
struct ClientQuestion<'c> {
    state: Answer<'c, GetPropertyReply>,
    desktop: Answer<'c, GetPropertyReply>,
    opacity: Answer<'c, GetPropertyReply>,
    opaque: Answer<'c, GetPropertyReply>,
    place: Answer<'c, xproto::TranslateCoordinatesReply>,
}

/// A question about one root's child.
pub(crate) struct LookQuestion<'c> {
    /// The root's child.
    pub top: Window,
    attributes: Answer<'c, xproto::GetWindowAttributesReply>,
    geometry: Answer<'c, xproto::GetGeometryReply>,
    outline: Option<Answer<'c, shape::GetRectanglesReply>>,
    opacity: Answer<'c, GetPropertyReply>,
    clients: Vec<ClientQuestion<'c>>,
}

/// The answer.
pub(crate) struct LookAnswer {
    /// How it looks.
    pub look: Look,
    /// Where it is, border included, and the border's width.
    pub place: (Rect, i32),
}

impl<'c> LookQuestion<'c> {
    /// Asks how `top` with these `clients` inside looks, and to be told when that changes.
    pub(crate) fn ask(
        conn: &'c RustConnection,
        atoms: &Atoms,
        has_shape: bool,
        top: Window,
        clients: &[Window],
    ) -> Result<Self, ConnectionError> {
        let select = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        for window in clients.iter().chain((!clients.contains(&top)).then_some(&top)) {
            conn.change_window_attributes(*window, &select)?;
        }
        let outline = if has_shape {
            conn.shape_select_input(top, true)?;
            Some(conn.shape_get_rectangles(top, shape::SK::BOUNDING)?)
        } else {
            None
        };
        Ok(Self {
            top,
            attributes: conn.get_window_attributes(top)?,
            geometry: conn.get_geometry(top)?,
            outline,
            opacity: property(conn, top, atoms._NET_WM_WINDOW_OPACITY)?,
            clients: clients
                .iter()
                .map(|client| ClientQuestion::ask(conn, atoms, top, *client))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Reads the answer, which is here. `screen_depth` is the depth of an opaque window, `desktop` the workspace shown.
    /// `None` if the window has gone meanwhile.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn read(self, atoms: &Atoms, screen_depth: u8, desktop: u32) -> Result<Option<LookAnswer>, ReplyError> {
        let (attributes, geometry) = (present(self.attributes.reply())?, present(self.geometry.reply())?);
        let outline = self.outline.map(|outline| present(outline.reply())).transpose()?.flatten();
        let opacity = words(self.opacity)?;
        // A frame with tabs shows one client of several.
        let mut hidden = !self.clients.is_empty();
        let mut translucent = opacity.first().is_some_and(|opacity| *opacity != OPAQUE);
        let mut claimed = Region::default();
        for client in self.clients {
            let client = client.read(atoms, desktop)?;
            hidden &= client.hidden;
            translucent |= client.translucent;
            claimed.add_region(&client.opaque);
        }
        let (Some(attributes), Some(geometry)) = (attributes, geometry) else { return Ok(None) };
        let border = i32::from(geometry.border_width);
        let (width, height) = (i32::from(geometry.width) + 2 * border, i32::from(geometry.height) + 2 * border);
        let whole = Region::from_rect(Rect::new(-border, -border, width, height));
        let shape = match (attributes.class, outline) {
            (WindowClass::INPUT_ONLY, _) => Region::default(),
            (_, Some(outline)) => Region::from_rects(outline.rectangles.iter().map(rect)).intersect(&whole),
            (_, None) => whole,
        };
        let opaque = match (translucent, geometry.depth == screen_depth) {
            (true, _) => Region::default(),
            (false, true) => shape.clone(),
            (false, false) => claimed.intersect(&shape),
        };
        let place = (Rect::new(geometry.x.into(), geometry.y.into(), width, height), border);
        Ok(Some(LookAnswer { look: Look { shape, opaque, hidden }, place }))
    }
}

struct ClientLook {
    hidden: bool,
    translucent: bool,
    opaque: Region,
}

impl<'c> ClientQuestion<'c> {
    fn ask(conn: &'c RustConnection, atoms: &Atoms, top: Window, client: Window) -> Result<Self, ConnectionError> {
        Ok(Self {
            state: property(conn, client, atoms._NET_WM_STATE)?,
            desktop: property(conn, client, atoms._NET_WM_DESKTOP)?,
            opacity: property(conn, client, atoms._NET_WM_WINDOW_OPACITY)?,
            opaque: property(conn, client, atoms._NET_WM_OPAQUE_REGION)?,
            place: conn.translate_coordinates(client, top, 0, 0)?,
        })
    }

    fn read(self, atoms: &Atoms, desktop: u32) -> Result<ClientLook, ReplyError> {
        let state = words(self.state)?;
        let own_desktop = words(self.desktop)?.first().copied().unwrap_or(ALL_DESKTOPS);
        let opacity = words(self.opacity)?.first().copied().unwrap_or(OPAQUE);
        let opaque = words(self.opaque)?;
        let place = present(self.place.reply())?.map_or((0, 0), |place| (place.dst_x.into(), place.dst_y.into()));
        Ok(ClientLook {
            hidden: state.contains(&atoms._NET_WM_STATE_HIDDEN) || ![ALL_DESKTOPS, desktop].contains(&own_desktop),
            translucent: opacity != OPAQUE,
            opaque: claimed_rects(&opaque).moved(place.0, place.1),
        })
    }
}

/// `_NET_WM_OPAQUE_REGION`: x, y, width and height of each rectangle, as the client claims. Sixteen bits hold all of X's
/// coordinates, so larger numbers are lies and are left out.
fn claimed_rects(words: &[u32]) -> Region {
    let rects = words.chunks_exact(4).filter_map(|four| {
        let number = |n: usize| four.get(n).and_then(|word| u16::try_from(*word).ok()).map(i32::from);
        Some(Rect::new(number(0)?, number(1)?, number(2)?, number(3)?))
    });
    Region::from_rects(rects)
}

/// One of the server's rectangles.
pub(crate) fn rect(rect: &xproto::Rectangle) -> Rect {
    Rect::new(rect.x.into(), rect.y.into(), rect.width.into(), rect.height.into())
}

fn property<'c>(
    conn: &'c RustConnection,
    window: Window,
    name: xproto::Atom,
) -> Result<Answer<'c, GetPropertyReply>, ConnectionError> {
    conn.get_property(false, window, name, AtomEnum::ANY, 0, PROPERTY_WORDS)
}

/// The 32-bit words of a property; none if it is not set, or is not made of words.
pub(crate) fn words(answer: Answer<'_, GetPropertyReply>) -> Result<Vec<u32>, ReplyError> {
    let reply = present(answer.reply())?;
    Ok(reply.and_then(|reply| reply.value32().map(Iterator::collect)).unwrap_or_default())
}

/// `None` instead of an X error: the window has gone.
pub(crate) fn present<R>(reply: Result<R, ReplyError>) -> Result<Option<R>, ReplyError> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client claims to be opaque is believed only as far as X's coordinates go, and never half a rectangle.
    #[test]
    fn claims_of_opacity_are_bounded() {
        assert_eq!(claimed_rects(&[0, 0, 10, 10, 5, 5]).area(), 100);
        assert_eq!(claimed_rects(&[0, 0, u32::MAX, u32::MAX, 1, 1, 2, 2]).area(), 4);
        assert_eq!(claimed_rects(&[]).area(), 0);
    }
}
