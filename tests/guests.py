# SPDX-License-Identifier: GPL-2.0-only
"""What tests do with a machine: start and end the daemon, ask it, run programs as the person, and see what was left changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vmlab.assets import coop_run
from vmlab.machine import Machine, Options, Result

SCRIPTS = Path(__file__).resolve().parent / "guest"
#: What experiments do in the guest.
EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments" / "guest"
STATE = "/sys/kernel/sched_ext/state"
#: Loading takes 2 s of the laboratory's slow CPU, mostly in the kernel's verifier; many times that on four CPUs under load.
LOAD_S = 120
#: Limelight is in charge when the test begins: the state of such a machine is kept (vmlab/warm.py), so that it is loaded once, not for every test.
LIMELIGHT = Options(sched="limelight")
DESKTOP = replace(LIMELIGHT, desktop=True)
#: The long-term kernel and several CPUs: a scheduler has different bugs on each.
OLDER = {"kernel": "6.18"}
FOUR = {"cpus": 4}
#: The next key of a person who types 8 a second.
NEXT_KEY_S = 0.125
#: Of a window that changes every 5 ms, with little work.
ANIMATED = "--period-us 5000 --period-work-us 100 --draw-px 200"


def on(*machines: Options, elsewhere: Sequence[Options] = ()) -> Callable:
    """Has a test run in these machines instead of its module's, and with --everywhere in those of `elsewhere`, too."""

    def mark(function: Callable) -> Callable:
        function.machines = list(machines)
        function.elsewhere = list(elsewhere)
        return function

    return mark


def rare(*values: object) -> object:
    """Values of a parameter that a test has with --everywhere only."""
    return pytest.param(*values, marks=pytest.mark.everywhere)


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all have the same."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


class Guest:
    """A machine and the limelight in it."""

    def __init__(self, machine: Machine, idle_daemon: bool) -> None:
        self.machine = machine
        self.idle_daemon = idle_daemon
        machine.put(SCRIPTS)

    def run(self, command: str | Sequence[str], user: str = "root", timeout_s: float = 120) -> Result:
        """Runs a command to its end, whatever its status."""
        return self.machine.run(command, timeout_s=timeout_s, user=user)

    def check(self, command: str | Sequence[str], user: str = "root", timeout_s: float = 120) -> str:
        """Runs a command that has to succeed; returns what it printed."""
        result = self.run(command, user, timeout_s)
        assert result.status == 0, f"{command}: status {result.status}\n{result.stderr}{result.stdout}"
        return result.stdout

    def script(self, name: str, *words: object, timeout_s: float = 300) -> dict:
        """Runs tests/guest/NAME.py in the guest; returns the JSON it prints."""
        return json.loads(self.check(["python3", f"/root/in/guest/{name}.py", *map(str, words)], timeout_s=timeout_s))

    def background(self, command: str, user: str = "root") -> int:
        """Starts a program that stays; returns its process id. Its output goes to /run/test/NAME.log."""
        name = command.split()[0].rsplit("/", 1)[-1]
        self.check("mkdir -p -m 1777 /run/test")
        return int(self.check(f"setsid {command} >>/run/test/{name}.log 2>&1 </dev/null & echo $!", user))

    def start_limelight(self, *words: str) -> int:
        """Has the daemon in charge: starts it and waits for that, in a machine that did not begin with one; returns its process id."""
        if self.idle_daemon:
            return self.background("sleep infinity")
        if self.machine.options.sched == "limelight" and not words and self.state() == "enabled":
            return int(self.check("pgrep -o -x limelight"))
        pid = self.background(" ".join(["limelight run", *words]))
        waited = self.run(f"until [ $(cat {STATE}) = enabled ]; do kill -0 {pid} || exit 1; sleep 0.05; done", timeout_s=LOAD_S)
        assert waited.status == 0, f"limelight did not take charge:\n{self.log()}"
        return pid

    def install_coop_run(self) -> None:
        """Has coop-run where programs are looked for, and a folder in which everybody may write, /run/test."""
        programs = coop_run(Path(__file__).resolve().parents[1])
        for path in programs:
            self.machine.put(path)
        self.check(f"install -m 755 {' '.join(f'/root/in/{path.name}' for path in programs)} /usr/local/bin; mkdir -p -m 1777 /run/test")

    def log(self) -> str:
        """What the daemon has said so far."""
        return self.run("cat /run/lab/scheduler.log /run/test/limelight.log").stdout

    def state(self) -> str:
        """Whether a sched_ext scheduler is in charge: enabled or disabled."""
        return self.check(["cat", STATE]).strip()

    def seconds_until_disabled(self, blow: str, limit_s: float = 10) -> float:
        """Does `blow`; returns how long after it the kernel's own scheduler was back, in seconds of the guest."""
        seen = self.script("blow", blow, limit_s)
        assert seen["before"] == "enabled", "limelight was not in charge before the blow"
        assert seen["after"] == "disabled", f"it is still in charge {limit_s:g} s later"
        return seen["back_s"]

    def wait_until_gone(self, pid: int, limit_s: float = 30) -> None:
        """Waits for a process to end."""
        self.check(f"for i in $(seq {int(limit_s * 20)}); do {self._runs(pid)} || exit 0; sleep 0.05; done; exit 1")

    def is_running(self, pid: int) -> bool:
        """Whether a process is there and has not ended."""
        return self.run(self._runs(pid)).status == 0

    @staticmethod
    def _runs(pid: int) -> str:
        # One that has ended is there until its parent asks for it, and the laboratory's agent does not.
        return f"grep -qs '^State:[[:space:]][^ZX]' /proc/{pid}/status"

    def uptime_s(self) -> float:
        """Seconds since the machine began, by its own clock."""
        return float(self.check("cut -d' ' -f1 /proc/uptime"))

    def start_x_server(self, command: str, display: str) -> None:
        """Starts an X server under coop-run, beside the machine's own, and waits until it answers."""
        self.background(f"coop-run {command} {display} -ac -nolisten tcp")
        self.wait_for(lambda: self.run(f"DISPLAY={display} xdpyinfo >/dev/null").status == 0, "the X server is up")

    def status(self) -> dict:
        """limelight status --json."""
        return json.loads(self.check(["limelight", "status", "--json"]))

    def rated(self) -> dict[str, dict]:
        """The rated processes by name."""
        return {process["name"]: process for process in self.status()["processes"]}

    def classes(self) -> dict[str, str]:
        """The classes of the rated processes by name, as the scheduler itself has them at this moment (none where none is in charge)."""
        return {} if self.idle_daemon else self.script("classes")

    def wait_until_watched(self, limit_s: float = 10) -> None:
        """Waits until the display is watched."""
        self.wait_for(lambda: any("watched" in display["state"] for display in self.status()["displays"]), "the display is watched", limit_s)

    def wait_for_class(self, pid: int, name: str) -> None:
        """Waits until a process is of a class, by limelight's word."""
        self.wait_for(lambda: any(one["pid"] == pid and one["class"] == name for one in self.status()["processes"]), f"process {pid} is {name}", 20)

    def wait_for(self, question: Callable[[], object], what: str, limit_s: float = 10) -> None:
        """Asks until the answer is true, letting 0.1 s pass in the guest each time."""
        for _ in range(int(limit_s * 10)):
            if question():
                return
            self.check("sleep 0.1")
        raise AssertionError(f"{what}: not within {limit_s:g} s\n{self.log()}")

    def wait_until_said(self, ask: Callable[[], str], ending: str, limit_s: float = 10) -> None:
        """Asks until the answer ends with `ending`; else names the last one."""
        said = ""

        def is_said() -> bool:
            nonlocal said
            said = ask()
            return said.endswith(ending)

        try:
            self.wait_for(is_said, f"the answer ends with {ending!r}", limit_s)
        except AssertionError as error:
            raise AssertionError(f"{said!r}; {error}") from error

    def type(self, title: str, keys: int = 1, *options: str) -> None:
        """Has the person press keys in a window, and waits until the window has changed after each."""
        self.check(["person", "type", "--title", title, "--count", str(keys), "--out", "/tmp/typed.json", *options])
        assert json.loads(self.check("cat /tmp/typed.json"))["lost"] == 0, f"{title} did not react"

    def processes(self, name: str) -> list[int]:
        """The processes of that name, oldest first."""
        return [int(pid) for pid in self.run(["pgrep", "-x", name]).stdout.split()]

    def knobs(self) -> dict[str, str]:
        """Everything limelight could have changed and left so: see tests/guest/knobs.py."""
        return self.script("knobs")


def assert_unchanged(guest: Guest, before: dict[str, str], but: str = "") -> None:
    """Nothing differs from an earlier look at the knobs, but for one. The kernel takes a moment to free BPF objects: it gets 2 s.

    Kernel threads come and go by themselves: of tasks only those count that were there both times. Programs that stay are a knob.
    """
    for _ in range(20):
        after = guest.knobs()
        names = {name for name in before.keys() | after.keys() if not name.startswith("nice") or (name in before and name in after)}
        changed = [name for name in sorted(names) if before.get(name) != after.get(name) and name != but]
        if not changed:
            return
        guest.check("sleep 0.1")
    told = "\n".join(f"{name}\n  before: {before.get(name)}\n  after:  {after.get(name)}" for name in changed)
    raise AssertionError(f"left changed:\n{told}")
