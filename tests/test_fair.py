# SPDX-License-Identifier: GPL-2.0-only
"""Inside a class CPU time follows the weights, nice and the cgroup hierarchy's cpu.weight (promise 4)."""

from dataclasses import replace

import pytest

from tests.guests import FOUR, LIMELIGHT, Guest, jain, on
from vmlab.machine import Options

MACHINES = [LIMELIGHT]
ELSEWHERE = [replace(LIMELIGHT, **FOUR)]
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


@pytest.mark.everywhere
def test_cpu_weight_is_respected_down_the_tree(guest: Guest) -> None:
    """Of two equal cgroups one has children of weight 100 and 300: they share their parent's half 1:3."""
    guest.start_limelight()
    hogs = _hogs(guest, 2)
    groups = guest.script("shares", SECONDS, "top:100:", f"top/x:100:{hogs}", f"top/y:300:{hogs}", f"other:100:{hogs}")["groups"]
    assert _close(groups["top"] / groups["other"], 1.0), groups
    assert _close(groups["top/y"] / groups["top/x"], 3.0), groups


@on(LIMELIGHT, elsewhere=[replace(LIMELIGHT, **FOUR)])
def test_cpu_weight_is_respected_after_changes(guest: Guest) -> None:
    """What was made nicer, real-time, pinned or another cgroup's, and back again, while it ran or waited, counts as before."""
    guest.start_limelight()
    groups = guest.script("shares", SECONDS, "--stir", f"a:100:{_hogs(guest, 6)}", f"b:300:{_hogs(guest, 2)}")["groups"]
    assert _close(groups["b"] / groups["a"], 3.0), groups


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_cpu_weight_is_respected_beside_one_alone_on_its_cpu(guest: Guest) -> None:
    """Of a cgroup's two processes one, alone on its CPU, is made nicer and back as it runs: the other still has but half of the weight."""
    guest.start_limelight()
    _alone, half, whole = guest.script("shares", SECONDS, "--renice", "a:100:0@0,0@1", "b:100:0@1")["processes"]
    assert _close(whole / half, 2.0), f"{half} s against {whole} s"


@on(elsewhere=[replace(LIMELIGHT, **FOUR, llcs=2)])
def test_equals_get_equal_shares_whatever_cache(guest: Guest) -> None:
    """Nine equal processes, seven of them on the two CPUs of one cache, one on each of the other's, are let go: Jain's index is at least 0.98."""
    guest.start_limelight()
    places = ",".join(f"0@{number % 2}" for number in range(7))
    ran = guest.script("shares", SECONDS, "--spread", f"a:100:{places},0@2,0@3")["processes"]
    assert jain(ran) >= 0.98, ran


def test_nice_is_respected(guest: Guest) -> None:
    """Processes of nice 0 and nice 5 in one cgroup share the CPU as the kernel's table of weights says, 3.06:1."""
    guest.start_limelight()
    per_cpu = guest.machine.options.cpus * 2
    nices = ",".join(["0"] * per_cpu + ["5"] * per_cpu)
    ran = guest.script("shares", SECONDS, f"a:100:{nices}")["processes"]
    assert _close(sum(ran[:per_cpu]) / sum(ran[per_cpu:]), NICE_0_TO_5), ran


@on(LIMELIGHT, elsewhere=[replace(LIMELIGHT, **FOUR)])
def test_equals_get_equal_shares(guest: Guest) -> None:
    """Equal processes get equal time: Jain's index of their CPU times is at least 0.98."""
    guest.start_limelight()
    ran = guest.script("shares", SECONDS, f"a:100:{_hogs(guest, 5)}")["processes"]
    assert jain(ran) >= 0.98, ran


@pytest.mark.everywhere
@pytest.mark.parametrize(("flags", "least", "most"), [((), 180, 300), (("--period-ms=4", "--fair-slice-min-ms=0.1"), 900, 1100)])
@on(Options())
def test_the_period_is_what_it_was_set_to(guest: Guest, flags: tuple[str, ...], least: int, most: int) -> None:
    """Four that spin have the CPU once each in 20 ms, or in 4: as many switches a second as that takes, and those of whatever else runs beside them."""
    guest.start_limelight(*flags)
    spin = "for one in 1 2 3 4; do timeout 2 sh -c 'while :; do :; done' & done; wait"
    switches = f"switches() {{ awk '/^ctxt/ {{ print $2 }}' /proc/stat; }}; before=$(switches); {spin}; echo $(( $(switches) - before ))"
    assert least <= int(guest.check(switches)) / 2 <= most


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_who_goes_from_cpu_to_cpu_gains_nothing(guest: Guest) -> None:
    """A process that changes where it may run after each millisecond, beside three on each CPU that stay there, gets no more than its share of a CPU."""
    guest.start_limelight()
    # A quarter, and a tenth of that. The kernel's scheduler gave 247 thousandths; while debts were forgotten on the way it was 878.
    assert guest.script("hopper", 6)["got_pm"] <= 275


@pytest.mark.everywhere
@pytest.mark.parametrize("how", [(), ("--plain",)], ids=["cooperative", "ordinary"])
@on(LIMELIGHT, replace(LIMELIGHT, **FOUR))
def test_what_was_slept_through_is_lost(guest: Guest, how: tuple[str, ...]) -> None:
    """One that sleeps for 5 s beside three that spin wants all the CPU when it wakes: it has its quarter from then on, and not what it slept through; on
    several CPUs where those stay, too."""
    guest.start_limelight()
    seen = guest.script("slept", 3, *how)
    print(seen)
    # It has had its first work, and slept.
    assert seen["used_before_s"] >= 0.5
    assert seen["ran_asleep_s"] <= 0.001
    # In a tenth of a second a quarter of that, a slice (5 ms), and what a cooperative one may be ahead by (4 ms): with 1.25 s more to come it has all of it.
    assert seen["soon_s"] <= 0.1 / 4 + 0.009
    assert _close(seen["later_s"], 1 / 4)
