// SPDX-License-Identifier: GPL-2.0-only
//! Which systemd unit a cgroup is of, and which app such a unit is of.
//!
//! The names are those of systemd's "Desktop Environments" conventions: `app[-LAUNCHER]-ID-RANDOM.scope` and
//! `app[-LAUNCHER]-ID[@RANDOM].service`. What it is bad at: whoever has a part of the hierarchy, as every user has, gives names there as he likes.
//! So an app's id is never more than a claim; a unit is the system's only where nothing but slices is above it.

/// A unit, found in a cgroup's path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    /// Its name.
    pub name: &'a str,
    /// The system's service manager made it, and not a user's, nor a container's.
    pub is_of_system: bool,
}

/// The innermost service or scope of a cgroup's path. What is below it, the unit made for itself.
pub(crate) fn unit(cgroup: &str) -> Option<Unit<'_>> {
    let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).map(unescaped).collect();
    let at = parts.iter().rposition(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    let is_of_system = parts[..at].iter().all(|part| part.ends_with(".slice"));
    Some(Unit { name: parts[at], is_of_system })
}

/// systemd puts '_' in front of a name that the kernel might take for a file of its own.
fn unescaped(part: &str) -> &str {
    part.strip_prefix('_').unwrap_or(part)
}

/// The ids of the app that a unit may be of: with what might be its launcher, and without.
pub(crate) fn app_ids(unit: &str) -> Vec<String> {
    // Without a launcher "app-" and "dbus-" are followed by the id; D-Bus's activation has the bus's number as its launcher.
    let Some(rest) = unit.strip_prefix("app-").or_else(|| unit.strip_prefix("dbus-")) else { return Vec::new() };
    let name = match (rest.strip_suffix(".scope"), rest.strip_suffix(".service")) {
        (Some(name), _) => name.rsplit_once('-').map_or(name, |(name, _random)| name),
        (_, Some(name)) => name.rsplit_once('@').map_or(name, |(name, _random)| name),
        _ => return Vec::new(),
    };
    let without_launcher = name.split_once('-').map(|(_launcher, id)| id);
    [Some(name), without_launcher].into_iter().flatten().map(decoded).collect()
}

/// `\x2d` and the like, as systemd escapes what may not stand in a name.
fn decoded(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        text.push_str(before);
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii);
        match byte {
            Some(byte) => {
                text.push(byte as char);
                rest = &after[2..];
            }
            None => {
                text.push_str("\\x");
                rest = after;
            }
        }
    }
    text + rest
}

/// Whether a name is what a pattern says; `*` stands for any characters, also none.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // Each part as early as it goes: what is left for the last is the longest there can be.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The innermost unit counts, what a unit made below itself does not hide it, and only slices are above what is the system's.
    #[test]
    fn a_cgroup_is_of_its_innermost_unit() {
        for (cgroup, name, is_of_system) in [
            ("/system.slice/ssh.service", "ssh.service", true),
            ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", true),
            ("/init.scope", "init.scope", true),
            ("/user.slice/user-1000.slice/user@1000.service/session.slice/pipewire.service", "pipewire.service", false),
            ("/user.slice/user-1000.slice/user@1000.service/ssh.service", "ssh.service", false),
            ("/system.slice/docker-12ab.scope/system.slice/ssh.service", "ssh.service", false),
            ("/system.slice/dbus.service/main/worker", "dbus.service", true),
            ("/system.slice/_cpu.service", "cpu.service", true),
        ] {
            assert_eq!(unit(cgroup), Some(Unit { name, is_of_system }), "{cgroup}");
        }
        for cgroup in ["", "/", "/user.slice/user-1000.slice", "relative", "/a/b"] {
            assert_eq!(unit(cgroup), None, "{cgroup}");
        }
    }

    /// The id is found behind each desktop's launcher and with each kind of ending, escaped or not.
    #[test]
    fn app_ids_are_found_as_desktops_write_them() {
        for (unit, id) in [
            ("app-flatpak-org.mozilla.firefox-1234.scope", "org.mozilla.firefox"),
            ("app-gnome-org.gnome.Terminal-123.scope", "org.gnome.Terminal"),
            ("app-org.kde.konsole@3f2a.service", "org.kde.konsole"),
            ("app-org.kde.konsole.service", "org.kde.konsole"),
            ("app-org.kde.konsole-123.scope", "org.kde.konsole"),
            ("app-gnome-firefox\\x2desr-1234.scope", "firefox-esr"),
            ("app-firefox\\x2desr@autostart.service", "firefox-esr"),
            ("app-flatpak-io.gitlab.librewolf-community-77.scope", "io.gitlab.librewolf-community"),
            ("dbus-:1.2-org.gnome.Nautilus@0.service", "org.gnome.Nautilus"),
        ] {
            assert!(app_ids(unit).contains(&id.to_owned()), "{unit}: {:?}", app_ids(unit));
        }
        for unit in ["ssh.service", "session-2.scope", "app-x.slice", "vte-spawn-1.scope", "app-.scope"] {
            assert!(
                !app_ids(unit).iter().any(|id| id.chars().any(char::is_alphanumeric)),
                "{unit}: {:?}",
                app_ids(unit)
            );
        }
        assert!(!app_ids("app-my\\x2dcode-1.scope").contains(&"code".to_owned()));
    }

    /// Broken escapes are kept as they are.
    #[test]
    fn broken_escapes_stay() {
        for text in ["a\\x", "a\\xg1b", "a\\xffb", "\\x\\x", "a\\xéb"] {
            assert_eq!(decoded(text), text);
        }
        assert_eq!(decoded("a\\x2d\\x2db"), "a--b");
    }

    /// A star stands for any characters, also none, anywhere and more than once.
    #[test]
    fn stars_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("ssh.service", "ssh.service", true),
            ("ssh.service", "sshd.service", false),
            ("ssh*.service", "ssh.service", true),
            ("ssh*.service", "sshd@7.service", true),
            ("getty@*.service", "getty@tty1.service", true),
            ("getty@*.service", "getty@tty1.service.d", false),
            ("*a*b*.scope", "xxaxxbxx.scope", true),
            ("*a*b*.scope", "bbbaaa.scope", false),
            ("a*a.scope", "a.scope", false),
            ("**.scope", ".scope", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
