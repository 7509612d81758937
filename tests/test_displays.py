# SPDX-License-Identifier: GPL-2.0-only
"""Whose a display is, and several of them: each is watched as its owner, for its own clients."""

from dataclasses import replace

import pytest

from tests.guests import DESKTOP, NEXT_KEY_S, Guest, on

MACHINES = [DESKTOP]
#: Of a second person, who has a desk of their own.
SECOND = "env DISPLAY=:1 XAUTHORITY=/home/second/.Xauthority"


def _key(guest: Guest, title: str, *, second: bool = False) -> None:
    """Has one key pressed in a window, and waits until the next one of a quick typist would be due."""
    display = SECOND if second else ""
    guest.check(f"{display} person type --title {title} --count 1 --out /tmp/{title}.json && sleep {NEXT_KEY_S}")


@pytest.mark.everywhere
@on(replace(DESKTOP, display="xorg"))
def test_a_display_whose_server_is_roots_is_watched_as_the_person(guest: Guest) -> None:
    """Xorg runs as root, as on many a machine, and whose display it is the cookie tells: the helper runs as that person, and before the second key is
    due the client that is typed into is HUCIN."""
    guest.background("xclient --title mine --work-us 500", user="person")
    guest.start_limelight()
    guest.wait_until_watched()
    assert guest.check("ps -C Xorg -o user=").split() == ["root"]
    assert guest.check("ps -C limelight -o user= --sort=start_time").split() == ["root", "person"]
    _key(guest, "mine")
    assert guest.classes()["xclient"] == "HUCIN"


def _second_desk(guest: Guest) -> None:
    """A second person, and an X server of theirs with a cookie."""
    guest.check("useradd --create-home --shell /bin/bash second")
    guest.check("xauth -f .Xauthority add :1 MIT-MAGIC-COOKIE-1 $(mcookie)", user="second")
    guest.background("Xvfb :1 -screen 0 800x600x24 -auth /home/second/.Xauthority -nolisten tcp -noreset", user="second")
    guest.check("until [ -e /tmp/.X11-unix/X1 ]; do sleep 0.1; done")


@pytest.mark.everywhere
def test_two_peoples_displays_are_watched_at_once(guest: Guest) -> None:
    """Under one daemon each display has a helper that runs as its owner, and a key on one lifts its own client only."""
    _second_desk(guest)
    # By names of their own they are told apart.
    guest.check("cp /usr/local/bin/xclient /tmp/ours && cp /usr/local/bin/xclient /tmp/theirs")
    guest.background("/tmp/ours --title ours --work-us 500", user="person")
    guest.background(f"{SECOND} /tmp/theirs --title theirs --work-us 500", user="second")
    guest.start_limelight()
    guest.wait_for(lambda: sum("watched" in display["state"] for display in guest.status()["displays"]) == 2, "both displays are watched")
    assert sorted(guest.check("ps -C limelight -o user=").split()) == ["person", "root", "second"]
    _key(guest, "theirs", second=True)
    classes = guest.classes()
    assert classes["theirs"] == "HUCIN" and classes.get("ours") != "HUCIN", classes
    _key(guest, "ours")
    assert guest.classes()["ours"] == "HUCIN"
