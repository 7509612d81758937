# SPDX-License-Identifier: GPL-2.0-only
"""Other people's sched_ext schedulers, built from crates.io at pinned versions."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from vmlab import cache, host
from vmlab.errors import LabError, UsageError

VERSION = {
    "scx_beerland": "1.1.4",
    "scx_bpfland": "1.1.4",
    "scx_cosmos": "1.1.4",
    "scx_flash": "1.1.4",
    "scx_lavd": "1.1.4",
    "scx_p2dq": "1.1.4",
    "scx_rusty": "1.1.4",
}
"""Peers that can be asked for. `./lab setup` builds those in STANDARD; the others are built when first used."""
STANDARD = ("scx_bpfland", "scx_lavd")


def get(name: str) -> Path:
    """The program of a peer, built if need be (about four minutes)."""
    if name not in VERSION:
        raise UsageError(f"no scheduler {name!r}", f"the laboratory has none, eevdf, limelight, {', '.join(VERSION)}", "./lab exec --sched scx_lavd")
    home = cache.root() / "peers" / f"{name}-{VERSION[name]}"
    program = home / "bin" / name
    if not program.exists():
        _build(name, home)
    return program


def _build(name: str, home: Path) -> None:
    clang = next((found for found in ("clang-19", "clang-18", "clang") if shutil.which(found)), None)
    if clang is None or not shutil.which("cargo"):
        missing = "clang" if clang is None else "cargo"
        fix = "install it (apt-get install clang-19 libelf-dev zlib1g-dev pkg-config; Rust: scripts/setup)"
        raise LabError(f"cannot build {name}", f"there is no {missing}", fix)
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if (home / "bin" / name).exists():
            return
        cache.say(f"{name}: building {VERSION[name]} (about four minutes)")
        # The target directory stays in the cache until the build is through, so that an interrupted one goes on where it was.
        target = cache.root() / "peers" / "target"
        env = {"BPF_CLANG": os.environ.get("BPF_CLANG", clang), "CARGO_TARGET_DIR": str(target)}
        host.run(["cargo", "install", name, "--version", VERSION[name], "--locked", "--root", home], f"build {name}", env=env)
