# SPDX-License-Identifier: GPL-2.0-only
"""Cooperative threads that sleep for long cost nobody anything, and are prompt when they wake (promises 3 and 10)."""

import re

from tests.guests import LIMELIGHT, Guest, on
from tests.playing import KEPT, OTHERS, a_player

#: Of two programs that wake each other 20,000 times. In virtual time two runs differ by a few thousandths.
SLOWER = 1.05
LATE_WORST_MS = 1.0


def _pipe_s(guest: Guest) -> float:
    found = re.search(r"Total time: ([0-9.]+)", guest.check("perf bench sched pipe -l 20000"))
    assert found
    return float(found[1])


@on(LIMELIGHT)
def test_who_sleeps_for_good_costs_others_nothing(guest: Guest) -> None:
    """Two programs that wake each other are as fast beside a cooperative thread of another user's that sleeps for good: 1.25 times as long it took
    them where each of their turns looked for releases."""
    guest.start_limelight()
    without_s = _pipe_s(guest)
    guest.background("crowd 1", user="person")
    guest.check("until grep -q ready /run/test/crowd.log; do sleep 0.1; done")
    assert _pipe_s(guest) <= SLOWER * without_s


@on(LIMELIGHT)
def test_who_sleeps_for_long_is_prompt(guest: Guest) -> None:
    """Four programs whose timers are 0.3 s apart, and who do nothing in between, beside four spinning: every one within 1 ms."""
    guest.start_limelight()
    rare = [a_player(number, f"--period-us={300_000 + 7_000 * number}", "--event-us=0", "--seconds=6") for number in range(4)]
    for player in guest.script("adaptive", "spinning", OTHERS, *rare):
        assert player["kept"] >= KEPT * player["timers"] > 0
        assert player["worst"] <= LATE_WORST_MS
