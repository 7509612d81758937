# SPDX-License-Identifier: GPL-2.0-only
"""Cooperative threads run when they are due, share fairly, and are not believed (promises 3, 4 and 10)."""

import json
from dataclasses import replace

import pytest

from tests.guests import DESKTOP, FOUR, LIMELIGHT, OLDER, Guest, jain, on, rare
from tests.playing import GROUPS, JAIN, KEPT, LATE_P99_MS, LATE_WORST_MS, OTHERS, UNTIL_KEPT_S, a_player
from vmlab.machine import Options

MACHINES = [LIMELIGHT]
#: Eight of them and four others take all of the CPU (cooperative polling, section 5.2).
PLAYERS = 8
#: Beside a worker of the kernel's: the scheduler's part of it at its worst.
WORKER_WORST_MS = 0.5
#: Of the timers due, those of one that is demoted at one in 75, that and the next may not be: 0.98. Where a tenth of the slack demoted it on probation, 0.90.
BELIEVED = 0.95
#: And of one whose timers take more than its share.
PROMPT = 0.5
#: Promise 5.
WAIT_S = 1.0
#: Until the scheduler is loaded beside one that takes half of the CPU, 23.4 s, and a fifth for its next growth.
LOADED_BESIDE_S = 28
#: So long plays who outlives the daemon, and has eight seconds of the promise at least.
OUTLIVES_S = 40
#: Threads that one user registers: forty times what is admitted of one without privilege.
CROWD = 10_000


def _play(guest: Guest, kind: str, count: int, *programs: str) -> list[dict]:
    guest.start_limelight()
    return guest.script("adaptive", kind, count, *programs)


def _assert_timely(player: dict) -> None:
    assert 0 <= player["until_kept_ns"] <= UNTIL_KEPT_S * 1e9
    assert player["kept"] >= KEPT * player["timers"] > 0
    assert player["p99"] <= LATE_P99_MS
    assert player["worst"] <= LATE_WORST_MS


@pytest.mark.parametrize("kind", [rare("spinning"), "bursty", rare("chatty"), "make"])
@on(LIMELIGHT, elsewhere=[replace(LIMELIGHT, **OLDER)])
def test_a_release_is_kept_at_full_load(guest: Guest, kind: str) -> None:
    """Eight players that could each take all the CPU and four others: every timer within 1 ms of its time, and the CPU is shared evenly."""
    players = _play(guest, kind, OTHERS, *(a_player(number) for number in range(PLAYERS)))
    for player in players:
        _assert_timely(player)
    assert jain([player["cpu_ns"] for player in players]) >= JAIN


@pytest.mark.everywhere
@on(Options())
def test_a_release_is_kept_by_the_papers_policy_alone(guest: Guest) -> None:
    """The same beside four bursty ones under `--policy coop`, which rates nobody and reserves nothing."""
    guest.start_limelight("--policy", "coop")
    for player in guest.script("adaptive", "bursty", OTHERS, *(a_player(number) for number in range(PLAYERS))):
        _assert_timely(player)


@on(replace(LIMELIGHT, **FOUR))
def test_a_release_is_kept_where_others_move_between_cpus(guest: Guest) -> None:
    """Sixteen players on four CPUs beside eight compilers, which CPUs take from each other: every timer within 1 ms of its time. A CPU that another
    one has taken a task from has a clock that stands still (now_in_timer() in sched/bpf): slices ended 4 ms late. Events are of 25 us: a busy
    CPU has half the speed of one alone here, and an event of 0.1 ms is not interrupted for 0.2."""
    for player in _play(guest, "make", 8, *(a_player(number, "--event-us=25") for number in range(16))):
        assert player["kept"] >= KEPT * player["timers"] > 0
        assert player["worst"] <= LATE_WORST_MS


def test_a_group_shares_by_its_own_measure(guest: Guest) -> None:
    """Players of one group whose events take 50 to 200 us each run as many of them, and together get what they would get alone."""
    players = _play(guest, "spinning", OTHERS, *(a_player(n, f"--event-us={50 * (n + 1)}", "--group=7") for n in range(4)))
    assert jain([player["events"] for player in players]) >= JAIN
    # Half of 3 s, and a little for the timers, which come before the others' turns.
    assert 1.4e9 <= sum(player["cpu_ns"] for player in players) <= 1.7e9
    for player in players:
        _assert_timely(player)


def test_weights_divide_the_cpu_among_cooperative_threads(guest: Guest) -> None:
    """Of four players each of another nice value every one has the CPU by its weight, as the kernel's scheduler would have it, and all their timers."""
    weights = {0: 1024, 3: 526, 5: 335, 8: 172}
    players = _play(guest, "spinning", OTHERS, *(f"nice:{nice},{a_player(number)}" for number, nice in enumerate(weights)))
    assert jain([player["cpu_ns"] / weight for player, weight in zip(players, weights.values())]) >= JAIN
    for player in players:
        _assert_timely(player)


@pytest.mark.everywhere
def test_a_weight_that_changes_counts_from_then_on(guest: Guest) -> None:
    """One of two players becomes nicer by 5 in the middle of its 8 s: before, each has a sixth of the CPU, and after, each by its weight; and both have all
    their timers, those after the change, too."""
    players = _play(guest, "spinning", OTHERS, a_player(0, "--seconds=8"), f"renice:5@4,{a_player(1, '--seconds=8')}")
    before_after = 335 / (5 * 1024 + 335), 1024 / (5 * 1024 + 335)
    expected = [1 / 6 + before_after[1], 1 / 6 + before_after[0]]
    print(players)
    # That nothing changes would be 0.95, and that it counts from the beginning 0.90.
    assert jain([player["cpu_ns"] / share for player, share in zip(players, expected)]) >= 0.99
    for player in players:
        _assert_timely(player)


@pytest.mark.everywhere
def test_a_light_cgroups_player_has_its_share_and_its_timers(guest: Guest) -> None:
    """Of two players the one whose cgroup weighs a tenth of the other's has a tenth of that one's CPU, and either has all its timers: those of the light one
    take a seventh of its share."""
    guest.check("echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; cd /sys/fs/cgroup; mkdir heavy light; echo 100 >heavy/cpu.weight; echo 10 >light/cpu.weight")
    players = _play(guest, "spinning", OTHERS, f"cgroup:heavy,{a_player(0, '--seconds=6')}", f"cgroup:light,{a_player(1, '--seconds=6', '--timer-us=50')}")
    print(players)
    # Of some 60 slices that it has in this time a few more or less; of equals it would be 0.6.
    assert jain([player["cpu_ns"] / weight for player, weight in zip(players, (100, 10))]) >= JAIN
    for player in players:
        _assert_timely(player)


#: Two users, neither of them root, and where one passes a token on to the other.
OWNER, GUEST = "user:person", "user:nobody"
TOKEN = "/run/test/token"
#: Of two players in groups of their own, whose events take 50 and 200 us, the one gets through so many times as many: 3.5, as each costs 8 us more than it
#: takes. In one group it is 1.
ALONE = 3.0


def _two_users(guest: Guest, owner: str, visitor: str) -> list[dict]:
    guest.check("mkdir -p -m 1777 /run/test")
    return _play(guest, "spinning", OTHERS, f"{OWNER},{owner}", f"{GUEST},{visitor}")


@pytest.mark.parametrize("cgroups", [("", ""), rare(("cgroup:owners,", "cgroup:guests,"))], ids=["one-cgroup", "two-cgroups"])
@on(LIMELIGHT, elsewhere=[replace(LIMELIGHT, **OLDER)])
def test_two_users_share_a_group_by_a_token(guest: Guest, cgroups: tuple[str, str]) -> None:
    """A player is handed a token for another user's group: they run as many events, though one's take four times as long, and together get what they would
    get alone, as two of one user do; also where each user has a cgroup."""
    guest.check("echo +cpu >/sys/fs/cgroup/cgroup.subtree_control")
    players = _two_users(guest, cgroups[0] + a_player(0, "--event-us=50", "--group=7", f"--share={TOKEN}"),
                         cgroups[1] + a_player(1, "--event-us=200", "--group=5", f"--join={TOKEN}"))
    assert jain([player["events"] for player in players]) >= JAIN
    # A third of 3 s, two of six; a cgroup counts as one of the four others does. And a little for the timers, which come before the others' turns.
    assert 0.93e9 <= sum(player["cpu_ns"] for player in players) <= 1.13e9
    for player in players:
        _assert_timely(player)


@pytest.mark.everywhere
def test_the_same_number_of_another_user_is_another_group(guest: Guest) -> None:
    """Without a token each of two users has a group 7 of its own: the one's events are three times as many as the other's, which take four times as long."""
    one, other = _two_users(guest, a_player(0, "--event-us=50", "--group=7"), a_player(1, "--event-us=200", "--group=7"))
    assert one["events"] >= ALONE * other["events"]


def test_a_wrong_token_is_refused(guest: Guest) -> None:
    """Who hands in sixteen bytes that are no token, or one that was good until its owner ended, is told so, and nothing else happens."""
    guest.start_limelight()
    guest.check("mkdir -p -m 1777 /run/test")
    guest.check(f"adaptive --seconds=1 --group=7 --share={TOKEN}", user="person")
    for made in ("true", f"head -c 16 /dev/zero >{TOKEN}", f"head -c 16 /dev/urandom >{TOKEN}"):
        guest.check(made, user="person")
        refused = guest.run(f"adaptive --seconds=1 --group=5 --join={TOKEN}", user="person")
        assert refused.status == 2
        assert "Permission denied" in refused.stderr
    assert guest.state() == "enabled"


@pytest.mark.everywhere
def test_who_was_let_in_goes_on_without_its_owner(guest: Guest) -> None:
    """The process that gave a token ends, while two players of its user's and of the one it was for play on: each is in a group of its own user's from then
    on, and as timely as ever."""
    guest.start_limelight()
    guest.check("mkdir -p -m 1777 /run/test")
    # It ends a second before those begin to count, and after they have joined, or they would say so.
    guest.background(f"adaptive --seconds=3 --event-us=0 --group=7 --share={TOKEN}", user="person")
    one, other = _two_users(guest, a_player(0, "--event-us=50", "--group=7"), a_player(1, "--event-us=200", "--group=5", f"--join={TOKEN}"))
    assert one["events"] >= ALONE * other["events"]
    _assert_timely(one)
    _assert_timely(other)


@pytest.mark.everywhere
def test_a_guest_that_calls_no_more_does_not_live_on_the_group(guest: Guest) -> None:
    """Who was handed a token joins the group, and then goes on with one event for good, without a call: it has what anybody has, and the owner's player
    what it would have alone, though by what they said last the guest's events are the most important of the group."""
    guest.start_limelight()
    guest.check("mkdir -p -m 1777 /run/test")
    # It is let in before it begins with that event, or would say so.
    guest.background(f"runuser -u nobody -- adaptive --seconds=60 --event-us=1000000 --frame-us=10000000 --group=5 --join={TOKEN}")
    owner, = _play(guest, "spinning", OTHERS, f"{OWNER},{a_player(0, '--event-us=50', '--group=7', '--seconds=12', f'--share={TOKEN}')}")
    # One of six that want the CPU, for 12 s: 1.98 s of 2. The guest had nearly all of that where what it had said last was believed.
    assert owner["cpu_ns"] >= 0.95 * 12e9 / 6
    # At each of its own calls, once for a second of CPU, the guest is a member like others: the owner may come to the place in the order of virtual time that
    # the guest had, ahead of the class, and releases are not kept until that has caught up. In one of fourteen runs that was 15 of 595, else none.
    assert owner["kept"] >= BELIEVED * owner["timers"] > 0


@pytest.mark.everywhere
def test_guests_that_end_without_a_word_leave_room_for_others(guest: Guest) -> None:
    """Forty guests, one after the other, join a group by the same token and are killed: more than a user may have groups, or a process guests. The next one
    is let in as the first was, and shares as a member does."""
    guest.start_limelight()
    guest.check("mkdir -p -m 1777 /run/test")
    guest.background(f"adaptive --seconds=120 --event-us=0 --group=7 --share={TOKEN}", user="person")
    killed = f"runuser -u nobody -- timeout -s KILL 0.3 adaptive --event-us=50 --group=5 --join={TOKEN}; [ $? = 137 ]"
    guest.check(f"for i in $(seq 40); do {killed} || exit 1; done")
    one, other = _play(guest, "spinning", OTHERS, f"{OWNER},{a_player(0, '--event-us=50', '--group=7')}",
                       f"{GUEST},{a_player(1, '--event-us=200', '--group=5', f'--join={TOKEN}')}")
    assert jain([one["events"], other["events"]]) >= JAIN
    _assert_timely(one)
    _assert_timely(other)


def _cooperative_processes(guest: Guest) -> int:
    return sum(one["processes"] for one in guest.status()["cooperative"]["users"])


@pytest.mark.everywhere
def test_four_users_with_all_their_groups_leave_room_for_a_fifth(guest: Guest) -> None:
    """Four users have as many groups as each may have: two players of a fifth, in one group, run as many events, though one's take four times as long."""
    guest.start_limelight()
    member = "adaptive --seconds=600 --period-us=1000000 --timer-us=10 --event-us=0"
    for user in range(2000, 2004):
        guest.check(f"setsid setpriv --reuid={user} --regid={user} --clear-groups sh -c 'for i in $(seq {GROUPS}); do {member} --group=$i & done; wait' "
                    ">/dev/null 2>&1 </dev/null &")
    guest.wait_for(lambda: _cooperative_processes(guest) == 4 * GROUPS, "they have their pages", 30)
    # Each has its timer once a second, and calls then.
    guest.check("sleep 3")
    players = _play(guest, "spinning", OTHERS, *(f"{OWNER},{a_player(n, f'--event-us={50 * 4 ** n}', '--group=7')}" for n in range(2)))
    print(players)
    assert jain([player["events"] for player in players]) >= JAIN


@pytest.mark.everywhere
def test_guests_of_many_weights_leave_room_for_their_owner(guest: Guest) -> None:
    """Guests of twenty nice values are in each of two groups of another user's, and so there are more groups than a user may have: they count for who made
    them. Two players in a third group of the owner's share as ever."""
    guest.start_limelight()
    guest.check("mkdir -p -m 1777 /run/test")
    member = "adaptive --seconds=600 --period-us=1000000 --timer-us=10 --event-us=0"
    for gid in (7, 8):
        guest.background(f"{member} --group={gid} --share={TOKEN}{gid}", user="person")
    guest.wait_for(lambda: guest.run(f"[ -s {TOKEN}7 ] && [ -s {TOKEN}8 ]").status == 0, "there are tokens", 30)
    visitor = f"nice -n $nice runuser -u nobody -- {member} --group=5 --join={TOKEN}$gid"
    visitors = f"for gid in 7 8; do for nice in $(seq 0 19); do {visitor} & sleep 0.2; done; done; wait"
    guest.check(f"setsid sh -c '{visitors}' >/dev/null 2>&1 </dev/null &")
    guest.wait_for(lambda: _cooperative_processes(guest) == 42, "they have their pages", 30)
    # Each has its timer once a second, and calls then.
    guest.check("sleep 3")
    players = _play(guest, "spinning", OTHERS, *(f"{OWNER},{a_player(n, f'--event-us={50 * 4 ** n}', '--group=9')}" for n in range(2)))
    print(players)
    assert jain([player["events"] for player in players]) >= JAIN


@on(replace(LIMELIGHT, **FOUR))
def test_a_group_shares_by_its_own_measure_over_several_cpus(guest: Guest) -> None:
    """Players of one group on two of four CPUs, whose events take twice as long on one as on the other, run as many of them, and together get what they
    would get alone: of twelve programs on four CPUs a third of one each. Where each CPU's go by themselves the Jain index is 0.88. An event of 50 us
    takes 160 of a busy CPU's time here, and one of 200 twice as much."""
    programs = [f"cpu:{cpu},{a_player(number, f'--event-us={event_us}', '--group=7')}"
                for number, (cpu, event_us) in enumerate(((1, 50), (1, 50), (3, 200), (3, 200)))]
    players = _play(guest, "spinning", 8, *programs)
    print(players)
    assert jain([player["events"] for player in players]) >= JAIN
    # A third of a CPU each for 3 s, and a tenth either way: 4.28 where each CPU's go by themselves, for the timers, which come before others' turns.
    assert 3.6e9 <= sum(player["cpu_ns"] for player in players) <= 4.4e9
    assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in players)


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_two_users_share_a_group_on_each_of_four_cpus(guest: Guest) -> None:
    """On each of two of four CPUs a player is in a group with another user's by a token: those that share a CPU run as many events, though one's take four
    times as long. A group is one CPU's. Events are of 12 and 50 us: a busy CPU has half the speed here."""
    guest.check("mkdir -p -m 1777 /run/test")
    programs = [f"{user},cpu:{cpu},{a_player(2 * cpu + number, f'--event-us={event_us}', f'--group={group}', f'--{how}={TOKEN}-{cpu}')}"
                for cpu in (1, 3) for number, (user, event_us, group, how) in enumerate(((OWNER, 12, 7, "share"), (GUEST, 50, 5, "join")))]
    players = _play(guest, "spinning", 2 * PLAYERS, *programs)
    for pair in (players[:2], players[2:]):
        assert jain([player["events"] for player in pair]) >= JAIN
        assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in pair)


def test_who_yields_late_is_late_alone(guest: Guest) -> None:
    """One of eight players takes up to 10 ms more at one timer in ten: it is demoted, and no other's timer is late by more than the slack."""
    others = [a_player(number) for number in range(PLAYERS - 1)]
    *players, culprit = _play(guest, "spinning", OTHERS, *others, a_player(PLAYERS, "--late-pm=100", "--late-us=10000"))
    assert culprit["worst"] > LATE_WORST_MS
    for player in players:
        assert player["p99"] <= LATE_P99_MS + 1.0
        # What it runs beyond its slice before it is preempted: coop_slack.
        assert player["worst"] <= LATE_WORST_MS + 1.0


@pytest.mark.everywhere
@pytest.mark.parametrize(("slack_ms", "overruns"), [(1, True), (6, False)])
@on(Options())
def test_the_slack_is_what_it_was_set_to(guest: Guest, slack_ms: int, overruns: bool) -> None:
    """One of eight players takes up to 4 ms more at one timer in ten: that is more than a slack of 1 ms, and none of 6 is exceeded."""
    guest.start_limelight(f"--coop-slack-ms={slack_ms}")
    others = [a_player(number) for number in range(PLAYERS - 1)]
    guest.script("adaptive", "spinning", OTHERS, *others, a_player(PLAYERS, "--late-pm=100", "--late-us=4000"))
    assert (guest.status()["counters"]["coop_overran"] > 0) is overruns


@pytest.mark.everywhere
def test_who_sleeps_elsewhere_loses_what_it_slept_through(guest: Guest) -> None:
    """One of eight players sleeps up to 10 ms at one timer in ten without having said so: it is demoted each time, until its next call, which is in time
    again for nearly all of its timers; and no other is late for it."""
    others = [a_player(number) for number in range(PLAYERS - 1)]
    *players, culprit = _play(guest, "spinning", OTHERS, *others, a_player(PLAYERS, "--late-pm=100", "--late-us=10000", "--sleeps"))
    naps = culprit["timers"] / 10
    assert guest.status()["counters"]["coop_slept"] >= naps / 2
    assert culprit["kept"] >= 0.8 * culprit["timers"] > 0
    for player in players:
        _assert_timely(player)


def test_no_other_user_reaches_a_page(guest: Guest) -> None:
    """Who is neither its owner nor root opens no descriptor, mapping or memory of a player's, and none of the kernel's objects: root does, by the same
    ways."""
    guest.start_limelight()
    player = guest.background("adaptive --seconds=30", user="person")
    guest.wait_for(lambda: guest.run(f"grep -q bpf-map /proc/{player}/maps").status == 0, "it has its page")
    # Where anybody may read it.
    guest.check("cp /root/in/guest/peek.py /tmp")
    assert not any(guest.script("peek", player).values())
    refused = json.loads(guest.check(f"cd /tmp; runuser -u nobody -- python3 /tmp/peek.py {player}"))
    assert all(refused.values()), refused


@pytest.mark.everywhere
def test_who_yielded_late_is_punished_for_no_more_than_that(guest: Guest) -> None:
    """One of eight players takes up to 3 ms more at one timer in fifty; its events take 0.4 ms, which is within the slack, and more than the part of it that
    is left on probation. So it is late where it was demoted, and for one release after that, and keeps the others; and no other is late for it."""
    others = [a_player(number, "--seconds=8") for number in range(PLAYERS - 1)]
    *players, culprit = _play(guest, "spinning", OTHERS, *others, a_player(PLAYERS, "--late-pm=20", "--late-us=3000", "--event-us=400", "--seconds=8"))
    assert culprit["kept"] >= BELIEVED * culprit["timers"] > 0
    for player in players:
        assert player["kept"] >= KEPT * player["timers"] > 0
        assert player["worst"] <= LATE_WORST_MS + 1.0


@pytest.mark.everywhere
def test_who_always_yields_late_loses_the_slack(guest: Guest) -> None:
    """One of eight players takes 20 ms more at every timer: after the first few no other's timer has to wait for its slack to be over."""
    others = [a_player(number) for number in range(PLAYERS - 1)]
    *players, _ = _play(guest, "spinning", OTHERS, *others, a_player(PLAYERS, "--late-pm=1000", "--late-us=20000"))
    for player in players:
        # As beside nobody who is late; the slack would be 1 ms more.
        assert player["p99"] <= LATE_P99_MS


@pytest.mark.everywhere
def test_a_release_does_not_wait_for_the_kernels_workers(guest: Guest) -> None:
    """While another program writes to a file all the time, for which a worker of the kernel runs for a millisecond or two in one go, timers are kept."""
    guest.start_limelight()
    # khugepaged clears pages with preemption off, for up to 0.6 ms here, and nobody can take the CPU from it: that is not a worker's part.
    guest.check("echo never >/sys/kernel/mm/transparent_hugepage/enabled")
    guest.check("sysctl -q vm.dirty_writeback_centisecs=10 vm.dirty_expire_centisecs=10")
    guest.background("sh -c 'while :; do dd if=/dev/zero of=/var/tmp/written bs=1M count=48 conv=notrunc status=none; sleep 0.1; done'")
    player, = guest.script("adaptive", "spinning", OTHERS, "--seconds=12,--period-us=2503,--timer-us=100")
    _assert_timely(player)
    # 0.1 ms of the worker, and what the scheduler may take, however many workers there are: 0.19; with 0.25 it was 0.31 to 0.33. Without that 0.6 to 2.
    assert player["worst"] <= WORKER_WORST_MS


def test_who_is_always_due_gains_nothing(guest: Guest) -> None:
    """A program whose timers are due all the time gets no more CPU than each of three others that spin."""
    greedy, = _play(guest, "spinning", 3, "--seconds=4,--period-us=100,--timer-us=100,--event-us=0")
    # A quarter of 4 s, and what it may be ahead by.
    assert greedy["cpu_ns"] <= 1.1 * 4e9 / 4
    assert greedy["kept"] < greedy["timers"]


@pytest.mark.everywhere
def test_who_was_ahead_is_believed_again_when_its_class_has_caught_up(guest: Guest) -> None:
    """A player's timers take 18 % of the CPU, a little more than its sixth: beside five that spin it is ahead of its class again and again, and its
    releases are not kept then. It is preempted in the middle of what it does, and believed again in its next turn: most of its releases are kept."""
    player, = _play(guest, "spinning", 5, "--seconds=6,--period-us=5003,--timer-us=900,--event-us=900")
    # 0.75; 0.01 where it was told of one slice after the other, and did not call at the end of any.
    assert player["kept"] >= PROMPT * player["timers"] > 0
    assert player["cpu_ns"] <= 1.1 * 6e9 / 6


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_a_thread_stays_on_its_cpu_and_shares_it(guest: Guest) -> None:
    """On four CPUs twelve players spread evenly, and share evenly beside sixteen others; ten times a second each is seen on the CPU it was on at first."""
    players = _play(guest, "spinning", 2 * PLAYERS, *(a_player(number) for number in range(12)))
    assert [player["cpus"] for player in players] == [1] * 12
    assert jain([player["cpu_ns"] for player in players]) >= JAIN
    assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in players)


@on(DESKTOP)
def test_a_release_does_not_beat_who_serves_the_person(guest: Guest) -> None:
    """Beside a program that the person uses and that takes all the CPU, players of class OTHER that are always due get the guaranteed share."""
    guest.background("xclient --title greedy --spin --work-us 500", user="person")
    guest.start_limelight()
    guest.background("person wander --title greedy --seconds 600 --out /dev/null", user="person")
    guest.wait_for(lambda: guest.rated().get("xclient", {}).get("class") == "HUCIN", "the client is HUCIN")
    players = guest.script("adaptive", "spinning", 0, *(["--seconds=4,--period-us=1000,--timer-us=500,--event-us=100"] * 3))
    assert guest.rated()["xclient"]["class"] == "HUCIN"
    # 5 to 6 % of 4 s.
    assert sum(player["cpu_ns"] for player in players) <= 0.07 * 4e9


def _start_due_client(guest: Guest) -> int:
    """A client with a timer each 20 ms, under coop-run; returns its process id."""
    guest.start_limelight()
    guest.install_coop_run()
    animated = "--work-us 100 --period-us 20000 --period-work-us 100 --draw-px 200"
    return guest.background(f"coop-run xclient --title due --geometry 300x200+0+0 {animated} --out /run/test/due.json", user="person")


def _assert_last_timers_kept(guest: Guest, client: int) -> None:
    """Of the last 2 s; at its end it is sent a signal."""
    guest.check(f"kill {client}; until [ -s /run/test/due.json ]; do sleep 0.1; done")
    late = json.loads(guest.check("cat /run/test/due.json"))["lateness_ns"][-90:]
    print(sorted(late)[-10:])
    assert len(late) == 90
    assert sorted(late)[-2] / 1e6 <= LATE_WORST_MS


@on(DESKTOP)
def test_who_is_typed_into_keeps_class_and_releases(guest: Guest) -> None:
    """A client that is typed into (HUCIN) polls cooperatively: beside another of its class, which spins, players of class OTHER that are always due, and
    others that spin, it stays of its class, and its timers come within 1 ms."""
    due = _start_due_client(guest)
    greedy = guest.background("xclient --title greedy --geometry 300x200+320+0 --spin --work-us 100", user="person")
    guest.background("hogs spinning 4")
    for _ in range(3):
        guest.background("adaptive --seconds=60 --period-us=1000 --timer-us=500 --event-us=100", user="person")
    guest.background("person wander --title due --seconds 600 --out /dev/null", user="person")
    guest.wait_for_class(due, "HUCIN")
    # One key makes it so for some seconds.
    guest.type("greedy")
    guest.wait_for_class(greedy, "HUCIN")
    guest.check("sleep 2.5")
    assert [one["class"] for one in guest.status()["processes"] if one["pid"] in (due, greedy)] == ["HUCIN"] * 2
    assert sum(user["processes"] for user in guest.status()["cooperative"]["users"]) == 4
    _assert_last_timers_kept(guest, due)


@pytest.mark.everywhere
@on(DESKTOP)
def test_who_is_seen_keeps_class_and_releases(guest: Guest) -> None:
    """A client that wakes every 20 ms and is seen (HUCOUT) polls cooperatively: beside another of its class, which spins, and ten of class OTHER it stays of
    its class, and its timers come within 1 ms."""
    due = _start_due_client(guest)
    guest.background("xclient --title greedy --geometry 300x200+320+0 --spin --period-us 100000 --draw-px 200", user="person")
    guest.background("hogs spinning 10")
    guest.wait_for(lambda: [one["class"] for one in guest.status()["processes"] if one["name"] == "xclient"] == ["HUCOUT"] * 2, "both are HUCOUT", 20)
    guest.check("sleep 3")
    seen = guest.status()
    assert {one["class"] for one in seen["processes"] if one["pid"] == due} == {"HUCOUT"}
    assert seen["cooperative"]["users"][0]["processes"] == 1
    _assert_last_timers_kept(guest, due)


def test_a_page_full_of_nonsense_harms_nobody(guest: Guest) -> None:
    """Three processes of a user scribble over their pages for as long as eight players play: those are as timely as ever, and limelight stays."""
    daemon = guest.start_limelight()
    for seed in range(1, 4):
        guest.background(f"vandal 8 {seed}", user="person")
    players = guest.script("adaptive", "spinning", OTHERS, *(a_player(number) for number in range(PLAYERS)))
    assert guest.state() == "enabled"
    assert guest.is_running(daemon)
    for player in players:
        assert player["kept"] >= KEPT * player["timers"] > 0
        # A vandal that looks like a thread in good standing has the slack.
        assert player["worst"] <= LATE_WORST_MS + 1.0


def test_players_outlive_the_daemon(guest: Guest) -> None:
    """Limelight is killed while a player plays: that goes on without the promise, and has it again within four seconds of the next one's being there."""
    daemon = guest.start_limelight()
    guest.background(f"sh -c 'adaptive --seconds={OUTLIVES_S} >/run/test/played'")
    guest.check("sleep 2")
    guest.check(f"kill -9 {daemon}")
    killed_s = guest.uptime_s()
    guest.check("until [ $(cat /sys/kernel/sched_ext/state) = disabled ]; do sleep 0.05; done")
    guest.start_limelight()
    without_s = guest.uptime_s() - killed_s
    guest.check("until [ -s /run/test/played ]; do sleep 0.1; done")
    kept = float(guest.check("""python3 -c 'import json; s = json.load(open("/run/test/played")); print(s["kept"] / s["timers"])'"""))
    print(kept, without_s)
    # Half of the CPU is the player's: 23.4 s were seen, and some 14 when the scheduler was smaller.
    assert without_s <= LOADED_BESIDE_S
    # A player asks again each second, and has its page then.
    assert 1.0 - (without_s + 1.0 + UNTIL_KEPT_S) / OUTLIVES_S <= kept <= 0.95


@pytest.mark.everywhere
def test_who_is_always_due_and_always_new_starves_nobody(guest: Guest) -> None:
    """190 threads that are always due, each replaced by a new one after 3 ms of CPU: a hundred processes beside them each run again within a second."""
    guest.start_limelight()
    seen = guest.script("waits", 100, 6, "chrt", "-o", "0", "runuser", "-u", "person", "dueflood", 190, 3)
    assert guest.state() == "enabled"
    assert seen["never_ran"] == 0
    assert seen["longest_s"] <= WAIT_S


@on(elsewhere=[LIMELIGHT])
def test_ten_thousand_threads_of_a_user_make_nobody_late(guest: Guest) -> None:
    """A user starts ten thousand cooperative threads: of those so many are believed as one user may have, and the timers of four players of another user are
    kept as ever."""
    guest.start_limelight()
    guest.background(f"prlimit --nproc={2 * CROWD} runuser -u person -- crowd {CROWD}")
    guest.wait_for(lambda: int(guest.check("cut -d/ -f2 /proc/loadavg").split()[0]) >= CROWD, "they are all there", 120)
    players = _play(guest, "spinning", OTHERS, *(a_player(number) for number in range(4)))
    print(players)
    for player in players:
        assert player["kept"] >= KEPT * player["timers"] > 0
        assert player["worst"] <= LATE_WORST_MS
    assert guest.is_running(int(guest.check("pgrep -o -x limelight")))
    assert guest.state() == "enabled"


@pytest.mark.parametrize("life_ms", [3, rare(10000)])
def test_who_is_always_due_makes_nobody_late(guest: Guest, life_ms: int) -> None:
    """Twenty threads of a user that are always due, new ones every 3 ms of CPU or the same ones all the time: four players' timers are kept, and less than
    3 ms late: those that were due a moment ago (coop_slack) go before, and some of them have an event of 0.5 ms."""
    guest.start_limelight()
    guest.background(f"dueflood 20 {life_ms}", user="person")
    guest.wait_for(lambda: len(guest.run("pgrep -x dueflood >/dev/null && ls /proc/$(pgrep -x dueflood)/task").stdout.split()) > 10, "it floods", 30)
    for player in _play(guest, "spinning", OTHERS, *(a_player(number) for number in range(4))):
        assert player["kept"] >= KEPT * player["timers"] > 0
        assert player["worst"] <= 3.0


def test_threads_that_end_without_a_word_leave_their_slots(guest: Guest) -> None:
    """Of a thousand threads and more, 20 at a time, that do not give back their slots, nine in ten have one: there are 255."""
    guest.start_limelight()
    # Once before, for it to be read in: an idle guest's clock runs on while a slow disk is read, and of the six seconds three had gone so.
    guest.run("timeout 1 dueflood 20 3")
    seen = json.loads(guest.run("timeout 6 dueflood 20 3").stdout)
    assert seen["threads"] > 1000
    assert seen["kept"] >= 0.9 * seen["threads"]


@pytest.mark.everywhere
def test_who_sleeps_until_the_past_interrupts_nobody(guest: Guest) -> None:
    """Twenty threads sleep for good, until a time that is over, as they say: four players and four others switch no more often than by their slices."""
    guest.start_limelight()
    sleepers = guest.background("dueflood 20 0")
    before = guest.status()["counters"]
    _play(guest, "spinning", 4, *(a_player(number) for number in range(4)))
    after = guest.status()["counters"]
    guest.check(f"kill {sleepers}")
    # For 10 s slices of 20 ms / 8, and 50 timers a second of each player.
    assert after["dispatched_other"] - before["dispatched_other"] <= 10 * (400 + 4 * 50)


@pytest.mark.everywhere
@on(replace(LIMELIGHT, **FOUR))
def test_to_change_where_a_thread_may_run_is_no_sleep(guest: Guest) -> None:
    """Somebody changes the affinity of four players 1,000 times while they play: that moves them, and demotes nobody."""
    guest.start_limelight()
    before = guest.status()["counters"]
    guest.background("python3 /root/in/guest/mover.py adaptive 4 1000")
    players = guest.script("adaptive", "spinning", 8, *(a_player(number) for number in range(4)))
    after = guest.status()["counters"]
    print({name: after[name] - before[name] for name in after if name.startswith("coop_")}, [(one["kept"], one["timers"], one["worst"]) for one in players])
    assert all(player["kept"] >= KEPT * player["timers"] > 0 for player in players)
    # Each of them sleeps elsewhere when it starts and ends, a few times.
    assert after["coop_slept"] - before["coop_slept"] <= 4 * 5
