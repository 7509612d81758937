# SPDX-License-Identifier: GPL-2.0-only
"""Who serves the person is found from nothing: real programs on a real X server, one key."""

import json

from tests.guests import DESKTOP, Guest
from vmlab.machine import Options

MACHINES = [DESKTOP, Options(desktop=True, kernel="6.18", cpus=4)]
#: The next key of a person who types 8 a second.
NEXT_KEY_S = 0.125


def _watched(guest: Guest) -> None:
    """Starts limelight and waits until it watches the display and what happened before has been forgotten."""
    guest.start_limelight()
    guest.wait_for(lambda: any("watched" in display["state"] for display in guest.status()["displays"]), "the display is watched")


def _explain(guest: Guest, name: str) -> dict:
    (pid,) = guest.processes(name)
    return json.loads(guest.check(["limelight", "explain", str(pid), "--json"]))


def _path(view: dict) -> list[str]:
    """The names on the path from the device to the process."""
    return [view["names"].get(str(pid), str(pid)) for pid in view["explanation"]["path"]]


def test_one_key_finds_the_editor_in_the_terminal(guest: Guest) -> None:
    """Before the second key is due, vim is HUCIN, and explain tells the path: X server, xterm, vim."""
    guest.background("xterm -T editor -e sh -c 'vim -u NONE -n -c startinsert; true'", user="person")
    guest.wait_for(lambda: guest.processes("vim"), "vim in its terminal")
    _watched(guest)
    assert guest.rated().get("vim", {}).get("class") != "HUCIN", "vim is rated before anybody typed: the test would show nothing"
    guest.type("editor")
    guest.check(f"sleep {NEXT_KEY_S}")
    rated = guest.rated()
    assert rated["xterm"]["class"] == "HUCIN"
    assert rated["vim"]["class"] == "HUCIN"
    guest.wait_for(lambda: _explain(guest, "vim")["explanation"], "a reason for vim", 2)
    assert _path(_explain(guest, "vim"))[-3:] == ["Xvfb", "xterm", "vim"]


def test_one_key_finds_the_shell_and_what_it_starts(guest: Guest) -> None:
    """A key at a shell's prompt makes the shell HUCIN, and a program started from it is so at once, by inheritance."""
    guest.background("xterm -T terminal -e bash --norc", user="person")
    guest.wait_for(lambda: guest.processes("bash"), "the shell in its terminal")
    _watched(guest)
    guest.type("terminal")
    guest.check(f"sleep {NEXT_KEY_S}")
    assert guest.rated()["bash"]["class"] == "HUCIN"
    guest.check("xdotool search --name '^terminal$' windowfocus key BackSpace type 'sleep 77'")
    guest.check("xdotool key Return; until pgrep -f -x 'sleep 77'; do sleep 0.02; done")
    assert guest.rated()["sleep"]["class"] == "HUCIN"


def test_who_is_left_alone_is_let_go(guest: Guest) -> None:
    """Without input a program that shows nothing is no longer rated after K seconds and a pass (HuC, section 4.1)."""
    guest.background("xclient --title idle --work-us 500", user="person")
    _watched(guest)
    guest.type("idle")
    guest.wait_for(lambda: guest.rated().get("xclient", {}).get("class") == "HUCIN", "the client is HUCIN", 2)
    guest.check("sleep 20")
    assert guest.rated().get("xclient", {}).get("class") != "HUCIN"
