# SPDX-License-Identifier: GPL-2.0-only
"""QEMU: which one, with what arguments, and its process.

Version 8.1 or later is needed: before it, `-icount` lets one virtual CPU run up to 100 ms before the next gets a turn. Where the machine's own
is older (Debian 12), Debian 13's is unpacked into the cache and run there through its own dynamic loader, without a chroot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vmlab import asroot, cache, host, outcome, packages
from vmlab.errors import KernelFault, LabError
from vmlab.near import Near

if TYPE_CHECKING:
    from vmlab.machine import Options
    from vmlab.payload import Parts

MACHINE_ID = "11e11ab0" * 4
"""The guest's machine id: given, or systemd would treat every boot as the first."""
LEFT_OUT_UNITS = (
    "serial-getty@ttyS0.service", "ldconfig.service", "e2scrub_reap.service", "systemd-hwdb-update.service", "systemd-journal-catalog-update.service",
    "systemd-update-done.service", "systemd-firstboot.service", "systemd-udev-trigger.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
    "modprobe@configfs.service", "modprobe@fuse.service",
)
"""Units of no use in a guest that lives for minutes, and slow where every instruction is emulated."""
RUN_PREFIX = "limelight-lab-"
OLDEST = (8, 1)
RECIPE = "1"
# Microseconds of virtual time between the timers that end turns of the virtual CPUs: three CPUs' turns of a quarter of one are the error of a
# latency. Two that are no multiples of each other, or the first two of four busy CPUs run at 0.36 of the speed of the third: see turns().
TURNS_US = (48, 80)


def _own() -> str | None:
    """This machine's QEMU, if it is a good one."""
    own = shutil.which("qemu-system-x86_64")
    return own if own and version(host.run([own, "--version"], "ask QEMU for its version")) >= OLDEST else None


def is_there() -> bool:
    """Whether `find` has nothing to unpack."""
    return cache.has("qemu", _key()) or _own() is not None


def _key() -> str:
    return cache.key(RECIPE, packages.ROOT_SUITE)


def find() -> list[str]:
    """The command that starts a good QEMU, without its arguments."""
    own = _own()
    if own:
        return [own]
    home = cache.item("qemu", _key(), _unpack, needs_mb=600)
    tree = home / "tree"
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    return [
        str(libraries / "ld-linux-x86-64.so.2"), "--library-path", f"{libraries}:{libraries}/pulseaudio:{tree}/lib/x86_64-linux-gnu",
        str(tree / "usr/bin/qemu-system-x86_64"), "-L", str(tree / "usr/share/seabios"), "-L", str(tree / "usr/share/qemu"),
    ]


def version(text: str) -> tuple[int, ...]:
    """The version in what `qemu --version` prints; (0, 0) if there is none."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _unpack(into: Path) -> None:
    cache.say(f"qemu: fetching Debian 13's (this machine's is missing or older than 8.1){asroot.told()}")
    host.run(
        ["mmdebstrap", "--variant=extract", "--mode=root", f"--keyring={packages.KEYRING}", "--include=qemu-system-x86,seabios",
         "--dpkgopt=path-exclude=/usr/share/doc/*", packages.ROOT_SUITE, into / "tree", packages.mirror()],
        "unpack QEMU", as_root=True,
    )
    host.give_back(into)


def accelerator(options: Options, cpuinfo: str) -> list[str]:
    """Arguments that choose how the guest's instructions run. KVM only where the CPU itself offers it: a /dev/kvm alone proves nothing."""
    if not options.fast:
        shift = options.instruction_takes_ns.bit_length() - 1
        return ["-accel", "tcg", "-icount", f"shift={shift},sleep=off", "-rtc", "clock=vm,base=2026-01-01", "-seed", "1"]
    if re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo, re.MULTILINE) and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ["-accel", "kvm", "-accel", "tcg,thread=multi"]
    return ["-accel", "tcg,thread=multi"]


def turns(options: Options) -> list[str]:
    """Arguments that make virtual CPUs take turns often, where time is virtual and there are several of them.

    Under `-icount` they run one after the other, each until a share of the time to the next timer of the virtual clock. With
    busy CPUs and only the guest's own timers that is up to a millisecond, in which an interrupt of another CPU waits: a
    SCHED_FIFO task beside 16 spinning ones on 4 CPUs was dispatched after 0.19 ms (median) and 1.1 ms (p99), an artefact as large as what is
    measured. A packet filter on a network that nobody uses sets a timer, which bounds it: with one of 40 us 0.025 and 0.06 ms.

    A turn is a quarter (of four CPUs) of what is left to the next timer when the round begins. A timer that fires ends the round for every CPU, so
    a few short rounds follow, each of a quarter of what the one before has left, and where the next timer finds the last of them depends on what
    remains when its time is divided by four, and by four again. With one interval that is the same every time: of 40 us the four CPUs got 0.14,
    0.14, 0.39 and 0.33 (measured, and computed from QEMU's source), so what a task took depended on the CPU that it was on. With these
    two it is 0.25, 0.22, 0.29 and 0.24 (both). 32 and 48 are as even, and take twice as long on the machine that runs them. Where one of the four
    is idle, the last of the others still gets half.
    """
    if options.fast or options.cpus == 1:
        return []
    filters = [["-object", f"filter-buffer,id=turn{interval},netdev=turns,interval={interval}"] for interval in TURNS_US]
    return ["-netdev", "hubport,id=turns,hubid=0", *(word for words in filters for word in words)]


def arguments(options: Options, parts: Parts, disk: Path, directory: Path) -> list[str]:
    """QEMU's arguments for one run. The devices are the same for a run with and without a terminal, so that they can share a state."""
    words = ["console=ttyS0", "quiet", "loglevel=4", "panic=-1", "mitigations=off", "nokaslr", "random.trust_cpu=on", "selinux=0", "apparmor=0"]
    if options.fast:
        # Real time on a busy machine: that a CPU gets no turn for a while says nothing about the scheduler under test.
        words += ["rcupdate.rcu_cpu_stall_timeout=300", "watchdog_thresh=60"]
    if options.init == "systemd":
        words += [f"systemd.machine_id={MACHINE_ID}", *(f"systemd.mask={unit}" for unit in LEFT_OUT_UNITS)]
    words += ["nmi_watchdog=0", "no_timer_check", f"lab.init={options.init}"]
    drives = [(parts.image.disk, "on"), (parts.kernel.disk, "on"), (disk, "off")]
    result = [
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-cpu", "max",
        "-m", f"{options.memory_mb}M", "-smp", f"{options.cpus},sockets={options.llcs}" if options.llcs > 1 else str(options.cpus),
        *accelerator(options, Path("/proc/cpuinfo").read_text()), *turns(options),
        "-kernel", str(parts.kernel.image), "-initrd", str(parts.kernel.initramfs), "-append", " ".join(words),
        "-chardev", f"file,id=log,path={directory}/console", "-serial", "chardev:log",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={directory}/agent,server=on,wait=off", "-device", "virtserialport,chardev=agent,name=lab.agent",
        "-qmp", f"unix:{directory}/qmp,server=on,wait=off",
    ]
    for number, (path, snapshot) in enumerate(drives):
        result += ["-drive", f"file={path},format=raw,if=none,id=d{number},cache=unsafe,snapshot={snapshot}", "-device", f"virtio-blk-pci,drive=d{number}"]
    return [*result, "-chardev", "stdio,id=tty,signal=off" if options.tty else "null,id=tty", "-device", "virtconsole,chardev=tty"]


def run_directory() -> Path:
    """A new directory for the files of one run. Those of runs that were killed are removed."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{RUN_PREFIX}*-*"):
        if not Path("/proc", left.name.removeprefix(RUN_PREFIX).split("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{RUN_PREFIX}{os.getpid()}-"))


@dataclass
class Process:
    """A running QEMU."""

    child: subprocess.Popen
    directory: Path
    kept: list[Near] = field(default_factory=list)
    """What it reads, in this machine's memory."""
    _qmp: socket.socket | None = None

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.child.poll() is None

    def connect_agent(self, limit_s: float) -> socket.socket:
        """Connects to the port of the guest's agent."""
        return self._connect("agent", limit_s)

    def pause(self) -> None:
        """Stops the guest's clocks and CPUs."""
        self._command("stop")

    def resume(self) -> None:
        """Lets the guest go on."""
        self._command("cont")

    def save(self, state: Path, limit_s: float) -> None:
        """Writes the whole state of the paused guest to a file."""
        self._command("migrate", {"uri": f"file:{state}"})
        deadline = time.monotonic() + limit_s
        while True:
            status = self._command("query-migrate").get("status")
            if status == "completed":
                return
            if status in ("failed", "cancelled", None) or time.monotonic() > deadline:
                raise LabError("cannot keep the state of the booted guest", f"QEMU says {status}", f"see whether {state.parent} has space")
            time.sleep(0.05)

    def loaded(self, limit_s: float) -> None:
        """Waits until a state given to `start` is in the guest, which then stands still."""
        deadline = time.monotonic() + limit_s
        while self._command("query-status").get("status") == "inmigrate" and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self.alive() or time.monotonic() >= deadline:
            why = "it took too long" if self.alive() else "QEMU ended"
            raise LabError("the kept state of a booted guest does not load", why, "remove the cache's lab/warm-* and run the same command again")

    def stop(self) -> None:
        """Ends it."""
        if self.alive():
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()
        for one in self.kept:
            one.close()

    def explain(self, error: LabError) -> LabError:
        """The same error, with what the guest's console and QEMU said."""
        if type(error) is not LabError:
            return error
        console = self.directory / "console"
        hits = outcome.faults_in(console.read_text(errors="replace")) if console.exists() else []
        if hits:
            return KernelFault(hits)
        said = []
        for name in ("console", "qemu"):
            path = self.directory / name
            lines = path.read_text(errors="replace").splitlines()[-25:] if path.exists() else []
            if lines:
                said.append(f"the {name} said:\n    " + "\n    ".join(line[:300] for line in lines))
        return LabError(error.what, "\n  ".join([error.why, *said]), error.fix)

    def _connect(self, name: str, limit_s: float) -> socket.socket:
        deadline = time.monotonic() + limit_s
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(self.directory / name))
                return connection
            except OSError as error:
                connection.close()
                if not self.alive() or time.monotonic() > deadline:
                    problem = LabError("the virtual machine did not start", f"QEMU ended with status {self.child.poll()} ({error})", "run ./lab setup again")
                    raise self.explain(problem) from error
                time.sleep(0.02)

    def _command(self, name: str, arguments: dict | None = None) -> dict:
        """Gives an order over QEMU's control socket; returns what it answers, nothing when QEMU is gone."""
        if not self.alive():
            return {}
        try:
            if self._qmp is None:
                self._qmp = self._connect("qmp", 30.0)
                self._qmp.settimeout(30.0)
                self._answer("QMP")
                self._qmp.sendall(b'{"execute": "qmp_capabilities"}\n')
                self._answer("return")
            self._qmp.sendall(json.dumps({"execute": name, "arguments": arguments or {}}).encode() + b"\n")
            return self._answer("return")
        except OSError as error:
            if self.alive():
                raise LabError("QEMU does not answer", str(error), "run the same command again") from error
            return {}

    def _answer(self, wanted: str) -> dict:
        """Reads up to the answer; events come in between."""
        assert self._qmp is not None
        pending = b""
        while True:
            piece = self._qmp.recv(65536)
            if not piece:
                raise ConnectionError("its control socket closed")
            pending += piece
            lines = pending.split(b"\n")
            pending = lines.pop()
            for answer in (json.loads(line) for line in lines if line.strip()):
                if "error" in answer:
                    raise LabError("QEMU refused an order", answer["error"].get("desc", "it says nothing"), "run ./lab setup again")
                if wanted in answer:
                    return answer[wanted]


def start(options: Options, parts: Parts, disk: Path, directory: Path, state: Path | None) -> Process:
    """Starts QEMU on the parts of a machine: from the beginning, or from the `state` of a booted one."""
    kept = [Near(path) for path in (parts.image.disk, parts.kernel.disk, disk)]
    # It must not outlive this program, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", "--", *parts.qemu, *arguments(options, parts, disk, directory)]
    if state is not None:
        command += ["-incoming", f"file:{state}"]
    log = (directory / "qemu").open("w")
    # The changes to the root disk go to a file in TMPDIR: beside the run's other files, so that they go with them.
    env = {**os.environ, "TMPDIR": str(directory)}
    stdin = None if options.tty else subprocess.DEVNULL
    stdout = None if options.tty else log
    # A Ctrl-C is for this program, not for its machine. Yet of one session: by sessions the kernel makes its autogroups, across which no `nice` counts.
    group = -1 if options.tty else 0
    return Process(subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=log, env=env, process_group=group), directory, kept)
