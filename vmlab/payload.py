# SPDX-License-Identifier: GPL-2.0-only
"""What one machine is made of: QEMU, kernel, root image, and a small disk with the project's programs, made anew for every run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vmlab import asroot, host, image, kernels, peers, player, qemu
from vmlab.errors import LabError, UsageError

if TYPE_CHECKING:
    from vmlab.machine import Options

TREE = Path(__file__).resolve().parent.parent
STEP_MB = 512
"""The disk's size is a multiple of this, because the state of a booted machine is kept with the size it has seen."""
FLOOR = "fifo"
"""The kernel's own scheduler, with the display and the programs of the person in SCHED_FIFO: what no scheduler that has to find them out can do
better. With several CPUs nothing else says how much of a figure is the laboratory's doing (vmlab/README.md)."""
YARDSTICKS = (FLOOR, "rr", "deadline")
"""The kernel's own scheduler, with the programs of which an experiment tells in one of its real-time classes."""
PLAIN = ("none", "eevdf", *YARDSTICKS)
"""Scheduler names that load nothing: the kernel's own is in charge."""
POLICIES = ("unified", "huc", "redline", "coop")
"""What `limelight run --policy` takes."""


@dataclass(frozen=True)
class Parts:
    """The parts a machine is put together from."""

    qemu: list[str]
    kernel: kernels.Kernel
    image: image.Image
    scheduler: Path | None
    """The program of the scheduler to load: limelight's or a peer's."""


def prepare(options: Options) -> Parts:
    """Checks the options and fetches or builds what is not in the cache."""
    check(options)
    root, emulator = fetch((options.kernel,))
    return Parts(emulator, kernels.get(options.kernel, root.busybox), root, _scheduler(options.sched))


def _scheduler(name: str) -> Path | None:
    if name in PLAIN:
        return None
    return target_directory() / name if name == "limelight" else peers.get(name)


def require_root() -> None:
    """Sees to it that what only root can make can be made, before anything is: who has to give a password gives it now."""
    host.require_programs()
    missing = [name for name, part in (("the root image", image), ("QEMU", qemu)) if not part.is_there()]
    if missing:
        asroot.require(f"make {' and '.join(missing)}", "Debian's packages give files to root and other users")


def root_parts() -> None:
    """Makes what only root can make, and nothing else."""
    require_root()
    image.get()
    qemu.find()


def fetch(series: Sequence[str]) -> tuple[image.Image, list[str]]:
    """Fetches and builds image, QEMU and kernels, side by side: some wait for the network while others unpack."""
    require_root()
    with ThreadPoolExecutor() as pool:
        root, emulator, *rest = [pool.submit(image.get), pool.submit(qemu.find), *(pool.submit(kernels.fetched, one) for one in series)]
        for one in rest:
            one.result()
        return root.result(), emulator.result()


def check(options: Options) -> None:
    """Refuses what cannot be, before anything is built."""
    if options.sched not in (*PLAIN, "limelight", *peers.VERSION):
        known = ", ".join([*PLAIN, "limelight", *peers.VERSION])
        raise UsageError(f"no scheduler {options.sched!r}", f"the laboratory has {known}", "./lab exec --sched limelight")
    if options.kernel not in kernels.SERIES:
        raise UsageError(f"no kernel {options.kernel!r}", f"the laboratory has {', '.join(kernels.SERIES)}", f"./lab exec --kernel {kernels.DEFAULT}")
    if not 1 <= options.cpus <= 64:
        raise UsageError(f"no machine with {options.cpus} CPUs", "the laboratory makes 1 to 64", "./lab exec --cpus 4")
    if options.llcs < 1 or options.cpus % options.llcs:
        reason = "each has as many of them as the others"
        raise UsageError(f"{options.cpus} CPUs cannot share {options.llcs} last-level caches", reason, "./lab exec --cpus 4 --llcs 2")
    if not 256 <= options.memory_mb <= 65536:
        raise UsageError(f"no machine with {options.memory_mb} MB of memory", "the laboratory makes 256 to 65536", "./lab exec --memory 2048")
    if not re.fullmatch(r"[1-9]\d{2,3}x[1-9]\d{2,3}", options.screen):
        raise UsageError(f"no screen of {options.screen!r}", "it is width x height, 100 to 9999 each", "./lab exec --screen 1280x720")
    if options.policy is not None and options.sched != "limelight":
        raise UsageError(f"no policy {options.policy!r} for {options.sched}", "only limelight has policies", "add --sched limelight")
    if options.policy not in (None, *POLICIES):
        raise UsageError(f"no policy {options.policy!r}", f"limelight has {', '.join(POLICIES)}", "leave --policy out for unified")
    if options.sched == "limelight" and not (target_directory() / "limelight").exists():
        raise LabError("cannot run limelight in the guest", f"there is no {target_directory()}/limelight", "cargo build --release")
    for path in options.copy:
        if not Path(path).exists():
            raise UsageError(f"cannot copy {path} into the guest", "there is no such file", "check the path after --copy")


def target_directory() -> Path:
    """Where cargo leaves the project's programs."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or TREE / "target") / "release"


def require_fresh() -> None:
    """Refuses a limelight that was built before its sources were last written: results are named by those (scripts/code)."""
    program = target_directory() / "limelight"
    # What cargo wrote down beside it, as make would: `program: source source...`.
    listed = program.with_suffix(".d")
    if not (program.exists() and listed.exists()):
        return
    words = re.split(r"(?<!\\) ", listed.read_text().partition(": ")[2].strip())
    written = [Path(word.replace("\\ ", " ")) for word in words if not Path(word).is_relative_to(target_directory())]
    for source in written:
        if source.is_relative_to(TREE) and source.is_file() and source.stat().st_mtime > program.stat().st_mtime:
            what = f"{program} is not of the sources as they are"
            raise LabError(what, f"{source.relative_to(TREE)} was written after it was built", "cargo build --release --workspace")


def programs() -> list[Path]:
    """The project's programs that have been built."""
    found = []
    for directory in (target_directory(), TREE / "workloads" / "build", player.BUILT):
        if directory.is_dir():
            found += [path for path in sorted(directory.iterdir()) if path.is_file() and os.access(path, os.X_OK) and path.suffix != ".so"]
    return found


def build_disk(options: Options, directory: Path) -> Path:
    """Makes the disk: `bin/` for /usr/local/bin, `in/` for /root/in."""
    tree = directory / "disk"
    for part in ("bin", "in"):
        (tree / part).mkdir(parents=True)
    for program in programs():
        host.run(["strip", "-g", "-o", tree / "bin" / program.name, program], f"copy {program.name}")
    for path in map(Path, options.copy):
        if path.is_dir():
            shutil.copytree(path, tree / "in" / path.resolve().name, symlinks=True)
        else:
            shutil.copy2(path, tree / "in" / path.name)
    disk = directory / "lab.ext4"
    kernels.make_ext4(tree, disk, spare_mb=64, step_mb=STEP_MB)
    shutil.rmtree(tree)
    return disk


def scheduler_command(options: Options, program: str) -> list[str]:
    """What the guest runs to load the scheduler whose program it has at `program`."""
    words = ["run"] if options.sched == "limelight" else []
    if options.policy is not None:
        words += ["--policy", options.policy]
    return [program, *words, *options.sched_args]
