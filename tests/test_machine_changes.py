# SPDX-License-Identifier: GPL-2.0-only
"""The machine changes under it: CPUs go and come, the machine sleeps."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.guests import DESKTOP, FOUR, LIMELIGHT, LOAD_S, NEXT_KEY_S, OLDER, Guest, on

#: With two CPUs each loading takes a quarter of what it takes with four.
MACHINES = [replace(LIMELIGHT, cpus=2)]
ELSEWHERE = [replace(LIMELIGHT, **FOUR), replace(LIMELIGHT, **OLDER, **FOUR)]


def _in_charge_again(guest: Guest, daemon: int, changes: int) -> None:
    guest.wait_for(lambda: guest.log().count("the set of CPUs changed") >= changes, "the daemon notices", LOAD_S)
    guest.wait_for(lambda: guest.state() == "enabled", "limelight in charge again", LOAD_S)
    assert guest.is_running(daemon)


def _set_online(guest: Guest, online: int) -> None:
    last = guest.machine.options.cpus - 1
    guest.check(f"echo {online} > /sys/devices/system/cpu/cpu{last}/online")
    guest.check("sleep 1")


def _busy_ticks(guest: Guest) -> list[int]:
    """Ticks that each CPU has spent on programs since the machine started."""
    lines = guest.check("grep -E '^cpu[0-9]' /proc/stat").splitlines()
    return [sum(int(ticks) for ticks in line.split()[1:4]) for line in lines]


@pytest.mark.everywhere
def test_cpus_may_go_and_come_back(guest: Guest) -> None:
    """A CPU taken away beside a load, and given back, restarts the scheduler in the same daemon; afterwards work goes on on all CPUs."""
    daemon = guest.start_limelight()
    cpus = guest.machine.options.cpus
    load = guest.background(f"hogs bursty {2 * cpus}")
    _set_online(guest, 0)
    # Not for longer: of several busy CPUs each has a part of the laboratory's, so that one loading takes 50 to 80 s of the guest's time.
    guest.check(f"kill {load}")
    _in_charge_again(guest, daemon, 1)
    _set_online(guest, 1)
    _in_charge_again(guest, daemon, 2)
    assert guest.log().count("the set of CPUs changed") == 2
    load = guest.background(f"hogs bursty {2 * cpus}")
    before = _busy_ticks(guest)
    guest.check("sleep 1")
    after = _busy_ticks(guest)
    guest.check(f"kill {load}")
    assert len(before) == len(after) == cpus
    # Two for each CPU, which want it for three quarters of the time each. The clock of /proc/stat has 10 ms.
    assert all(end - begin >= 50 for begin, end in zip(before, after)), f"ticks at work: {before}, and a second later {after}"


@pytest.mark.everywhere
@on(replace(LIMELIGHT, cpus=2), elsewhere=[replace(LIMELIGHT, **FOUR)])
def test_it_sleeps_and_wakes_with_the_machine(guest: Guest) -> None:
    """After a suspend to memory, as far as the kernel's own test of it goes (all CPUs but one off), limelight is in charge again."""
    daemon = guest.start_limelight()
    _sleep_and_wake(guest, daemon)


def _sleep_and_wake(guest: Guest, daemon: int) -> None:
    guest.check("echo processors > /sys/power/pm_test && echo mem > /sys/power/state")
    guest.check("sleep 1")
    _in_charge_again(guest, daemon, 1)


def _take_and_give_back(guest: Guest, daemon: int) -> None:
    for online in (0, 1):
        _set_online(guest, online)
        _in_charge_again(guest, daemon, 1 + online)


#: An input rating is gone by then: K seconds, and two passes.
FORGOTTEN_S = 15


@on(elsewhere=[replace(DESKTOP, cpus=2)])
@pytest.mark.parametrize("change", [_take_and_give_back, _sleep_and_wake])
def test_the_display_is_watched_on(guest: Guest, change: Callable[[Guest, int], None]) -> None:
    """The machine sleeps, or a CPU goes and comes back: the same helper watches on, and before the second key is due its client is HUCIN again, by the
    scheduler that was loaded since."""
    guest.background("xclient --title mine --work-us 500", user="person")
    daemon = guest.start_limelight()
    guest.wait_until_watched()
    guest.type("mine")
    helpers = guest.processes("limelight")
    assert len(helpers) == 2
    change(guest, daemon)
    assert guest.processes("limelight") == helpers
    guest.wait_until_watched()
    # Else it could be so by the key from before: the daemon tells the new scheduler what it knows.
    guest.wait_for(lambda: guest.classes().get("xclient") != "HUCIN", "the first key is forgotten", FORGOTTEN_S)
    guest.type("mine")
    guest.check(f"sleep {NEXT_KEY_S}")
    assert guest.classes()["xclient"] == "HUCIN"
