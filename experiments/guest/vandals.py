# SPDX-License-Identifier: GPL-2.0-only
"""Somebody else at the machine than who plays, with no more rights than any user has: who means harm, or as many who do not."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

#: Who is none of the players, and has a user's pages.
USER = "person"
DOOR = "/run/limelight/coop.sock"
#: Processes that scribble, and threads that are always due.
SCRIBBLERS = 3
ALWAYS_DUE = 20
#: As many honest programs as there are threads that mean harm.
HONEST = SCRIBBLERS + ALWAYS_DUE + 1
HONEST_PERIOD_US = 21_000
HONEST_STEP_US = 733
#: As long as anybody may measure.
FOR_EVER_S = 3600
#: No more than a message that is far too long.
MESSAGE_BYTES = 4096
#: Connections that are held open at once, and for how long each is asked on.
CONNECTIONS = 20
PAUSE_S = 0.01
#: More questions than a client may ask in a second.
FLOOD = 100


def _question(dice: random.Random, begin: bytes) -> bytes:
    """About a group, with a token that nobody has given; mostly one that makes sense."""
    return begin + struct.pack("=IIQ16s", dice.randrange(6), dice.randrange(40), dice.getrandbits(64), dice.randbytes(16))


def knock(seed: int) -> None:
    """Says nonsense, the beginning of sense, and sense, at the door of cooperative processes, asks about groups, and hangs up at any time."""
    dice = random.Random(seed)
    begin = struct.pack("=II", 0x706F6F63, 1)
    hello = begin + bytes(8)
    callers: list[socket.socket] = []
    while True:
        time.sleep(PAUSE_S)
        try:
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            caller.setblocking(False)
            caller.connect(DOOR)
            callers.append(caller)
            word = dice.choice([hello, hello[: dice.randrange(16)], dice.randbytes(dice.randrange(1, MESSAGE_BYTES)), b"", _question(dice, begin)])
            listens = dice.choice(callers)
            # Some of those who have a page ask more than anybody may, and none of them reads what it is told.
            for _ in range(dice.choice([1, 1, 1, FLOOD])):
                listens.send(word)
        except OSError:
            # Sent away, as it should be.
            pass
        while len(callers) > dice.randrange(CONNECTIONS):
            callers.pop(dice.randrange(len(callers))).close()


def who_is_in_charge() -> tuple[str, str, str]:
    """Whether a sched_ext scheduler is, the how many-th, and by which daemon."""
    kernel = Path("/sys/kernel/sched_ext")
    daemon = subprocess.run(["pgrep", "-x", "limelight"], capture_output=True, text=True, check=False).stdout
    return kernel.joinpath("state").read_text(), kernel.joinpath("enable_seq").read_text(), daemon


def _vandals(seed: int) -> list[list[str]]:
    """Some that scribble over their pages, one with threads that sleep until the past, as they say, and one at the door."""
    # What one writes over its page may end itself, too: then it begins again.
    again = f"while :; do vandal {FOR_EVER_S} $seed; seed=$((seed + {SCRIBBLERS})); sleep 0.1; done"
    commands = [["sh", "-c", f"seed={seed + number}; {again}"] for number in range(SCRIBBLERS)]
    return [*commands, ["dueflood", str(ALWAYS_DUE), "0"], [sys.executable, "-c", Path(__file__).read_text(), str(seed)]]


def _honest(seed: int) -> list[list[str]]:
    """Cooperative programs of other periods than the players'."""
    return [
        [
            "adaptive", f"--seconds={FOR_EVER_S}", f"--period-us={HONEST_PERIOD_US + HONEST_STEP_US * number}", "--timer-us=50", "--event-us=50",
            f"--seed={seed + number}",
        ]
        for number in range(HONEST)
    ]


COMPANY = {"nobody": lambda _seed: [], "vandals": _vandals, "honest": _honest}


class Company:
    """Programs of another user than the players'."""

    def __init__(self, who: str, seed: int) -> None:
        self.programs = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, user=USER, group=USER, extra_groups=[], start_new_session=True)
            for command in COMPANY[who](seed)
        ]

    def __enter__(self) -> Company:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        ended = [program.args[0] for program in self.programs if program.poll() is not None]
        for program in self.programs:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        if not kind and ended:
            raise RuntimeError(f"ended before it was told to, so that nothing was measured beside it: {ended}")


if __name__ == "__main__":
    knock(int(sys.argv[1]))
