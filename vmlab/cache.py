# SPDX-License-Identifier: GPL-2.0-only
"""The cache of everything the laboratory builds: each item in a directory named by what it was made from.

An item is built in `NAME-KEY.tmp` and renamed when it is whole, so an interrupted build leaves nothing that looks finished, and a
changed input makes another name. A lock per item keeps two laboratories from building it at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from vmlab import asroot
from vmlab.errors import LabError

#: An item with other inputs that was not used for so long is not missed.
UNUSED_S = 24 * 3600


def root() -> Path:
    """Where the cache is: LIMELIGHT_CACHE, or `limelight` in the user's cache directory."""
    named = os.environ.get("LIMELIGHT_CACHE")
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limelight"


def key(*inputs: str | bytes | Path) -> str:
    """Twelve digits that change when one of the inputs does; a Path counts by its contents."""
    digest = hashlib.sha256()
    for one in inputs:
        data = one.read_bytes() if isinstance(one, Path) else one.encode() if isinstance(one, str) else one
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]


def say(text: str) -> None:
    """Progress, for the person who waits."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def has(name: str, inputs_key: str) -> bool:
    """Whether an item is there, whole."""
    return (root() / "lab" / f"{name}-{inputs_key}").is_dir()


def item(name: str, inputs_key: str, build: Callable[[Path], None], needs_mb: int = 0, replaces: bool = True) -> Path:
    """The directory of an item, built if it is not there. `build` fills the empty directory it is given.

    It `replaces` items of the same name with other inputs that nobody has used for a day, unless told that both are of use:
    another checkout may have a machine running from one that was used today.
    """
    home = root() / "lab"
    finished = home / f"{name}-{inputs_key}"
    if has(name, inputs_key):
        os.utime(finished)
        return finished
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(home, error) from error
    with lock(home / f"{name}.lock", name), _explained(home):
        if finished.is_dir():
            return finished
        _require_space(home, needs_mb, name)
        unfinished = home / f"{name}-{inputs_key}.tmp"
        if unfinished.exists():
            say(f"{name}: an earlier build was interrupted; starting it over")
            asroot.remove(unfinished)
        unfinished.mkdir()
        build(unfinished)
        unfinished.rename(finished)
        for old in home.glob(f"{name}-*") if replaces else ():
            # A key has no hyphen: what follows one belongs to an item whose name begins alike.
            is_of_name = old.is_dir() and old != finished and "-" not in old.name.removeprefix(f"{name}-")
            if is_of_name and time.time() - old.stat().st_mtime > UNUSED_S:
                shutil.rmtree(old)
    return finished


def _require_space(where: Path, needs_mb: int, name: str) -> None:
    free_mb = shutil.disk_usage(where).free // (1 << 20)
    if free_mb < needs_mb:
        raise LabError(
            f"cannot build {name}",
            f"it needs {needs_mb} MB and {where} has {free_mb} MB free",
            "free some space, or point LIMELIGHT_CACHE at another disk",
        )


@contextlib.contextmanager
def _explained(where: Path) -> Iterator[None]:
    """Gives the errors of the file system a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        raise _unwritable(where, error) from error


def _unwritable(where: Path, error: OSError) -> LabError:
    return LabError(
        f"cannot write to the cache {where}",
        error.strerror or str(error),
        "free some space, or point LIMELIGHT_CACHE at a directory that can be written",
    )


@contextlib.contextmanager
def lock(path: Path, name: str) -> Iterator[None]:
    """Keeps two laboratories from building `name` at once: the other one waits."""
    with _explained(path.parent), path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another laboratory is building it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
