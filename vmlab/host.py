# SPDX-License-Identifier: GPL-2.0-only
"""Commands of this machine, run so that a failure says what it means."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from vmlab import asroot, cache
from vmlab.errors import LabError

SIGNS = (
    (
        ("Temporary failure resolving", "Could not resolve", "Could not connect", "Network is unreachable", "Connection timed out",
         "Connection refused", "Failed to fetch", "failed to download", "Unable to connect"),
        "a download failed: the network or the mirror does not answer",
        "check the network and run the same command again; the parts that are finished are kept",
    ),
    (("No space left on device", "Could not write", "not enough free space", "Could not allocate block"),
     "the disk is full", "free some space, or point LIMELIGHT_CACHE at another disk"),
    (("Unable to locate package", "has no installation candidate", "couldn't be found"),
     "the suite has no such package any more", "look for its new name in the suite and change it where it is listed"),
    (("NO_PUBKEY", "is not signed", "public key is not available", "Sub-process /usr/bin/sqv returned"),
     "this machine does not know the key that signs the suite",
     "apt-get install --only-upgrade debian-archive-keyring, then run the same command again"),
    (("Permission denied", "are you root", "Operation not permitted"),
     "something of root's is in the way", "see whose it is (ls -l); LIMELIGHT_CACHE chooses another cache"),
    (("a password is required", "a terminal is required"), "sudo wants a password, and nobody is there to give it", "run the same command again in a terminal"),
)
"""What programs print, what it means, and what to do. The first hit counts."""


def explain(output: str) -> tuple[str, str]:
    """Reason and fix for what a failed command printed."""
    for words, why, fix in SIGNS:
        line = next((line.strip() for line in output.splitlines() if any(word in line for word in words)), None)
        if line is not None:
            return f"{why} ({line[:300]})", fix
    tail = "\n    ".join(output.strip().splitlines()[-8:])
    return f"its last words were:\n    {tail or '(none)'}", "run the same command again; if it fails again, run the step by hand"


def run(command: Sequence[str | Path], what: str, cwd: Path | None = None, env: dict[str, str] | None = None, patience_s: float = 20.0,
        as_root: bool = False) -> str:
    """Runs a command to its end, with sudo where it is to be `as_root`, and returns its standard output; LabError if it fails.

    One that takes longer than `patience_s` is reported every so often, with the last line it printed.
    """
    words = asroot.leashed(command, env) if as_root else [str(word) for word in command]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                words, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.PIPE if as_root else subprocess.DEVNULL, stdout=out, stderr=err
            )
        except FileNotFoundError as error:
            raise LabError(f"cannot {what}", f"there is no program {words[0]}", f"apt-get install it, or run ./lab setup ({error})") from error
        try:
            while True:
                try:
                    status = child.wait(patience_s)
                    break
                except subprocess.TimeoutExpired:
                    last = (_text(err).strip() or _text(out).strip()).splitlines()[-1:]
                    cache.say(f"  {what}: {time.monotonic() - begun:.0f} s{': ' + last[0][:120] if last else ''}")
        except BaseException:
            if as_root:
                asroot.let_go(child)
            else:
                child.terminate()
                child.wait()
            raise
        if status != 0:
            why, fix = explain(_text(err) + _text(out))
            raise LabError(f"cannot {what}: {Path(command[0]).name} failed with status {status}", why, fix)
        return _text(out)


def _text(file: IO[bytes]) -> str:
    """What a program has written to a file so far."""
    return os.pread(file.fileno(), MOST_BYTES, 0).decode(errors="replace")


MOST_BYTES = 1 << 26
"""The most that is taken of what a program prints."""
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "cpio": "cpio",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
}
"""Program the laboratory runs, and the Debian package it is in."""


def require_programs() -> None:
    """Installs the packages of the programs that are missing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)})
    if not missing:
        return
    asroot.require(f"install {' '.join(missing)}", "apt's packages are for the whole machine")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], "update the package lists", env=env, as_root=True)
    run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], f"install {' '.join(missing)}", env=env, as_root=True)


def give_back(tree: Path) -> None:
    """Makes what a step has made as root the property of who asked for it."""
    if not asroot.is_root():
        run(["chown", "-hR", f"{os.geteuid()}:{os.getegid()}", tree], f"take over {tree.name} from root", as_root=True)


def as_if_root() -> list[str]:
    """Words before a command, for which this user's files then belong to root: those of a guest's disk do. Nothing where the kernel allows no user
    namespaces: they have this user's number in the guest, then, where root reads and runs them just as well."""
    words = ["unshare", "--map-root-user"]
    return words if not asroot.is_root() and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else []
