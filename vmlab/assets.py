# SPDX-License-Identifier: GPL-2.0-only
"""What experiments need beside programs: films made by the guest's own ffmpeg, and benchmark programs of this project.

A film is made once, in a fast machine, and kept in the cache under a name that holds everything it depends on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from vmlab import player
from vmlab.cache import lock
from vmlab.errors import LabError, UsageError
from vmlab.machine import Options, boot

#: The films: ffmpeg's own test picture, 25 frames a second, a minute of it. The sizes are chosen so that player and X server need
#: about 40 % and 60-80 % of the laboratory's CPU (500 MIPS).
FILMS = {
    "film-small.avi": "testsrc2=size=576x324:rate=25:duration=60",
    "film-large.avi": "testsrc2=size=640x360:rate=25:duration=60",
}
#: Seconds of each of examples/player's films.
PLAYER_FILM_S = 20
#: -bitexact and one thread: the same ffmpeg writes the same bytes.
ENCODING = ("-c:v", "mpeg4", "-q:v", "4", "-threads", "1", "-bitexact", "-flags:v", "+bitexact")


def _once(kept: Path, name: str, make: Callable[[], None]) -> Path:
    """`kept`, made where it is not there yet: of two that ask at once for the first time, as ./demo's machines or a test and an experiment, one makes it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with lock(kept.with_suffix(".lock"), name):
        if not kept.exists():
            make()
    return kept


def _film(name: str, home: Path, say: Callable[[str], None]) -> Path:
    recipe = " ".join([FILMS[name], *ENCODING])
    kept = home / "assets" / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}" / name
    return _once(kept, name, lambda: _make_film(name, kept, say))


def _make_film(name: str, kept: Path, say: Callable[[str], None]) -> None:
    say(f"making {name} with the guest's ffmpeg (once)")
    with boot(Options(fast=True, cpus=2), say) as machine, tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", FILMS[name], *ENCODING, f"/root/out/{name}"]
        machine.check(["mkdir", "-p", "/root/out"])
        machine.check(command)
        machine.get("/root/out", folder)
        os.replace(Path(folder) / name, kept)


def _player_films(root: Path, cache: Path, say: Callable[[str], None]) -> list[Path]:
    """Films for the player of examples/player, in the size for a slow machine. Who asks for them needs the player, too."""
    player.build()
    recipe = root / "examples" / "player" / "make-films"
    kept = cache / "assets" / hashlib.sha256(recipe.read_bytes() + str(PLAYER_FILM_S).encode()).hexdigest()[:16]
    return sorted(_once(kept, "the player's films", lambda: _make_player_films(recipe, kept, say)).glob("*.mkv"))


def _make_player_films(recipe: Path, kept: Path, say: Callable[[str], None]) -> None:
    say("making the player's films with the guest's ffmpeg (once, some minutes)")
    with boot(Options(fast=True, cpus=2, copy=(str(recipe),)), say) as machine, tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        machine.check(["/root/in/make-films", "--small", "/root/out", str(PLAYER_FILM_S)])
        machine.get("/root/out", folder)
        os.replace(folder, kept)
        Path(folder).mkdir()


def _pass_cost(root: Path, say: Callable[[str], None]) -> Path:
    say("building the rating pass's benchmark")
    command = ["cargo", "build", "--release", "--quiet", "-p", "limelight-policy", "--example", "pass_cost"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError("cannot build the rating pass's benchmark", done.stderr.strip()[-2000:], "see `cargo build -p limelight-policy`")
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return target / "release" / "examples" / "pass_cost"


def coop_run(root: Path) -> list[Path]:
    """What starts unmodified programs as cooperative ones, the library that it looks for beside itself to put in front of theirs, and libcoop."""
    done = subprocess.run(["make", "-s", "-C", str(root / "coop")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError("cannot build libcoop", done.stderr.strip()[-2000:], "see make -C coop")
    return [root / "coop" / "build" / name for name in ("coop-run", "libcoop-preload.so", "libcoop.so.0")]


def needed(names: Sequence[str], points: Sequence[dict]) -> list[str]:
    """Of an experiment's assets those that these points need: where a point names its film, no other one."""
    shown = {f"film-{point['film']}.avi" for point in points if "film" in point}
    return [name for name in names if not shown or name not in FILMS or name in shown]


def prepare(names: Sequence[str], root: Path, cache: Path, say: Callable[[str], None]) -> list[Path]:
    """The files of these names, made where they are not there yet."""
    paths = []
    for name in names:
        if name in FILMS:
            paths.append(_film(name, cache, say))
        elif name == "player-films":
            paths += _player_films(root, cache, say)
        elif name == "pass_cost":
            paths.append(_pass_cost(root, say))
        elif name == "coop-run":
            paths += coop_run(root)
        elif name == "spec.d":
            paths += sorted((root / "packaging" / "spec.d").glob("*.toml"))
        else:
            others = ("player-films", "pass_cost", "coop-run", "spec.d")
            raise UsageError(f"no asset is called '{name}'", f"there are {', '.join([*FILMS, *others])}", "correct experiment.toml")
    return paths


def build_workloads(root: Path) -> None:
    """Builds workloads/ where something changed, and the player where ./lab setup has built it; nothing to do takes some milliseconds."""
    if shutil.which("make") is None:
        raise LabError("cannot build the workloads", "there is no make", "apt-get install make gcc libx11-dev libxtst-dev libxdamage-dev libgl-dev")
    done = subprocess.run(["make", "-s", "-C", str(root / "workloads")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(
            "cannot build the workloads",
            done.stderr.strip()[-2000:],
            "apt-get install gcc libx11-dev libxtst-dev libxdamage-dev libxfixes-dev libxext-dev libgl-dev",
        )
    if player.BUILT.is_dir():
        player.build()
