# SPDX-License-Identifier: GPL-2.0-only
"""What coop_poll(3) answers (cooperative polling, section 3.1) comes out of what the others have said, and of who waits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import pytest

from tests.guests import FOUR, LIMELIGHT, Guest, on

MACHINES = [LIMELIGHT]
NEVER = 2**64 - 1
#: COOP_PROMISE_KEPT.
KEPT = 2
#: A slice, in ns, by how many want the CPU (ll_fair_slice() in sched/bpf/math): 20 ms / N, a quarter of that at most, and 0.5 ms at least.
PERIOD_NS, LONGEST_NS, LEAST_NS = 20_000_000, 5_000_000, 500_000
#: From when an answer is made, as the thread is given the CPU, until that reads the clock: 9 to 12 us here, and an interrupt or two.
SINCE_NS = 60_000
#: Of the answers: what others have said is read a moment later than the answer is made, and somebody of the kernel's may have had the CPU in between.
RIGHT = 0.99


@dataclass
class Call:
    """One call of coop_poll() and its answer, as `answers` prints them."""

    before: int
    after: int
    own: int
    next: int
    told: int
    least: int
    told_least: int
    promise: int

    def is_release_right(self, slice_ns: int) -> bool:
        """Is what it was told the earliest release of others, or the end of its slice, if that is earlier? Where its own was due, the slice ends at once."""
        if self.own <= self.after:
            slice_ns = 0
        if self.told == self.next:
            return self.next <= self.after + slice_ns
        return self.told <= self.next and self.after - SINCE_NS <= self.told - slice_ns <= self.after

    def is_near(self, slice_ns: int) -> bool:
        """Is a release of others surely before the end of its slice, which is not over at once?"""
        return self.own > self.after and self.next < self.after + slice_ns - SINCE_NS


def _ask(guest: Guest, *words: str, user: str = "root") -> list[list[Call]]:
    """The calls of each thread of `answers`."""
    threads = json.loads(guest.check(["answers", *words], user))["threads"]
    return [[Call(*call) for call in thread["calls"]] for thread in threads]


def _part(questions: Sequence[bool]) -> float:
    print(len(questions), sum(questions))
    assert questions
    return sum(questions) / len(questions)


def _believed(calls: Sequence[Call]) -> list[Call]:
    """Those in good standing, which nearly all are: nobody here runs on."""
    believed = [call for call in calls if call.promise == KEPT]
    assert len(believed) >= RIGHT * len(calls) > 0
    return believed


def _slice_ns(waiting: int) -> int:
    return max(LEAST_NS, min(LONGEST_NS, PERIOD_NS // waiting))


def test_the_next_release_of_others_is_told(guest: Guest) -> None:
    """Two threads sleep until their timers, two have timers and other work: each of the two is told the earliest release among the three others, exactly,
    where that is before the end of its slice, and else that; never its own, which is often the first of all."""
    guest.start_limelight()
    slice_ns = _slice_ns(2)
    calls = _ask(guest, "--seconds=4", "period-us=7103", "period-us=11311", "period-us=5501,step=1", "period-us=4057,step=1")
    for of_thread in calls[2:]:
        believed = _believed(of_thread)
        print([call for call in believed if not call.is_release_right(slice_ns)][:5])
        assert _part([call.is_release_right(slice_ns) for call in believed]) >= RIGHT
        near = [call for call in believed if call.is_near(slice_ns)]
        # Of four timers, one of its own, nearly always one of the others' comes in 5 ms; and in one of four its own comes before.
        assert len(near) >= 100
        assert sum(call.own < call.next for call in near) >= 20
        assert _part([call.told == call.next for call in near]) >= RIGHT


def _assert_least_told(calls: Sequence[Call]) -> None:
    believed = _believed(calls)
    print([call for call in believed if call.told_least != call.least][:5])
    assert all(call.least != NEVER for call in believed)
    assert _part([call.told_least == call.least for call in believed]) >= RIGHT


def test_the_least_of_the_group_is_told(guest: Guest) -> None:
    """Of a group of three, of which a fourth member has no work, and one of two, each is told the least user virtual time of the others of its own group;
    two that are alone, though one has a group's number, are told that there is none."""
    guest.start_limelight()
    # Those of the second group are always behind those of the first, which would be told them if they were in one.
    groups = ["group=7,step=1000", "group=7,step=3000", "group=7,step=4000", "group=7,period-us=9001", "group=5,step=1", "group=5,step=2"]
    *members, alone, alone_in_group = _ask(guest, "--seconds=4", *groups, "step=1", "group=6,step=1")
    for calls in members:
        _assert_least_told(calls)
        assert len(calls) >= 100
    for calls in (alone, alone_in_group):
        assert all(call.told_least == NEVER for call in _believed(calls))


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_what_is_told_is_of_ones_own_cpu(guest: Guest) -> None:
    """On two of four CPUs is a part of one group each, and threads with timers: each is told the earliest release, and the least user virtual time, of its
    own CPU, though those on the other one are earlier and less."""
    guest.start_limelight()
    slow = ["period-us=11311,cpu=1", "group=7,period-us=9001,step=1000,cpu=1", "group=7,step=3000,cpu=1"]
    fast = ["period-us=2503,cpu=3", "group=7,period-us=3001,step=1,cpu=3", "group=7,step=2,cpu=3"]
    _, *two, _, three, four = _ask(guest, "--seconds=4", *slow, *fast)
    for calls in (*two, three, four):
        believed = _believed(calls)
        assert _part([call.is_release_right(_slice_ns(2)) for call in believed]) >= RIGHT
        _assert_least_told(calls)
    assert all(call.least < NEVER / 2 for call in _believed(three))


@pytest.mark.everywhere
def test_the_slice_is_the_period_by_those_who_wait(guest: Guest) -> None:
    """One thread, three, eight and sixty, and one beside seven that are not cooperative, none with a near release, are told that they have 20 ms / N, but
    5 ms at most and 0.5 at least."""
    guest.start_limelight()
    for count in (1, 3, 8, 60):
        _assert_slice(_ask(guest, "--seconds=1", *["period-us=100000000,step=1"] * count), _slice_ns(count))
    guest.background("hogs spinning 7")
    guest.check("sleep 1")
    _assert_slice(_ask(guest, "--seconds=2", "step=1"), _slice_ns(8))


def _assert_slice(threads: list[list[Call]], slice_ns: int) -> None:
    """A slice is sized by who waits, once in a millisecond: who wakes for a moment, a program of the laboratory's, counts until the next time."""
    told = sorted(call.told - call.after for calls in threads for call in calls if call.promise == KEPT)
    print(slice_ns, len(told), told[0], median(told), told[-1])
    assert len(told) >= 0.9 * sum(map(len, threads)) > 0
    assert slice_ns - SINCE_NS <= median(told) <= slice_ns
    assert _part([slice_ns - SINCE_NS <= one <= slice_ns for one in told]) >= 0.95
