# SPDX-License-Identifier: GPL-2.0-only
"""Inside a class CPU time follows the weights, nice and the cgroup hierarchy's cpu.weight (promise 4)."""

from dataclasses import replace

from tests.guests import LIMELIGHT, Guest

MACHINES = [LIMELIGHT, replace(LIMELIGHT, cpus=4)]
#: Seconds measured: some hundred slices for each process.
SECONDS = 5
#: A tenth: with slices of 5 ms and this many seconds, what is left over at the edges is a hundredth; the rest is for several CPUs.
TOLERANCE = 0.10
#: The kernel's own table (sched_prio_to_weight): nice 0 weighs 1024, nice 5 335.
NICE_0_TO_5 = 1024 / 335


def _hogs(guest: Guest, per_cpu: int, nice: int = 0) -> str:
    return ",".join([str(nice)] * per_cpu * guest.machine.options.cpus)


def _close(measured: float, expected: float) -> bool:
    return abs(measured / expected - 1) <= TOLERANCE


def test_cpu_weight_is_respected(guest: Guest) -> None:
    """Two cgroups of weight 100 and 300 share the CPUs 1:3, however many processes each has."""
    guest.start_limelight()
    for few, many in ((2, 2), (6, 2)):
        groups = guest.script("shares", SECONDS, f"a:100:{_hogs(guest, few)}", f"b:300:{_hogs(guest, many)}")["groups"]
        assert _close(groups["b"] / groups["a"], 3.0), f"{few} processes against {many}: {groups}"


def test_cpu_weight_is_respected_down_the_tree(guest: Guest) -> None:
    """Of two equal cgroups one has children of weight 100 and 300: they share their parent's half 1:3."""
    guest.start_limelight()
    hogs = _hogs(guest, 2)
    groups = guest.script("shares", SECONDS, "top:100:", f"top/x:100:{hogs}", f"top/y:300:{hogs}", f"other:100:{hogs}")["groups"]
    assert _close(groups["top"] / groups["other"], 1.0), groups
    assert _close(groups["top/y"] / groups["top/x"], 3.0), groups


def test_nice_is_respected(guest: Guest) -> None:
    """Processes of nice 0 and nice 5 in one cgroup share the CPU as the kernel's table of weights says, 3.06:1."""
    guest.start_limelight()
    per_cpu = guest.machine.options.cpus * 2
    nices = ",".join(["0"] * per_cpu + ["5"] * per_cpu)
    ran = guest.script("shares", SECONDS, f"a:100:{nices}")["processes"]
    assert _close(sum(ran[:per_cpu]) / sum(ran[per_cpu:]), NICE_0_TO_5), ran


def test_equals_get_equal_shares(guest: Guest) -> None:
    """Equal processes get equal time: Jain's index of their CPU times is at least 0.98."""
    guest.start_limelight()
    ran = guest.script("shares", SECONDS, f"a:100:{_hogs(guest, 5)}")["processes"]
    index = sum(ran) ** 2 / (len(ran) * sum(one * one for one in ran))
    assert index >= 0.98, ran
