# SPDX-License-Identifier: GPL-2.0-only
"""Who serves the person is found from nothing: real programs on a real X server, one key."""

from dataclasses import replace

from tests.guests import DESKTOP, Guest, on

MACHINES = [DESKTOP, replace(DESKTOP, kernel="6.18", cpus=4)]
#: The next key of a person who types 8 a second.
NEXT_KEY_S = 0.125
#: What a terminal and its program drew while they started is forgotten by then.
FORGOTTEN_S = 12
#: The daemon hears of what the scheduler did by itself with its next pass, once a second.
NEXT_PASS_S = 2


def _watched(guest: Guest) -> None:
    guest.start_limelight()
    guest.wait_until_watched()


def _explain(guest: Guest, name: str) -> str:
    """What `limelight explain` says of the process, in words."""
    (pid,) = guest.processes(name)
    return guest.check(["limelight", "explain", str(pid)]).strip()


def test_one_key_finds_the_editor_in_the_terminal(guest: Guest) -> None:
    """Before the second key is due, vim is HUCIN, and explain tells the path: X server, xterm, vim."""
    guest.background("xterm -T editor -e sh -c 'vim -N -u NONE -n -c startinsert; true'", user="person")
    guest.wait_for(lambda: guest.processes("vim"), "vim in its terminal")
    _watched(guest)
    guest.check(f"sleep {FORGOTTEN_S}")
    guest.wait_for(lambda: "vim" not in guest.classes(), "vim is unrated before anybody types")
    guest.type("editor")
    guest.check(f"sleep {NEXT_KEY_S}")
    classes = guest.classes()
    assert classes["xterm"] == "HUCIN"
    assert classes["vim"] == "HUCIN"
    path = "keyboard/pointer :0 -> Xvfb -> xterm -> vim"
    guest.wait_for(lambda: _explain(guest, "vim").endswith(path), f"explain says {path}", NEXT_PASS_S)


@on(DESKTOP)
def test_one_key_lifts_an_editor_that_was_only_looked_at(guest: Guest) -> None:
    """vim that has just drawn itself is HUCOUT; before the second key is due it is HUCIN."""
    guest.background("xterm -T editor -e sh -c 'vim -N -u NONE -n -c startinsert; true'", user="person")
    _watched(guest)
    guest.wait_for(lambda: guest.classes().get("vim") == "HUCOUT", "vim is HUCOUT for what it shows")
    guest.type("editor")
    guest.check(f"sleep {NEXT_KEY_S}")
    assert guest.classes()["vim"] == "HUCIN"


def test_one_key_finds_the_shell_and_what_it_starts(guest: Guest) -> None:
    """A key at a shell's prompt makes the shell HUCIN, and a program started from it is so at once, by inheritance."""
    guest.background("xterm -T terminal -e bash --norc", user="person")
    guest.wait_for(lambda: guest.processes("bash"), "the shell in its terminal")
    _watched(guest)
    guest.check(f"sleep {FORGOTTEN_S}")
    guest.wait_for(lambda: "bash" not in guest.classes(), "the shell is unrated before anybody types")
    guest.type("terminal")
    guest.check(f"sleep {NEXT_KEY_S}")
    assert guest.classes()["bash"] == "HUCIN"
    guest.check("xdotool search --name '^terminal$' windowfocus key BackSpace type 'sleep 77'")
    guest.check("xdotool key Return; until pgrep -f -x 'sleep 77'; do sleep 0.02; done")
    assert guest.classes()["sleep"] == "HUCIN"


@on(DESKTOP)
def test_who_is_left_alone_is_let_go(guest: Guest) -> None:
    """Without input a program that shows nothing is no longer rated after K seconds and a pass (HuC, section 4.1)."""
    guest.background("xclient --title idle --work-us 500", user="person")
    _watched(guest)
    guest.type("idle")
    guest.wait_for(lambda: guest.rated().get("xclient", {}).get("class") == "HUCIN", "the client is HUCIN", 2)
    guest.check("sleep 20")
    assert guest.rated().get("xclient", {}).get("class") != "HUCIN"
