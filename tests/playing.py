# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of cooperative threads have in common: the players that they run, and how good is good enough."""

#: Ordinary programs that run beside the players.
OTHERS = 4
#: Of the timers due, those of a thread in good standing.
KEPT = 0.99
#: How even shares are.
JAIN = 0.98
#: How late a timer is at worst, in ms: an event of 0.1 ms is not interrupted, and the timers of several may come due at once.
LATE_WORST_MS = 1.0
#: And 99 of 100 of them: figure 5.1 of what the scheduler is to reach.
LATE_P99_MS = 0.5
#: Until a program has its page: the daemon is one of the first of class OTHER, and to enter a page the kernel waits for all CPUs.
UNTIL_KEPT_S = 3.0
#: Groups that a user may have.
GROUPS = 32


def a_player(number: int, *options: str) -> str:
    """The arguments of one player of several, for 3 s unless an option says otherwise."""
    # No period is a multiple of another, so that the timers meet in all ways; and always in the same, from where they are spread over the first period.
    # With phases by chance the order alone (one at a time, no event interrupted) had the 99th percentile of one in 500 above the bound.
    return ",".join(["--seconds=3", f"--period-us={20000 + 1117 * number}", f"--phase-us={2300 * number}", f"--seed={number + 1}", *options])
