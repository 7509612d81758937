# SPDX-License-Identifier: MIT
"""Real programs under coop-run, unmodified: an X server, a player, a GTK program; and coop-run itself."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coop_programs import BUILD, Said, environment, standin

COOP_RUN = BUILD / "coop-run"
PATIENCE_S = 60
MS = 1_000_000
S = 1_000 * MS
#: When a GLib timer of 3 whole seconds may end (test_a_gtk_program_closes_at_its_release).
EARLIEST_NS = 3 * S - S // 4


def need(*programs: str) -> None:
    """Skips where one is missing, unless the tests were promised all of them."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        assert "LIMELIGHT_NEED_PROGRAMS" not in os.environ, f"missing: {missing}; fix: scripts/setup"
        pytest.skip(f"not installed: {', '.join(missing)}; fix: scripts/setup")


def run(*command: str | Path, status: int = 0, **extra: str) -> str:
    """What a command writes, both ways, which has to end with that status."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment(**extra), stdin=subprocess.DEVNULL)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@contextmanager
def x_server(*before: str | Path, **extra: str) -> Iterator[tuple[str, int]]:
    """An X server on a free display, as (display, pid), which ends well."""
    need("Xvfb")
    command = [*before, "Xvfb", "-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(**extra))
    try:
        assert server.stdout
        yield f":{server.stdout.readline().strip()}", server.pid
        server.terminate()
        assert server.wait(PATIENCE_S) == 0
    finally:
        server.kill()
        server.wait()


def releases(said: list[Said], **wanted: object) -> list[int]:
    """Those of the sleeps of a process, or of the threads of a name, each once, in order."""
    found = [one for one in said if one.state == "sleeps" and all(getattr(one, name) == value for name, value in wanted.items())]
    return list(dict.fromkeys(one.release_ns for one in found if one.release_ns is not None))


def test_an_x_server_repeats_a_key_at_its_releases() -> None:
    """Xvfb repeats a held key every 40 ms by a timer of its own: while 'a' is held for 1.5 s, half of its releases are 39 to 60 ms apart
    (what it is late by is added each time), 10 at least; it draws for a client meanwhile, and says 'sleeps' up to 10 min ahead, for its screen saver."""
    need("xdotool", "xwd")
    with standin() as limelight:
        with x_server(COOP_RUN, COOP_SOCKET=limelight.socket) as (display, pid):
            run("xdotool", "sleep", "1.5", DISPLAY=display)
            run("xdotool", "keydown", "a", "sleep", "1.5", "keyup", "a", DISPLAY=display)
            assert len(subprocess.run(["xwd", "-root"], capture_output=True, env=environment(DISPLAY=display), timeout=PATIENCE_S).stdout) > 640 * 480 * 3
        said = limelight.stop()
    near = [one.release_ns for one in said if one.pid == pid and one.release_ns and one.release_ns - one.seen_ns < S]
    apart = [b - a for a, b in zip(near, near[1:]) if b != a]
    assert len(apart) >= 10
    assert 39 * MS <= statistics.median(apart) <= 60 * MS
    assert max(one.release_ns - one.seen_ns for one in said if one.pid == pid and one.release_ns) <= 600 * S


@pytest.mark.parametrize("has_limelight", [True, False])
def test_a_player_plays(has_limelight: bool) -> None:
    """mpv shows 2 s of video in a window of an X server under coop-run, both cooperative, and ends well after 2 s or more; its video thread says until
    when it waits for the window, at most 10 s ahead (mpv's own bound). Without limelight it plays likewise."""
    need("mpv")
    command = ["mpv", "--no-config", "--vo=x11", "--no-audio", "--msg-level=all=warn", "av://lavfi:testsrc=size=320x240:rate=25:duration=2"]
    with standin() as limelight:
        socket = limelight.socket if has_limelight else ""
        with x_server(COOP_RUN, COOP_SOCKET=socket) as (display, _):
            begin = time.monotonic()
            run(COOP_RUN, *command, DISPLAY=display, COOP_SOCKET=socket)
            assert time.monotonic() - begin >= 2
        said = limelight.stop()
    video = [one for one in said if one.name == "mpv/vo"]
    assert bool(video) == has_limelight
    assert all(one.release_ns - one.seen_ns <= 10 * S for one in video if one.release_ns)
    assert not has_limelight or any(one.release_ns for one in video)


@pytest.mark.parametrize("has_limelight", [True, False])
def test_a_gtk_program_closes_at_its_release(has_limelight: bool) -> None:
    """A dialog of zenity that closes by itself after 3 s (status 5) has its end as a release: it does not end before the last one it told, and within 2 s
    after that on a busy machine. Without limelight it closes likewise. The 3 s may be 2.75 to 3.75: GLib's timers of whole seconds fall on one mark within
    the second, down to it from less than 1/4 s after it, else up (g_timeout_set_expiration)."""
    need("zenity")
    command = ["zenity", "--info", "--timeout=3", "--text=limelight"]
    with standin() as limelight:
        with x_server() as (display, _):
            begin = time.monotonic_ns()
            run(COOP_RUN, *command, status=5, DISPLAY=display, COOP_SOCKET=limelight.socket if has_limelight else "")
            end = time.monotonic_ns()
        said = limelight.stop()
    assert end - begin >= EARLIEST_NS
    dialog = releases(said, name="zenity")
    assert bool(dialog) == has_limelight
    if has_limelight:
        due = [release for release in dialog if begin + EARLIEST_NS <= release <= end]
        assert due and end - max(due) < 2 * S


def test_coop_run_is_the_program() -> None:
    """Status, output and arguments are the program's; what was preloaded before stays, behind the library; children are cooperative, too."""
    assert run(COOP_RUN, "sh", "-c", 'echo "$0" "$1"; exit 3', "a b", "c", status=3) == "a b c\n"
    assert run(COOP_RUN, "--", "sh", "-c", "sh -c 'echo $LD_PRELOAD'", LD_PRELOAD="libm.so.6").split(":")[1] == "libm.so.6\n"
    assert "libcoop-preload.so" in run(COOP_RUN, "sh", "-c", "cat /proc/self/maps")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 125, "nothing to run"),
        (["--no-such-option"], 125, "unknown option"),
        (["no-such-program"], 127, "cannot find no-such-program"),
        (["./no-such-program"], 127, "cannot find ./no-such-program"),
        (["/etc/passwd"], 126, "cannot run /etc/passwd"),
        (["/sbin/ldconfig"], 126, "statically linked"),
        (["{folder}/set-user-id"], 126, "rights that its caller has not"),
        (["{folder}/thirty-two"], 126, "another kind of machine"),
    ],
)
def test_coop_run_says_what_cannot_be(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    """Each thing that cannot be run, or not cooperatively, is named with its reason and a fix, with the status of env(1), and not run at all."""
    if any("set-user-id" in word for word in arguments):
        if os.geteuid():
            pytest.skip("only root can give a program to another user")
        shutil.copy("/bin/true", tmp_path / "set-user-id")
        os.chown(tmp_path / "set-user-id", 65534, 65534)
        (tmp_path / "set-user-id").chmod(0o4755)
    # The class byte of an ELF header: 1 is 32 bits.
    (tmp_path / "thirty-two").write_bytes(b"\x7fELF\x01" + Path("/bin/true").read_bytes()[5:64])
    (tmp_path / "thirty-two").chmod(0o755)
    said = run(COOP_RUN, *[word.format(folder=tmp_path) for word in arguments], status=status)
    assert words in said and "reason: " in said and "fix: " in said


def test_coop_run_has_one_text() -> None:
    """--help names every option and status that the man page has; --version is limelight's."""
    text = run(COOP_RUN, "--help")
    page = (BUILD.parent / "man/coop-run.1").read_text()
    assert all(word in text for word in ["--help", "--version", "125", "126", "127"])
    assert all(word in page for word in ["Fl h , -help", "Fl V , -version", "125", "126", "127"])
    assert run(COOP_RUN, "--version").startswith("coop-run ")


def test_what_it_runs_has_no_huge_pages_unless_it_asks_for_them():
    """khugepaged leaves a program alone that coop-run runs, and does not where COOP_HUGE_PAGES is 1."""
    enabled = ("grep", "THP_enabled:", "/proc/self/status")
    without_it = run(*enabled)
    if "1" not in without_it:
        pytest.skip("this kernel, or whoever runs the tests, has none to be left")
    assert run(COOP_RUN, *enabled).split() == ["THP_enabled:", "0"]
    assert run(COOP_RUN, *enabled, COOP_HUGE_PAGES="1") == without_it


def test_a_library_that_the_loader_would_not_find_is_named(tmp_path: Path) -> None:
    """In a folder with a space in its name coop-run says so, with status 125: the dynamic loader would leave the library out, and the program would not
    be cooperative without a word of it."""
    folder = tmp_path / "a b"
    folder.mkdir()
    for name in ("coop-run", "libcoop-preload.so", "libcoop.so.0"):
        shutil.copy(BUILD / name, folder)
    done = subprocess.run([folder / "coop-run", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 125 and "a space or a colon" in done.stderr, done.stderr
