# SPDX-License-Identifier: GPL-2.0-only
"""Starting, answering and stopping, on both kernels, on one CPU and on four."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.guests import DESKTOP, FOUR, LIMELIGHT, LOAD_S, OLDER, SCRIPTS, Guest, assert_unchanged, on, rare
from vmlab.machine import Options

MACHINES = [LIMELIGHT]


@on(Options(), Options(**OLDER), elsewhere=[Options(**FOUR), Options(**OLDER, **FOUR)])
def test_takes_over_and_gives_back(guest: Guest) -> None:
    """The daemon takes charge of every task; after SIGTERM the kernel's own scheduler is back and nothing is left changed."""
    before = guest.knobs()
    pid = guest.start_limelight()
    assert guest.check("cat /sys/kernel/sched_ext/root/ops").startswith("limelight")
    guest.check("hogs chatty 8 --seconds 1 && hogs bursty 8 --seconds 1")
    assert guest.state() == "enabled"
    guest.check(f"kill {pid}")
    guest.wait_until_gone(pid)
    assert guest.state() == "disabled"
    assert_unchanged(guest, before)
    assert "the kernel's own scheduler runs the CPUs again" in guest.log()
    # On a kernel that knows fewer operations than we were built for libbpf would name each, at every start.
    assert "libbpf:" not in guest.log()
    assert "policy unified" in guest.log()


@pytest.mark.parametrize("policy", ["huc", rare("redline")])
@on(Options())
def test_the_papers_policies_start_too(guest: Guest, policy: str) -> None:
    """`--policy` with a paper's name takes charge and says that it is the one in force; only that which reserves has anything to say of specifications.
    Cooperative polling's is started in test_coop.py."""
    guest.start_limelight("--policy", policy)
    assert guest.status()["policy"] == policy
    assert (guest.run("limelight spec list").status == 0) == (policy == "redline")


#: /sys/kernel/btf/vmlinux of a kernel that describes no types, and two that are broken: no format of types at all, and one that ends early.
BROKEN_TYPES = (":", "head -c 100000 /dev/urandom", "head -c 1000000 /sys/kernel/btf/vmlinux")


@on(Options())
def test_a_kernel_whose_types_cannot_be_read_is_told_with_its_fix(guest: Guest) -> None:
    """Where the kernel's description of its types (BTF) is missing or broken, `limelight run` and doctor name it and the fix; nothing is changed."""
    before = guest.knobs()
    for made in BROKEN_TYPES:
        guest.check(f"{made} >/tmp/types && mount --bind /tmp/types /sys/kernel/btf/vmlinux")
        refused = guest.run("limelight run")
        assert refused.status == 1
        assert refused.stderr.count("\n") == 1 and "kernel types (BTF)" in refused.stderr and "CONFIG_DEBUG_INFO_BTF" in refused.stderr, refused.stderr
        advice = guest.run("limelight doctor")
        assert "MISSING  kernel types (BTF)" in advice.stdout and "CONFIG_DEBUG_INFO_BTF" in advice.stdout and advice.stderr == ""
        guest.check("umount /sys/kernel/btf/vmlinux")
    assert_unchanged(guest, before)


@pytest.mark.everywhere
@on(DESKTOP)
def test_khugepaged_passes_over_it(guest: Guest) -> None:
    """khugepaged, which holds the lock of the memory that it looks at for seconds on a loaded machine, looks at neither the daemon's nor a helper's."""
    guest.start_limelight()
    guest.wait_for(lambda: len(guest.processes("limelight")) == 2, "the helper runs")
    for pid in guest.processes("limelight"):
        assert "THP_enabled:\t0\n" in guest.check(f"cat /proc/{pid}/status")


def test_a_second_daemon_is_refused(guest: Guest) -> None:
    """A second `limelight run` ends with a message that names the first, and the first stays in charge."""
    guest.start_limelight()
    second = guest.run("limelight run")
    assert second.status == 1
    assert second.stderr.count("\n") == 1 and "another limelight daemon is running" in second.stderr, second.stderr
    assert guest.state() == "enabled"
    assert guest.status()["uptime_s"] >= 0


@on(Options())
def test_root_is_needed(guest: Guest) -> None:
    """An ordinary user is told that the daemon needs root, and how to start it; nothing is loaded."""
    refused = guest.run("limelight run", user="person")
    assert refused.status == 1 and "sudo limelight run" in refused.stderr
    assert guest.state() == "disabled"


def _is_left_in_charge(guest: Guest, name: str) -> None:
    before = guest.knobs()
    refused = guest.run("limelight run", timeout_s=LOAD_S)
    assert refused.status == 1
    assert refused.stderr.count("\n") == 1 and name in refused.stderr and "stop" in refused.stderr, refused.stderr
    assert name in guest.check("cat /sys/kernel/sched_ext/root/ops") and guest.state() == "enabled"
    assert_unchanged(guest, before)
    assert name in guest.run("limelight doctor").stdout


@on(elsewhere=[Options(sched="scx_bpfland")])
def test_another_scheduler_is_left_in_charge(guest: Guest) -> None:
    """Where another sched_ext scheduler is loaded, `limelight run` names it, says what to do, and leaves it and everything else alone."""
    _is_left_in_charge(guest, "bpfland")


@on(Options())
def test_any_other_scheduler_is_left_in_charge(guest: Guest, tmp_path: Path) -> None:
    """The same where it is one that needs no building of an hour: the least that the kernel takes for a scheduler, loaded by bpftool."""
    loaded = tmp_path / "stranger.o"
    compiler = os.environ.get("BPF_CLANG", "clang-19")
    subprocess.run([compiler, "-target", "bpf", "-g", "-O2", "-c", SCRIPTS / "stranger.bpf.c", "-o", loaded], check=True)
    guest.machine.put(loaded)
    guest.check("mkdir /sys/fs/bpf/stranger && bpftool struct_ops register /root/in/stranger.o /sys/fs/bpf/stranger")
    _is_left_in_charge(guest, "stranger")


@pytest.mark.everywhere
@on(Options())
def test_a_display_that_cannot_be_watched_is_told_with_its_fix(guest: Guest) -> None:
    """Of an X server without the extensions that are needed status and doctor say what is the matter, and what to do."""
    guest.background("Xvfb :6 -ac -extension RECORD -extension DAMAGE", user="person")
    guest.check("until [ -e /tmp/.X11-unix/X6 ]; do sleep 0.1; done")
    guest.start_limelight()
    guest.wait_for(lambda: any("no RECORD extension" in display["state"] for display in guest.status()["displays"]), "status says what is the matter")
    advice = guest.run("limelight doctor").stdout.partition("display: :6 cannot be watched: ")[2]
    assert "no RECORD extension" in advice and "fix: start it without `-extension RECORD`" in advice, advice


@on(DESKTOP)
def test_views_answer_by_who_asks(guest: Guest) -> None:
    """Root sees every rated process, their owner their own, another user none; the graph is root's."""
    guest.background("xclient --title mine --work-us 500", user="person")
    guest.start_limelight()
    guest.wait_until_watched()
    guest.type("mine")
    guest.wait_for(lambda: "xclient" in guest.rated(), "the client is rated")
    names = {user: _names_seen_by(guest, user) for user in ("root", "person", "nobody")}
    assert "xclient" in names["root"] and "xclient" in names["person"]
    assert names["nobody"] == set()
    assert guest.check("limelight graph").startswith("digraph")
    refused = guest.run("limelight graph", user="person")
    assert refused.status == 1 and "sudo limelight graph" in refused.stderr


def _names_seen_by(guest: Guest, user: str) -> set[str]:
    status = json.loads(guest.check(f"setpriv --reuid {user} --regid nogroup --clear-groups limelight status --json"))
    return {process["name"] for process in status["processes"]}


def test_statistics_are_served(guest: Guest) -> None:
    """The sched_ext ecosystem's statistics socket answers with the counters, by names and with descriptions, each a number of its own:
    the ecosystem's exporter takes nothing else (daemon/src/stats.rs has a test with that)."""
    guest.start_limelight()
    guest.check("hogs bursty 4 --seconds 2")
    answers = guest.script("scx_stats")
    assert answers["stats"]["uptime_s"] >= 1
    (described,) = (struct["fields"] for struct in answers["stats_meta"].values() if "top" in struct)
    assert described.keys() == answers["stats"].keys()
    assert all(field["datum"] == "u64" and field["desc"] for field in described.values())
    # Wake-ups are counted whatever runs.
    assert any(answers["stats"][name] > 0 for name in ("wakeups_direct", "wakeups_preempting", "wakeups_queued"))
