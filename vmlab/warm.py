# SPDX-License-Identifier: GPL-2.0-only
"""Machines that have just booted, kept as files: a run starts from one instead of booting.

Everything up to the moment a run's own disk is mounted is the same for every run with the same kernel, CPUs, memory, mode and desktop, and an
emulated boot takes half a minute of this machine's time. The same goes for loading a scheduler, whose program the kernel's emulated verifier
reads for ten seconds to minutes: a second state, made from the first, has it in charge. The states fit because the root file system is mounted
read-only until a run begins, and the disk of the run, of a size that is part of the key, has not been opened. Runs that start from one
state are as independent as boots in virtual time are: those begin alike too, and differ by when the disk answers.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vmlab import cache, host, outcome, payload, qemu
from vmlab.channel import Channel
from vmlab.errors import KernelFault, LabError

if TYPE_CHECKING:
    from vmlab.machine import Options
    from vmlab.payload import Parts

KEPT = 24
"""States kept at most; each is 150 to 400 MB. The one not used for longest goes first."""
NEEDS_MB = 1500
SCHEDULERS = "/run/lab/schedulers"
"""Where a scheduler's program is in the guest: in memory, because the disk of the run is not there yet."""


Ready = Callable[[qemu.Process, Channel, Path], None]
"""Does what is left until a guest that is starting can be kept; the path is the directory of the run's files."""


def get(options: Options, parts: Parts, disk: Path, say: Callable[[str], None]) -> Path:
    """The state of a machine as `options` want it, its scheduler in charge, with a disk as large as `disk` as its third."""
    options = dataclasses.replace(options, tty=False)
    size_mb = disk.stat().st_size >> 20
    booted = _booted(options, parts, size_mb, say)
    if parts.scheduler is None:
        return booted / "state"
    command = payload.scheduler_command(options, f"{SCHEDULERS}/{parts.scheduler.name}")

    def load(vm: qemu.Process, channel: Channel, directory: Path) -> None:
        vm.loaded(options.boot_timeout_s)
        vm.resume()
        program = directory / parts.scheduler.name
        host.run(["strip", "-g", "-o", program, parts.scheduler], f"copy {parts.scheduler.name}")
        channel.send_tree(program, SCHEDULERS)
        channel.call({"op": "scheduler", "argv": command}, options.real_timeout_s)

    def build(into: Path) -> None:
        say(f"loading this {options.sched} into a machine of this kind for the first time (a quarter of a minute or more)")
        _build(options, parts, size_mb, into, booted / "state", load)

    # A scheduler that is being worked on has many builds, and several people may have one each: they do not replace each other.
    name = f"warm-{options.kernel}-{options.processors}-{options.sched}"
    home = cache.item(name, cache.key(booted.name, parts.scheduler, *command), build, needs_mb=NEEDS_MB, replaces=False)
    home.touch()
    return home / "state"


def _booted(options: Options, parts: Parts, size_mb: int, say: Callable[[str], None]) -> Path:
    """The directory with the state of a machine that has booted, and has its desktop up, without a scheduler."""
    # The places of this run's own files change from run to run and do not matter.
    words = qemu.arguments(options, parts, Path("disk"), Path("directory"))
    desk = (options.display, options.screen) if options.desktop else ()

    def boot(_vm: qemu.Process, channel: Channel, _directory: Path) -> None:
        channel.call({"op": "hello"}, options.boot_timeout_s)
        if options.desktop:
            channel.call({"op": "desktop", "display": options.display, "screen": options.screen}, options.boot_timeout_s)

    def build(into: Path) -> None:
        say("booting a machine of this kind for the first time (half a minute or more)")
        _build(options, parts, size_mb, into, None, boot)

    clock = "fast" if options.fast else "icount"
    name = "-".join(["warm", options.kernel, options.processors, f"{options.memory_mb}M", clock, options.init, *desk, f"{size_mb}M"])
    home = cache.item(name, cache.key(*parts.qemu, *words, *desk), build, needs_mb=NEEDS_MB)
    home.touch()
    return home


def _build(options: Options, parts: Parts, size_mb: int, into: Path, state: Path | None, ready: Ready) -> None:
    """Starts a machine, from the beginning or from a state, gets it ready, and keeps it."""
    _make_room(into.parent)
    directory = qemu.run_directory()
    blank = directory / "blank"
    with blank.open("wb") as file:
        file.truncate(size_mb << 20)
    vm = qemu.start(options, parts, blank, directory, state)
    try:
        channel = Channel(vm.connect_agent(options.boot_timeout_s), vm.alive)
        ready(vm, channel, directory)
        vm.pause()
        hits = outcome.faults_in((directory / "console").read_text(errors="replace"))
        if hits:
            raise KernelFault(hits)
        vm.save(into / "state", options.boot_timeout_s)
    except LabError as error:
        raise vm.explain(error) from error
    finally:
        vm.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _make_room(home: Path) -> None:
    """Removes the states that were not used for longest."""
    states = sorted((path for path in home.glob("warm-*") if path.is_dir() and path.suffix != ".tmp"), key=lambda path: path.stat().st_mtime)
    for path in states[: max(0, len(states) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)
