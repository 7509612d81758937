# SPDX-License-Identifier: GPL-2.0-only
"""What a user may have of cooperative threads and groups, and what whoever has more is told (coop_set_group(3), coop_promise_error(3); promise 10)."""

import json

import pytest

from tests.guests import LIMELIGHT, Guest
from tests.playing import GROUPS
from tests.test_coop_answers import KEPT, NEVER, RIGHT, Call

MACHINES = [LIMELIGHT]
#: Cooperative threads that a user may have.
THREADS = 256
#: -ENODATA.
ENODATA = -61
#: COOP_PROMISE_NONE.
NONE = 0


def _explain(guest: Guest, pid: int) -> dict:
    """What `limelight explain` says of a process's threads."""
    return json.loads(guest.check(["limelight", "explain", "--json", str(pid)]))["cooperative"]


def _pair_told(calls: list[list[Call]], since: int, until: int) -> list[bool]:
    """Of each call of two threads in this time: was it told the other's user virtual time?"""
    return [call.told_least != NEVER for of_one in calls for call in of_one if since <= call.before and call.after < until]


@pytest.mark.everywhere
def test_a_group_too_many_is_of_one_thread_each(guest: Guest) -> None:
    """A user has 32 groups: two threads that name a 33rd are alone, which explain tells, and each keeps its releases; once another of the groups has ended,
    they are in one."""
    guest.start_limelight()
    first = guest.background("answers --seconds=8 " + " ".join(f"group={number},period-us=50000" for number in range(1, GROUPS + 1)), user="person")
    guest.wait_for(lambda: _explain(guest, first)["good"] >= GROUPS, "it has its groups")
    guest.check("sh -c 'setsid answers --seconds=14 group=33,step=1 group=33,step=2 >/run/test/pair 2>&1 </dev/null & echo $! >/run/test/pid'", user="person")
    pair = int(guest.check("sleep 3; cat /run/test/pid"))
    told = _explain(guest, pair)
    assert (told["registered"], told["ungrouped"]) == (2, 2)
    assert "alone for now, though a group is named" in guest.check(f"limelight explain {pair}")
    assert _explain(guest, first)["ungrouped"] == 0
    seen_ns = _now_ns(guest)
    guest.wait_until_gone(first)
    ended_ns = _now_ns(guest)
    guest.check("sleep 1")
    assert _explain(guest, pair)["ungrouped"] == 0
    guest.wait_until_gone(pair)
    threads = json.loads(guest.check("cat /run/test/pair"))["threads"]
    calls = [[Call(*call) for call in thread["calls"]] for thread in threads]
    assert [thread["error"] for thread in threads] == [0, 0]
    assert all(sum(call.promise == KEPT for call in of_one) >= RIGHT * len(of_one) > 0 for of_one in calls)
    alone, together = _pair_told(calls, 0, seen_ns), _pair_told(calls, ended_ns + 100_000_000, NEVER)
    print(len(alone), sum(alone), len(together), sum(together))
    assert len(alone) >= 100 and not any(alone)
    assert len(together) >= 100 and sum(together) >= RIGHT * len(together)


def _now_ns(guest: Guest) -> int:
    return int(guest.check(["python3", "-c", "import time; print(time.monotonic_ns())"]))


@pytest.mark.everywhere
def test_no_more_threads_of_a_user_are_believed_than_it_may_have(guest: Guest) -> None:
    """Of 300 threads in two processes of a user 256 are believed, by what explain says, and 44 are not; one more is told that nobody answers it, and why.
    When they have ended it is believed; and of root's all are."""
    guest.start_limelight()
    crowd = guest.background("crowd 300", user="person")
    guest.check("sleep 15")
    told = [_explain(guest, pid) for pid in guest.processes("crowd") if pid != crowd]
    print(told)
    assert sum(one["registered"] for one in told) == THREADS
    assert sum(one["not_believed"] for one in told) == 300 - THREADS
    assert sum(one["good"] + one["demoted"] + one["not_called"] for one in told) == THREADS
    beyond, = json.loads(guest.check("answers --seconds=1 step=1", "person"))["threads"]
    assert beyond["error"] == ENODATA
    assert all(Call(*call).promise == NONE and Call(*call).told == NEVER for call in beyond["calls"])
    guest.check(f"kill {crowd}; pkill -x crowd; while pgrep -x crowd; do sleep 0.1; done")
    within, = json.loads(guest.check("answers --seconds=1 step=1", "person"))["threads"]
    assert within["error"] == 0
    guest.background("crowd 300")
    guest.check("until [ \"$(tail -n 1 /run/test/crowd.log)\" = ready ]; do sleep 0.1; done")
