# SPDX-License-Identifier: GPL-2.0-only
"""Who serves the person is found from nothing: real programs on a real X server, one key."""

import json
from dataclasses import replace

import pytest

from tests.guests import DESKTOP, EXPERIMENTS, FOUR, NEXT_KEY_S, OLDER, Guest, on

MACHINES = [DESKTOP]
ELSEWHERE = [replace(DESKTOP, **OLDER, **FOUR)]
#: What a terminal and its program drew while they started is forgotten by then.
FORGOTTEN_S = 12
#: The daemon hears of what the scheduler did by itself with its next pass, once a second.
NEXT_PASS_S = 2


def _watched(guest: Guest) -> None:
    guest.start_limelight()
    guest.wait_until_watched()


def _explain(guest: Guest, name: str) -> str:
    """What `limelight explain` says of the process's class, in words: its first line."""
    (pid,) = guest.processes(name)
    return guest.check(["limelight", "explain", str(pid)]).splitlines()[0]


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
    guest.wait_until_said(lambda: _explain(guest, "vim"), path, NEXT_PASS_S)


@pytest.mark.everywhere
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


#: When in the second between two passes the keys are typed: a pass that comes before what they show hides the loss.
PHASES_S = [0.6, 0.85, 1.1, 1.35]


@on(DESKTOP)
def test_what_the_window_managers_menu_starts_is_huc_from_its_first_moment(guest: Guest) -> None:
    """A program chosen from the root menu is HUCIN as it begins, though its parent is a hub and nobody had touched anything else: it would be of class
    OTHER until its first frame, beside ten others for 60 ms and more (experiment program-start, from = menu)."""
    guest.machine.put(EXPERIMENTS, "/root/in/experiment")
    offer = "from desk_tasks import _offer_in_menu as offer; offer('xclient --title started')"
    guest.check(["python3", "-c", f"import sys; sys.path.insert(0, '/root/in/experiment/guest'); {offer}"])
    _watched(guest)
    guest.check(f"sleep {FORGOTTEN_S}")
    guest.check("python3 /root/in/guest/classes.py 8 >/run/classes.json & sleep 0.5; person menu --title started --count 1 --out /dev/null; wait")
    held = [one["xclient"] for one in json.loads(guest.check("cat /run/classes.json")) if "xclient" in one]
    assert held[:1] == ["HUCIN"], held


@pytest.mark.everywhere
@on(DESKTOP)
def test_what_is_shown_does_not_take_away_what_a_key_has_lent(guest: Guest) -> None:
    """A program that a key has just made HUCIN stays so when a report of what it shows gives it an output rating before the next pass."""
    guest.check("install -m 644 /root/in/guest/relay.py /tmp/relay.py")
    guest.background("xterm -T shown -geometry 40x8+20+20 -e sh -c 'tty >/tmp/shown; exec sleep 999'", user="person")
    guest.wait_for(lambda: guest.run("test -s /tmp/shown").status == 0, "the other terminal is up")
    guest.background("xterm -T typed -geometry 40x8+20+400 -e sh -c 'exec python3 /tmp/relay.py $(cat /tmp/shown)'", user="person")
    guest.background("xclient --title third --geometry 300x200+700+50 --work-us 500", user="person")
    _watched(guest)
    typed = "xdotool search --name '^typed$' windowfocus key x key Return"
    third = "xdotool sleep 0.1 search --name '^third$' windowfocus key x"
    for phase_s in PHASES_S:
        guest.check(f"sleep {FORGOTTEN_S}")
        guest.wait_for(lambda: "python3" not in guest.classes(), "the relay is unrated before anybody types")
        history = json.loads(guest.check(f"python3 /root/in/guest/classes.py 3 & sleep {phase_s}; {typed}; {third}; wait"))
        assert {seen["python3"] for seen in history if "python3" in seen} == {"HUCIN"}, f"typed at {phase_s} s: {history}"


@on(DESKTOP)
def test_who_is_left_alone_is_let_go(guest: Guest) -> None:
    """Without input a program that shows nothing is no longer rated after K seconds and a pass (HuC, section 4.1)."""
    guest.background("xclient --title idle --work-us 500", user="person")
    _watched(guest)
    guest.type("idle")
    guest.wait_for(lambda: guest.rated().get("xclient", {}).get("class") == "HUCIN", "the client is HUCIN", 2)
    guest.check("sleep 20")
    assert guest.rated().get("xclient", {}).get("class") != "HUCIN"
