# SPDX-License-Identifier: GPL-2.0-only
"""The guest's root file system: Debian, with a desktop and the programs people use, as one ext4 image.

Its files belong to root and other users, so it is root who makes it: `python -m vmlab.image DIRECTORY`, by sudo where the laboratory is not root.
mmdebstrap could do without in a user namespace, but needs packages and numbers of users for that which a fresh machine lacks as often as not, and the
laboratory needs root there for its packages anyway.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from vmlab import asroot, cache, host, kernels, packages
from vmlab.errors import LabError

LIST = Path(__file__).parent / "image-packages.txt"
RECIPE = "1"
"""Change it when what is done beside installing the packages changes."""
SPARE_MB = 1500
"""Room for what programs write while the guest runs."""
LEFT_OUT = ("doc", "man", "info", "locale")


@dataclass(frozen=True)
class Image:
    """The root file system."""

    disk: Path
    busybox: Path


def get() -> Image:
    """The image, built if need be (about two minutes)."""
    home = cache.item("image", _key(), _build, needs_mb=6000)
    return Image(home / "root.ext4", home / "busybox")


def is_there() -> bool:
    """Whether `get` has nothing to build."""
    return cache.has("image", _key())


def _key() -> str:
    return cache.key(RECIPE, LIST)


def wanted() -> list[str]:
    """The packages listed."""
    lines = (line.strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _build(into: Path) -> None:
    cache.say(f"image: installing {len(wanted())} packages and what they need (about two minutes){asroot.told()}")
    if asroot.is_root():
        make(into)
        return
    # Root leaves no compiled modules in the user's checkout.
    env = {"PYTHONPATH": str(LIST.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    host.run([sys.executable, "-m", "vmlab.image", into], "make the root image", env=env, as_root=True)
    host.give_back(into)


def make(into: Path) -> None:
    """Installs, sets up and packs it, as root."""
    tree = into / "tree"
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in LEFT_OUT] + ["--dpkgopt=force-unsafe-io"]
    host.run(
        ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(wanted())}", "--aptopt=APT::Install-Recommends \"false\"", *left_out,
         f"--keyring={packages.KEYRING}", packages.ROOT_SUITE, tree, packages.mirror()],
        "install the root image",
    )
    finish(tree, into)


def finish(tree: Path, into: Path) -> None:
    """Sets up an installed tree and packs it."""
    host.run(["chroot", tree, "useradd", "--create-home", "--uid", "1000", "--shell", "/bin/bash", "person"], "add the user of the desktop")
    (tree / "etc/hostname").write_text("lab\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost lab\n")
    (tree / "etc/machine-id").write_text("")
    for directory in ("lab", "root/in", "root/out", "usr/lib/modules"):
        (tree / directory).mkdir(parents=True, exist_ok=True)
    shutil.copy2(tree / "bin/busybox", into / "busybox")
    cache.say("image: packing")
    kernels.make_ext4(tree, into / "root.ext4", SPARE_MB)
    shutil.rmtree(tree)


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]))
    except LabError as error:
        sys.exit(str(error))
