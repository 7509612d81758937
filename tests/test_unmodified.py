# SPDX-License-Identifier: GPL-2.0-only
"""Programs as Debian has them under coop-run, beside the scheduler itself (cooperative polling, section 4.3, whose X server was patched); and the
library's own examples in each language."""

import runpy
import subprocess
from pathlib import Path

import pytest

from tests.guests import DESKTOP, LIMELIGHT, Guest, on

MACHINES = [DESKTOP]
ROOT = Path(__file__).resolve().parents[1]


def _cooperative(guest: Guest) -> int:
    """Processes that are, of all users."""
    return sum(user["processes"] for user in guest.status()["cooperative"]["users"])


@pytest.mark.everywhere
@pytest.mark.parametrize("server", ["Xvfb -screen 0 640x480x24", "/usr/lib/xorg/Xorg -config /lab/guest/xorg.conf -novtswitch -sharevts"])
def test_programs_that_know_nothing_of_it_are_cooperative(guest: Guest, server: str) -> None:
    """An X server and mpv, both as Debian has them, run under coop-run beside four bursty ones: both are cooperative while the film plays, and no frame of
    it is dropped."""
    guest.install_coop_run()
    guest.start_limelight()
    guest.background("hogs bursty 4")
    guest.start_x_server(server, ":7")
    film = "av://lavfi:testsrc=size=320x240:rate=25:duration=4"
    told = "--term-status-msg='dropped ${frame-drop-count}.'"
    player = guest.background(f"env DISPLAY=:7 coop-run mpv --no-config --vo=x11 --no-audio {told} {film}")
    guest.wait_for(lambda: _cooperative(guest) >= 2, "the X server and mpv are cooperative", 30)
    assert "cooperative (libcoop) with " in guest.check("limelight explain $(pgrep -x mpv)")
    guest.wait_until_gone(player)
    assert "dropped 0." in guest.check("tail -c 200 /run/test/env.log")


def _install_examples(guest: Guest, folder: Path) -> dict[str, str]:
    """Has the examples of C, Rust and Python in the guest; how each is started there."""
    guest.install_coop_run()
    build = ["cargo", "build", "--release", "--workspace", "--locked", "--quiet", "--example", "plain"]
    subprocess.run(build, cwd=ROOT, check=True)
    rust = folder / "plain-rust"
    rust.write_bytes((ROOT / "target/release/examples/plain").read_bytes())
    generate = runpy.run_path(str(ROOT / "coop/python/generate.py"))["generate"]
    abi = folder / "_abi.py"
    abi.write_text(generate((ROOT / "coop/include/coop.h").read_text()))
    for path in (rust, abi, ROOT / "coop/build/plain", ROOT / "coop/python/coop", ROOT / "coop/python/examples/plain.py"):
        guest.machine.put(path)
    guest.check("cp /root/in/_abi.py /root/in/coop/; chmod 755 /root/in/plain-rust; cp /usr/local/bin/libcoop.so.0 /usr/lib; ldconfig")
    return {"C": "/root/in/plain", "Rust": "/root/in/plain-rust", "Python": "python3 /root/in/plain.py"}


@pytest.mark.everywhere
@on(LIMELIGHT)
def test_the_example_of_each_language_is_kept_to_its_time(guest: Guest, tmp_path: Path) -> None:
    """The same program in C, Rust and Python beside one that spins: those of its ten frames that it shows are no more than 1 ms late, the promise
    of figure 5.1, and it says that limelight kept the releases."""
    guest.start_limelight()
    examples = _install_examples(guest, tmp_path)
    # Python decodes a frame in half of the laboratory's CPU, not in a fifth.
    guest.background("hogs spinning 1")
    for language, command in examples.items():
        *frames, word = guest.check(command).splitlines()
        print(language, frames, word)
        assert word == "limelight kept the releases", language
        assert [line.split()[1] for line in frames] == [str(number) for number in range(10)], language
        assert all(int(line.split()[3]) <= 1000 for line in frames if "shown" in line), language
        assert any("shown" in line for line in frames), language
