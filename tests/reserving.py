# SPDX-License-Identifier: GPL-2.0-only
"""Specifications in a guest: writing them, and who holds a reservation by them."""

from __future__ import annotations

import json

from tests.guests import Guest

FOLDER = "/etc/limelight/spec.d"
#: Arguments of `shifting` with which it hardly uses the CPU.
IDLE = "1000 1000000 100"


def install(guest: Guest, *names: str) -> None:
    """Makes programs of these names, each a file of its own."""
    guest.check("; ".join(f"install -m 755 /usr/local/bin/shifting /usr/local/bin/{name}" for name in names))


def write(guest: Guest, *lines: str) -> None:
    """Has these specifications in force, and no others. Waits at work: an idle machine's virtual time passes at once, and the disk that the daemon
    reads them from takes real time."""
    guest.check(f"mkdir -p {FOLDER}; printf '%s\\n' {' '.join(map(repr, lines)) or repr('')} >{FOLDER}/a.tab; limelight spec reload")
    guest.run("timeout 0.5 sh -c 'while :; do :; done'")


def specify(guest: Guest, *lines: str) -> None:
    """The daemon is in charge, and these are in force for `reserved` and others of a line's names."""
    guest.start_limelight()
    install(guest, *{line.split(":")[0].rsplit("/", 1)[1] for line in lines})
    write(guest, *lines)


def listed(guest: Guest) -> list[dict]:
    return json.loads(guest.check("limelight spec list --json"))["reservations"]


def idle(guest: Guest, name: str, user: str = "root") -> int:
    """Runs a program that hardly uses the CPU; returns its process id when it has executed."""
    pid = guest.background(f"/usr/local/bin/{name} {IDLE}", user)
    guest.check("sleep 0.3")
    return pid
