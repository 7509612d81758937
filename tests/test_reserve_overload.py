# SPDX-License-Identifier: GPL-2.0-only
"""Reservations (Redline) that are taken back for an overload: whose, and what has to be there before it is given back."""

from __future__ import annotations

import json

import pytest

from tests.guests import LIMELIGHT, Guest
from tests.reserving import install, listed, specify, write

MACHINES = [LIMELIGHT]
#: What the process has that is paged out; and what is left free beside it, of 2 GB: less, and enough for everything else in the guest.
PAGED_OUT_MB, LEFT_MB = 256, 160
#: One is given back in each of these (section 6.1), in passes of the daemon's of a second.
WINDOW_S = 4
#: Until a program wants more than at first.
LATER_S = 12
#: All the memory but LEFT_MB is somebody else's: huge pages that nobody can have paged out.
TAKE_MEMORY = f"""
free_kb=$(sed -n 's/^MemAvailable: *//p' /proc/meminfo | cut -d' ' -f1)
echo $(( (free_kb / 1024 - {LEFT_MB}) / 2 )) >/proc/sys/vm/nr_hugepages
"""
GIVE_MEMORY = "echo 0 >/proc/sys/vm/nr_hugepages"
SWAP = "modprobe zram && echo 512M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0"


def _states(guest: Guest) -> dict[str, str]:
    return {held["name"]: held["state"] for held in listed(guest)}


def _kb(guest: Guest, path: str, field: str) -> int:
    return int(guest.check(f"sed -n 's/^{field}: *//p' {path}").split()[0])


def _stopped(guest: Guest, program: str) -> int:
    """Begins one that does nothing until it is told to go on; returns its process id."""
    pid = guest.background(f"/usr/local/bin/{program}")
    guest.check(f"sleep 0.3; kill -STOP {pid}")
    return pid


def _wait_until_admitted(guest: Guest, names: set[str]) -> None:
    # One is given back every fourth pass, and then only if S_load has decayed by what those before it have asked for.
    guest.wait_for(lambda: _states(guest) == dict.fromkeys(names, "admitted"), "all are admitted", 60)


def _after_s(guest: Guest, begun_s: float, held: dict) -> float:
    """How long after `begun_s` it came to the state that it has, at least: that is told in whole seconds."""
    return guest.uptime_s() - held["since_s"] - 1 - begun_s


def _revoked(guest: Guest) -> dict:
    """The first whose reservation is revoked."""
    # To ask takes long beside so much: how late it was is for the scheduler's own clock to say.
    guest.wait_for(lambda: "revoked" in _states(guest).values(), "one is revoked", 30)
    held = listed(guest)
    print(json.dumps(held), guest.status()["counters"])
    one, = (held for held in held if held["state"] == "revoked")
    return one


def test_who_may_not_be_revoked_keeps_its_reservation_though_it_takes_most(guest: Guest) -> None:
    """Of three that take 55, 25 and 17 % of the CPU, more than R_max, 90 %, the first has no flag R: it keeps its reservation, and its periods, and the second,
    who takes most of those that may be revoked, loses its own within a window and two samples; the third keeps its, as 72 % is less than R_hi."""
    specify(guest, "/usr/local/bin/firm:Iact:55:100:-:-:-", "/usr/local/bin/large:Iact:25:100:R:-:-", "/usr/local/bin/small:Iact:17:100:R:-:-")
    pids = [_stopped(guest, f"{name} 95000 100000 200") for name in ("firm", "large", "small")]
    _wait_until_admitted(guest, {"firm", "large", "small"})
    # What each used is of the last four seconds: of its start nothing is left.
    guest.check(f"sleep {WINDOW_S}")
    begun_s = guest.uptime_s()
    guest.check(f"kill -CONT {' '.join(map(str, pids))}; sleep 0.5")
    # A period that it was stopped in has been late.
    before, = (held for held in listed(guest) if held["name"] == "firm")
    revoked = _revoked(guest)
    assert revoked["name"] == "large"
    assert _after_s(guest, begun_s, revoked) <= WINDOW_S + 2
    # What it was judged by: it took a half of what the first did.
    assert revoked["judged"]["load_pct"] > revoked["judged"]["max_pct"] == 90
    assert revoked["judged"]["use_pct"] < 30
    # Another two samples: nobody else pays.
    guest.check("sleep 2")
    firm, = (held for held in listed(guest) if held["name"] == "firm")
    assert _states(guest) == {"firm": "admitted", "large": "revoked", "small": "admitted"}
    assert firm["reserved_pct"] > 1.5 * revoked["judged"]["use_pct"]
    assert firm["periods"] - before["periods"] > 40
    assert firm["missed"] == before["missed"]


@pytest.mark.everywhere
def test_who_used_up_its_budgets_loses_its_reservation_before_a_larger_one(guest: Guest) -> None:
    """One wants 60 ms of its 70 in every 100, and sleeps; another never sleeps, and uses up its 34 in every 100 before each deadline. Together they take more
    than R_max, 90 %: the one that used up its budgets acts least like an interactive program, and is revoked, though it took half as much."""
    specify(guest, "/usr/local/bin/within:Iact:70:100:R:-:-", "/usr/local/bin/whole:Iact:34:100:R:-:-")
    # It wants 60 ms some time after the other one is admitted: stopped until then it would have all the wake-ups to make up for that it had missed.
    guest.background(f"/usr/local/bin/within 1000 100000 200 {LATER_S} 60000")
    whole = _stopped(guest, "whole 0 100000 200")
    _wait_until_admitted(guest, {"within", "whole"})
    guest.check(f"kill -CONT {whole}")
    revoked = _revoked(guest)
    assert revoked["name"] == "whole"
    assert 25 < revoked["judged"]["use_pct"] <= 36
    within, = (held for held in listed(guest) if held["name"] == "within")
    assert within["state"] == "admitted"
    assert within["reserved_pct"] > 1.5 * revoked["judged"]["use_pct"]


@pytest.mark.everywhere
def test_who_is_paged_out_is_given_back_when_there_is_memory_for_it(guest: Guest) -> None:
    """A program whose reservation was revoked has 256 MB, all paged out, and 160 are free: with all of the CPU's room for it it has to wait, and explain and
    the list say for what. When memory is free it is back within two windows of 4 s."""
    guest.start_limelight()
    install(guest, "busy")
    guest.check(f"install -m 755 $(readlink -f $(which python3)) /usr/local/bin/paged; {SWAP}")
    write(guest, "/usr/local/bin/busy:Iact:48:100:-:-:-", "/usr/local/bin/paged:Iact:50:100:R:-:-")
    paged = guest.background(f"/usr/local/bin/paged /root/in/guest/paged.py {PAGED_OUT_MB}")
    guest.check(f"until grep -q '^State:.T' /proc/{paged}/status; do sleep 0.1; done")
    busy = guest.background("/usr/local/bin/busy 95000 100000 200")
    guest.check(f"sleep 0.3; kill -STOP {busy}")
    # The second is admitted when S_load has decayed by what the first asks for, and one is given back every fourth pass.
    guest.wait_for(lambda: _states(guest) == {"paged": "admitted", "busy": "admitted"}, "both are admitted", 30)
    guest.check(f"kill -CONT {paged} {busy}")
    guest.wait_for(lambda: _states(guest)["paged"] == "revoked", "it is revoked", 10)
    # While the other one runs there is no room for it: it cannot come back in the meantime.
    guest.check(f"kill -USR1 {paged}")
    guest.wait_for(lambda: _kb(guest, f"/proc/{paged}/status", "VmSwap") >= PAGED_OUT_MB * 1024, "it is paged out", 30)
    guest.check(TAKE_MEMORY)
    free = _kb(guest, "/proc/meminfo", "MemAvailable")
    assert free < PAGED_OUT_MB * 1024, "the guest could not be made short of memory"
    guest.check(f"kill {busy}; sleep {2 * WINDOW_S + 1}")
    view = json.loads(guest.check("limelight spec list --json"))
    told, text = guest.check(f"limelight explain {paged}"), guest.check("limelight spec list")
    print(free, view, told, text, sep="\n")
    assert _states(guest) == {"paged": "revoked"}
    # R_lo, and R_hi less what it asks for: for its CPU it could be back.
    assert view["cpus"][0]["recent_pct"] < 60 and view["cpus"][0]["expected_pct"] < 80 - 50
    assert view["reservations"][0]["short"]["paged_out_kb"] >= PAGED_OUT_MB * 1024
    for said in (told, text):
        assert "MiB of its process are paged out and" in said and "MiB are available: it has to wait until that fits in" in said
    begun_s = guest.uptime_s()
    guest.check(GIVE_MEMORY)
    guest.wait_for(lambda: _states(guest) == {"paged": "admitted"}, "it has its reservation again", 30)
    assert _after_s(guest, begun_s, listed(guest)[0]) <= 2 * WINDOW_S
    assert "paged out" not in guest.check(f"limelight explain {paged}") + guest.check("limelight spec list")
