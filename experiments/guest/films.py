# SPDX-License-Identifier: GPL-2.0-only
"""Real films by the adaptive player of examples/player beside a load: figures 8 and 9 of the cooperative polling paper (EuroSys 2009, section 5.3).

As in the paper's measurements of CPU fairness nothing is shown on a screen: what is measured is decoding in time. Everything comes over the loopback
device from one streamer.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import desk
from players import BEGIN_S, GROUP, TRACE_KB_PER_S, class_of_players, is_one_group, jain, players_here, said, time_to_running

ASSETS = Path("/root/in/assets")
#: examples/player/make-films: rising bit rates.
FILMS = ("calm", "busy", "fine", "noisy")
#: Until the players have their first window of frames, on a CPU that has all of the machine's instructions: more than the player's own second, because
#: all ask at once. Of several CPUs a busy one has half of that or less, and before they have begun players have nothing to share.
PREROLL_S = BEGIN_S
PREROLL_OF_SEVERAL_CPUS_S = 2 * BEGIN_S
#: Between the beginnings of players that begin apart: an eighth of a frame's time, or no two of eight at 25 frames a second would have it for themselves.
APART_NS = 5_000_000
SECOND_NS = 1_000_000_000


class Streamer:
    """Serves the films, over and over, at a rate that nobody else is asked for: its work is the players' network."""

    def __init__(self) -> None:
        command = ["streamer", "--loop", *(str(ASSETS / f"{film}.mkv") for film in FILMS)]
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=class_of_players())
        assert self.program.stdout
        if not self.program.stdout.readline().startswith("ready"):
            raise desk.MeasureError("the streamer did not start: its message is above; ./lab setup builds it")

    def stop(self) -> None:
        """Ends it."""
        self.program.terminate()
        self.program.wait()


def _preroll_s() -> int:
    return PREROLL_OF_SEVERAL_CPUS_S if (os.cpu_count() or 1) > 1 else PREROLL_S


def _record(running: list[subprocess.Popen], seconds: int) -> desk.Wakelat:
    room_kb = max(65_536, TRACE_KB_PER_S * seconds * max(1, len(running) // 8) // (os.cpu_count() or 1))
    groups = {f"player{number}": [player.pid] for number, player in enumerate(running)}
    return desk.Wakelat(seconds, groups, "--runs", "--buffer-kb", str(room_kb))


def _play(films: list[str], seconds: int, group: int, apart_ns: int = 0, trace: bool = False) -> list[dict]:
    """What the players of these films say at their end, each beginning `apart_ns` after the one before; with a trace, when they ran, too: `dispatch_ns`."""
    begin_ns = time.monotonic_ns() + _preroll_s() * SECOND_NS
    words = ["--display", "none", "--seconds", str(seconds), "--group", str(group)]
    commands = [["player", *words, "--begin-ns", str(begin_ns + number * apart_ns), f"{film}.mkv"] for number, film in enumerate(films)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=class_of_players()) for command in commands]
    try:
        recorder = _record(running, _preroll_s() + seconds + 1) if trace else None
        seen = [said(player) for player in running]
        runs = recorder.result()["groups"] if recorder else {}
        for number, one in enumerate(seen if runs else []):
            own = runs[f"player{number}"]
            one["dispatch_ns"] = time_to_running(one["release_ns"], own["began_ns"], own["ended_ns"])
        return seen
    finally:
        for player in running:
            player.kill()
            player.wait()


def by_second(times_ns: list[int], seconds: int) -> list[int]:
    """How many of these times are in each second."""
    found = [0] * seconds
    for when_ns in times_ns:
        if when_ns < seconds * SECOND_NS:
            found[when_ns // SECOND_NS] += 1
    return found


def _event_metrics(seen: list[dict]) -> dict[str, float]:
    """CPU time of the players' own events, in ms: what a timer waits for that no scheduler can cut (`predecode`: of others that have begun)."""
    works = ("predecode", "decode", "display", "receive")
    return {f"{work}_{rank}": max(one["event_cpu_ns"][work][rank] for one in seen) / 1e6 for work in works for rank in ("p99", "max")}


def measure_quality(players: int, groups: str, load: str, count: int, seconds: int, seed: int, begin: str) -> tuple[dict, dict]:
    """Frames per second of each of several players of real films that need more than the CPU, second by second."""
    if begin not in ("apart", "together"):
        raise desk.MeasureError(f"begin is '{begin}': use apart or together")
    players = players_here(players)
    background = desk.start_load(load, count, seed)
    streamer = Streamer()
    try:
        before_s, began_s = background.cpu_s() if background else 0.0, time.monotonic()
        films = [FILMS[number % len(FILMS)] for number in range(players)]
        seen = _play(films, seconds, GROUP if is_one_group(groups) else 0, APART_NS if begin == "apart" else 0, trace=True)
        load_pct = 100 * ((background.cpu_s() if background else 0.0) - before_s) / (time.monotonic() - began_s)
    finally:
        streamer.stop()
        if background:
            background.stop()
    shown = [one["frames_shown"] / seconds for one in seen]
    late_ns = [late for one in seen for late in one["tardiness_ns"]]
    metrics = {
        "jain_frames": jain(shown),
        "jain_part": jain([one["frames_shown"] / one["frames_due"] for one in seen]),
        "jain_cpu": jain([one["cpu_ns"] for one in seen]),
        "frames_per_s": sum(shown) / players,
        "frames_due_per_s": sum(one["frames_due"] for one in seen) / players / seconds,
        "load_cpu_pct": load_pct,
        **_event_metrics(seen),
    }
    for number, one in enumerate(seen, 1):
        metrics |= {f"frames.{number}.{at}": frames for at, frames in enumerate(by_second(one["shown_ns"], seconds), 1)}
    return metrics, {
        "tardiness": desk.series(late_ns, "release of a frame's display timer to its callback, by the player's stamps"),
        "dispatch": desk.series([late for one in seen for late in one["dispatch_ns"]], "release (told by the player) to running (kernel trace point)"),
    }


def _packets(film: str) -> list[tuple[float, int]]:
    """When each coded frame of a film is due (s), and its bytes."""
    command = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time,size", "-of", "csv=p=0", str(ASSETS / f"{film}.mkv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise desk.MeasureError(f"ffprobe could not read {film}.mkv: {done.stderr.strip()[-500:]}")
    rows = [line.strip().strip(",").split(",") for line in done.stdout.split()]
    return [(float(when), int(size)) for when, size in rows]


def measure_bit_rates(seconds: int) -> tuple[dict, dict]:
    """The bit rate of each film, second by second, and what CPU time its player takes where nobody else wants any."""
    metrics: dict[str, float] = {}
    rates = []
    streamer = Streamer()
    try:
        for number, film in enumerate(FILMS, 1):
            kbit = [0.0] * seconds
            for when_s, size in _packets(film):
                if when_s < seconds:
                    kbit[int(when_s)] += 8 * size / 1000
            rates.append(sum(kbit) / seconds)
            metrics |= {f"kbit.{number}.{at}": rate for at, rate in enumerate(kbit, 1)}
            (alone,) = _play([film], seconds, 0)
            metrics |= {
                f"kbit_{film}": rates[-1],
                f"cpu_pct_{film}": 100 * alone["cpu_ns"] / SECOND_NS / (seconds + _preroll_s()),
                f"shown_pct_{film}": 100 * alone["frames_shown"] / alone["frames_due"],
            }
    finally:
        streamer.stop()
    return metrics | {"jain_kbit": jain(rates), "cpus": os.cpu_count() or 1}, {}
