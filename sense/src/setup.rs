// SPDX-License-Identifier: GPL-2.0-only
//! The start of a session with a server: what it offers, who is connected, what is on the screen.
//!
//! Here answers are waited for: nothing is being watched yet.

use nix::sys::socket::{getsockopt, sockopt};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::record::{self, ConnectionExt as _};
use x11rb::protocol::res::{self, ConnectionExt as _};
use x11rb::protocol::shape;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, SelectionEventMask};
use x11rb::protocol::xinput;
use x11rb::protocol::xproto::{
    self, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use crate::clients::Clients;
use crate::error::SessionEnd;
use crate::looks::present;
use crate::windows::{Top, Watch, Window, Windows};

/// Requests sent before their answers are read: bounds what the server and we must keep.
const AT_ONCE: usize = 256;

/// What the server offers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offers {
    /// RECORD: input can be seen.
    pub record: bool,
    /// DAMAGE and XFIXES: output can be seen.
    pub damage: bool,
    /// SHAPE: windows need not be rectangles.
    pub shape: bool,
    /// Major opcode of XInput.
    pub xinput_opcode: Option<u8>,
}

/// The pid of the server, from the credentials of its socket; `None` over the network.
pub(crate) fn server_pid(conn: &RustConnection) -> Option<u32> {
    let peer = getsockopt(conn.stream(), sockopt::PeerCredentials).ok()?;
    u32::try_from(peer.pid()).ok().filter(|pid| *pid > 0)
}

/// Finds out what the server offers.
///
/// # Errors
/// [`SessionEnd::MissingExtension`] without XRes 1.2, which tells processes, or with neither RECORD nor DAMAGE.
pub(crate) fn offers(conn: &RustConnection) -> Result<Offers, SessionEnd> {
    let has = |name| Ok::<_, SessionEnd>(conn.extension_information(name)?.is_some());
    if !has(res::X11_EXTENSION_NAME)? {
        return Err(SessionEnd::MissingExtension(res::X11_EXTENSION_NAME));
    }
    let version = conn.res_query_version(1, 2)?.reply()?;
    if (version.server_major, version.server_minor) < (1, 2) {
        return Err(SessionEnd::MissingExtension(res::X11_EXTENSION_NAME));
    }
    let record = has(record::X11_EXTENSION_NAME)?;
    if record {
        conn.record_query_version(1, 13)?.reply()?;
    }
    let fixes = has(xfixes::X11_EXTENSION_NAME)?;
    if fixes {
        conn.xfixes_query_version(2, 0)?.reply()?;
    }
    let damage = fixes && has(damage::X11_EXTENSION_NAME)?;
    if damage {
        conn.damage_query_version(1, 1)?.reply()?;
    }
    if !record && !damage {
        return Err(SessionEnd::MissingExtension(record::X11_EXTENSION_NAME));
    }
    let xinput_opcode = conn.extension_information(xinput::X11_EXTENSION_NAME)?.map(|info| info.major_opcode);
    Ok(Offers { record, damage, shape: has(shape::X11_EXTENSION_NAME)?, xinput_opcode })
}

/// Learns the pid of every client that is connected.
pub(crate) fn learn_clients(conn: &RustConnection, clients: &mut Clients) -> Result<(), SessionEnd> {
    let mask = conn.setup().resource_id_mask;
    for id in conn.res_query_client_ids(&[pid_question(0)])?.reply()?.ids {
        clients.learn(id.spec.client & !mask, local_pid(&id));
    }
    Ok(())
}

/// The question for the pid of the client with this base; 0 asks for all.
pub(crate) fn pid_question(base: u32) -> res::ClientIdSpec {
    res::ClientIdSpec { client: base, mask: res::ClientIdMask::LOCAL_CLIENT_PID }
}

/// The pid in an answer; `None` for a client that is not on this machine.
pub(crate) fn local_pid(id: &res::ClientIdValue) -> Option<u32> {
    id.value.first().copied().filter(|pid| (1..=limelight_abi::sense::MAX_PID).contains(pid))
}

/// Asks to be told of everything that happens to the root's children, and of the root's own changes.
pub(crate) fn select_root_events(conn: &RustConnection, root: Window) -> Result<(), SessionEnd> {
    let events = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE;
    conn.change_window_attributes(root, &ChangeWindowAttributesAux::new().event_mask(events))?.check()?;
    Ok(())
}

/// Asks to be told when a compositing manager comes or goes; the one that is there now.
pub(crate) fn watch_compositor(
    conn: &RustConnection,
    root: Window,
    screen: usize,
) -> Result<(xproto::Atom, Window), SessionEnd> {
    let selection = conn.intern_atom(false, format!("_NET_WM_CM_S{screen}").as_bytes())?.reply()?.atom;
    let events = SelectionEventMask::SET_SELECTION_OWNER
        | SelectionEventMask::SELECTION_WINDOW_DESTROY
        | SelectionEventMask::SELECTION_CLIENT_CLOSE;
    conn.xfixes_select_selection_input(root, selection, events)?.check()?;
    Ok((selection, conn.get_selection_owner(selection)?.reply()?.owner))
}

/// The selection that a window manager of this screen owns (ICCCM 2.8).
pub(crate) fn manager_selection(conn: &RustConnection, screen: usize) -> Result<xproto::Atom, SessionEnd> {
    Ok(conn.intern_atom(false, format!("WM_S{screen}").as_bytes())?.reply()?.atom)
}

/// Takes in everything that is on the screen; what to watch of it.
///
/// Events that arrive meanwhile are handled afterwards and say the same or later things.
pub(crate) fn scan(
    conn: &RustConnection,
    windows: &mut Windows,
    xembed_info: xproto::Atom,
) -> Result<Vec<Watch>, SessionEnd> {
    let mut changes = Vec::new();
    let children = conn.query_tree(windows.root())?.reply()?.children;
    for some in children.chunks(AT_ONCE) {
        changes.extend(scan_tops(conn, windows, some)?);
    }
    for some in children.chunks(AT_ONCE) {
        changes.extend(scan_inside(conn, windows, some, xembed_info)?);
    }
    Ok(changes)
}

fn scan_tops(conn: &RustConnection, windows: &mut Windows, tops: &[Window]) -> Result<Vec<Watch>, SessionEnd> {
    let mut answers = Vec::with_capacity(tops.len());
    for top in tops {
        answers.push((*top, conn.get_window_attributes(*top)?, conn.get_geometry(*top)?));
    }
    let mut changes = Vec::new();
    for (window, attributes, geometry) in answers {
        let (attributes, geometry) = (present(attributes.reply())?, present(geometry.reply())?);
        let (Some(attributes), Some(geometry)) = (attributes, geometry) else { continue };
        if attributes.class == WindowClass::INPUT_ONLY {
            continue;
        }
        let (x, y) = (geometry.x.into(), geometry.y.into());
        let (width, height, border) = (geometry.width.into(), geometry.height.into(), geometry.border_width.into());
        let top = Top::new(x, y, width, height, border, attributes.override_redirect);
        changes.extend(windows.created(window, top));
        changes.extend(windows.set_mapped(window, attributes.map_state != MapState::UNMAPPED));
    }
    Ok(changes)
}

/// Finds clients' windows in frames: at most two levels down, since some window managers wrap a client twice.
fn scan_inside(
    conn: &RustConnection,
    windows: &mut Windows,
    tops: &[Window],
    xembed_info: xproto::Atom,
) -> Result<Vec<Watch>, SessionEnd> {
    let mut found: Vec<(Window, Window)> = Vec::new();
    let mut level: Vec<(Window, Window)> = tops.iter().map(|top| (*top, *top)).collect();
    for _ in 0..2 {
        let mut next = Vec::new();
        for (top, children) in children_of(conn, &level)? {
            let (own, others): (Vec<Window>, Vec<Window>) =
                children.into_iter().partition(|child| windows.base_of(*child) == windows.base_of(top));
            found.extend(others.into_iter().map(|other| (other, top)));
            next.extend(own.into_iter().map(|own| (top, own)));
        }
        level = next;
    }
    let mut changes = Vec::new();
    for some in found.chunks(AT_ONCE) {
        let mut answers = Vec::with_capacity(some.len());
        for (window, top) in some {
            answers.push((*window, *top, conn.get_property(false, *window, xembed_info, AtomEnum::ANY, 0, 0)?));
        }
        for (window, top, info) in answers {
            if present(info.reply())?.is_some_and(|info| info.type_ == x11rb::NONE) {
                changes.extend(windows.put_inside(window, top));
            }
        }
    }
    Ok(changes)
}

/// The children of each window of `(top, window)`, with its top.
fn children_of(conn: &RustConnection, parents: &[(Window, Window)]) -> Result<Vec<(Window, Vec<Window>)>, SessionEnd> {
    let mut found = Vec::new();
    for some in parents.chunks(AT_ONCE) {
        let mut answers = Vec::with_capacity(some.len());
        for (top, window) in some {
            answers.push((*top, conn.query_tree(*window)?));
        }
        for (top, answer) in answers {
            if let Some(tree) = present(answer.reply())? {
                found.push((top, tree.children));
            }
        }
    }
    Ok(found)
}
