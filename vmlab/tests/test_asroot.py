# SPDX-License-Identifier: GPL-2.0-only
"""What runs as root for an ordinary user: that it runs at all, that it ends with who asked for it, and what is said where it cannot."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vmlab import asroot, leash
from vmlab.errors import LabError

TOP = Path(__file__).resolve().parents[2]
#: Stands in for the daemon: it says when it has begun, and when it was asked to end, and does not end by itself.
STAND_IN = "trap 'echo ended >>{0}; exit' TERM; echo begun >>{0}; while :; do sleep 0.05; done"
ASKER = """
import os, signal, sys, time
from pathlib import Path
from vmlab import asroot
# Whoever is started in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
log = Path(sys.argv[1])
with asroot.running("sh", "-c", {script!r}.format(log)) as child:
    while not (log.exists() and "begun" in log.read_text()):
        time.sleep(0.02)
    {then}
"""

def ask(words, log, then):
    """The program of an ordinary user that runs the stand-in as root, and then does `then`."""
    code = ASKER.format(script=STAND_IN, then=then)
    return subprocess.Popen([*words, sys.executable, "-c", code, str(log)], env={**os.environ, "PYTHONPATH": str(TOP)}, cwd="/",
                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(log, limit_s=10.0):
    """Whether the stand-in was asked to end within that time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if log.exists() and log.read_text() == "begun\nended\n":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("then", "status"), [
    ("pass", 0), ("raise ValueError", 1), ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT), ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
    ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
])
def test_what_runs_as_root_ends_with_who_asked(ordinary, folder, then, status):
    """At the end of the block, by an exception, by Ctrl-C and by kill -9: what runs as root may be signalled by no user."""
    asker = ask(ordinary, folder / "log", then)
    said = asker.communicate(timeout=30)[1]
    assert asker.returncode == status and "PermissionError" not in said
    assert ended(folder / "log")


def test_what_root_left_behind_is_removed(ordinary, folder):
    """A directory of root's in the user's, as an interrupted step leaves it, goes through sudo too."""
    code = f"from pathlib import Path\nfrom vmlab import asroot\np = Path({str(folder)!r}, 'tree.tmp')\np.mkdir()\n" \
        "with asroot.running('mkdir', '-p', p / 'of' / 'root', patient=True) as child: child.wait()\nasroot.remove(p)\n"
    done = subprocess.run([*ordinary, sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(TOP)}, cwd="/", stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0 and not list(folder.iterdir())


def leashed(*words):
    """The leash by itself, without sudo."""
    return subprocess.Popen([sys.executable, leash.__file__, *words], stdin=subprocess.PIPE)


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 128 + 9)])
def test_the_status_is_the_commands(script, status):
    """The leash ends with its command, whose status or signal it tells."""
    child = leashed("sh", "-c", script)
    assert child.wait(10) == status


def test_a_patient_command_comes_to_its_own_end(tmp_path):
    """What takes back at its end what it changed is ended by nobody: neither by the pipe nor by a signal."""
    child = leashed("--patient", "sh", "-c", f"touch {tmp_path}/begun; sleep 1; touch {tmp_path}/done")
    while not (tmp_path / "begun").exists():
        time.sleep(0.02)
    child.terminate()
    asroot.let_go(child)
    assert child.returncode == 0 and (tmp_path / "done").exists()


def test_who_does_not_end_is_ended(monkeypatch):
    """A command that ignores SIGTERM is killed, and so is what it has started."""
    monkeypatch.setattr(leash, "PATIENCE_S", 0.3)
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    leash.end(child)
    assert child.returncode == -signal.SIGKILL


@pytest.fixture
def no_root(monkeypatch, tmp_path):
    """An ordinary user with a `sudo` of the test's, or none, and nobody at the terminal."""
    monkeypatch.setattr(asroot, "is_root", lambda: False)
    monkeypatch.setattr(asroot, "user", lambda: "somebody")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    return tmp_path


def test_without_sudo_it_is_said_what_for(no_root):
    """The thing, the reason with the user's name, and how to come by root."""
    with pytest.raises(LabError, match="cannot make QEMU") as caught:
        asroot.require("make QEMU", "of its files' owners")
    assert "there is no sudo" in caught.value.why and "somebody" in caught.value.why and "adduser somebody sudo" in caught.value.fix


def test_nobody_is_waited_for(no_root):
    """Where nobody is there to be asked, sudo is only ever called so that it does not ask; its words are passed on."""
    sudo = no_root / "sudo"
    sudo.write_text(f"""#!{shutil.which("sh", path=os.defpath)}
printf '%s\\n' "$1" >>{no_root}/asked
echo "sudo: a password is required" >&2
exit 1
""")
    sudo.chmod(0o755)
    with pytest.raises(LabError, match="cannot make QEMU") as caught:
        asroot.require("make QEMU", "of its files' owners")
    assert "a password is required" in caught.value.why and "in a terminal" in caught.value.fix
    assert (no_root / "asked").read_text() == "-n\n" and asroot.leashed(["true"])[:2] == ["sudo", "-n"]
