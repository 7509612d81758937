# SPDX-License-Identifier: GPL-2.0-only
"""An administrator who logs in while a fork bomb runs, and ends it: nobody may be locked out of a machine (Redline §2, §8.1).

The person's own end of the connection, the ssh program or the keyboard and screen of the console, is no part of the machine in question: it runs
above every ordinary task. What is measured is what happens at the other end.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import desk
import redline
import specs

#: What the administrator does about it: the bomb is a user's.
KILL = f"pkill -9 -u {desk.PERSON}\n"
PASSWORD = "laboratory"
#: In so long all the time is there again that logins go before reservations (login_first_ns), of which a tenth of the time comes back.
REST_S = 60
KEY = Path("/root/.ssh/id_ed25519")
#: What an administrator's login is made of, and what ends a bomb, as the paper's set has bash, top, ls and kill. A login is a chain of up to eight
#: processes at once, the scripts of the message of the day among them, which inherit: with 20 % for each, the fifth was refused.
TOOLS = (
    specs.Spec("sshd", 10, 100, "IL"), specs.Spec("/usr/lib/openssh/sshd-session", 10, 100, "IL"), specs.Spec("/usr/lib/openssh/sshd-auth", 10, 100, "IL"),
    specs.Spec("agetty", 10, 100, "IL"), specs.Spec("login", 10, 100, "IL"), specs.Spec("bash", 10, 100, "I"), specs.Spec("pkill", 20, 100),
)


class Terminal:
    """The administrator's end of a terminal: sends lines, and waits for what comes back."""

    def __init__(self) -> None:
        self.mine, self.theirs = pty.openpty()
        self.name = os.ttyname(self.theirs)
        self.text = b""

    def send(self, text: str) -> None:
        """Types it."""
        os.write(self.mine, text.encode())

    def expect(self, word: str, until_s: float) -> bool:
        """Waits until `word` has come since the last that was waited for; False when that does not happen in time."""
        while word.encode() not in self.text:
            left = until_s - time.monotonic()
            if left <= 0:
                return False
            if not select.select([self.mine], [], [], left)[0]:
                continue
            try:
                self.text += os.read(self.mine, 65536)
            except OSError:
                # login hangs the terminal up before it takes it: for a moment there is nobody at the other end.
                time.sleep(0.001)
        self.text = self.text.partition(word.encode())[2]
        return True

    def close(self) -> None:
        """Hangs up."""
        os.close(self.mine)
        os.close(self.theirs)


class Ssh:
    """A new login over the network, by a key."""

    def __init__(self) -> None:
        self._make_key()
        Path("/run/sshd").mkdir(exist_ok=True)
        self.server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-o", "UsePAM=yes"], stderr=subprocess.DEVNULL)
        self.client: subprocess.Popen | None = None
        self.terminal: Terminal | None = None
        time.sleep(1)

    def _make_key(self) -> None:
        subprocess.run(["ssh-keygen", "-A"], check=True, stdout=subprocess.DEVNULL)
        if not KEY.exists():
            KEY.parent.mkdir(mode=0o700, exist_ok=True)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY)], check=True)
            shutil.copy(f"{KEY}.pub", KEY.parent / "authorized_keys")

    def prepare(self) -> None:
        """Has the client wait to be let go: begun beside the bomb, it would be an ordinary process until it has raised itself."""
        self.terminal = Terminal()
        theirs = self.terminal.theirs
        gate, self.release = os.pipe()
        command = ["ssh", "-tt", "-i", str(KEY), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        self.client = subprocess.Popen(
            ["sh", "-c", 'read -r go <&"$0"; exec "$@"', str(gate), *command, "root@127.0.0.1"], stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=desk.become_instrument, pass_fds=[gate],
        )
        os.close(gate)
        time.sleep(0.5)

    def login(self, until_s: float) -> bool:
        """From the command to the prompt."""
        assert self.terminal
        os.write(self.release, b"\n")
        os.close(self.release)
        return self.terminal.expect("# ", until_s)

    def leave(self) -> None:
        """Ends the session."""
        if self.client and self.terminal:
            self.client.kill()
            self.client.wait()
            self.terminal.close()
            self.client = None

    def close(self) -> None:
        """And the server."""
        self.leave()
        self.server.terminate()
        self.server.wait()


class Console:
    """A new login at a terminal where agetty waits, by name and password."""

    def __init__(self) -> None:
        # Not the costliest of hashes: here it would be the measurement.
        subprocess.run(["chpasswd", "-c", "SHA512"], input=f"root:{PASSWORD}\n", text=True, check=True)
        self.getty: subprocess.Popen | None = None
        self.terminal: Terminal | None = None

    def prepare(self) -> None:
        """What init does when a session has ended."""
        self.terminal = Terminal()
        name = self.terminal.name.removeprefix("/dev/")
        self.getty = subprocess.Popen(["agetty", "--noclear", "--keep-baud", name, "115200", "xterm"], start_new_session=True)
        if not self.terminal.expect("login: ", time.monotonic() + desk.START_S):
            raise desk.MeasureError("agetty asks for no name")

    def login(self, until_s: float) -> bool:
        """From the name to the prompt."""
        assert self.terminal
        self.terminal.send("root\n")
        if not self.terminal.expect("Password: ", until_s):
            return False
        self.terminal.send(f"{PASSWORD}\n")
        return self.terminal.expect("# ", until_s)

    def leave(self) -> None:
        """Ends the session."""
        if self.getty and self.terminal:
            self.getty.kill()
            self.getty.wait()
            self.terminal.close()
            self.getty = None

    def close(self) -> None:
        """The same."""
        self.leave()


WAYS: dict[str, Callable[[], Ssh | Console]] = {"ssh": Ssh, "console": Console}


def _end_bomb(way: Ssh | Console, bomb: desk.Group, until_s: float) -> tuple[bool, float]:
    """Types what ends the bomb; whether nothing was left of it in time, and when the prompt was back: by then each process has been sent its SIGKILL."""
    assert way.terminal
    way.terminal.send(KILL)
    is_back, back_s = False, until_s
    while not redline.is_gone(bomb):
        now_s = time.monotonic()
        if now_s > until_s:
            return False, back_s
        if is_back:
            time.sleep(0.005)
        elif way.terminal.expect("# ", now_s + 0.005):
            is_back, back_s = True, time.monotonic()
    return True, min(back_s, time.monotonic())


def measure(way: str, bomb: str, load: str, count: int, patience_s: int, seed: int) -> tuple[dict, dict]:
    """How long a new login takes beside a bomb of `count` processes, and ending that; who is not through after `patience_s` is locked out."""
    if way not in WAYS:
        raise desk.MeasureError(f"way is '{way}': use {' or '.join(WAYS)}")
    specs.write([*TOOLS, *redline.specs_of_bomb(bomb)])
    there = WAYS[way]()
    group = None
    # The logins of an earlier point have had some of it.
    time.sleep(REST_S)
    try:
        # Once on the idle machine: what it takes there, and what comes from the disk is read by then.
        for _ in range(2):
            there.prepare()
            began = time.monotonic()
            if not there.login(began + desk.START_S):
                raise desk.MeasureError(f"nobody can log in by {way} on the idle machine")
            calm_s = time.monotonic() - began
            there.leave()
        there.prepare()
        group = redline.start_all(load, count, seed)
        time.sleep(desk.SETTLE_S)
        metrics = {"calm_login_s": calm_s, "bomb_size": float(desk.read(group.path / "pids.current")) - 1 if group else 0.0}
        return metrics | _through(there, group, patience_s), {}
    finally:
        there.close()
        if group:
            redline.end_at_once(group)


def _through(there: Ssh | Console, group: desk.Group | None, patience_s: int) -> dict[str, float]:
    """The login, and the end of the bomb."""
    began = time.monotonic()
    is_in = there.login(began + patience_s)
    at_prompt = back = time.monotonic()
    is_over = is_in
    if is_in and group:
        is_over, back = _end_bomb(there, group, began + patience_s)
    ended = time.monotonic()
    return {
        "login_s": at_prompt - began,
        "killed_s": back - began if is_in else float(patience_s),
        "kill_s": ended - at_prompt if is_in else float(patience_s),
        "total_s": ended - began if is_over else float(patience_s),
        "locked_out": float(not is_over),
    }
