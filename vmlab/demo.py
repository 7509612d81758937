# SPDX-License-Identifier: GPL-2.0-only
"""`./demo`: a film, and an editor in a terminal, beside ten bursty processes, under the kernel's own scheduler and under limelight.

The measuring is that of the experiments `huc-fig7` and `key-to-screen`, at a few points of one load. Each scheduler has one machine,
booted by a process of its own (`--only`): two cores run both at once, and the first begins while limelight is built.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vmlab import assets, cache, commands, engine, experiment, machine, results
from vmlab.errors import LabError
from vmlab.judge import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEDULERS = {"eevdf": "the kernel's scheduler", "limelight": "limelight"}
#: What a panel of the plot is called: not everybody knows what the kernel's scheduler is called.
PANELS = {"eevdf": "the kernel's scheduler (eevdf)"}
#: The load of the demonstration: CPU usage cannot tell it from a film player (each process uses 3 ms and sleeps 1 ms).
LOAD = "bursty"
BESIDE = 10
COUNTS = (0, 4, 10)
SCENE = commands.ROOT / "experiments" / "guest" / "scene.py"
#: Of what the experiments need, what these points do: each film costs half a minute to make.
ASSETS = ("film-small.avi",)
#: What is measured, and where it is told in the table: (experiment, settings).
FILM = ("huc-fig7", ["film=small", f"load={LOAD}", f"count={','.join(map(str, COUNTS))}", "seconds=4"])
KEYS = ("key-to-screen", ["editor=vim", f"load={LOAD}", f"count=0,{BESIDE}", "keys=40"])
#: The columns of the table: (experiment, metric, heading, format).
TABLE = (
    ("huc-fig7", "frame_loss_pct", "frames lost", "{:.1f} %"),
    ("huc-fig7", "dispatch.p50", "dispatch latency p50", "{:.2f} ms"),
    ("huc-fig7", "dispatch.p99", "p99", "{:.2f} ms"),
    ("key-to-screen", "key_to_screen.p50", "key to screen p50", "{:.2f} ms"),
    ("key-to-screen", "key_to_screen.p99", "p99", "{:.2f} ms"),
)

#: What the figures are, under the table: nobody should have to guess.
NOTES = """\
frames lost        of 25 due a second for 4 s, those that the X server did not see drawn
dispatch latency   from wake-up to running, all threads of the player, by the kernel's trace points; a thread that waits for another of
                   the same player counts too, so this is not 0 where nothing else runs
key to screen      from a key in the X server to the first change of vim's window, 40 keys: the 99th percentile is the slowest one
All in virtual time: an emulated CPU whose instructions take 2 ns each, one boot per scheduler. ./lab run huc-fig7 has more."""


def plan_of(name: str, settings: list[str], sched: str, say: engine.Say) -> engine.Plan:
    """The points of one experiment under one scheduler."""
    one = experiment.find(commands.ROOT, name)
    files = assets.prepare([asset for asset in one.assets if asset in ASSETS], commands.ROOT, cache.root(), say)
    return engine.Plan(one, one.points(False, settings), [(sched, "")], [1], "7.2", 1, commands.ROOT, files)


def measure(sched: str, out: Path, say: engine.Say) -> None:
    """Boots one machine, measures both experiments in it and takes a picture of its desktop; writes all of it into `out`."""
    plans = [plan_of(*wanted, sched, say) for wanted in (FILM, KEYS)]
    (options,) = plans[0].machines()
    with machine.boot(replace(options, memory_mb=max(plan.experiment.memory_mb for plan in plans)), say) as guest:

        @contextlib.contextmanager
        def same(_options: machine.Options) -> Iterator[machine.Machine]:
            yield guest

        for plan in plans:
            kept = results.Results(plan.experiment.name)
            kept.put(engine.run(plan, same, say, lambda _rows: None), "./demo")
            kept.save(out / f"{plan.experiment.name}-{sched}.json", [])
        say("taking a picture of the desktop")
        guest.put(SCENE, "/root/in/guest")
        guest.check(["python3", "/root/in/guest/scene.py", LOAD, str(BESIDE), f"/root/out/desktop-{sched}.png"], env={"PYTHONPATH": "/root/in/guest"})
        guest.get("/root/out", out)


def rows_of(out: Path, name: str) -> list[Row]:
    """What was measured of one experiment, both schedulers."""
    return [row for sched in SCHEDULERS for row in results.load(out / f"{name}-{sched}.json", name).rows]


def table(rows: dict[str, list[Row]]) -> str:
    """The figures at ten background processes, and those of the idle machine beside them, as text; `rows` by experiment."""
    heads = ["", *(title for _, _, title, _ in TABLE)]
    lines = [heads]
    for count in (0, BESIDE):
        beside = f", {count} {LOAD} processes beside it" if count else ", nothing beside it"
        for sched, name in SCHEDULERS.items():
            lines.append([name + beside, *(_cell(rows.get(one, []), metric, form, sched, count) for one, metric, _, form in TABLE)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)


def _cell(rows: list[Row], metric: str, form: str, sched: str, count: int) -> str:
    found = [row.metrics[metric] for row in rows if row.scheduler == sched and row.point["count"] == count and metric in row.metrics]
    return form.format(found[0]) if found else "–"


def draw(rows: list[Row]) -> Figure:
    """HuC's Figure 1 beside its Figure 7: the shares of player, X server and load, and the frames lost, over the background processes."""
    from vmlab import plots  # matplotlib takes a second to load

    title = f"A film beside {LOAD} processes: who gets the CPU, and the frames lost"
    return plots.film(experiment.find(commands.ROOT, FILM[0]), rows, title, PANELS)


def picture(out: Path) -> Path:
    """The plot of what was measured, as a file."""
    path = out / "film.png"
    draw(rows_of(out, FILM[0])).savefig(path, dpi=160, bbox_inches="tight")
    return path


def _prefixed(sched: str) -> Callable[[str], None]:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"demo: [{time.monotonic() - began:4.0f} s] {SCHEDULERS[sched]}: {text}", file=sys.stderr, flush=True)

    return say


def show(out: Path) -> None:
    """Prints the table and where the pictures are, which it makes."""
    measured = {name: rows_of(out, name) for name, _ in (FILM, KEYS)}
    if not all(measured.values()):
        raise LabError("there is nothing to show", f"{out} holds nothing that was measured", "./demo, which measures first")
    print(f"\nA film (mpv) and vim in xterm, one CPU, {LOAD} processes (3 ms of CPU, 1 ms of sleep):\n\n{table(measured)}\n\n{NOTES}\n")
    print(f"HuC's Figure 1 beside Figure 7:  {picture(out)}")
    for sched, name in SCHEDULERS.items():
        print(f"the desktop under {name}:  {out / f'desktop-{sched}.png'}")


def main() -> int:
    """The demonstration; the status says whether it could be given."""
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=SCHEDULERS, help="measure under this scheduler; without it, show what was measured under both")
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.only:
            measure(arguments.only, out, _prefixed(arguments.only))
        else:
            show(out)
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
