# SPDX-License-Identifier: GPL-2.0-only
"""The specification that `limelight spec suggest` finds for a program of known C and T beside a load: by watching it and trying it, and from a recording."""

import pytest

from tests.guests import LIMELIGHT, Guest
from tests.reserving import install, listed

MACHINES = [LIMELIGHT]
#: What the program uses, and how often: a film's, as mpv decodes a small one.
C_MS, T_MS = 5.0, 40.0
PROGRAM = "/usr/local/bin/film"
RUN = f"{PROGRAM} {C_MS * 1000:.0f} {T_MS * 1000:.0f}"
#: Two that each want three quarters of the one CPU: the program waits for it, again and again.
LOAD = "hogs bursty 2"
#: C is to have room: a tenth more than what was seen by the rule, a quarter more where that was tried and a period missed (spec/src/suggest.rs), and the
#: program's own start and end of each period.
C_MOST = 1.6
TRACING = "/sys/kernel/tracing"
RECORDED = "/tmp/recorded.txt"


def _assert_right(guest: Guest, line: str) -> None:
    """The line is one that can be put in a file, for this program, with its T, and a C that is enough and not far more."""
    path, kind, c_ms, t_ms, *_ = line.split(":")
    assert (path, kind) == (PROGRAM, "Iact"), line
    assert abs(float(t_ms) - T_MS) <= 1, line
    assert C_MS <= float(c_ms) <= C_MOST * C_MS, line
    guest.check(f"echo '{line}' >/tmp/found.tab; limelight spec check /tmp/found.tab")


def _record(guest: Guest, seconds: int) -> int:
    """Records the scheduler with ftrace while the program runs for so long; returns its process id."""
    events = "sched_switch sched_wakeup sched_wakeup_new"
    guest.check(f"cd {TRACING}; echo 16384 >buffer_size_kb; echo 1 >options/record-tgid; for e in {events}; do echo 1 >events/sched/$e/enable; done")
    pid = int(guest.check(f"{RUN} {seconds} >/dev/null & echo $!; wait"))
    guest.check(f"cd {TRACING}; echo 0 >events/sched/enable; cat trace >{RECORDED}")
    return pid


def _suggest_from_recording(guest: Guest, pid: int) -> tuple[str, str]:
    """The line, and what was said; as somebody who is not root."""
    found = guest.run(f"limelight spec suggest --recorded {RECORDED} --pid {pid} {PROGRAM}", user="person")
    assert found.status == 0, found.stderr
    return found.stdout.strip(), found.stderr


def test_a_recorded_program_gets_its_figures(guest: Guest) -> None:
    """Of ftrace's recording of a program that uses 5 ms in every 40 beside two bursty ones the line has its T within 1 ms, which is what T is rounded
    to there, and a C of at least those 5 ms and at most 1.6 times that; it is said that nothing was tried, and nobody got a reservation. Without the column
    of processes the line is the same, and it is said what was not looked at."""
    guest.start_limelight()
    install(guest, "film")
    guest.background(LOAD)
    pid = _record(guest, 7)
    line, told = _suggest_from_recording(guest, pid)
    _assert_right(guest, line)
    assert "the figures were not tried: it was recorded" in told
    assert "only thread" not in told
    assert listed(guest) == []
    guest.check(f"cd {TRACING}; echo 0 >options/record-tgid; cat trace >{RECORDED}")
    alone, told = _suggest_from_recording(guest, pid)
    assert alone == line
    assert f"only thread {pid} was looked at" in told


@pytest.mark.everywhere
def test_a_watched_program_gets_its_figures(guest: Guest) -> None:
    """A program that uses 5 ms in every 40 beside two bursty ones, started, watched and tried: the line has its T within 1 ms, which is what T is rounded to
    there, and a C of at least those 5 ms and at most 1.6 times that; what was tried is told, and its reservation is gone in the end."""
    guest.start_limelight()
    install(guest, "film")
    guest.background(LOAD)
    found = guest.run(f"limelight spec suggest --seconds 5 {RUN} 600", timeout_s=120)
    assert found.status == 0, found.stderr
    _assert_right(guest, found.stdout.strip())
    assert "tried " in found.stderr
    assert "not tried" not in found.stderr
    assert listed(guest) == []
