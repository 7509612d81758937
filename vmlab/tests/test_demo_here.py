# SPDX-License-Identifier: GPL-2.0-only
"""`./demo --here`: limelight ends with it, by the real sudo, with a program in limelight's place: this machine's kernel may have no sched_ext."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
#: `begins` is what it does when it is loaded.
LIMELIGHT = """#!/bin/sh
[ "$1" = run ] || exit 0
cd "${{0%/*}}"
trap 'echo disabled >state; exit' TERM
{begins}
while :; do sleep 0.05; done
"""
DEMO = """
import os, signal, sys
from pathlib import Path
from vmlab import demo_here
# Whoever is started in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
demo_here.STATE = Path("state").absolute()
demo_here.SETTLE_S = 0.1
os.environ["PATH"] = f"{{Path.cwd()}}:{{os.environ['PATH']}}"
{then}
"""
IN_CHARGE = """
with demo_here.in_charge("limelight"):
    assert demo_here.STATE.read_text().strip() == "enabled"
    {then}
"""
#: In wakelat's place: not every kernel has trace points.
WAKELAT = """#!/bin/sh
sleep "$2"
echo '{"source": "none", "groups": {"player": {"dispatch_ns": [10000, 20000, 30000]}}}' >"$4"
"""
WHOLE = """
demo_here.SECONDS, demo_here.KEYS = 2, 5
os.environ["PATH"] += f":{demo_here.TOP}/workloads/build"
demo_here.show(True, Path.cwd())
"""
PROGRAMS = ("Xvfb", "openbox", "mpv", "xterm", "xdotool", "ffmpeg", "person", "hogs")


@pytest.fixture
def display():
    """An X server with a window manager, for anybody."""
    path = f"{os.environ['PATH']}:{TOP}/workloads/build"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing and not os.environ.get("LIMELIGHT_NEED_PROGRAMS"):
        pytest.skip(f"there is no {', '.join(missing)}: scripts/setup and make -C workloads")
    told, tells = os.pipe()
    with subprocess.Popen(["Xvfb", "-displayfd", str(tells), "-screen", "0", "1280x720x24"], pass_fds=(tells,), stderr=subprocess.DEVNULL) as server:
        name = f":{os.read(told, 16).decode().strip()}"
        with subprocess.Popen(["openbox"], env={**os.environ, "DISPLAY": name}, stderr=subprocess.DEVNULL) as manager:
            yield name
            manager.terminate()
        server.terminate()
    os.close(told)
    os.close(tells)


def demo(words, folder, then, begins="echo enabled >state", **env):
    """Has the demonstration of an ordinary user do `then`, with the stand-in for limelight; what became of it."""
    (folder / "state").write_text("disabled\n")
    limelight = folder / "limelight"
    limelight.write_text(LIMELIGHT.format(begins=begins))
    limelight.chmod(0o755)
    env = {**os.environ, **env, "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": str(folder)}
    command = [*words, sys.executable, "-c", DEMO.format(then=then)]
    return subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)


def is_back(folder, limit_s=10.0):
    """Whether the kernel's scheduler is in charge within that time."""
    end = time.monotonic() + limit_s
    while (folder / "state").read_text() != "disabled\n" and time.monotonic() < end:
        time.sleep(0.05)
    return (folder / "state").read_text() == "disabled\n"


@pytest.mark.parametrize(("then", "status"), [
    ("pass", 0), ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT), ("raise ValueError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
])
def test_limelight_ends_with_the_demonstration(ordinary, folder, then, status):
    """At its end, by Ctrl-C, by an exception and by kill -9: no ordinary user is left with a scheduler that only root can take off."""
    done = demo(ordinary, folder, IN_CHARGE.format(then=then))
    assert done.returncode == status, done.stderr
    assert is_back(folder)


@pytest.mark.parametrize(("then", "begins", "said"), [
    ("pass", "exit 1", "did not take charge"), ("demo_here.STATE.write_text('disabled')", "echo enabled >state; chmod 666 state", "did not stay in charge"),
])
def test_a_limelight_that_is_not_in_charge_is_not_measured(ordinary, folder, then, begins, said):
    """One that does not load, or that the kernel has thrown out meanwhile, is told as such, not shown as a figure."""
    done = demo(ordinary, folder, IN_CHARGE.format(then=then), begins)
    assert done.returncode == 1 and said in done.stderr and "reason" in done.stderr


def test_table_plot_and_pictures_of_a_desktop(ordinary, folder, display):
    """On a real X server, under its own scheduler twice: a film's frames, keys in vim, both by DAMAGE; a table without a gap, a plot, two pictures."""
    (folder / "wakelat").write_text(WAKELAT)
    (folder / "wakelat").chmod(0o755)
    done = demo(ordinary, folder, WHOLE, DISPLAY=display)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "beside it" in line]
    assert len(rows) == 4 and all(row.count(" ms") == 4 and row.count(" %") == 1 for row in rows)
    assert all((folder / name).stat().st_size > 5000 for name in ("film.png", "desktop-eevdf.png", "desktop-limelight.png"))
    assert is_back(folder)
