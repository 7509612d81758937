// SPDX-License-Identifier: GPL-2.0-only
//! What there is. Nothing is judged here, and nothing is changed.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use limelight_abi::sense::SenseMessage;
use limelight_daemon::control::{SOCKET, ask};
use limelight_daemon::coop;
use limelight_daemon::view::Request;
use limelight_sense::displays::{Display, DisplayFinder};
use limelight_sense::spawn::{ReceiveError, spawn_helper};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scx_utils::compat;

/// Trace points that tell on whose behalf a kernel worker acts (`edges.bpf.h`).
const TRACE_POINTS: &[&str] = &["workqueue_queue_work", "workqueue_execute_start", "workqueue_execute_end"];

/// How long a helper may take to say that it watches.
const HELPER_PATIENCE: Duration = Duration::from_secs(3);

/// How long the daemon may take to hand out a page: some tens of milliseconds for each that asked before.
const PAGE_PATIENCE: Duration = Duration::from_secs(3);

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Is the caller root?
    pub root: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Has the kernel sched_ext?
    pub sched_ext: bool,
    /// The loaded scheduler, where there is one.
    pub loaded: Option<String>,
    /// The kernel's description of its types (BTF).
    pub types: TypesFact,
    /// Functions of sched_ext whose description is broken.
    pub malformed: Vec<String>,
    /// Does the kernel's configuration lie where libbpf reads it?
    pub kconfig: bool,
    /// Are cgroups' CPU weights passed to a scheduler?
    pub cgroup_weights: bool,
    /// Is the kernel's function tracer there, which BPF programs attach through?
    pub function_tracer: bool,
    /// Trace points that are not there.
    pub missing_trace_points: Vec<&'static str>,
    /// Whether a daemon answers: its version.
    pub daemon: Option<String>,
    /// Whether pages for cooperative processes can be had.
    pub pages: PageFact,
    /// The displays, and for each whether it lets a helper in.
    pub displays: Vec<(String, DisplayFact)>,
}

/// How it goes with the kernel's description of its types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TypesFact {
    /// There is none.
    #[default]
    None,
    /// There is one that is none, for this reason.
    Broken(String),
    /// It is there.
    There,
}

/// How it goes with the pages of cooperative processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PageFact {
    /// The daemon handed one out.
    Handed,
    /// It did not, for this reason.
    Refused(String),
    /// No daemon runs; the kernel makes one.
    Possible,
    /// No daemon runs; the kernel makes none, for this reason.
    Impossible(String),
    /// No daemon runs, and only root may ask the kernel.
    #[default]
    NotTried,
}

/// How it goes with one display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisplayFact {
    /// It can be watched.
    Watched {
        /// What its server cannot tell.
        missing: Vec<String>,
    },
    /// Its server does not let the helper in, or its helper ended, for this reason.
    Refused(String),
    /// Its helper cannot be started, for this reason.
    NotStarted(String),
    /// It was not tried: only root may start a helper for it.
    NotTried,
}

/// Look at this machine.
pub fn probe() -> Facts {
    let mut facts = kernel_only();
    facts.daemon = ask(Path::new(SOCKET), &Request::Status).ok().map(|status| crate::table::plain(&status["version"]));
    facts.pages = pages(facts.daemon.is_some(), facts.root);
    facts.displays = displays(facts.root);
    facts
}

/// Look at the kernel and the caller's rights.
pub fn kernel_only() -> Facts {
    let mut facts = Facts { root: nix::unistd::geteuid().is_root(), ..kernel(Path::new("/")) };
    if facts.types == TypesFact::There
        && let Err(error) = limelight_sched::check_types()
    {
        facts.types = TypesFact::Broken(format!("{error:#}"));
    }
    if facts.sched_ext && facts.types == TypesFact::There {
        // scx_utils reads the running kernel's own description, and panics where it is broken.
        facts.malformed = compat::malformed_scx_kfuncs();
        facts.cgroup_weights = compat::struct_has_field("sched_ext_ops", "cgroup_set_weight").unwrap_or(false);
    }
    facts
}

/// What files tell about the kernel; `top` is `/`, or a fixture.
fn kernel(top: &Path) -> Facts {
    let read = |path: &str| fs::read_to_string(top.join(path)).ok().map(|text| text.trim().to_owned());
    let types = fs::read(top.join("sys/kernel/btf/vmlinux")).unwrap_or_default();
    // Types are listed by name: the name of a trace point's type is there exactly if the trace point is.
    let described = |name: &str| memchr::memmem::find(&types, format!("\0btf_trace_{name}\0").as_bytes()).is_some();
    let enabled = read("sys/kernel/sched_ext/state").is_some_and(|state| state != "disabled");
    let release = read("proc/sys/kernel/osrelease").unwrap_or_default();
    let readable = |path: &str| fs::File::open(top.join(path)).is_ok();
    Facts {
        kconfig: readable(&format!("boot/config-{release}")) || readable("proc/config.gz"),
        kernel: release,
        sched_ext: top.join("sys/kernel/sched_ext").is_dir(),
        loaded: enabled.then(|| read("sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "unnamed".to_owned())),
        types: if types.is_empty() { TypesFact::None } else { TypesFact::There },
        function_tracer: top.join("proc/sys/kernel/ftrace_enabled").exists(),
        missing_trace_points: TRACE_POINTS.iter().copied().filter(|name| !described(name)).collect(),
        ..Facts::default()
    }
}

/// Ask for a page as a cooperative program does, and give it back.
fn pages(daemon: bool, root: bool) -> PageFact {
    if daemon {
        return match coop::ask_for_page(coop::socket(), PAGE_PATIENCE) {
            Ok(_) => PageFact::Handed,
            Err(error) => PageFact::Refused(format!("{error:#}")),
        };
    }
    if !root {
        return PageFact::NotTried;
    }
    limelight_sched::try_page().map_or_else(|error| PageFact::Impossible(format!("{error:#}")), |()| PageFact::Possible)
}

fn displays(root: bool) -> Vec<(String, DisplayFact)> {
    let program = std::env::current_exe();
    let fact = |display: Display| {
        let fact = match &program {
            Ok(program) if root => try_helper(&display, program),
            _ => DisplayFact::NotTried,
        };
        (display.name, fact)
    };
    DisplayFinder::default().find().into_iter().map(fact).collect()
}

/// Start the very helper that the daemon would start, and hear what it says.
fn try_helper(display: &Display, program: &Path) -> DisplayFact {
    let mut helper = match spawn_helper(display, program) {
        Ok(helper) => helper,
        Err(error) => return DisplayFact::NotStarted(error.to_string()),
    };
    let deadline = Instant::now() + HELPER_PATIENCE;
    loop {
        match helper.receive() {
            Ok(Some(SenseMessage::Hello { missing, .. })) => {
                let missing = missing.iter().map(|lacking| format!("{lacking:?}").to_lowercase()).collect();
                return DisplayFact::Watched { missing };
            }
            Ok(Some(SenseMessage::Gone { reason })) => return DisplayFact::Refused(reason),
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(ReceiveError::Ended) => {
                return DisplayFact::Refused("its helper ended without a word".to_owned());
            }
            Err(error) => return DisplayFact::Refused(error.to_string()),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return DisplayFact::Refused("it does not answer".to_owned());
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        // Interrupted or not: look again, until the deadline.
        let _ = poll(&mut [PollFd::new(helper.as_fd(), PollFlags::POLLIN)], timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(top: &Path, path: &str, text: &[u8]) {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A kernel with everything, and somebody else's scheduler loaded.
    #[test]
    fn a_kernel_with_another_scheduler() {
        let top = tempfile::tempdir().unwrap();
        put(top.path(), "proc/sys/kernel/osrelease", b"7.2.13\n");
        put(top.path(), "proc/sys/kernel/ftrace_enabled", b"1\n");
        put(top.path(), "sys/kernel/sched_ext/state", b"enabled\n");
        put(top.path(), "sys/kernel/sched_ext/root/ops", b"scx_lavd_1.1.4\n");
        let types: Vec<u8> =
            TRACE_POINTS.iter().flat_map(|name| format!("\0btf_trace_{name}\0").into_bytes()).collect();
        put(top.path(), "sys/kernel/btf/vmlinux", &types);
        let found = kernel(top.path());
        assert_eq!(found.loaded.as_deref(), Some("scx_lavd_1.1.4"));
        assert!(
            found.sched_ext
                && found.types == TypesFact::There
                && found.function_tracer
                && found.missing_trace_points.is_empty()
        );
        assert_eq!(found.kernel, "7.2.13");
    }

    /// The configuration counts where it is the running kernel's, or the kernel itself shows it.
    #[test]
    fn the_configuration_of_this_kernel() {
        for (path, expected) in [("boot/config-7.2.13", true), ("boot/config-6.18.15", false), ("proc/config.gz", true)]
        {
            let top = tempfile::tempdir().unwrap();
            put(top.path(), "proc/sys/kernel/osrelease", b"7.2.13\n");
            put(top.path(), path, b"CONFIG_HZ=250\n");
            assert_eq!(kernel(top.path()).kconfig, expected, "{path}");
        }
    }

    /// A kernel with nothing is described as such, not as an error.
    #[test]
    fn a_kernel_with_nothing() {
        let top = tempfile::tempdir().unwrap();
        let found = kernel(top.path());
        assert!(!found.sched_ext && found.types == TypesFact::None && found.loaded.is_none());
        assert_eq!(found.missing_trace_points, TRACE_POINTS);
    }

    /// A kernel that has sched_ext and no scheduler loaded has none loaded.
    #[test]
    fn disabled_is_not_loaded() {
        let top = tempfile::tempdir().unwrap();
        put(top.path(), "sys/kernel/sched_ext/state", b"disabled\n");
        assert_eq!(kernel(top.path()).loaded, None);
    }
}
