# SPDX-License-Identifier: GPL-2.0-only
"""Machines that have just booted, kept as files: a run starts from one instead of booting.

Everything up to the moment a run's own disk is mounted is the same for every run with the same kernel, CPUs, memory, mode and desktop, and an
emulated boot takes half a minute of this machine's time. The state fits because the root file system is mounted read-only until then,
and the disk of the run, of a size that is part of the key, has not been opened. Runs that start from one state are as independent as boots
in virtual time are: those begin alike too, and differ by when the disk answers.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vmlab import cache, host, outcome, qemu
from vmlab.channel import Channel
from vmlab.errors import KernelFault, LabError

if TYPE_CHECKING:
    from vmlab.machine import Options
    from vmlab.payload import Parts

KEPT = 24
"""States kept at most; each is 150 to 400 MB. The one not used for longest goes first."""
NEEDS_MB = 1500
PEERS = "/run/lab/peers"
"""Where a peer's program is in the guest: in memory, because the disk of the run is not there yet."""


def get(options: Options, parts: Parts, disk: Path, say: Callable[[str], None]) -> Path:
    """The state of a machine as `options` want it, with a disk as large as `disk` as its third."""
    options = dataclasses.replace(options, tty=False)
    size_mb = disk.stat().st_size >> 20
    # The places of this run's own files change from run to run and do not matter.
    words = qemu.arguments(options, parts, Path("disk"), Path("directory"))
    desk = (options.display, options.screen) if options.desktop else ()
    peer = (options.sched, str(parts.peer), *options.sched_args) if parts.peer else ()
    clock = "fast" if options.fast else "icount"
    name = "-".join(["warm", options.kernel, f"{options.cpus}cpu", f"{options.memory_mb}M", clock, options.init, *desk, *peer[:1], f"{size_mb}M"])
    home = cache.item(
        name, cache.key(*parts.qemu, *words, *desk, *peer), lambda into: _build(options, parts, size_mb, into, say), needs_mb=NEEDS_MB
    )
    home.touch()
    return home / "state"


def bring_up(options: Options, parts: Parts, channel: Channel, directory: Path) -> None:
    """Waits for the agent of a booting guest and has it do what is the same for every run.

    That includes loading a peer, which never changes and can take minutes: the verifier's work is emulated too. The project's own
    scheduler is loaded by each run.
    """
    channel.call({"op": "hello"}, options.boot_timeout_s)
    if options.desktop:
        channel.call({"op": "desktop", "display": options.display, "screen": options.screen}, options.boot_timeout_s)
    if parts.peer:
        program = directory / parts.peer.name
        host.run(["strip", "-g", "-o", program, parts.peer], f"copy {parts.peer.name}")
        channel.send_tree(program, PEERS)
        argv = [f"{PEERS}/{program.name}", *options.sched_args]
        channel.call({"op": "scheduler", "argv": argv}, options.real_timeout_s)


def _build(options: Options, parts: Parts, size_mb: int, into: Path, say: Callable[[str], None]) -> None:
    say("booting a machine of this kind for the first time (half a minute or more)")
    _make_room(into.parent)
    directory = qemu.run_directory()
    blank = directory / "blank"
    with blank.open("wb") as file:
        file.truncate(size_mb << 20)
    vm = qemu.start(options, parts, blank, directory, None)
    try:
        channel = Channel(vm.connect_agent(options.boot_timeout_s), vm.alive)
        bring_up(options, parts, channel, directory)
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
