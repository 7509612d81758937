# SPDX-License-Identifier: GPL-2.0-only
"""The machine itself: throughput with nobody at the desk, what the scheduler costs, and how it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apps
import desk
from desk_tasks import Stage

SCHED_EXT = Path("/sys/kernel/sched_ext")


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise desk.MeasureError(f"{' '.join(command)} ended with status {done.returncode}")
    return time.monotonic() - began


def throughput(work: str, repeats: int, seed: int) -> tuple[dict, dict]:
    """Work done per second with nobody at the desk: the median of `repeats` runs after one that warms the caches."""
    jobs = 2 * (os.cpu_count() or 1)
    commands = {
        "make": ["hogs", "make", str(jobs), "--once", "--seed", str(seed)],
        "hackbench": ["hackbench", "-g", "4", "-l", "100"],
        # A fifth of 10,000 is perf's own start, and khugepaged's 9 ms, whenever they fall into it, are 2 %: as long as the others, then.
        "perf-pipe": ["perf", "bench", "sched", "pipe", "-l", "50000"],
        "perf-messaging": ["perf", "bench", "sched", "messaging", "-g", "4", "-l", "50"],
    }
    if work not in commands:
        raise desk.MeasureError(f"no work is called '{work}': use {', '.join(commands)}")
    _timed(commands[work])
    times = sorted(_timed(commands[work]) for _ in range(repeats))
    middle = times[len(times) // 2]
    return {"seconds": middle, "runs_per_s": 1 / middle}, {}


def scheduler_cost(desk_state: str, samples: int) -> tuple[dict, dict]:
    """Time per wake-up with its context switch, and per context switch alone, with nobody (`empty`) or somebody (`attended`) there."""
    with Stage() as stage:
        if desk_state == "attended":
            stage.client("typed", "--work-us", "100")
            desk.person("type", "typed", "--count", "4")
        elif desk_state != "empty":
            raise desk.MeasureError(f"desk is '{desk_state}': use empty or attended")
        costs = {}
        for what in ("wake", "switch"):
            done = subprocess.run(["swcost", what, str(samples)], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise desk.MeasureError("swcost failed: its message is above")
            costs[what] = json.loads(done.stdout)
    metrics = {}
    for what, data in costs.items():
        ordered = sorted(data["cost_ns"])
        metrics[f"{what}_ns"] = ordered[len(ordered) // 2]
        metrics[f"{what}_instructions"] = metrics[f"{what}_ns"] / desk.instruction_ns()
    return metrics, {f"{what}_cost": desk.series(data["cost_ns"], data["source"], "us") for what, data in costs.items()}


def poll_cost(samples: int) -> tuple[dict, dict]:
    """What a call of coop_poll costs that leads to no switch, what that is made of, and a context switch as lmbench measures it: a token through pipes."""
    costs: dict[str, dict] = {}
    for what in ("yield", "known", "poll", "clock", "call"):
        done = subprocess.run(["pollcost", what, str(samples)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise desk.MeasureError("pollcost failed: its message is above")
        costs[what] = json.loads(done.stdout)
    if desk.scheduler() == "limelight" and not costs["poll"]["kept"]:
        raise desk.MeasureError("limelight did not answer: this is not what coop_poll costs")
    done = subprocess.run(["swcost", "wake", str(samples)], stdout=subprocess.PIPE, text=True, check=True)
    costs["switch"] = json.loads(done.stdout)
    metrics = {f"{what}_ns": float(sorted(data["cost_ns"])[len(data["cost_ns"]) // 2]) for what, data in costs.items()}
    metrics["poll_to_yield"] = metrics["poll_ns"] / metrics["yield_ns"]
    metrics["registered_ns"] = max(0.0, metrics["known_ns"] - metrics["yield_ns"])
    metrics["call_of_library_ns"] = max(0.0, metrics["poll_ns"] - metrics["yield_ns"] - metrics["registered_ns"])
    return metrics, {f"{what}_cost": desk.series(data["cost_ns"], data["source"], "us") for what, data in costs.items()}


def _is_helper(pid: int) -> bool:
    """Whether this process of limelight is the per-login helper that watches a display."""
    return b"watch" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def own_cpu(seconds: int) -> tuple[dict, dict]:
    """CPU share of limelight's daemon and of its helper while a film plays and somebody types."""
    with Stage() as stage:
        stage.take(apps.film("small").group)
        stage.client("typed", "--work-us", "1000", "--geometry", "300x200+600+20")
        stage.wander("typed", 3600.0)
        time.sleep(apps.WARM_UP_S)
        pids = desk.limelight_processes()
        helpers = [pid for pid in pids if _is_helper(pid)]
        before = {pid: desk.process_cpu_s(pid) for pid in pids}
        time.sleep(seconds)
        used = {pid: 100 * (desk.process_cpu_s(pid) - before[pid]) / seconds for pid in pids}
    if not helpers:
        return {}, {}
    return {
        "helper_cpu_pct": sum(used[pid] for pid in helpers),
        "daemon_cpu_pct": sum(share for pid, share in used.items() if pid not in helpers),
    }, {}


def rating_pass() -> tuple[dict, dict]:
    """The rating pass over 10,000 processes and 100,000 edges, by the policy's own benchmark program, in the guest's time."""
    done = subprocess.run(["/root/in/assets/pass_cost"], stdout=subprocess.PIPE, text=True, check=False)
    shapes = re.findall(r"([0-9.]+) ms, the pass alone +([0-9.]+) ms +(\w+):", done.stdout)
    # It ends with a status of its own when it is over its budget: a figure all the same, and judged where all are.
    if not shapes:
        raise desk.MeasureError(f"the pass's benchmark said nothing to be used: '{done.stdout.strip()}'")
    metrics = {f"{shape}_ms": float(second_ms) for second_ms, _, shape in shapes}
    metrics |= {f"{shape}_alone_ms": float(alone_ms) for _, alone_ms, shape in shapes}
    return {"pass_ms": max(float(second_ms) for second_ms, _, _ in shapes)} | metrics, {}


BLOWS = ("kill-daemon", "kill-helper", "kill-all", "sysrq-s", "fault")


def _blow(how: str, pids: list[int]) -> Callable[[], None]:
    """What does it, as soon as it is called."""
    helpers = [pid for pid in pids if _is_helper(pid)]
    killed = {"kill-daemon": [pid for pid in pids if pid not in helpers], "kill-helper": helpers, "kill-all": pids}
    if how in killed:
        return lambda: [os.kill(pid, signal.SIGKILL) for pid in killed[how]]
    if how == "sysrq-s":
        return lambda: Path("/proc/sysrq-trigger").write_text("S")
    if how == "fault":
        return _fault()
    raise desk.MeasureError(f"no blow is called '{how}': use {', '.join(BLOWS)}")


def _fault() -> Callable[[], None]:
    """Has fault.py ready to make the scheduler do what none may, to one of the load's processes."""
    pipe = Path(tempfile.mkdtemp(prefix="fault-")) / "now"
    os.mkfifo(pipe)
    program = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("fault.py"), str(desk.processes("hogs")[-1]), pipe], stdout=subprocess.PIPE, text=True
    )
    if program.stdout.readline().strip() != "ready":
        raise desk.MeasureError("fault.py did not get ready: its message is above")
    return lambda: pipe.write_text("now")


def _is_disabled(_pids: list[int]) -> bool:
    return desk.read(SCHED_EXT / "state") == "disabled"


def _has_another_helper(pids: list[int]) -> bool:
    return any(_is_helper(pid) for pid in desk.limelight_processes() if pid not in pids)


def recovery(how: str, load: str, count: int, seed: int) -> tuple[dict, dict]:
    """How long after a blow the kernel's own scheduler is back, or another helper, and how many processes of limelight are left then.

    `how`: one of `BLOWS`. After kill-helper limelight stays, so that nothing is told of the kernel's scheduler.
    """
    pids = desk.limelight_processes()
    if not pids or desk.read(SCHED_EXT / "state") != "enabled":
        raise desk.MeasureError("limelight is not running: there is nothing to recover from")
    with Stage() as stage:
        stage.take(desk.start_load(load, count, seed))
        strike = _blow(how, pids)
        began = time.monotonic()
        strike()
        is_over = _has_another_helper if how == "kill-helper" else _is_disabled
        while not is_over(pids) and time.monotonic() - began < 30:
            time.sleep(0.001)
        back_s = time.monotonic() - began
        time.sleep(1)
        left = sum(1 for pid in pids if Path(f"/proc/{pid}").exists() and "Z" not in desk.read(f"/proc/{pid}/stat").split()[2:3])
    if how == "kill-helper":
        # Where the scheduler went with it there is no figure, and that is a miss.
        return {} if _is_disabled(pids) else {"helper_back_ms": 1000 * back_s}, {}
    return {"back_ms": 1000 * back_s, "processes_left": left}, {}
