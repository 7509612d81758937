# SPDX-License-Identifier: GPL-2.0-only
"""Programs as Debian has them under coop-run, beside the scheduler itself (cooperative polling, section 4.3, whose X server was patched)."""

import pytest

from tests.guests import DESKTOP, Guest

MACHINES = [DESKTOP]


def _cooperative(guest: Guest) -> int:
    """Processes that are, of all users."""
    return sum(user["processes"] for user in guest.status()["cooperative"]["users"])


@pytest.mark.everywhere
@pytest.mark.parametrize("server", ["Xvfb :7 -screen 0 640x480x24", "/usr/lib/xorg/Xorg :7 -config /lab/guest/xorg.conf -novtswitch -sharevts"])
def test_programs_that_know_nothing_of_it_are_cooperative(guest: Guest, server: str) -> None:
    """An X server and mpv, both as Debian has them, run under coop-run beside four bursty ones: both are cooperative while the film plays, and no frame of
    it is dropped."""
    guest.install_coop_run()
    guest.start_limelight()
    guest.background("hogs bursty 4")
    guest.background(f"coop-run {server} -ac -nolisten tcp")
    guest.wait_for(lambda: guest.run("DISPLAY=:7 xdpyinfo >/dev/null").status == 0, "the X server is up")
    film = "av://lavfi:testsrc=size=320x240:rate=25:duration=4"
    told = "--term-status-msg='dropped ${frame-drop-count}.'"
    player = guest.background(f"env DISPLAY=:7 coop-run mpv --no-config --vo=x11 --no-audio {told} {film}")
    guest.wait_for(lambda: _cooperative(guest) >= 2, "the X server and mpv are cooperative", 30)
    assert "cooperative (libcoop) with " in guest.check("limelight explain $(pgrep -x mpv)")
    guest.wait_until_gone(player)
    assert "dropped 0." in guest.check("tail -c 200 /run/test/env.log")
