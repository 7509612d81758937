# SPDX-License-Identifier: GPL-2.0-only
"""The guest's kernels: Debian's packages, as a disk of modules and configuration, with a small first stage of the boot."""

from __future__ import annotations

import lzma
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vmlab import cache, host, packages
from vmlab.errors import LabError, UsageError

SERIES = {"6.18": "long-term", "7.2": "current"}
"""Kernel series the laboratory boots, and what each stands for."""
DEFAULT = "7.2"
BROKEN = frozenset({"7.2.12+deb13"})
"""Releases whose BTF describes kfuncs wrongly (the implicit argument is left in), so that no sched_ext program loads."""
RECIPE = "2"
"""Change it when what is built from a package changes."""
GUEST = Path(__file__).parent / "guest"
"""What runs in the guest before and beside the programs under test; `stage1` is the first process of all."""
MODULES = ("virtio_blk", "ext4", "overlay")
"""What the first stage needs to reach the root file system; their dependencies come along."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted."""

    release: str
    """As `uname -r` says."""
    image: Path
    disk: Path
    """ext4: `modules/` for /lib/modules and `boot/` for /boot."""
    initramfs: Path


def get(series: str, busybox: Path) -> Kernel:
    """The kernel of a series, fetched and built if need be. `busybox` is a static one for the first stage."""
    home = fetched(series)
    release = (home / "release").read_text().strip()
    stage = cache.item(
        f"initramfs-{series}", cache.key(RECIPE, release, busybox, *guest_files()), lambda into: _initramfs(home, release, busybox, into), needs_mb=50
    )
    return Kernel(release, home / "vmlinuz", home / "kernel.ext4", stage / "initramfs.cpio")


def fetched(series: str) -> Path:
    """The files of a kernel series as they come from its packages, fetched if need be."""
    if series not in SERIES:
        raise UsageError(f"no kernel {series!r}", "the laboratory has " + ", ".join(SERIES), "./lab exec --kernel 7.2")
    key = cache.key(RECIPE, series, *packages.SUITES, *sorted(BROKEN))
    return cache.item(f"kernel-{series}", key, lambda into: _fetch(series, into), needs_mb=1500)


def guest_files() -> list[Path]:
    """The files of GUEST."""
    return sorted(path for path in GUEST.iterdir() if path.is_file())


def _fetch(series: str, into: Path) -> None:
    packages.update()
    available = packages.names("linux-")
    release = packages.newest_kernel(available, series, BROKEN)
    wanted = packages.kernel_packages(available, release)
    cache.say(f"kernel {series}: fetching {release}")
    tree = into / "tree"
    for part in packages.download(wanted, into):
        host.run(["dpkg-deb", "-x", part, tree], f"unpack {part.name}")
        part.unlink()
    full = f"{release}-amd64"
    modules = next((path for path in (tree / "usr/lib/modules" / full, tree / "lib/modules" / full) if path.is_dir()), None)
    image = next(tree.rglob(f"vmlinuz*{full}"), None) or next(tree.rglob("vmlinuz"), None)
    config = next(tree.rglob(f"config-{full}"), None) or next(tree.rglob("config"), None)
    if modules is None or image is None or config is None:
        raise LabError(f"the packages of kernel {release} are not laid out as expected", f"looked in {', '.join(wanted)}", "change vmlab/kernels.py")
    disk = into / "disk"
    (disk / "boot").mkdir(parents=True)
    shutil.copy2(image, into / "vmlinuz")
    shutil.copy2(config, disk / "boot" / f"config-{full}")
    (disk / "lib" / "modules").mkdir(parents=True)
    shutil.move(modules, disk / "lib" / "modules" / full)
    host.run(["/usr/sbin/depmod", "-b", disk, full], "index the kernel's modules")
    shutil.move(disk / "lib" / "modules", disk / "modules")
    make_ext4(disk, into / "kernel.ext4", spare_mb=16)
    shutil.copytree(disk / "modules" / full, into / "modules", symlinks=True, ignore=lambda _d, _n: ["build", "source"])
    (into / "release").write_text(full)
    shutil.rmtree(tree)
    shutil.rmtree(disk)


def make_ext4(tree: Path, image: Path, spare_mb: int, step_mb: int = 1) -> None:
    """Makes a file system with the contents of a directory, its size a multiple of `step_mb`, in which this user's files belong to root.

    No journal: nothing here outlives the run, and its writes would be noise.
    """
    used_mb = int(host.run(["du", "-sm", "--apparent-size", tree], "measure a directory").split()[0])
    size_mb = -(-(used_mb + used_mb // 8 + spare_mb) // step_mb) * step_mb
    host.run(
        [*host.as_if_root(), "/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=0,root_owner=0:0", "-N",
         str(5_000 + 60 * size_mb), "-d", tree, image, f"{size_mb}M"],
        f"make the file system {image.name}",
    )


def _initramfs(home: Path, release: str, busybox: Path, into: Path) -> None:
    stage = into / "stage"
    for directory in ("bin", "proc", "sys", "dev", "mnt", "root", "modules", "guest"):
        (stage / directory).mkdir(parents=True)
    shutil.copy2(busybox, stage / "bin" / "busybox")
    order = load_order((home / "modules" / "modules.dep").read_text(), MODULES)
    names = []
    for module in order:
        name = Path(module).name.split(".ko")[0] + ".ko"
        data = (home / "modules" / module).read_bytes()
        (stage / "modules" / name).write_bytes(lzma.decompress(data) if module.endswith(".xz") else data)
        names.append(name)
    (stage / "modules" / "order").write_text("\n".join(names) + "\n")
    (stage / "release").write_text(release + "\n")
    for file in guest_files():
        shutil.copy2(file, stage / "guest" / file.name)
    shutil.copy2(GUEST / "stage1", stage / "init")
    listing = "\n".join(str(path.relative_to(stage)) for path in sorted(stage.rglob("*")))
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=stage, input=listing.encode(), capture_output=True, check=False)
    if packed.returncode != 0:
        raise LabError("cannot pack the first stage of the boot", packed.stderr.decode(errors="replace").strip(), "apt-get install cpio")
    (into / "initramfs.cpio").write_bytes(packed.stdout)
    shutil.rmtree(stage)


def load_order(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """The module files to load, dependencies first, from the text of a modules.dep."""
    needs = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[Path(path).name.split(".ko")[0].replace("-", "_")] = (path, rest.split())
    order: list[str] = []
    for name in wanted:
        if name not in needs:
            continue  # Built in.
        path, before = needs[name]
        # modules.dep names the nearest dependency first; the furthest has to be loaded first.
        for one in [*reversed(before), path]:
            if one not in order:
                order.append(one)
    return order
