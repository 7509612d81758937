// SPDX-License-Identifier: GPL-2.0-only
//! What the facts mean: will it work, what happens instead, what is the fix. Pure.

use serde::Serialize;

use super::facts::{DisplayFact, Facts, PageFact, TypesFact};

/// The oldest kernel that is supported.
const KERNEL_FLOOR: (u32, u32) = (6, 12);

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, with less.
    Less,
    /// It will not work.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub topic: &'static str,
    /// How good it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What happens instead, where it is not as it should be.
    pub instead: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
}

fn good(topic: &'static str, found: impl Into<String>) -> Finding {
    Finding { topic, verdict: Verdict::Good, found: found.into(), instead: None, fix: None }
}

fn less(topic: &'static str, found: impl Into<String>, instead: &str, fix: &str) -> Finding {
    let (instead, fix) = (Some(instead.to_owned()), Some(fix.to_owned()));
    Finding { topic, verdict: Verdict::Less, found: found.into(), instead, fix }
}

/// Of what is bad all that happens instead is said each time: of two that are, neither may promise what the other one takes away.
fn bad(facts: &Facts, topic: &'static str, found: impl Into<String>, fix: &str) -> Finding {
    let (instead, fix) = (Some(meanwhile(facts)), Some(fix.to_owned()));
    Finding { topic, verdict: Verdict::Bad, found: found.into(), instead, fix }
}

/// What cooperative programs are without the daemon.
const UNPROMISED: &str = "programs that use libcoop run without its promise";

/// What works while limelight cannot be started.
pub fn meanwhile(facts: &Facts) -> String {
    if facts.loaded.as_deref().is_some_and(is_limelight) {
        return format!("{}, and cannot be started again", who_runs(facts));
    }
    // It has a BPF program of its own (record/), which needs no sched_ext and no configuration, but the kernel's types and its trace points.
    let can_watch = is_supported(&facts.kernel)
        && (facts.types == TypesFact::There && facts.malformed.is_empty())
        && (facts.function_tracer && facts.missing_trace_points.is_empty());
    let works = match can_watch {
        true => "limelight spec check works, and so does spec suggest, but its figures are not tried",
        false => "of limelight only spec check works",
    };
    format!("{}; {UNPROMISED}; {works}", who_runs(facts))
}

fn who_runs(facts: &Facts) -> String {
    match facts.loaded.as_deref() {
        None => "the kernel's own scheduler runs the CPUs".to_owned(),
        Some(name) if is_limelight(name) => {
            format!("the limelight that is loaded ({name}) runs the CPUs until it ends")
        }
        Some(name) => format!("{name} runs the CPUs"),
    }
}

fn is_limelight(scheduler: &str) -> bool {
    scheduler.starts_with("limelight")
}

/// Judge everything.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts), sched_ext(facts)];
    if facts.sched_ext {
        findings.push(loaded(facts));
    }
    findings.extend([types(facts), kconfig(facts), function_tracer(facts)]);
    // What follows is read from the description of the types.
    if facts.types == TypesFact::There {
        findings.push(trace_points(facts));
    }
    if facts.sched_ext && facts.types == TypesFact::There {
        findings.push(cgroup_weights(facts));
    }
    findings.push(root(facts));
    findings.push(daemon(facts));
    findings.push(pages(facts));
    findings.extend(displays(facts));
    findings
}

fn is_supported(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= KERNEL_FLOOR
}

fn kernel(facts: &Facts) -> Finding {
    match is_supported(&facts.kernel) {
        true => good("kernel", facts.kernel.clone()),
        false => bad(facts, "kernel", format!("{} is older than 6.12", facts.kernel), "boot Linux 6.12 or later"),
    }
}

/// Debian's own 6.12 has it off. Its 7.2.12+deb13 of trixie-backports has it, with a broken description of types.
const NO_SCHED_EXT_FIX: &str = "boot a kernel built with CONFIG_SCHED_CLASS_EXT=y: those of Fedora 41, Ubuntu 25.04, Arch and later are; \
                                Debian 13's own is not, the 6.18 of its trixie-backports is";

fn sched_ext(facts: &Facts) -> Finding {
    match facts.sched_ext {
        true => good("sched_ext", "there"),
        false => bad(facts, "sched_ext", "this kernel has none (no /sys/kernel/sched_ext)", NO_SCHED_EXT_FIX),
    }
}

fn loaded(facts: &Facts) -> Finding {
    match facts.loaded.as_deref() {
        None => good("loaded scheduler", "none but the kernel's own"),
        Some(name) if is_limelight(name) => good("loaded scheduler", format!("limelight ({name})")),
        Some(name) => bad(
            facts,
            "loaded scheduler",
            format!("{name}; only one can be loaded"),
            "stop it: systemctl stop scx scx_loader, or end the program that loaded it",
        ),
    }
}

fn types(facts: &Facts) -> Finding {
    let fix = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y; if it is, look at the permissions of the file";
    match &facts.types {
        TypesFact::None => return bad(facts, "kernel types (BTF)", "none at /sys/kernel/btf/vmlinux", fix),
        TypesFact::Broken(reason) => {
            return bad(
                facts,
                "kernel types (BTF)",
                format!("/sys/kernel/btf/vmlinux cannot be read as such: {reason}"),
                fix,
            );
        }
        TypesFact::There => {}
    }
    if facts.malformed.is_empty() {
        return good("kernel types (BTF)", "there");
    }
    bad(
        facts,
        "kernel types (BTF)",
        format!("broken for {}: the kernel was built with pahole before 1.26", facts.malformed.join(", ")),
        "boot a kernel built with pahole 1.26 or later (on Debian 13 the 6.18 of trixie-backports is)",
    )
}

fn kconfig(facts: &Facts) -> Finding {
    match facts.kconfig {
        true => good("kernel configuration", "there"),
        false => bad(
            facts,
            "kernel configuration",
            format!(
                "cannot be read at /boot/config-{} nor at /proc/config.gz; BPF programs are built for it as they are loaded",
                facts.kernel
            ),
            "modprobe configs, or put the file that the kernel was built with there",
        ),
    }
}

fn function_tracer(facts: &Facts) -> Finding {
    match facts.function_tracer {
        true => good("function tracer", "there"),
        false => bad(facts, "function tracer", "none", "boot a kernel built with CONFIG_FUNCTION_TRACER=y"),
    }
}

fn trace_points(facts: &Facts) -> Finding {
    match facts.missing_trace_points.as_slice() {
        [] => good("trace points", "there"),
        missing => bad(
            facts,
            "trace points",
            format!("missing: {}", missing.join(", ")),
            "boot a kernel built with CONFIG_TRACEPOINTS=y and CONFIG_DEBUG_INFO_BTF=y",
        ),
    }
}

fn cgroup_weights(facts: &Facts) -> Finding {
    match facts.cgroup_weights {
        true => good("cpu.weight of cgroups", "passed to the scheduler"),
        false => less(
            "cpu.weight of cgroups",
            "not passed to a scheduler by this kernel",
            "weights follow nice alone",
            "boot a kernel built with CONFIG_EXT_GROUP_SCHED=y",
        ),
    }
}

fn root(facts: &Facts) -> Finding {
    match facts.root {
        true => good("rights", "root"),
        false => less(
            "rights",
            "not root",
            "nothing could be tried that takes root's rights; limelight run needs them",
            "sudo limelight doctor",
        ),
    }
}

fn daemon(facts: &Facts) -> Finding {
    match &facts.daemon {
        Some(version) => good("daemon", format!("runs, version {version}")),
        None => {
            less("daemon", "does not run", &who_runs(facts), "sudo systemctl start limelight, or sudo limelight run")
        }
    }
}

fn pages(facts: &Facts) -> Finding {
    const TOPIC: &str = "cooperative programs";
    match &facts.pages {
        PageFact::Handed => good(TOPIC, "the daemon hands out pages"),
        PageFact::Possible => good(TOPIC, "the kernel makes their pages"),
        PageFact::Refused(reason) => less(
            TOPIC,
            format!("the daemon hands out no page: {reason}"),
            UNPROMISED,
            "see limelight status for how many there are, and raise --coop-pages-per-user where they are too many",
        ),
        PageFact::Impossible(reason) => less(
            TOPIC,
            format!("there can be no page: {reason}"),
            UNPROMISED,
            "give the daemon CAP_BPF and CAP_SYS_ADMIN, and boot a kernel built with CONFIG_BPF_SYSCALL=y",
        ),
        PageFact::NotTried => less(TOPIC, "not tried without root's rights", UNPROMISED, "sudo limelight doctor"),
    }
}

fn displays(facts: &Facts) -> Vec<Finding> {
    const SEEN_BY: &str = "who serves the person there is not seen; all else works";
    if facts.displays.is_empty() {
        return vec![less(
            "displays",
            "no X server found (no socket that answers in /tmp/.X11-unix)",
            "nobody's input or screen is seen: all programs share the CPUs fairly; a display that comes later is found",
            "log in to an X session; Wayland sessions are not watched yet, except through Xwayland",
        )];
    }
    let finding = |(name, fact): &(String, DisplayFact)| match fact {
        DisplayFact::Watched { missing } if missing.is_empty() => good("display", format!("{name} can be watched")),
        DisplayFact::Watched { missing } => less(
            "display",
            format!("{name} has no {}", missing.join(", no ")),
            "what it cannot tell is not seen (record: input; damage: output)",
            "start its server without switching those extensions off",
        ),
        DisplayFact::Refused(reason) => {
            // As the helper's errors are written: what is the matter, a semicolon, what to do.
            let (reason, fix) = reason.rsplit_once("; ").unwrap_or((
                reason,
                "set XAUTHORITY in the session to the file with its cookie, or, as its owner: xhost +si:localuser:$USER",
            ));
            less("display", format!("{name} cannot be watched: {reason}"), SEEN_BY, fix)
        }
        DisplayFact::NotStarted(reason) => less(
            "display",
            format!("{name} cannot be watched: {reason}"),
            SEEN_BY,
            "see that the limelight program is still where it was started from, and executable (packaging/install puts it into place)",
        ),
        DisplayFact::NotTried => less(
            "display",
            format!("{name} is there; not tried without root's rights"),
            SEEN_BY,
            "sudo limelight doctor",
        ),
    };
    facts.displays.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic, and what spoils it.
    type Case = (&'static str, fn(&mut Facts));

    fn all_is_well() -> Facts {
        Facts {
            root: true,
            kernel: "7.2.13+deb14-amd64".to_owned(),
            sched_ext: true,
            types: TypesFact::There,
            kconfig: true,
            cgroup_weights: true,
            function_tracer: true,
            daemon: Some("0.1.0".to_owned()),
            pages: PageFact::Handed,
            displays: vec![(":0".to_owned(), DisplayFact::Watched { missing: vec![] })],
            ..Facts::default()
        }
    }

    fn verdict(facts: &Facts, topic: &str) -> Verdict {
        judge(facts).into_iter().find(|finding| finding.topic == topic).unwrap().verdict
    }

    /// Where all is well nothing is complained about.
    #[test]
    fn all_well_is_all_good() {
        assert!(judge(&all_is_well()).iter().all(|finding| finding.verdict == Verdict::Good));
    }

    /// Each thing without which it cannot work is bad, alone, says what works meanwhile, and has a fix.
    #[test]
    fn what_is_needed_is_bad_when_missing() {
        let cases: [Case; 9] = [
            ("kernel", |facts| facts.kernel = "6.1.0-41-amd64".to_owned()),
            ("sched_ext", |facts| facts.sched_ext = false),
            ("loaded scheduler", |facts| facts.loaded = Some("scx_bpfland_1.1.4".to_owned())),
            ("kernel types (BTF)", |facts| facts.types = TypesFact::None),
            ("kernel types (BTF)", |facts| facts.types = TypesFact::Broken("no ELF header".to_owned())),
            ("kernel types (BTF)", |facts| facts.malformed = vec!["scx_bpf_dsq_insert".to_owned()]),
            ("kernel configuration", |facts| facts.kconfig = false),
            ("function tracer", |facts| facts.function_tracer = false),
            ("trace points", |facts| facts.missing_trace_points = vec!["workqueue_queue_work"]),
        ];
        for (topic, spoil) in cases {
            let mut facts = all_is_well();
            spoil(&mut facts);
            let bad: Vec<_> = judge(&facts).into_iter().filter(|finding| finding.verdict == Verdict::Bad).collect();
            assert_eq!(bad.iter().map(|finding| finding.topic).collect::<Vec<_>>(), [topic]);
            assert!(bad[0].instead.is_some() && bad[0].fix.is_some(), "{topic}");
        }
    }

    /// What can be done without is less, says what happens instead, and keeps nothing from working.
    #[test]
    fn what_can_be_missed_is_less() {
        let cases: [Case; 10] = [
            ("cpu.weight of cgroups", |facts| facts.cgroup_weights = false),
            ("rights", |facts| facts.root = false),
            ("daemon", |facts| facts.daemon = None),
            ("cooperative programs", |facts| facts.pages = PageFact::Refused("EDQUOT".to_owned())),
            ("cooperative programs", |facts| facts.pages = PageFact::Impossible("EPERM".to_owned())),
            ("cooperative programs", |facts| facts.pages = PageFact::NotTried),
            ("displays", |facts| facts.displays.clear()),
            ("display", |facts| {
                facts.displays[0].1 = DisplayFact::NotStarted("denied".to_owned());
            }),
            ("display", |facts| facts.displays[0].1 = DisplayFact::Refused("no cookie".to_owned())),
            ("display", |facts| facts.displays[0].1 = DisplayFact::Watched { missing: vec!["record".to_owned()] }),
        ];
        for (topic, spoil) in cases {
            let mut facts = all_is_well();
            spoil(&mut facts);
            assert_eq!(verdict(&facts, topic), Verdict::Less, "{topic}");
            let findings = judge(&facts);
            assert!(findings.iter().all(|finding| finding.verdict != Verdict::Bad), "{topic}");
            let less = findings.iter().find(|finding| finding.verdict == Verdict::Less).unwrap();
            assert!(less.instead.is_some() && less.fix.is_some());
        }
    }

    /// Without a daemon it is not the kernel's scheduler that runs the CPUs where another one is loaded.
    #[test]
    fn who_runs_the_cpus_instead_is_who_is_loaded() {
        let instead = |loaded: Option<&str>| {
            let facts = Facts { daemon: None, loaded: loaded.map(str::to_owned), ..all_is_well() };
            judge(&facts).into_iter().find(|finding| finding.topic == "daemon").unwrap().instead.unwrap()
        };
        assert!(instead(None).starts_with("the kernel's own"));
        assert!(instead(Some("scx_lavd_1.1.4")).starts_with("scx_lavd_1.1.4 runs"));
        assert!(instead(Some("limelight_0")).starts_with("the limelight that is loaded"));
    }

    /// What works meanwhile is said as it is on this machine: nothing is promised that another thing that is missing takes away.
    #[test]
    fn what_works_meanwhile_is_true_of_all_that_is_missing() {
        let without = Facts { sched_ext: false, ..all_is_well() };
        let instead = |facts: &Facts| sched_ext(facts).instead.unwrap();
        assert!(instead(&without).contains("spec suggest"), "{}", instead(&without));
        let blind = Facts { types: TypesFact::None, ..without.clone() };
        assert!(!instead(&blind).contains("spec suggest") && instead(&blind).contains("only spec check"));
        let other = Facts { loaded: Some("scx_lavd_1.1.4".to_owned()), ..all_is_well() };
        assert!(meanwhile(&other).starts_with("scx_lavd_1.1.4 runs the CPUs; "));
        // It goes on, and its promises with it.
        let ours = Facts { loaded: Some("limelight_0".to_owned()), kconfig: false, ..all_is_well() };
        assert!(!meanwhile(&ours).contains("libcoop") && meanwhile(&ours).contains("until it ends"));
    }

    /// Who has a stock Debian 13 is not told that its kernel will do: its 6.12 has no sched_ext.
    #[test]
    fn debians_own_kernel_is_not_recommended() {
        let facts = Facts { sched_ext: false, kernel: "6.12.43+deb13-amd64".to_owned(), ..all_is_well() };
        let fix = sched_ext(&facts).fix.unwrap();
        assert!(fix.contains("Debian 13's own is not") && fix.contains("backports"), "{fix}");
    }

    /// What a helper says of its display is told with its own fix: a cookie is of no help where an extension is missing.
    #[test]
    fn a_displays_fix_is_its_own() {
        let of = |reason: &str| {
            let displays = vec![(":6".to_owned(), DisplayFact::Refused(reason.to_owned()))];
            let found = judge(&Facts { displays, ..all_is_well() }).pop().unwrap();
            (found.found, found.fix.unwrap())
        };
        let (found, fix) = of("the X server of :6 has no RECORD extension; start it without `-extension RECORD`");
        assert!(found.ends_with("has no RECORD extension"), "{found}");
        assert_eq!(fix, "start it without `-extension RECORD`");
        assert!(of("it does not answer").1.contains("XAUTHORITY"));
    }

    /// Our own scheduler being loaded is as it should be.
    #[test]
    fn our_own_scheduler_is_no_other() {
        let facts = Facts { loaded: Some("limelight".to_owned()), ..all_is_well() };
        assert_eq!(verdict(&facts, "loaded scheduler"), Verdict::Good);
    }

    /// Versions are compared as numbers.
    #[test]
    fn six_twelve_is_newer_than_six_nine() {
        for (release, expected) in
            [("6.9.1", Verdict::Bad), ("6.12", Verdict::Good), ("6.18.15-1", Verdict::Good), ("", Verdict::Bad)]
        {
            let facts = Facts { kernel: release.to_owned(), ..all_is_well() };
            assert_eq!(verdict(&facts, "kernel"), expected, "{release}");
        }
    }
}
