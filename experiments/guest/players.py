# SPDX-License-Identifier: GPL-2.0-only
"""Adaptive players beside a load: what the cooperative polling paper measures (EuroSys 2009, section 5).

A player is `adaptive`: a timer of its own period, and best-effort events that could take all the CPU. Under limelight it polls cooperatively;
under any other scheduler it does the same as an ordinary process, or as one of SCHED_RR or SCHED_DEADLINE where that is the yardstick.

How late a timer is has two parts. From its release to the first moment at which its thread has the CPU is the scheduler's (`dispatch`), by the
kernel's trace points; from its release to its callback is what the program sees (`tardiness`), its own event that ran just then included.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import desk
from vandals import COMPANY, Company, who_is_in_charge

#: From the moment they are let go until they have their pages, and are in step: the daemon is one of the first of class OTHER, and to enter a page
#: the kernel waits for all CPUs.
BEGIN_S = 5
#: The trace ends after the last timer that counts.
TRACE_AFTER_S = 1
#: How long before the first timer that counts the books are read: to read them takes some ms, in which nobody else runs.
ASIDE_S = 0.1
#: They play on while the books are read at the end, which may be a second late: no timer counts then.
LINGER_S = 2
#: What the players do in the last tenth of a second counts for nothing: who ends is a player no more.
LEAVE_S = 0.1
#: A frame's CPU time, and by how much that of a scene may differ: at a twelfth of the CPU some 40 frames a second.
FRAME_US = 2_000
VARY_PCT = 50
#: A player waits to be told when it begins: it is traced before it plays.
GATE = ("sh", "-c", 'read -r begin; exec "$@" --begin-ns="$begin"', "sh")
#: No period is a multiple of another, so that the timers meet in all ways: 50 to 36 a second.
PERIOD_US = 20_000
PERIOD_STEP_US = 1_117
#: A timer's work is to show what is decoded, an event's a part of a frame (the paper has under 1 ms for both): short, so that what is measured
#: is the scheduler's doing, and not how long the others' events are.
TIMER_US = 50
EVENT_US = 50
#: KiB of trace for a second of eight players: 3,000 switches of 80 bytes.
TRACE_KB_PER_S = 400
#: What one SCHED_DEADLINE player may reserve at most, all of them together: the kernel keeps a twentieth for the others.
RESERVED_PM = 900
GROUP = 7
#: Mean CPU time of a frame of each film, as unlike as the bit rates in the paper's Figure 9.
FILMS_US = (1_200, 2_800, 2_000, 3_600, 1_000, 3_200, 1_600, 2_400)
#: The misbehaving player yields up to so much later (section 5.5).
LATE_US = 10_000
#: The film of Figure 13: 30 frames a second, of which seven such films take all the CPU; five frames may wait to be shown.
FILM_PERIOD_US = 33_333
SATURATE = 7
AHEAD = 5
#: Instructions of a step of adaptive's work (workloads/src/common.c, burn_steps), as Debian 12's compiler makes it.
STEP_INSTRUCTIONS = 7
#: Between two pictures, as syncshow has them, in the mean.
PICTURE_S = 0.033
#: The kernel's slice, and the least it takes.
SLICE_NS = Path("/sys/kernel/debug/sched/base_slice_ns")
SLICE_LEAST_US = 100


@dataclass
class Cast:
    """Who plays: the players' options by number, and the load beside them."""

    players: int
    load: str = "none"
    count: int = 0
    seconds: int = 10
    seed: int = 1
    grouped: bool = False
    event_us: int = EVENT_US
    timer_us: int = TIMER_US
    frame_us: int = FRAME_US
    vary_pct: int = VARY_PCT
    #: whether the players poll cooperatively; None: where limelight is measured
    cooperative: bool | None = None
    #: further options of player `number`
    options: Callable[[int], Sequence[str]] = lambda _number: ()

    def command(self, number: int) -> list[str]:
        """How player `number` is started."""
        cooperative = desk.scheduler() == "limelight" if self.cooperative is None else self.cooperative
        words = [
            *GATE, "adaptive", f"--seconds={self.seconds + LINGER_S}", f"--period-us={PERIOD_US + PERIOD_STEP_US * number}",
            f"--timer-us={self.timer_us}", f"--event-us={self.event_us}", f"--frame-us={self.frame_us}", f"--vary-pct={self.vary_pct}",
            f"--seed={self.seed + number}",
        ]
        if not cooperative:
            words.append("--plain")
        elif self.grouped:
            words.append(f"--group={GROUP}")
        if desk.scheduler() == "deadline":
            words.append(f"--deadline-pm={self.reserved_pm()}")
        return [*words, *self.options(number)]

    def reserved_pm(self) -> int:
        """What a player reserves of one CPU: what would be its fair share."""
        cpus = os.cpu_count() or 1
        return min(1000, 1000 * cpus // (self.players + self.count * cpus), RESERVED_PM * cpus // self.players)


@dataclass
class Played:
    """What came of it; times in ns, a list per player."""

    seen: list[dict]
    cpu_ns: list[int]
    load_cpu_s: float
    switches: int
    seconds: float  # in which the CPU time was used
    counted_s: float  # in which the players counted what they did
    dispatch_ns: list[list[int]] = field(default_factory=list)
    trace: dict = field(default_factory=dict)  # what wakelat recorded

    def tardiness_ns(self, players: Sequence[int]) -> list[int]:
        """From release to callback, of some of the players."""
        return [late for number in players for late in self.seen[number]["late_ns"]]

    def latest_p99_ms(self) -> float:
        """The p99 from release to callback of the player whose own is the greatest."""
        return max(percentile(self.tardiness_ns([number]), 99) for number in range(len(self.seen))) / 1e6

    def series(self, players: Sequence[int] | None = None, prefix: str = "") -> dict[str, dict]:
        """Both parts of how late the timers were, of some of the players or of all."""
        chosen = range(len(self.seen)) if players is None else players
        found = {f"{prefix}tardiness": desk.series(self.tardiness_ns(chosen), "release to callback, virtual-time stamps of the program")}
        if self.dispatch_ns:
            dispatch = [late for number in chosen for late in self.dispatch_ns[number]]
            found[f"{prefix}dispatch"] = desk.series(dispatch, "release (told by the program) to running (kernel trace point sched_switch)")
        return found

    def least_jain_of_seconds(self) -> float:
        """Of the CPU time of each second, by the players' own clocks: 0 where one had none for a second."""
        seconds = [[after - before for before, after in zip(one["cpu_at_ns"], one["cpu_at_ns"][1:])] for one in self.seen]
        least = min(map(len, seconds))
        return min((jain([of_one[at] for of_one in seconds]) for at in range(least)), default=0.0) if least >= self.counted_s - 2 else 0.0

    def metrics(self) -> dict[str, float]:
        """Shares of the CPU, frames, and what they cost."""
        players = range(len(self.seen))
        used = self.cpu_ns
        frames = [seen["frames"] / self.counted_s for seen in self.seen]
        timers = sum(seen["timers"] for seen in self.seen)
        found = {
            "players_cpu_pct": 100 * sum(used) / 1e9 / self.seconds,
            "load_cpu_pct": 100 * self.load_cpu_s / self.seconds,
            "jain_cpu": jain(used),
            "jain_cpu_least": self.least_jain_of_seconds(),
            "jain_frames": jain(frames),
            "frames_per_s": sum(frames) / len(frames),
            "shown_per_s": sum(seen["shown"] for seen in self.seen) / self.counted_s / len(frames),
            "events_per_s": sum(seen["events"] for seen in self.seen) / self.counted_s,
            "switches_per_s": self.switches / self.seconds,
            "kept_pct": 100 * sum(seen["kept"] for seen in self.seen) / max(1, timers),
        }
        found |= {f"cpu_pct.{number + 1}": 100 * used[number] / 1e9 / self.seconds for number in players}
        found |= {f"frames_per_s.{number + 1}": frames[number] for number in players}
        return found


def _usage(player: subprocess.Popen) -> int:
    return int(desk.read(f"/proc/{player.pid}/schedstat").split()[0])


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are equal, 1/n where one has everything (Jain 1984, as in the paper's section 5.3)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def percentile(values: Sequence[int], rank_pct: float) -> float:
    """Nearest rank, as everywhere here."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(rank_pct * len(ordered) / 100)) - 1]


def time_to_running(releases_ns: Sequence[int], began_ns: Sequence[int], ended_ns: Sequence[int]) -> list[int]:
    """For each release: how long until its thread, whose runs are told, had the CPU; 0 where it had it then."""
    late = []
    for release in releases_ns:
        at = bisect_right(ended_ns, release)
        if at < len(began_ns):
            late.append(max(0, began_ns[at] - release))
    return late


def _switches() -> int:
    return next(int(line.split()[1]) for line in desk.read("/proc/stat").splitlines() if line.startswith("ctxt"))


def _become_round_robin() -> None:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def class_of_players() -> Callable[[], None] | None:
    """What a new process does before it is a player, or works for one: beside players of SCHED_RR that take all there is an ordinary one would not get to
    be one."""
    return _become_round_robin if desk.scheduler() == "rr" else None


def _sleep_until(when_s: float) -> None:
    time.sleep(max(0.0, when_s - time.monotonic()))


@dataclass
class Watch:
    """What is done while they play: whether they are traced, who else is (name to process), and something `meanwhile`."""

    trace: bool = True
    others: dict[str, int] = field(default_factory=dict)
    meanwhile: Callable[[], None] | None = None


def play(cast: Cast, watch: Watch | None = None) -> Played:
    """Starts load and players, lets them play, and returns what was seen of them."""
    load = desk.start_load(cast.load, cast.count, cast.seed)
    running = []
    try:
        for number in range(cast.players):
            running.append(
                subprocess.Popen(cast.command(number), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=class_of_players())
            )
        return _watch(cast, running, load, watch or Watch())
    finally:
        for player in running:
            player.kill()
            player.wait()
        if load:
            load.stop()


def _record(cast: Cast, running: list[subprocess.Popen], others: dict[str, int]) -> desk.Wakelat:
    groups = {f"player{number}": [player.pid] for number, player in enumerate(running)} | {name: [pid] for name, pid in others.items()}
    seconds = BEGIN_S + cast.seconds + LINGER_S + TRACE_AFTER_S
    room_kb = max(65_536, TRACE_KB_PER_S * seconds * max(1, len(running) // 8) // (os.cpu_count() or 1))
    return desk.Wakelat(seconds, groups, "--runs", "--buffer-kb", str(room_kb))


def _begin(running: list[subprocess.Popen]) -> float:
    """Lets the players go; returns when they begin, after which their timers count."""
    begin_s = time.monotonic() + BEGIN_S
    for player in running:
        assert player.stdin
        player.stdin.write(f"{int(begin_s * 1e9)}\n")
        player.stdin.close()
        player.stdin = None
    return begin_s


@dataclass
class Books:
    """What everybody has used so far."""

    when_s: float
    cpu_ns: list[int]
    load_cpu_s: float
    switches: int


def _books(running: list[subprocess.Popen], load: desk.Group | None) -> Books:
    return Books(time.monotonic(), [_usage(player) for player in running], load.cpu_s() if load else 0.0, _switches())


def _watch(cast: Cast, running: list[subprocess.Popen], load: desk.Group | None, watch: Watch) -> Played:
    recorder = _record(cast, running, watch.others) if watch.trace else None
    begin_s = _begin(running)
    # Whoever measures runs before the players: not while their timers count.
    _sleep_until(begin_s - ASIDE_S)
    before = _books(running, load)
    if watch.meanwhile:
        watch.meanwhile()
    _sleep_until(begin_s + cast.seconds)
    after = _books(running, load)
    seen = [_seen(player, until_ns=int((begin_s + cast.seconds - ASIDE_S) * 1e9)) for player in running]
    seconds = after.when_s - before.when_s
    played = Played(
        seen, [now - then for then, now in zip(before.cpu_ns, after.cpu_ns)], after.load_cpu_s - before.load_cpu_s,
        after.switches - before.switches, seconds, cast.seconds + LINGER_S - LEAVE_S,
    )
    if recorder:
        played.trace = recorder.result()
        for number, one in enumerate(seen):
            own = played.trace["groups"][f"player{number}"]
            played.dispatch_ns.append(time_to_running(one["release_ns"], own["began_ns"], own["ended_ns"]))
    return played


def said(player: subprocess.Popen) -> dict:
    """What a player says of itself at its end."""
    text = player.communicate()[0]
    if player.returncode != 0:
        raise desk.MeasureError(f"a player ended with status {player.returncode}: its message is above")
    return json.loads(text)


def _seen(player: subprocess.Popen, until_ns: int) -> dict:
    """What a player says of itself, with the timers that were due before `until_ns`."""
    seen = said(player)
    counted = bisect_right(seen["release_ns"], until_ns)
    return seen | {name: seen[name][:counted] for name in ("release_ns", "late_ns")}


def players_here(per_cpu: int) -> int:
    """As many for each CPU, as with the load."""
    return per_cpu * (os.cpu_count() or 1)


def is_one_group(groups: str) -> bool:
    """Whether all players are of one group."""
    if groups not in ("one", "several"):
        raise desk.MeasureError(f"groups is '{groups}': use one or several")
    return groups == "one"


def is_cooperative(library: str) -> bool | None:
    """Whether the players use libcoop; None: as fits the scheduler."""
    known = {"auto": None, "with": True, "without": False}
    if library not in known:
        raise desk.MeasureError(f"library is '{library}': use {', '.join(known)}")
    return known[library]


def film_of(number: int) -> Sequence[str]:
    """The film of player `number`: no two of eight take the same CPU time."""
    return ("--frame-us", str(FILMS_US[number % len(FILMS_US)]))


def measure_tardiness(
    players: int, load: str, count: int, seconds: int, seed: int, event_us: int, groups: str = "several", library: str = "auto"
) -> tuple[dict, dict]:
    """How late the timers of adaptive players are beside a load, and what each of them got of the CPU."""
    played = play(Cast(players_here(players), load, count, seconds, seed, is_one_group(groups), event_us, cooperative=is_cooperative(library)))
    return played.metrics(), played.series()


def measure_shares(players: int, groups: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """What each of several players, of films that take unequal CPU time, gets of the CPU, and how many frames each decodes with it."""
    cast = Cast(players_here(players), load, count, seconds, seed, is_one_group(groups), options=film_of)
    return play(cast, Watch(trace=False)).metrics(), {}


def measure_misbehaviour(players: int, late_pm: int, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """How late the timers of one player are that yields late at some of its own, and how late those of the others."""
    players = players_here(players)
    culprit = players - 1
    late = ("--late-pm", str(late_pm), "--late-us", str(LATE_US))
    played = play(Cast(players, load, count, seconds, seed, options=lambda number: late if number == culprit else ()))
    metrics = played.metrics()
    return metrics | {"culprit_cpu_pct": metrics[f"cpu_pct.{culprit + 1}"]}, {
        **played.series(range(culprit), "others_"), **played.series([culprit], "culprit_")
    }


def steps_per_ms() -> int:
    """How many steps of its work a player gets through in 1 ms of a CPU that does nothing else, while all CPUs are busy: they share the instructions."""
    return 1_000_000 // (STEP_INSTRUCTIONS * desk.instruction_ns() * (os.cpu_count() or 1))


def measure_overhead(players: int, event_us: int, library: str, seconds: int, seed: int) -> tuple[dict, dict]:
    """Frames shown by players of one film that have the machine to themselves. They are no more than AHEAD frames ahead of the screen. A frame is so much
    work, not so much CPU time: that of a thread includes interrupts, and a part of each switch that it is forced to, and who yields in time would seem
    to get less done."""
    film = ("--ahead", str(AHEAD), "--period-us", str(FILM_PERIOD_US), "--steps-per-ms", str(steps_per_ms()))
    cast = Cast(
        players_here(players), seconds=seconds, seed=seed, event_us=event_us, frame_us=FILM_PERIOD_US // SATURATE, vary_pct=0,
        cooperative=is_cooperative(library), options=lambda _number: film,
    )
    played = play(cast, Watch(trace=False))
    return played.metrics(), {"tardiness": played.series()["tardiness"]}


def measure_periodic(players: int, period_us: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """How late timers are where the kernel's scheduler gives each player a slice in each period, or with 0 where they poll cooperatively."""
    if period_us:
        SLICE_NS.write_text(str(max(SLICE_LEAST_US, period_us // players) * 1000))
    played = play(Cast(players_here(players), seconds=seconds, seed=seed, cooperative=not period_us), Watch(trace=False))
    return played.metrics(), {"tardiness": played.series()["tardiness"]}


def measure_crowd(players: int, registered: int, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """How late players' timers are beside threads that are registered and sleep."""
    crowd = None
    if registered:
        crowd = subprocess.Popen(["crowd", str(registered)], stdout=subprocess.PIPE, text=True)
        assert crowd.stdout
        if crowd.stdout.readline().strip() != "ready":
            raise desk.MeasureError("the crowd did not get to rest: its message is above")
    try:
        played = play(Cast(players_here(players), load, count, seconds, seed))
    finally:
        if crowd:
            crowd.kill()
            crowd.wait()
    return played.metrics() | {"latest_p99": played.latest_p99_ms()}, played.series()


def measure_vandalism(players: int, company: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """How late players' timers are beside somebody who means harm; `in_charge` is 1 if the scheduler and its daemon are the same ones afterwards."""
    if company not in COMPANY:
        raise desk.MeasureError(f"company is '{company}': use {', '.join(COMPANY)}")
    before = who_is_in_charge()
    with Company(company, seed):
        played = play(Cast(players_here(players), load, count, seconds, seed))
    in_charge = int(who_is_in_charge() == before)
    return played.metrics() | {"latest_p99": played.latest_p99_ms(), "in_charge": in_charge}, played.series()


class XServer:
    """An X server of its own, unmodified, cooperative or not."""

    NAME = ":7"

    def __init__(self, cooperative: bool) -> None:
        assets = Path("/root/in/assets")
        before = [str(assets / "coop-run")] if cooperative else []
        if before:
            os.chmod(before[0], 0o755)
        self.program = subprocess.Popen(
            [*before, "Xvfb", self.NAME, "-screen", "0", "640x480x24", "-nolisten", "tcp", "-ac", "-noreset"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(assets)},
            preexec_fn=class_of_players(),
        )
        socket = Path(f"/tmp/.X11-unix/X{self.NAME[1:]}")
        desk.wait_until(lambda: socket.exists() or self.program.poll() is not None, "the X server's socket")
        if self.program.poll() is not None:
            assert self.program.stderr
            raise desk.MeasureError(f"the X server did not start: {self.program.stderr.read().strip()[-500:]}")

    def stop(self) -> None:
        """Ends it."""
        self.program.terminate()
        self.program.wait()


@contextmanager
def _showing(server: XServer, pictures: int, seed: int) -> Iterator[dict]:
    """Has the server show pictures, and gives what came of it; the program that did so ends with the block."""
    words = ["syncshow", server.NAME, str(pictures), str(seed)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=class_of_players()) as program:
        assert program.stdout
        said_last = program.stdout.readline()
        if not said_last:
            raise desk.MeasureError("syncshow failed: its message is above")
        yield json.loads(said_last)


def measure_display(players: int, preload: str, load: str, count: int, pictures: int, seed: int) -> tuple[dict, dict]:
    """How late an X server shows pictures whose time it was told, beside adaptive players and a load, under coop-run or not."""
    if preload not in ("with", "without"):
        raise desk.MeasureError(f"preload is '{preload}': use with or without")
    server = XServer(preload == "with")
    shown: dict = {}
    # It shows some pictures that do not count, too.
    seconds = int((pictures + 60) * PICTURE_S) + 2
    try:
        # Before anybody is traced: its socket is there while it still reads its files, and nobody is promised anything of that.
        with _showing(server, 1, seed):
            pass
        with ExitStack() as until_then:
            watch = Watch(others={"x": server.program.pid}, meanwhile=lambda: shown.update(until_then.enter_context(_showing(server, pictures, seed))))
            played = play(Cast(players_here(players), load, count, seconds, seed), watch)
    finally:
        server.stop()
    return played.metrics(), {
        "display": desk.series(shown["late_ns"], shown["source"]),
        "dispatch": desk.trace_series(played.trace, "x", "dispatch"),
        "tardiness": played.series()["tardiness"],
    }


def patience_s() -> int:
    """Virtual seconds that a measurement takes beyond what most take: what it measures, and reading so long a trace."""
    return 2 * int(desk.point().get("seconds", 0))
