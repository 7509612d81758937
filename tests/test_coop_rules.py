# SPDX-License-Identifier: GPL-2.0-only
"""How cooperative threads go together with classes and weights (the rules at the head of sched/bpf/coop.bpf.h, and those of groups)."""

import json

import pytest

from tests.guests import DESKTOP, LIMELIGHT, Guest, jain, on, rare
from tests.playing import JAIN, KEPT, OTHERS, a_player

MACHINES = [LIMELIGHT]
#: Of the timers due, those of one that may be ahead of its class for a moment (rule 3), as one of four was in some runs: for a release or two. Where a
#: preemption demoted it, it was 0.1 to 0.2.
BELIEVED = 0.95
#: A fifth of the slack: a client that is woken, and perhaps the X server before it, had 0.08 at p99; where it waits for the slack, 0.39.
AT_ONCE_MS = 0.2
#: What a thread has of the CPU by its nice value, as the kernel has it.
HEAVY, LIGHT = 1024, 335
LIGHT_NICE = 5
#: So long plays a group.
GROUP_S = 6


def _start_used_client(guest: Guest, *options: str) -> int:
    """A client that the person points at all the time, and so of class HUCIN; returns its process id."""
    guest.start_limelight()
    client = guest.background(" ".join(["xclient --title used --draw-px 200", *options]), user="person")
    guest.background("person wander --title used --seconds 600 --out /dev/null", user="person")
    guest.wait_for_class(client, "HUCIN")
    return client


def _play_undemoted(guest: Guest, *players: str) -> list[dict]:
    """Players that run on for no longer than they may: so nobody is demoted for that."""
    before = guest.status()["counters"]
    seen = guest.script("adaptive", "spinning", 0, *players)
    after = guest.status()["counters"]
    print(seen, {name: after[name] - before[name] for name in after if name.startswith(("coop_", "share_", "wakeups_"))})
    assert after["coop_overran"] == before["coop_overran"]
    assert all(player["kept"] >= BELIEVED * player["timers"] > 0 for player in seen)
    return seen


@on(DESKTOP)
def test_a_more_urgent_class_waits_for_no_slack(guest: Guest) -> None:
    """A client that the person uses wakes every 5.5 ms beside four players that yield up to 0.6 ms after their slices, which is within the slack: it has the
    CPU at once, and they, preempted in the middle of what they do, are in good standing as ever."""
    client = _start_used_client(guest, "--work-us 50 --period-us 5503 --period-work-us 2000 --out /run/test/used.json")
    _play_undemoted(guest, *(a_player(number, "--event-us=600") for number in range(4)))
    guest.check(f"kill {client}; until [ -s /run/test/used.json ]; do sleep 0.1; done")
    # The last 5.5 s, with the 3 that count: of those in which they played one in a hundred may be later.
    late = sorted(json.loads(guest.check("cat /run/test/used.json"))["lateness_ns"][-1000:])
    print(late[-40:])
    assert len(late) == 1000
    assert late[-7] / 1e6 <= AT_ONCE_MS


@on(DESKTOP)
def test_the_end_of_a_guaranteed_share_demotes_nobody(guest: Guest) -> None:
    """Beside a client that the person uses and that takes all the CPU two players have the guaranteed share, in parts of half a millisecond; their events
    take 3 ms, so that no part ends with one: they are in good standing as ever, and have no more than the share."""
    _start_used_client(guest, "--spin --work-us 100")
    players = _play_undemoted(guest, *(f"--seconds=4,--period-us={100_000 + 1117 * number},--event-us=3000" for number in range(2)))
    # 5 to 6 % of 4 s.
    assert sum(player["cpu_ns"] for player in players) <= 0.07 * 4e9
    assert all(player["events"] > 0 for player in players)


def _member(number: int, *options: str) -> str:
    return a_player(number, f"--seconds={GROUP_S}", "--group=7", *options)


def _assert_due(cpu_ns: float, part: float) -> None:
    """Such a part of the CPU, and a tenth either way: timers come before the others' turns, and a light one has some 120 slices, and may be ahead by two."""
    assert 0.9 * part <= cpu_ns / (GROUP_S * 1e9) <= 1.1 * part


@pytest.mark.parametrize(("heavy", "light"), [("", f"nice:{LIGHT_NICE},"), rare("cgroup:heavy,", "cgroup:light,")], ids=["nice", "cgroups"])
def test_a_group_gives_a_light_member_no_more_than_its_weight(guest: Guest, heavy: str, light: str) -> None:
    """Of two players in one group one weighs a third of the other, by its nice value or its cgroup: it is behind in what they count, and so the one that
    matters more, but has what its weight gives it, and the other no less for that."""
    guest.check("echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; cd /sys/fs/cgroup; mkdir heavy light; echo 100 >heavy/cpu.weight; echo 33 >light/cpu.weight")
    guest.start_limelight()
    players = guest.script("adaptive", "spinning", OTHERS, heavy + _member(0), light + _member(1))
    print(players)
    # Where they took each other's turns it was 0.8.
    assert jain([player["cpu_ns"] / weight for player, weight in zip(players, (HEAVY, LIGHT))]) >= JAIN
    _assert_due(sum(player["cpu_ns"] for player in players), (HEAVY + LIGHT) / ((OTHERS + 1) * HEAVY + LIGHT))
    assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in players)


def test_who_becomes_lighter_leaves_those_that_do_not_to_share(guest: Guest) -> None:
    """Of three players in one group, whose events take 20, 100 and 300 us, the first becomes nicer as they begin to count: the other two run as many
    events as each other from then on, and all have what they weigh."""
    guest.start_limelight()
    nicer = f"renice:{LIGHT_NICE}@0,"
    players = guest.script("adaptive", "spinning", OTHERS, nicer + _member(0, "--event-us=20"), _member(1, "--event-us=100"), _member(2, "--event-us=300"))
    print(players)
    light, *pair = players
    all_weights = (OTHERS + 2) * HEAVY + LIGHT
    _assert_due(light["cpu_ns"], LIGHT / all_weights)
    _assert_due(sum(player["cpu_ns"] for player in pair), 2 * HEAVY / all_weights)
    assert jain([player["events"] for player in pair]) >= JAIN
    # In one group with them it would run as many events as they do.
    assert light["events"] > 1.5 * pair[0]["events"]


@pytest.mark.parametrize(("event_us", "is_ahead"), [(20, True), (200, False)], ids=["ahead", "behind"])
def test_members_of_one_weight_share_beside_one_of_another(guest: Guest, event_us: int, is_ahead: bool) -> None:
    """Of three players in one group two weigh the same, and their events take 100 and 300 us: they run as many, and together get what they would get alone,
    while the third, which weighs less, runs in its own turns, whether it is ahead of them in what they count or behind."""
    guest.start_limelight()
    players = guest.script("adaptive", "spinning", OTHERS, _member(0, "--event-us=100"), _member(1, "--event-us=300"),
                           f"nice:{LIGHT_NICE},{_member(2, f'--event-us={event_us}')}")
    print(players)
    *pair, light = players
    all_weights = (OTHERS + 2) * HEAVY + LIGHT
    assert (light["events"] > pair[1]["events"]) == is_ahead
    _assert_due(light["cpu_ns"], LIGHT / all_weights)
    _assert_due(sum(player["cpu_ns"] for player in pair), 2 * HEAVY / all_weights)
    # Each in its own turns it is 0.85; so it was beside one that was behind, which nobody of another weight could change places with.
    assert jain([player["events"] for player in pair]) >= JAIN
    assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in players)
