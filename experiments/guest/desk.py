# SPDX-License-Identifier: GPL-2.0-only
"""What every experiment's `measure` needs inside the guest: programs in groups, background load, instruments, the result.

A `measure` is started once per point of its parameters. The point is the JSON in LIMELIGHT_POINT, the result goes as
JSON into the file named by LIMELIGHT_RESULT. It runs above all ordinary tasks (SCHED_FIFO), sleeps while the workload runs, and
falls back to the ordinary class in every program it starts: it neither competes with what is measured nor lends it anything.
"""

from __future__ import annotations

import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import strangers

#: What X servers are called as processes.
X_SERVERS = ("Xorg", "Xvfb")
#: The user whose desktop it is.
PERSON = "person"
CGROUP_ROOT = Path("/sys/fs/cgroup")
#: Seconds for a load to come to its steady state before anything is measured: rating periods are one second long, and the
#: kernel's own averages settle within some tens of ms.
SETTLE_S = 2.0
#: A program of the desktop that has not started after this long will not (virtual seconds, under 1,000 hogs).
START_S = 120.0
#: Virtual seconds after which a measurement is taken to hang.
HANG_S = 300


#: Exit status of a measure that waited in vain (EX_TEMPFAIL): beside a load, that is the scheduler's result.
STALLED = 75


class MeasureError(Exception):
    """The workload could not be set up or went wrong: the point has no result."""


class Stalled(MeasureError):
    """A program did not get to where it was waited for."""


def point() -> dict:
    """The parameter values to measure at."""
    return json.loads(os.environ["LIMELIGHT_POINT"])


def read(path: str | Path) -> str:
    """A file of the kernel, without the line end; empty where there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def become_instrument() -> None:
    """Puts this script above what it measures; its children start as ordinary tasks."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))


def equal_sessions() -> None:
    """Has every process compete with every other, as in the papers and in the figures this is compared with: no autogroups (with
    them a film started from another terminal than the load would have half the CPU), and no CPU controller, so that the groups
    made here count CPU time and nothing more. A Debian desktop has no CPU controller in a login session either."""
    autogroup = Path("/proc/sys/kernel/sched_autogroup_enabled")
    if autogroup.exists():
        autogroup.write_text("0")
    if "cpu" in read(CGROUP_ROOT / "cgroup.subtree_control").split():
        (CGROUP_ROOT / "cgroup.subtree_control").write_text("-cpu")


def scheduler() -> str:
    """The scheduler that is measured, by its name in the laboratory."""
    return os.environ.get("LIMELIGHT_SCHED", "")


def instruction_ns() -> int:
    """Virtual time that an instruction takes in this machine."""
    return int(os.environ["LIMELIGHT_INSTRUCTION_NS"])


def at_floor() -> bool:
    """Whether what serves the person is to run above everything else, by its own rights: the yardstick `fifo`."""
    return scheduler() == "fifo"


def raise_to_floor(pid: int) -> None:
    """Has a process that is there already, and what it starts from now on, run before all ordinary ones; the instruments run before it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(10))


def _waits_for_disk(pid: int) -> bool:
    """Whether process `pid` sleeps uninterruptibly; one that has ended does not."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["D"]


class Group:
    """Programs whose CPU time is counted together, by a cgroup without any limit or weight; `serves` tells those of the person from the load."""

    def __init__(self, name: str, serves: bool = True) -> None:
        self.name = name
        self.serves = serves
        self.path = CGROUP_ROOT / f"measure-{name}-{os.getpid()}"
        self.path.mkdir()
        self.programs: list[subprocess.Popen] = []

    def adopt(self, pid: int) -> None:
        """Counts a process that is there already."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def start(self, *command: str, wait_for: str = "", env: dict[str, str] | None = None, quiet: bool = True) -> subprocess.Popen:
        """Starts a program in the group. With `wait_for` it returns once the program has printed a line that starts so."""
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if wait_for else subprocess.DEVNULL if quiet else None,
            stderr=None,
            env={**os.environ, "HOME": pwd.getpwnam(PERSON).pw_dir, "USER": PERSON, **(env or {})},
            preexec_fn=self._enter,
            text=True,
        )
        self.programs.append(program)
        if wait_for:
            assert program.stdout is not None
            line = program.stdout.readline()
            if not line.startswith(wait_for):
                raise MeasureError(f"{command[0]} said '{line.strip()}' and not '{wait_for}'")
        return program

    def _enter(self) -> None:
        """In the new process: joins the group, and becomes the person who sits at the desk."""
        (self.path / "cgroup.procs").write_text("0")
        if self.serves and at_floor():
            raise_to_floor(os.getpid())
        person = pwd.getpwnam(PERSON)
        os.setgroups([])
        os.setgid(person.pw_gid)
        os.setuid(person.pw_uid)

    def cpu_s(self) -> float:
        """CPU time used so far, in seconds."""
        for line in read(self.path / "cpu.stat").splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        raise MeasureError(f"no CPU time in {self.path}/cpu.stat")

    def at_rest(self) -> bool:
        """Whether the programs of the group have used less than 2 % of a CPU for half a second, nor waited for a disk: they have started.

        A slow disk is this laboratory's host: while a program waits for it the virtual clock runs on.
        """
        before = self.cpu_s()
        for _ in range(10):
            time.sleep(0.05)
            if any(_waits_for_disk(pid) for pid in self.pids()):
                return False
        return self.cpu_s() - before < 0.01

    def read_in(self) -> None:
        """Has all files that the group's programs map in memory: a page that they first need while they are measured comes from a slow disk."""
        files = {line.split(None, 5)[5] for pid in self.pids() for line in read(f"/proc/{pid}/maps").splitlines() if line.count(" /") == 1}
        for file in files:
            if os.path.isfile(file) and not file.startswith("/dev/"):
                Path(file).read_bytes()

    def disk_reads(self) -> int:
        """How often the group's programs have waited for a page from the disk (major faults)."""
        return sum(int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[9]) for pid in self.pids())

    def pids(self) -> list[int]:
        """The processes in the group now."""
        return [int(pid) for pid in read(self.path / "cgroup.procs").split()]

    def stop(self, patience_s: float = 30.0) -> None:
        """Asks all programs to end, then makes them, and hands adopted processes back to the root group."""
        for program in self.programs:
            if program.poll() is None:
                program.terminate()
        for program in self.programs:
            try:
                program.wait(patience_s)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        mine = bool(self.programs)
        for pid in self.pids():
            if mine:
                _signal(pid, signal.SIGKILL)
            else:
                (CGROUP_ROOT / "cgroup.procs").write_text(str(pid))
        end = time.monotonic() + 10
        while self.pids() and time.monotonic() < end:
            time.sleep(0.02)
        self.path.rmdir()


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def processes(comm: str) -> list[int]:
    """The processes whose name is `comm`."""
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and read(p / "comm") == comm[:15]]


@functools.cache
def x_server() -> int:
    """The process of the X server. Looked for once, before there is a load: beside 1,000 processes that takes half a second, in which nobody else runs."""
    for name in X_SERVERS:
        found = processes(name)
        if found:
            return found[0]
    raise MeasureError("no X server is running: the experiment needs desktop = true")


def desktop_at_rest() -> None:
    """Waits until the window manager has nothing to do: a window that opens while it starts is lost to it."""
    managers = processes("openbox")
    used = -1.0
    while managers and used != (used := process_cpu_s(managers[0])):
        time.sleep(0.3)


def wait_until(question, what: str, timeout_s: float = START_S):
    """Asks `question()` every 50 ms until the answer is true, and returns it."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise Stalled(f"{what}: not within {timeout_s:.0f} s")


def start_load(kind: str, per_cpu: int, seed: int) -> Group | None:
    """Starts `per_cpu` background processes of `kind` for every CPU; None for none. Returns when it has come to its steady state."""
    if per_cpu == 0 or kind == "none":
        return None
    count = per_cpu * os.cpu_count()
    if kind == "chatty":
        count += count % 2
    load = Group("load", serves=False)
    load.start(*(strangers.command(kind, count) or ("hogs", kind, str(count), "--seed", str(seed))), wait_for="ready")
    if kind == "make":
        wait_until(lambda: processes("cc1"), "the make load's first compiler")
    time.sleep(SETTLE_S)
    return load


class Wakelat:
    """Records dispatch latency, effective quanta and context switches of `groups` (name -> pids) by the kernel's trace points."""

    def __init__(self, seconds: int, groups: dict[str, list[int]], *options: str) -> None:
        self.out = Path(f"/tmp/wakelat-{os.getpid()}.json")
        arguments = [*options, *(f"{name}={','.join(map(str, pids))}" for name, pids in groups.items())]
        # Above all others from its first instruction: beside real-time players it would not get to raise itself.
        self.program = subprocess.Popen(
            ["chrt", "-f", "50", "wakelat", "--seconds", str(seconds), "--out", str(self.out), *arguments],
            stdout=subprocess.PIPE, text=True, preexec_fn=become_instrument,
        )
        assert self.program.stdout is not None
        if self.program.stdout.readline().strip() != "started":
            raise MeasureError("wakelat did not start: its message is above")

    def result(self) -> dict:
        """What wakelat wrote; waits for it to end."""
        if self.program.wait() != 0:
            raise MeasureError("wakelat failed: its message is above")
        data = json.loads(self.out.read_text())
        self.out.unlink()
        if data["lost"]:
            raise MeasureError(f"wakelat lost {data['lost']} events: its buffer was too small, nothing can be said")
        return data


def person(action: str, title: str, *options: str, wait: bool = True):
    """Runs the stand-in for a person; returns what it measured, or with wait=False the running program and its output path."""
    out = Path(tempfile.mkdtemp(prefix="person-")) / f"{action}.json"
    program = subprocess.Popen(["person", action, "--title", title, "--out", str(out), *options])
    if not wait:
        return program, out
    return person_result(program, out)


def person_result(program: subprocess.Popen, out: Path) -> dict:
    """What `person` measured; waits for it to end."""
    if program.wait() != 0:
        raise MeasureError("the stand-in for the person failed: its message is above")
    data = json.loads(out.read_text())
    shutil.rmtree(out.parent)
    return data


def limelight_processes() -> list[int]:
    """The daemon and its per-login helpers, where limelight runs."""
    return [pid for name in ("limelight", "limelight-sense") for pid in processes(name)]


def process_cpu_s(pid: int) -> float:
    """CPU time of a process and all its threads, in seconds."""
    total_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        fields = read(thread / "schedstat").split()
        total_ns += int(fields[0]) if fields else 0
    return total_ns / 1e9


def series(values_ns: list[int], source: str, unit: str = "ms") -> dict:
    """A distribution for the result: ns to `unit` (ms or us)."""
    divisor = {"ms": 1e6, "us": 1e3}[unit]
    return {"unit": unit, "source": source, "values": [value / divisor for value in values_ns]}


def trace_series(trace: dict, group: str, what: str, unit: str = "ms") -> dict:
    """A distribution out of what wakelat recorded: `what` is dispatch, requeue or quantum."""
    return series(trace["groups"][group][f"{what}_ns"], trace["source"], unit)


def write_result(metrics: dict[str, float], series_by_name: dict[str, dict]) -> None:
    """Ends a measurement. The state of sched_ext goes along: a scheduler that was ejected must not pass for a fast one."""
    state = read("/sys/kernel/sched_ext/state")
    result = {
        "metrics": metrics,
        "series": series_by_name,
        "sched_ext": {"state": state, "ops": read("/sys/kernel/sched_ext/root/ops")},
    }
    Path(os.environ["LIMELIGHT_RESULT"]).write_text(json.dumps(result))


def run(measure, seconds: int = 0) -> None:
    """The main of every `measure`: sets the stage, measures, writes; explains what went wrong and exits with 1. It may take `seconds` longer than most."""
    def hang(_number: int, frame) -> None:
        raise Stalled(f"no end within {HANG_S + seconds} s; at {frame.f_code.co_name}, line {frame.f_lineno} of {frame.f_code.co_filename}")

    # Whoever hangs says where: the engine gives up some minutes later, and would have nothing to tell.
    signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANG_S + seconds)
    try:
        become_instrument()
        equal_sessions()
        desktop_at_rest()
        if at_floor():
            for name in (*X_SERVERS, "openbox"):
                for pid in processes(name):
                    raise_to_floor(pid)
        write_result(*measure(point()))
    except Stalled as error:
        print(f"measure: {error}", file=sys.stderr)
        raise SystemExit(STALLED) from None
    except MeasureError as error:
        raise SystemExit(f"measure: {error}") from None
