# SPDX-License-Identifier: GPL-2.0-only
"""Admission of reservations (Redline, section 6.1): who finds room, and what is left to the person's programs."""

from __future__ import annotations

import json

import pytest

from tests.guests import DESKTOP, LIMELIGHT, Guest, on
from tests.reserving import idle, listed, specify, write

MACHINES = [LIMELIGHT]
#: Wakes for 10 ms of work every 30 ms.
CLIENT = "xclient --title typed --work-us 500 --period-us 30000 --period-work-us 10000 --draw-px 100 --out /run/test/own"


def _typed_into(guest: Guest) -> int:
    """Begins the client; returns its process id when it has been HUCIN for a window."""
    client = guest.background(CLIENT, user="person")
    guest.type("typed", 4)
    guest.wait_for_class(client, "HUCIN")
    guest.check("person type --title typed --count 40 --out /run/test/keys", timeout_s=300)
    return client


def test_who_has_no_room_is_refused_and_has_it_later(guest: Guest) -> None:
    """Of two that want half of the CPU, of which the first uses what it has, the second is refused: R_hi is 80 %. When the first has ended it is
    admitted within two windows."""
    specify(guest, "/usr/local/bin/reserved:Iact:50:100:R:-:-")
    # One that idles has its load forgotten in 4 s, and how many pass until both are looked at is the laboratory's doing.
    first = guest.background("/usr/local/bin/reserved 45000 100000 100")
    guest.check("sleep 0.3")
    second = idle(guest, "reserved")
    assert {held["pid"]: held["state"] for held in listed(guest)} == {first: "admitted", second: "refused"}
    guest.check(f"kill {first}")
    guest.wait_for(lambda: [(held["pid"], held["state"]) for held in listed(guest)] == [(second, "admitted")], "the second is admitted", 8)


@on(DESKTOP)
def test_who_asks_leaves_room_for_what_the_person_uses(guest: Guest) -> None:
    """A client that is typed into takes 10 ms of every 30, without a reservation. Of six of class OTHER that ask for 14 ms in 100 each, and may not be
    revoked, three are admitted: R_hi is 80 %. The client comes to its work in time, but for what these may have before it; and is itself admitted."""
    specify(guest, "/usr/local/bin/small:Iact:14:100:-:-:-")
    client = _typed_into(guest)
    guest.check("for i in 1 2 3 4 5 6; do setsid /usr/local/bin/small 0 100000 100 >/dev/null 2>&1 </dev/null & done; sleep 0.5")
    # Longer than a window: one that came at a busy moment has another try.
    guest.check("person type --title typed --count 48 --out /run/test/keys", timeout_s=300)
    states = [held["state"] for held in listed(guest)]
    asks = guest.check(f"limelight spec request {client} 30 100")
    guest.check(f"kill {client}; until [ -s /run/test/own ]; do sleep 0.1; done")
    late = sorted(json.loads(guest.check("cat /run/test/own"))["lateness_ns"])
    keys = sorted(json.loads(guest.check("cat /run/test/keys"))["latency_ns"])
    print(states, asks, len(late), late[-5:], keys[-5:])
    assert sorted(states) == ["admitted"] * 3 + ["refused"] * 3
    # All three may have what they are promised one after another, 42 ms.
    assert late[-1] <= 45e6
    assert "serves it before all classes" in asks


@pytest.mark.everywhere
@on(DESKTOP)
def test_who_holds_a_reservation_keeps_it_beside_the_person_when_its_line_changes(guest: Guest) -> None:
    """One of class OTHER is promised 48 ms in 100. Beside a client that is typed into and takes a third of the CPU it keeps that when its line says 47: that
    is nothing new, though one that asks now is refused."""
    specify(guest, *(f"/usr/local/bin/{name}:Iact:48:100:-:-:-" for name in ("early", "late")))
    early = idle(guest, "early")
    _typed_into(guest)
    # S_load of the first has come down.
    guest.check("person type --title typed --count 40 --out /run/test/keys", timeout_s=300)
    late = idle(guest, "late")
    write(guest, *(f"/usr/local/bin/{name}:Iact:47:100:-:-:-" for name in ("early", "late")))
    held = {one["pid"]: (one["state"], one["runtime_ms"]) for one in listed(guest)}
    print(held, guest.check("limelight spec list"))
    assert held == {early: ("admitted", 47), late: ("refused", 47)}


def test_children_that_may_not_be_revoked_are_promised_no_more_than_there_is(guest: Guest) -> None:
    """A program with 10 ms in 100, inherited, forks a child a second, which asks when it has run for 1 ms and then does nothing. By what they use there is room
    for all of twenty; by what they are promised for six beside their parent, as R_hi is 80 %: load control could take none of it back. If they may be revoked,
    more have it."""
    guest.start_limelight()
    guest.check("install -m 755 $(readlink -f /bin/sh) /usr/local/bin/forker")
    child = "( i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done; exec sleep 600 ) &"
    seen = {}
    for flags in ("I", "IR"):
        write(guest, f"/usr/local/bin/forker:Iact:10:100:{flags}:-:-")
        parent = guest.background(f"/usr/local/bin/forker -c 'for n in $(seq 20); do {child} sleep 1; done; wait'")
        guest.check("sleep 25")
        seen[flags] = [held["state"] for held in listed(guest)].count("admitted")
        guest.check(f"kill {parent}; pkill -x sleep; sleep 5")
    print(seen)
    assert seen["I"] == 7
    assert seen["IR"] > 10
