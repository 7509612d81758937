// SPDX-License-Identifier: GPL-2.0-only
//! The specifications that limelight ships (`packaging/spec.d`).

#![allow(clippy::unwrap_used)] // a helper of a test fails the test by panicking

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use limelight_spec::{Kind, Loaded, Places, Spec, Specs, Target, Trust, toml};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/spec.d")
}

fn shipped() -> Specs {
    let places = Places { folders: vec![folder()], files: Vec::new(), trust: Trust::Anyone, must_exist: true };
    let Loaded { specs, complaints } = Specs::load(&places);
    assert_eq!(complaints, []);
    specs
}

fn of<'a>(specs: &'a Specs, path: &str) -> &'a Spec {
    specs.by_path(Path::new(path)).unwrap_or_else(|| panic!("nothing is shipped for {path}"))
}

/// The file's name without the folder.
fn file_of(spec: &Spec) -> String {
    spec.source.file.file_name().unwrap().to_string_lossy().into_owned()
}

/// Nothing in the shipped set is wrong, and no program is in it twice, not even in two files.
#[test]
fn the_shipped_set_is_clean() {
    let specs = shipped();
    let mut given = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        given += toml::parse(&path, &fs::read(&path).unwrap()).specs.len();
    }
    assert_eq!(specs.len(), given);
    assert!(given > 100, "the paper has about 100 programs");
}

/// The paper's figures are the paper's (Table 1), for those programs and for their heirs of today; the X server's share is, in shorter periods.
#[test]
fn table_1_is_kept() {
    let specs = shipped();
    for (path, figures) in [
        ("/usr/lib/systemd/systemd", "2:50"),
        ("/usr/lib/xorg/Xorg", "5:10"),
        ("/usr/bin/kded5", "2:30"),
        ("/usr/bin/kwin_x11", "3:30"),
        ("/usr/bin/plasmashell", "3:30"),
        ("/usr/bin/bash", "5:100"),
        ("/usr/bin/vim", "5:100"),
        ("/usr/bin/mplayer", "5:30"),
        ("/usr/lib/firefox/firefox", "6:30"),
    ] {
        assert_eq!(of(&specs, path).figures(), figures, "{path}");
    }
    assert_eq!(of(&specs, "/usr/bin/mplayer").to_tab().unwrap(), "/usr/bin/mplayer:Iact:5:30:IR:-:-");
}

/// What `./lab run shipped-set` has measured, and found to be promised enough.
const MEASURED: [&str; 15] = [
    "/bin/bash",
    "/usr/bin/Xvfb",
    "/usr/bin/bash",
    "/usr/bin/cat",
    "/usr/bin/df",
    "/usr/bin/emacs-nox",
    "/usr/bin/id",
    "/usr/bin/ls",
    "/usr/bin/mpv",
    "/usr/bin/openbox",
    "/usr/bin/pgrep",
    "/usr/bin/ps",
    "/usr/bin/vim.basic",
    "/usr/bin/xterm",
    "app io.mpv.Mpv",
];

/// Every figure that was not measured is said to be estimated, and π and the I/O priority are limelight's to choose, as in the paper.
#[test]
fn what_was_not_measured_is_said_to_be_estimated() {
    let specs = shipped();
    let mut measured: Vec<String> =
        specs.iter().filter(|spec| !spec.estimated).map(|spec| spec.target.to_string()).collect();
    measured.sort();
    assert_eq!(measured, MEASURED);
    for spec in specs.iter() {
        assert_eq!(spec.kind, Kind::Interactive, "{spec:?}");
        assert_eq!((spec.protect, spec.io), (None, None), "{spec:?}");
    }
}

/// Only what the rest cannot be used without is irrevocable: the graphical interface and init.
#[test]
fn little_is_irrevocable() {
    for spec in shipped().iter().filter(|spec| !spec.revocable) {
        let is_init = file_of(spec) == "70-system.toml" && spec.figures() == "2:50";
        assert!(is_init || file_of(spec) == "10-display.toml", "{spec:?}");
    }
    assert!(!of(&shipped(), "/usr/lib/xorg/Xorg").revocable);
    assert!(of(&shipped(), "/usr/sbin/sshd").revocable);
}

/// Logins are what only root runs, and nobody's shell.
#[test]
fn only_servers_are_logins() {
    let specs = shipped();
    for spec in specs.iter().filter(|spec| spec.login) {
        assert_eq!(file_of(spec), "70-system.toml", "{spec:?}");
    }
    for server in ["/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/bin/login", "/usr/sbin/agetty"] {
        assert!(of(&specs, server).login, "{server}");
    }
    for program in ["bash", "su", "sudo", "ssh", "pkill"] {
        assert!(!of(&specs, &format!("/usr/bin/{program}")).login, "{program}");
    }
}

/// What starts whatever the person tells it to hands nothing on: shells, terminals, desktops, editors, init, the way to a login, tools.
#[test]
fn only_browsers_and_players_are_inherited() {
    for spec in shipped().iter().filter(|spec| spec.inheritable) {
        assert!(["50-browsers.toml", "60-players.toml"].contains(&file_of(spec).as_str()), "{spec:?}");
    }
    for shell in ["bash", "dash", "zsh", "fish", "tmux", "xterm", "vim", "sudo"] {
        assert!(!of(&shipped(), &format!("/usr/bin/{shell}")).inheritable, "{shell}");
    }
}

/// A plain session of X server, window manager, terminal, shell, editor, player and browser adds up to 1.17 CPUs: a test that adds up
/// specifications would refuse it on one CPU, as the paper says of Table 1, and only one that measures admits it.
#[test]
fn a_plain_desktop_adds_up_to_more_than_a_cpu() {
    let specs = shipped();
    let session = [
        ("/usr/lib/xorg/Xorg", 15.0 / 30.0),
        ("/usr/bin/openbox", 3.0 / 30.0),
        ("/usr/bin/xterm", 3.0 / 30.0),
        ("/usr/bin/bash", 5.0 / 100.0),
        ("/usr/bin/vim", 5.0 / 100.0),
        ("/usr/bin/mpv", 5.0 / 30.0),
        ("/usr/lib/firefox/firefox", 6.0 / 30.0),
    ];
    let mut sum = 0.0;
    for (path, part) in session {
        let found = of(&specs, path).bandwidth();
        assert!((found - part).abs() < 1e-9, "{path}: {found}");
        sum += found;
    }
    assert!((sum - 1.1667).abs() < 1e-3, "{sum}");
}

/// Paths that are links to one program on this machine, such as vi and vim, say the same of it.
#[test]
fn links_to_one_program_agree() {
    let mut by_file: HashMap<(u64, u64), Spec> = HashMap::new();
    for spec in shipped().iter() {
        let Target::Path(path) = &spec.target else { continue };
        let Ok(about) = fs::metadata(path) else { continue };
        let other = by_file.entry((about.dev(), about.ino())).or_insert_with(|| spec.clone());
        assert_eq!((other.figures(), other.flags()), (spec.figures(), spec.flags()), "{other:?} {spec:?}");
    }
    assert!(!by_file.is_empty(), "not even a shell is here");
}

/// What batch work is made of counts only for who is executed by an interactive process: shells, tools, the change of a user. Nothing is lost by that
/// which is started through what has no entry: terminals, editors, browsers, players, and the chain from init to a login.
#[test]
fn what_batch_work_runs_wants_an_interactive_parent() {
    let specs = shipped();
    for program in ["bash", "dash", "zsh", "fish", "tcsh", "su", "sudo", "cat", "rm", "mkdir", "ps", "pkill"] {
        let spec = of(&specs, &format!("/usr/bin/{program}"));
        assert!(spec.interactive_parent && spec.revocable && !spec.inheritable && !spec.login, "{spec:?}");
    }
    assert!(of(&specs, "/usr/bin/Xvfb").interactive_parent);
    for spec in specs.iter() {
        match file_of(spec).as_str() {
            "80-admin.toml" => assert!(spec.interactive_parent, "{spec:?}"),
            "10-display.toml" | "30-terminals.toml" | "70-system.toml" => {}
            _ => assert!(!spec.interactive_parent, "{spec:?}"),
        }
    }
    for path in ["/usr/lib/systemd/systemd", "/usr/bin/login", "/usr/sbin/sshd", "/usr/bin/xterm", "/usr/lib/xorg/Xorg"]
    {
        assert!(!of(&specs, path).interactive_parent, "{path}");
    }
}

/// Flatpak's and snap's names find the browser, and a terminal's scope finds nothing: everything started from it is in there.
#[test]
fn apps_are_found_by_their_cgroups() {
    let specs = shipped();
    let user = "/user.slice/user-1000.slice/user@1000.service/app.slice";
    for (name, figures) in [
        ("app-flatpak-org.mozilla.firefox-1234.scope", Some("6:30")),
        ("snap.firefox.firefox-6f9cd0f2-4ae5.scope", Some("6:30")),
        ("app-flatpak-us.zoom.Zoom-77.scope", Some("10:30")),
        ("orca.service", Some("3:30")),
        ("app-gnome-org.gnome.Terminal-123.scope", None),
        ("app-org.kde.konsole@1.service", None),
    ] {
        let found = specs.for_cgroup(&format!("{user}/{name}")).map(Spec::figures);
        assert_eq!(found.as_deref(), figures, "{name}");
    }
}
