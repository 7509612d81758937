# SPDX-License-Identifier: GPL-2.0-only
"""One virtual machine of the laboratory: boot it, run commands in it, carry files in and out.

    from vmlab.machine import Options, boot

    with boot(Options(sched="limelight", policy="unified", cpus=4, desktop=True)) as machine:
        machine.put("experiments/huc-fig7/measure")        # appears in /root/in/measure
        result = machine.run(["/root/in/measure"], timeout_s=120, env={"HOGS": "10"})
        result.status, result.stdout, result.stderr, result.virtual_s
        files = machine.get("/root/out", "results/out")    # directory on this side
        ...                                                # any number of commands in one boot

What holds inside the `with` block:

- The chosen scheduler is loaded: `eevdf` and `none` load nothing, `limelight` runs the daemon
  (`limelight run --policy P`), `scx_*` a peer from the cache. `/sys/kernel/sched_ext/state` says `enabled`.
- `/usr/local/bin` holds `limelight` and the other programs of `target/release`, everything in `workloads/build`, and player and
  streamer of `examples/player`, which `./lab setup` builds.
  A path given to `put` or in `Options.copy` lands in `/root/in`. Put files before the measurement, not during it.
- With `desktop`, an X server and openbox run as the user `person` (uid 1000); DISPLAY and XAUTHORITY are set for every command.
- Commands run as root with an empty stdin; `user="person"` runs them as that user. A list is executed as it is, a string by `bash -c`.
- Every clock in the guest shows virtual time unless `fast` is set. The machine stands still between commands.
- `timeout_s` is in virtual seconds and is enforced inside the guest: the command's process group is killed and `result.timed_out`
  is set, with status 124. `Options.real_timeout_s` bounds what one command may take on this machine's clock (LabError beyond it).

At the end of the block the guest's kernel log is searched (`vmlab.outcome`). `machine.faults` holds the hits; unless
`Options.faults` is "collect" (for measuring schedulers that may be ejected), a hit raises `KernelFault`. `machine.check_faults()`
looks at any earlier time, and `machine.scheduler_alive()` says whether the scheduler that was loaded is still the one in charge.

Errors: `LabError` (the laboratory failed: exit status 69; the text names the thing, the reason and the fix), `KernelFault` (a `LabError`
with exit status 70). A command that fails is no error here: look at `result.status`.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vmlab import outcome, payload, qemu, warm
from vmlab.channel import Channel
from vmlab.errors import KernelFault, LabError

Sink = Callable[[str, bytes], None]
"""Takes the output of a running command as it comes: ("stdout" or "stderr", bytes)."""


INSTRUCTION_NS = (1, 2, 4, 8, 16)
"""What an instruction can take: powers of two, in which QEMU counts, and of which 1 is the least."""
SLOW_NS, FAST_NS = 2, 1
"""What it takes with one or two CPUs (500 million a second), and with more (1,000 million, for all of them together)."""


def usual_ns(cpus: int) -> int:
    """What an instruction takes on a machine of so many CPUs where nothing else was chosen."""
    return SLOW_NS if cpus <= 2 else FAST_NS


def unusual_speed(cpus: int, instruction_ns: int) -> str:
    """How fast a machine of so many CPUs is, where that is not the usual: empty where it is."""
    return "" if instruction_ns == usual_ns(cpus) else f"{instruction_ns} ns an instruction"


INSTRUCTION_HELP = f"virtual time that an instruction takes: {', '.join(map(str, INSTRUCTION_NS))} ns (default: {SLOW_NS}; with more than two CPUs {FAST_NS})"


@dataclass(frozen=True)
class Options:
    """What machine to boot. Every field has the meaning of the option of the same name of `./lab exec`."""

    sched: str = "none"
    """`none`, `eevdf`, `limelight`, or a peer such as `scx_lavd`."""
    policy: str | None = None
    """For limelight: `unified`, `huc`, ...; None leaves it to the daemon."""
    sched_args: Sequence[str] = ()
    """Further arguments of the scheduler's program."""
    cpus: int = 1
    llcs: int = 1
    """Last-level caches, each shared by as many of the CPUs."""
    instruction_ns: int | None = None
    """Nanoseconds of virtual time that an instruction takes: 1, 2, 4, 8 or 16. None: 2 with one or two CPUs, 1 with more, so that a busy one of four,
    which share that time, is as fast as a busy one of two."""
    memory_mb: int = 2048
    kernel: str = "7.2"
    """Series of the kernel: see `vmlab.kernels.SERIES`."""
    desktop: bool = False
    display: str = "xvfb"
    """The X server of the desktop: `xvfb`, or `xorg` with the dummy driver."""
    screen: str = "1280x720"
    fast: bool = False
    """Real time and all host CPUs instead of virtual time: for tests of function, never for figures."""
    init: str = "lab"
    """`lab`: a script that starts nothing but the agent. `systemd`: the whole system."""
    variation: int = 0
    """Number of the boot among its repetitions. Virtual time repeats itself: another number gives the guest another random state (addresses,
    hash seeds) and starts it some milliseconds later, so that the spread between boots is a real one."""
    copy: Sequence[Path | str] = ()
    real_timeout_s: float = 1800.0
    boot_timeout_s: float = 600.0
    faults: str = "raise"
    """`raise` or `collect`: what a hit in the kernel log does at the end."""
    tty: bool = False
    """Give the guest a console on this terminal (`./lab shell`)."""

    @property
    def processors(self) -> str:
        """CPUs, caches where there are several, and their speed where it was chosen, as part of a name: 4cpu, 4cpu-2llc, 1cpu-1ns."""
        speed = f"-{self.instruction_ns}ns" if self.instruction_ns is not None else ""
        return f"{self.cpus}cpu" + (f"-{self.llcs}llc" if self.llcs > 1 else "") + speed

    @property
    def instruction_takes_ns(self) -> int:
        """What `instruction_ns` is, or is left to be."""
        return usual_ns(self.cpus) if self.instruction_ns is None else self.instruction_ns


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    """Exit status; 128 + signal number if a signal ended it; 124 when it ran out of time."""
    stdout: str
    stderr: str
    virtual_s: float
    """Time it took on the guest's monotonic clock, seconds."""
    timed_out: bool = False


@dataclass
class Machine:
    """A running guest. Made by `boot`."""

    options: Options
    release: str
    """The guest's `uname -r`."""
    _vm: qemu.Process
    _channel: Channel
    faults: list[str] = field(default_factory=list)

    def run(
        self,
        command: Sequence[str] | str,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        user: str = "root",
        sink: Sink | None = None,
        cwd: str | None = None,
    ) -> Result:
        """Runs a command to its end. `timeout_s` in virtual seconds (None: no limit but the real one).

        With a `sink`, output goes there as it comes and `Result.stdout` and `.stderr` stay empty.
        """
        request = {
            "argv": ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command],
            "timeout_s": timeout_s,
            "env": dict(env or {}),
            "user": user,
            "cwd": cwd,
            "tty": False,
        }
        return self._request(request, sink)

    def check(self, command: Sequence[str] | str, **kwargs) -> Result:
        """As `run`, for commands of the laboratory itself: a status other than 0 is a LabError with the output."""
        result = self.run(command, **kwargs)
        if result.status != 0:
            shown = command if isinstance(command, str) else shlex.join(map(str, command))
            raise LabError(
                f"in the guest, `{shown}` failed with status {result.status}",
                (result.stderr or result.stdout).strip()[-2000:] or "it printed nothing",
                "run it by hand: ./lab shell with the same options",
            )
        return result

    def put(self, source: Path | str, destination: str = "/root/in") -> None:
        """Copies a file or directory into the guest's directory `destination`, under its own name."""
        path = Path(source)
        if not path.exists():
            raise LabError(f"cannot copy {source} into the guest", "there is no such file", "check the path")
        with self._running():
            self._channel.send_tree(path, destination)

    def get(self, source: str, destination: Path | str) -> list[Path]:
        """Copies the contents of a directory of the guest into `destination`; returns the files that came."""
        target = Path(destination)
        target.mkdir(parents=True, exist_ok=True)
        with self._running():
            return self._channel.fetch_tree(source, target)

    def scheduler_alive(self) -> bool:
        """Whether the scheduler asked for is (still) in charge. Always true for `none` and `eevdf`."""
        if self.options.sched in payload.PLAIN:
            return True
        state = self.run(["cat", "/sys/kernel/sched_ext/state"]).stdout.strip()
        return state == "enabled"

    def check_faults(self) -> list[str]:
        """Searches the kernel log up to now; returns the lines that must not be there and keeps them in `faults`."""
        log = self.run(["dmesg", "--kernel", "--notime"]).stdout
        self.faults = outcome.faults_in(log)
        return self.faults

    def interactive(self) -> Result:
        """Runs a login shell on this terminal (needs `Options.tty`)."""
        size = shutil.get_terminal_size()
        request = {"argv": ["bash", "-l"], "timeout_s": None, "env": {}, "user": "root", "cwd": "/root", "tty": True, "size": [size.lines, size.columns]}
        return self._request(request, None, real_timeout_s=None)

    def _request(self, request: dict, sink: Sink | None, real_timeout_s: float | None = -1.0) -> Result:
        collected: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        limit = self.options.real_timeout_s if real_timeout_s == -1.0 else real_timeout_s
        self._channel.post("R", request)
        with self._running():
            reply = self._channel.follow(request, sink or (lambda name, data: collected[name].append(data)), limit)
        return Result(
            status=reply["status"],
            stdout=b"".join(collected["stdout"]).decode(errors="replace"),
            stderr=b"".join(collected["stderr"]).decode(errors="replace"),
            virtual_s=reply["virtual_s"],
            timed_out=reply["timed_out"],
        )

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Lets virtual time pass only while a request is served.

        An idle guest in virtual time leaps from timer to timer: hours would pass in it while this side thinks.
        """
        self._vm.resume()
        try:
            yield
        except LabError as error:
            raise self._vm.explain(error) from error
        self._vm.pause()


@contextlib.contextmanager
def boot(options: Options, progress: Callable[[str], None] | None = None) -> Iterator[Machine]:
    """Boots a machine, prepares it as `options` say, and takes it down at the end of the block."""
    say = progress or (lambda _text: None)
    parts = payload.prepare(options)
    directory = qemu.run_directory()
    previous = signal.signal(signal.SIGTERM, _terminate)
    vm = None
    try:
        disk = payload.build_disk(options, directory)
        state = warm.get(options, parts, disk, say)
        vm = qemu.start(options, parts, disk, directory, state)
        machine = _prepare(options, vm, say)
        yield machine
        _finish(machine)
    finally:
        signal.signal(signal.SIGTERM, previous)
        if vm is not None:
            vm.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _terminate(_number, _frame) -> None:
    """Turns SIGTERM into an exception, so that the virtual machine does not outlive this program."""
    raise KeyboardInterrupt


def _prepare(options: Options, vm: qemu.Process, say: Callable[[str], None]) -> Machine:
    """Gives a booted guest the disk of this run. Its desktop and its scheduler are part of the state that was kept."""
    channel = Channel(vm.connect_agent(options.boot_timeout_s), vm.alive)
    try:
        vm.loaded(options.boot_timeout_s)
        begin = {"op": "begin", "variation": options.variation}
        channel.post("C", begin)
        vm.resume()
        hello = channel.answer(begin, options.boot_timeout_s)
        desk = f", {options.display} and openbox" if options.desktop else ""
        caches = f" on {options.llcs} caches" if options.llcs > 1 else ""
        charge = f", {hello['ops']} in charge" if hello["ops"] else ""
        say(f"guest is up: Linux {hello['release']}, {options.cpus} CPU(s){caches}{desk}{charge}")
    except LabError as error:
        raise vm.explain(error) from error
    vm.pause()
    return Machine(options, hello["release"], vm, channel)


def _finish(machine: Machine) -> None:
    """Judges the kernel log of a run that got to its end."""
    hits = machine.check_faults()
    if hits and machine.options.faults == "raise":
        raise KernelFault(hits)
