# SPDX-License-Identifier: GPL-2.0-only
"""examples/player for the guest: built on this machine, with the guest's FFmpeg, whose libraries are of another version on Debian 12."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from vmlab import cache, host, packages

RECIPE = "1"
"""Change it when what is done with the packages changes."""
PACKAGES = ("libavcodec-dev", "libavformat-dev", "libavutil-dev", "libswresample-dev", "libswscale-dev")
LIBRARY = re.compile(r"\b(?:libav[a-z]+|libsw[a-z]+)\d+\b")
"""What a package of PACKAGES depends on: the library itself."""
HOME = Path(__file__).resolve().parent.parent / "examples" / "player"
BUILT = HOME / "build" / "guest"


def build() -> Path:
    """Builds player and streamer where something changed; the directory that they are in."""
    tree = cache.item("ffmpeg", cache.key(RECIPE, packages.ROOT_SUITE, *PACKAGES), _fetch, needs_mb=200) / "tree"
    host.run(["make", "-s", "-C", HOME, "BUILD=build/guest", f"FFMPEG={tree}"], "build examples/player for the guest")
    return BUILT


def _fetch(into: Path) -> None:
    packages.update()
    cache.say(f"FFmpeg's development files: fetching those of {packages.ROOT_SUITE}")
    headers = packages.download([f"{name}/{packages.ROOT_SUITE}" for name in PACKAGES], into)
    depends = "".join(host.run(["dpkg-deb", "-f", path, "Depends"], f"read {path.name}") for path in headers)
    packages.download([f"{name}/{packages.ROOT_SUITE}" for name in sorted(set(LIBRARY.findall(depends)))], into)
    for path in into.glob("*.deb"):
        host.run(["dpkg-deb", "-x", path, into / "tree"], f"unpack {path.name}")
        path.unlink()
    shutil.rmtree(into / "tree/usr/share")
