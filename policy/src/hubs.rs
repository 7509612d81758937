// SPDX-License-Identifier: GPL-2.0-only
//! Hubs: processes that everything talks to, so that talking to them means nothing.
//!
//! The paper lets no search go through the X server, "or else every node's temporal rating will contribute to every
//! other node's" (4.3). The same holds for every other process that serves the whole desktop. A hub receives
//! ratings (it must run for the person to be served) and does not pass them on.
//!
//! Two ways to be one: by role ([`role_of`], decided from the program's name by whoever can read it), and by fan-out
//! (`recognise`): having recently both woken and been woken by many processes that do not descend from it. Descent is
//! what tells a message bus from a shell with fifty jobs, `make -j32`, a browser's main process or a tmux server: those
//! talk to their own offspring, and ratings must travel there. Only births while rated are known (the
//! scheduler reports those), which suffices: an unrated process spreads nothing anyway.

use serde::Serialize;

use crate::graph::{Edges, Node};
use crate::reach::Side;
use crate::settings::Settings;
use crate::table::Table;

/// Why a process is a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HubRole {
    /// Serves a display: X server, Xwayland.
    DisplayServer,
    /// Places everybody's windows.
    WindowManager,
    /// Composes everybody's windows.
    Compositor,
    /// Carries everybody's messages.
    MessageBus,
    /// Starts and watches everybody.
    ServiceManager,
    /// Mixes everybody's sound.
    AudioServer,
    /// Sees every key before its receiver does.
    InputMethod,
    /// Not known by name, recognised by whom it talks to.
    FanOut,
}

/// Programs that are hubs by role. The only place that names them.
///
/// Names are those of the executable file; the kernel's `comm` shows the first 15 bytes of them.
pub const PROGRAMS: &[(HubRole, &[&str])] = &[
    (
        HubRole::DisplayServer,
        &["Xorg", "Xorg.bin", "X", "Xvfb", "Xephyr", "Xnest", "Xwayland", "Xvnc", "Xtigervnc", "xpra-Xdummy"],
    ),
    (
        HubRole::Compositor,
        &[
            "gnome-shell",
            "kwin_wayland",
            "kwin_x11",
            "mutter",
            "muffin",
            "cinnamon",
            "sway",
            "weston",
            "Hyprland",
            "labwc",
            "river",
            "wayfire",
            "niri",
            "cosmic-comp",
            "xfwm4",
            "picom",
            "compton",
            "xcompmgr",
            "marco",
            "phoc",
            "gamescope",
        ],
    ),
    (HubRole::MessageBus, &["dbus-daemon", "dbus-broker", "dbus-broker-launch", "at-spi2-registryd", "ibus-x11"]),
    (
        HubRole::ServiceManager,
        &["systemd", "init", "runit", "runsvdir", "openrc-init", "s6-svscan", "dinit", "systemd-logind", "elogind"],
    ),
    (
        HubRole::AudioServer,
        &["pipewire", "pipewire-pulse", "wireplumber", "pipewire-media-session", "pulseaudio", "jackd", "jackdbus"],
    ),
    (HubRole::InputMethod, &["ibus-daemon", "fcitx", "fcitx5", "uim-xim", "scim", "maliit-keyboard"]),
];

/// The role of a program, from the name of its executable file or from `comm`; `None` for a program that is no hub.
///
/// A process may call itself anything in `comm`: prefer the executable's name. Being taken for a hub wins a
/// process nothing; it only keeps ratings from travelling on through it.
pub fn role_of(name: &str) -> Option<HubRole> {
    const COMM_BYTES: usize = 15;
    let is = |program: &&str| {
        *program == name || (name.len() == COMM_BYTES && program.len() > COMM_BYTES && program.starts_with(name))
    };
    PROGRAMS.iter().find(|(_, programs)| programs.iter().any(is)).map(|(role, _)| *role)
}

/// Decide who is a hub by fan-out, after the settings `hub_enter`, `hub_leave` and `hub_passes`. Roles known by
/// name stay. Says for each slot in `is_hub` whether it holds a hub.
pub(crate) fn recognise(table: &mut Table, settings: &Settings, edges: &Edges, is_hub: &mut Vec<bool>) {
    let (forward, backward) = (edges.lists(Side::In), edges.lists(Side::Out));
    let degrees = forward.iter().zip(backward).map(|(woken, wakers)| woken.len().min(wakers.len()) as u32);
    let busy = (0..).zip(degrees).filter(|(_, degree)| *degree >= settings.hub_leave);
    // By slot, as they are met below.
    let mut fan_outs =
        busy.map(|(node, _)| (node, mutual(table, edges, node))).collect::<Vec<_>>().into_iter().peekable();
    is_hub.clear();
    is_hub.resize(table.slots(), false);
    for (node, process) in table.live_mut() {
        while fan_outs.next_if(|(of, _)| *of < node).is_some() {}
        let fan_out = fan_outs.next_if(|(of, _)| *of == node).map_or(0, |(_, fan_out)| fan_out);
        (process.hub, process.fan_out_passes) = match process.hub {
            None if fan_out >= settings.hub_enter => {
                let passes = process.fan_out_passes + 1;
                ((passes >= settings.hub_passes).then_some(HubRole::FanOut), passes)
            }
            Some(HubRole::FanOut) if fan_out < settings.hub_leave => (None, 0),
            Some(role) => (Some(role), process.fan_out_passes),
            None => (None, 0),
        };
        is_hub[node as usize] = process.hub.is_some();
    }
}

/// How many processes `node` both woke and was woken by, its own offspring not counted.
fn mutual(table: &Table, edges: &Edges, node: Node) -> u32 {
    // Both lists are sorted: one walk along the two finds who is in both.
    let mut wakers = edges.of(Side::Out, node).iter().peekable();
    let both = edges.of(Side::In, node).iter().filter(|woken| {
        while wakers.next_if(|waker| waker.end < woken.end).is_some() {}
        wakers.next_if(|waker| waker.end == woken.end).is_some()
    });
    both.filter(|other| !table.descends(other.end, node)).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Programs are found by their name and by what the kernel shows of a long one; others are not.
    #[test]
    fn roles_are_known_by_name_and_by_short_name() {
        assert_eq!(role_of("Xorg"), Some(HubRole::DisplayServer));
        assert_eq!(role_of("dbus-broker-launch"), Some(HubRole::MessageBus));
        assert_eq!(role_of("dbus-broker-lau"), Some(HubRole::MessageBus));
        assert_eq!(role_of("dbus-broker-la"), None);
        for ordinary in ["bash", "make", "firefox", "tmux: server", "xterm", "openbox", ""] {
            assert_eq!(role_of(ordinary), None, "{ordinary}");
        }
    }

    /// No name stands for two roles, not even in its short form.
    #[test]
    fn no_name_has_two_roles() {
        let mut seen = HashSet::new();
        for name in PROGRAMS.iter().flat_map(|(_, programs)| *programs) {
            assert!(seen.insert(&name[..name.len().min(15)]), "{name} is listed twice");
        }
    }
}
