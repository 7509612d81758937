# SPDX-License-Identifier: GPL-2.0-only
"""Installed as a package would, under systemd."""

from pathlib import Path

from tests.guests import LOAD_S, NEXT_KEY_S, Guest, on
from vmlab.machine import Options

MACHINES = [Options(init="systemd")]
PACKAGING = Path(__file__).resolve().parent.parent / "packaging"


def _files(guest: Guest) -> set[str]:
    return set(guest.check("find /usr /etc -xdev -type f").splitlines())


def _install(guest: Guest) -> None:
    guest.machine.put(PACKAGING)
    guest.check("PREFIX=/usr /root/in/packaging/install --binary /usr/local/bin/limelight && systemctl daemon-reload")


def test_the_unit_runs_and_is_restarted(guest: Guest) -> None:
    """systemctl start puts limelight in charge under its sandbox; killed, it is started again; stopped, the kernel's scheduler is back."""
    _install(guest)
    guest.check("systemctl start limelight")
    guest.wait_for(lambda: guest.state() == "enabled", "limelight in charge", LOAD_S)
    guest.check("limelight status")
    # Whoever lacks a capability there is told so as the scheduler is loaded.
    journal = guest.check("journalctl -u limelight -o cat")
    assert "flush_to_ldisc" not in journal and "cannot keep" not in journal, journal
    guest.check("kill -9 $(systemctl show -P MainPID limelight)")
    guest.check("sleep 2")
    guest.wait_for(lambda: guest.state() == "enabled", "limelight in charge again", LOAD_S)
    # The last word about who cannot say any is systemd's.
    assert "code=killed, status=9/KILL" in guest.check("journalctl -u limelight -o cat")
    guest.check("systemctl stop limelight")
    assert guest.state() == "disabled"
    assert guest.run("systemctl is-failed limelight").stdout.strip() == "inactive"
    assert "the kernel's own scheduler runs the CPUs again" in guest.check("journalctl -u limelight -o cat")


@on(Options(init="systemd", desktop=True))
def test_a_desktop_is_watched_from_within_the_sandbox(guest: Guest) -> None:
    """Under the unit's sandbox a helper runs as the display's owner, reads the cookie in their home and watches: before the second key is due the
    client that is typed into is HUCIN."""
    _install(guest)
    guest.background("xclient --title mine --work-us 500", user="person")
    guest.check("systemctl start limelight")
    guest.wait_for(lambda: guest.state() == "enabled", "limelight in charge", LOAD_S)
    guest.wait_until_watched()
    assert guest.check("ps -C limelight -o user=").split() == ["root", "person"]
    # The helper is the daemon's child, so it is in the same unit and the same sandbox.
    assert len(guest.check("cat /sys/fs/cgroup/system.slice/limelight.service/cgroup.procs").split()) == 2
    guest.type("mine")
    guest.check(f"sleep {NEXT_KEY_S}")
    assert guest.classes()["xclient"] == "HUCIN"


def test_uninstalled_it_leaves_no_file(guest: Guest) -> None:
    """packaging/install --uninstall removes every file that the install brought."""
    before = _files(guest)
    _install(guest)
    brought = _files(guest) - before
    assert any(path.endswith("/bin/limelight") for path in brought)
    assert any(path.endswith("limelight.service") for path in brought)
    guest.check("PREFIX=/usr /root/in/packaging/install --uninstall")
    assert brought & _files(guest) == set()
