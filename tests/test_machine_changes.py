# SPDX-License-Identifier: GPL-2.0-only
"""The machine changes under it: CPUs go and come, the machine sleeps."""

from dataclasses import replace

from tests.guests import LIMELIGHT, LOAD_S, Guest, on

MACHINES = [replace(LIMELIGHT, cpus=4), replace(LIMELIGHT, cpus=4, kernel="6.18")]


def _in_charge_again(guest: Guest, daemon: int) -> None:
    guest.wait_for(lambda: guest.state() == "enabled", "limelight in charge again", LOAD_S)
    assert guest.is_running(daemon)


def test_cpus_may_go_and_come_back(guest: Guest) -> None:
    """A CPU taken away and given back restarts the scheduler in the same daemon; work goes on meanwhile and afterwards on all CPUs."""
    daemon = guest.start_limelight()
    load = guest.background("hogs bursty 8")
    for online in (0, 1):
        guest.check(f"echo {online} > /sys/devices/system/cpu/cpu3/online")
        guest.check("sleep 1")
        _in_charge_again(guest, daemon)
    assert "the set of CPUs changed" in guest.log()
    guest.check(f"kill {load}")


@on(replace(LIMELIGHT, cpus=4))
def test_it_sleeps_and_wakes_with_the_machine(guest: Guest) -> None:
    """After a suspend to memory, as far as the kernel's own test of it goes (all CPUs but one off), limelight is in charge again."""
    daemon = guest.start_limelight()
    guest.check("echo processors > /sys/power/pm_test && echo mem > /sys/power/state")
    guest.check("sleep 1")
    _in_charge_again(guest, daemon)
