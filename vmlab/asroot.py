# SPDX-License-Identifier: GPL-2.0-only
"""The few steps that need root, for a user who has sudo: each alone goes through it, so that the cache stays the user's.

Nobody is asked for a password who is not there: without a terminal, or where CI is set, sudo has to do without one, or the step says what it lacks.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vmlab.errors import LabError

LEASH = Path(__file__).with_name("leash.py")
#: What sudo leaves out of the environment and downloads need.
KEPT = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def is_root() -> bool:
    """Whether nothing of this is needed."""
    return os.geteuid() == 0


def user() -> str:
    """Who this is."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def told() -> str:
    """What to say of a step that is root's, so that nobody wonders what sudo does there."""
    return "" if is_root() else ", by sudo: it gives files their owners in Debian"


def is_attended() -> bool:
    """Whether somebody can be asked for a password."""
    return sys.stdin is not None and sys.stdin.isatty() and not os.environ.get("CI")


def require(what: str, why: str) -> None:
    """Sees to it now that root's commands will run, or says why they will not: `what` cannot be done, for it needs root, and `why` that is."""
    if is_root():
        return
    if not shutil.which("sudo"):
        fix = f"run it as root; or as root: apt-get install sudo && adduser {user()} sudo, log in again and run the same command again"
        raise LabError(f"cannot {what}", f"that needs root ({why}), this is user {user()}, and there is no sudo", fix)
    asked = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if asked.returncode and is_attended():
        print(f"{user()} is not root, and to {what} needs it ({why}): sudo asks for your password", file=sys.stderr, flush=True)
        asked = subprocess.run(["sudo", "-v"], stderr=None, text=True, check=False)
    if asked.returncode:
        said = (asked.stderr or "its message is above").strip().splitlines()[-1]
        fix = "run it in a terminal, where sudo can ask for the password; or as root; or have root give you sudo (adduser USER sudo)"
        raise LabError(f"cannot {what}", f"that needs root ({why}), this is user {user()}, and sudo refuses: {said}", fix)


def leashed(command: Sequence[str | Path], env: Mapping[str, str] | None = None, patient: bool = False) -> list[str]:
    """The words that run a command as root until the pipe that is their standard input closes (leash.py); `env` comes on top of sudo's."""
    kept = {**{name: os.environ[name] for name in KEPT if name in os.environ}, **(env or {})}
    sudo = [] if is_root() else ["sudo", *([] if is_attended() else ["-n"])]
    leash = [sys.executable, "-I", str(LEASH), *(["--patient"] if patient else [])]
    return [*sudo, *leash, "env", *(f"{name}={value}" for name, value in kept.items()), *map(str, command)]


def let_go(child: subprocess.Popen) -> int:
    """Ends what `leashed` runs, and waits for it; its status."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    return child.wait()


@contextlib.contextmanager
def running(*command: str | Path, env: Mapping[str, str] | None = None, patient: bool = False) -> Iterator[subprocess.Popen]:
    """A command of root's for the length of the block, however that ends; a patient one comes to its own end."""
    child = subprocess.Popen(leashed(command, env, patient), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        yield child
    finally:
        let_go(child)


def remove(tree: Path) -> None:
    """Removes a directory; what a build as root that was killed has left in it, too."""
    try:
        shutil.rmtree(tree)
    except PermissionError:
        require(f"remove {tree}", "a step that ran as root was interrupted, and has left files of root's")
        with running("rm", "-rf", "--one-file-system", tree, patient=True) as child:
            if child.wait():
                raise LabError(f"cannot remove {tree}", "it holds files of root's; rm's message is above", f"sudo rm -rf {tree}") from None
