# SPDX-License-Identifier: GPL-2.0-only
"""`./lab list`, `./lab run` and `./lab report`: their options, and what they do with them."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from vmlab import assets, engine, experiment, payload, results
from vmlab.errors import LabError, UsageError
from vmlab.experiment import Experiment, ExperimentError
from vmlab.judge import Row, Verdict
from vmlab.machine import INSTRUCTION_HELP, INSTRUCTION_NS, boot

ROOT = Path(__file__).resolve().parent.parent
#: Exit status: limelight missed what is expected.
EX_MISSED = 1


def cache_folder() -> Path:
    """Where everything that can be made again is kept, outside the repository."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("LIMELIGHT_CACHE") or base / "limelight")


def register(commands: argparse._SubParsersAction) -> None:
    """Adds the three subcommands; each sets `handler`, which takes the parsed arguments and returns the exit status."""
    listing = commands.add_parser("list", help="the experiments, and what each one claims")
    listing.set_defaults(handler=list_experiments)
    running = commands.add_parser("run", help="measure an experiment and compare it with what is expected")
    running.add_argument("experiment", metavar="EXPERIMENT", help="a name from ./lab list")
    running.add_argument("--sched", metavar="S,…", help="schedulers, separated by commas: eevdf, limelight, scx_bpfland, … (default: the experiment's)")
    running.add_argument("--policy", default="", metavar="P", help=f"limelight's policy: {', '.join(payload.POLICIES)} (default: {payload.POLICIES[0]})")
    running.add_argument("--cpus", metavar="N,…", help="numbers of virtual CPUs (default: the experiment's)")
    running.add_argument("--instruction-ns", type=int, choices=INSTRUCTION_NS, metavar="NS", help=INSTRUCTION_HELP)
    running.add_argument("--kernel", default="7.2", help="kernel series: 6.18 or 7.2 (default)")
    running.add_argument("--boots", type=int, metavar="K", help="boots per scheduler; the table shows medians (default: the experiment's)")
    running.add_argument("--set", action="append", default=[], metavar="KEY=VALUE[,VALUE…]", dest="settings", help="other values of a parameter")
    running.add_argument("--quick", action="store_true", help="the quick form: fewer points, shorter runs, one CPU")
    running.add_argument("--json", type=Path, metavar="FILE", help="where the results go (default: results/EXPERIMENT.json)")
    running.add_argument("--keep", action="store_true", help="do not measure again what there is already, here or in the repository, of whichever code")
    running.set_defaults(handler=run)
    reporting = commands.add_parser("report", help="draw all results into one HTML page")
    reporting.add_argument("--out", type=Path, default=ROOT / "results" / "report.html", metavar="FILE")
    reporting.add_argument("--measure", action="store_true", help="first measure what is missing of every experiment's full form (hours)")
    reporting.add_argument(
        "--publish", action="store_true", help="keep what was measured here in the repository, too (experiments/NAME/measured.json)"
    )
    reporting.add_argument("--picture", type=Path, metavar="FILE", help="also draw README.md's picture (.png, .svg) and print its table")
    reporting.set_defaults(handler=report)


def _usage(error: ExperimentError) -> UsageError:
    what, _, rest = str(error).partition(": ")
    return UsageError(what, rest or str(error), "./lab list names the experiments, experiments/README.md their parts")


def list_experiments(_arguments: argparse.Namespace) -> int:
    """One line per experiment, with its parameters below."""
    for folder in experiment.folders(ROOT):
        try:
            one = experiment.load(folder)
        except ExperimentError as error:
            raise _usage(error) from error
        print(f"{one.name:18} {one.title}" + (f" ({one.paper_figure})" if one.paper_figure else ""))
        for parameter in one.parameters:
            print(f"{'':18}   --set {parameter.name}={','.join(map(str, parameter.full))}  {parameter.help}")
    return 0


def _numbers(option: str, text: str | None, default: tuple[int, ...]) -> list[int]:
    if not text:
        return list(default)
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise UsageError(f"{option} {text}", "not a list of whole numbers from 1 up", f"for example {option} 1,4")
    return numbers


def _schedulers(one: Experiment, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    names = arguments.sched.split(",") if arguments.sched else list(one.schedulers)
    if arguments.policy and "limelight" not in names:
        raise UsageError(f"no policy {arguments.policy!r} for {', '.join(names)}", "only limelight has policies", "add limelight to --sched, or leave it out")
    # The one it has by itself has no name: what is measured with it is the same, whether it was asked for or not.
    policy = "" if arguments.policy == payload.POLICIES[0] else arguments.policy
    return [(name, policy if name == "limelight" else "") for name in names]


def _code() -> str:
    """The state of the code that is measured; empty outside a git repository."""
    return subprocess.run([ROOT / "scripts" / "code"], capture_output=True, text=True, check=False).stdout.strip()


def _check_writable(option: str, path: Path) -> None:
    """Refuses a file that could not be written, before an hour is spent on what belongs there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        # Not os.access(): root may write everywhere by that, in /proc too.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"cannot write {path}", str(error.strerror or error), f"give {option} another file") from error


def _say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def to_repeat(words: list[str]) -> list[str]:
    """The words of `./lab run` by which somebody else has the same rows: without where one person's file of them was."""
    kept = [word for before, word in zip(["", *words], words) if "--json" not in (before, word)]
    return [word for word in kept if not word.startswith("--json=")]


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints the table, keeps the results; the status says whether limelight kept what is expected of it."""
    try:
        one = experiment.find(ROOT, arguments.experiment)
        points = one.points(arguments.quick, arguments.settings)
    except ExperimentError as error:
        raise _usage(error) from error
    if arguments.boots is not None and arguments.boots < 1:
        raise UsageError(f"--boots {arguments.boots}", "nothing would be measured", "give 1 or more")
    cpus = _numbers("--cpus", arguments.cpus, one.cpus[:1] if arguments.quick else one.cpus)
    path = arguments.json or results.here(ROOT, one.name)
    _check_writable("--json", path)
    boots = arguments.boots or one.boots
    plan = engine.Plan(one, points, _schedulers(one, arguments), cpus, arguments.kernel, boots, ROOT, code=_code(), instruction_ns=arguments.instruction_ns)
    for machine in plan.machines():
        payload.check(machine)
    if any(machine.sched == "limelight" for machine in plan.machines()):
        payload.require_fresh()
    assets.build_workloads(ROOT)
    kept = results.load(path, one.name)
    plan.assets = assets.prepare(assets.needed(one.assets, points), ROOT, cache_folder(), _say)
    plan.wanted = lambda machine, point: one.is_measured(point, machine.sched, machine.cpus, arguments.settings, arguments.quick)
    asked = plan.keys()
    everything = kept
    if arguments.keep:
        everything = kept if arguments.json else results.load_all(ROOT, one.name)
        plan.known = {row.key() for row in everything.rows if row.boots >= plan.boots}
    command = "./lab run " + (shlex.join(to_repeat(sys.argv[2:])) if sys.argv[1:2] == ["run"] else one.name)

    def keep(rows: list[Row]) -> None:
        kept.put(rows, command)
        kept.save(path, results.judge_rows(one, kept.rows, kept))
        if everything is not kept:
            everything.put(rows, command)

    engine.run(plan, lambda options: boot(options, _say), _say, keep)
    rows = [row for row in everything.rows if row.key() in asked]
    verdicts = results.judge_rows(one, rows, everything)
    _print(one, rows, verdicts, path)
    return EX_MISSED if any(verdict.failure for verdict in verdicts) else 0


def _measure_all() -> None:
    """The full form of every experiment, but for what is measured already; one that fails does not keep the others from it."""
    for folder in experiment.folders(ROOT):
        full = argparse.Namespace(
            experiment=folder.name, sched=None, policy="", cpus=None, instruction_ns=None, kernel="7.2", boots=None, settings=[], quick=False,
            json=None, keep=True,
        )
        try:
            run(full)
        except LabError as error:
            print(f"{folder.name}: {error}", file=sys.stderr)


def _print(one: Experiment, rows: list[Row], verdicts: list[Verdict], path: Path) -> None:
    print(f"{one.title}" + (f" - {one.paper}, {one.paper_figure}" if one.paper else ""))
    print(f"claim: {one.claim}\n")
    print(results.table(one, rows, verdicts))
    print()
    for line in results.verdict_lines(verdicts):
        print(line)
    print(f"\nresults: {path}")


def report(arguments: argparse.Namespace) -> int:
    """Writes the page with all results there are."""
    from vmlab import headline  # matplotlib takes a second to load: only where it is needed
    from vmlab import report as page

    _check_writable("--out", arguments.out)
    if arguments.picture:
        _check_writable("--picture", arguments.picture)
    if arguments.measure:
        _measure_all()
    found = []
    for folder in experiment.folders(ROOT):
        one = experiment.load(folder)
        kept = results.load_all(ROOT, one.name)
        if not kept.rows:
            continue
        found.append((one, kept))
        if arguments.publish:
            kept.save(results.published(ROOT, one.name), results.judge_rows(one, kept.rows, kept))
    if not found:
        raise UsageError("there is nothing to report", "no experiment has been run yet", "./lab run huc-fig7 --quick")
    arguments.out.write_text(page.render(found))
    if arguments.picture:
        rows = {one.name: kept.rows for one, kept in found}
        headline.save(rows, arguments.picture)
        print(headline.table(rows))
    print(arguments.out)
    return 0
