# SPDX-License-Identifier: MIT
"""Neither side believes the other, and who is misused is told what was wrong."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coop_programs import environment
from player_programs import (
    BUILD,
    END,
    FILM,
    FRAME,
    PATIENCE_S,
    PLAYER,
    REFUSED,
    WINDOW,
    Viewer,
    film,
    film_message,
    frame_message,
    message,
    play,
    play_message,
    streamer,
    window_message,
    window_of,
)

NS = 10**9
SECOND = window_message(0, (1, 0, 0), 0, NS)
#: A frame that libavcodec takes for one and cannot decode.
NONSENSE = b"\0\0\0\1\x65" + bytes(range(1, 200))


def cpu_s(pid: int) -> float:
    """What a process has run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def liar(said: bytes, stays: bool = False) -> Iterator[str]:
    """A server that says this to whoever comes, and closes, or stays until the test is over."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        over = threading.Event()

        def serve() -> None:
            with server.accept()[0] as viewer:
                viewer.sendall(said)
                # What is not read would be a reset in place of an end.
                viewer.settimeout(PATIENCE_S)
                viewer.recv(4096)
                if stays:
                    over.wait(PATIENCE_S)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        over.set()
        thread.join()


LIES = {
    "no_protocol": b"HTTP/1.0 200 OK\r\n\r\n",
    "an_unknown_message": message(99),
    "a_message_of_4_GB": b"\0\0\0\5\xff\xff\xff\xff",
    "a_film_without_size": film_message(width=0),
    "a_film_larger_than_screens": film_message(height=100_000),
    "a_film_without_rate": film_message(frame_ns=0),
    "a_film_too_short": message(FILM, b"\0\0"),
    "two_films": film_message() + film_message(),
    "a_window_before_the_film": SECOND,
    "a_window_without_frames": film_message() + window_message(0, (0, 0, 0), 0, NS),
    "a_window_of_too_many": film_message() + window_message(0, (1, 0, 64), 0, NS),
    "a_window_whose_sum_overflows": film_message() + window_message(0, (1, 2**32 - 1, 1), 0, NS),
    "a_window_out_of_order": film_message() + window_message(5, (1, 0, 0), 0, NS),
    "a_window_in_a_hundred_years": film_message() + window_message(0, (1, 0, 0), 2**61, NS),
    "a_window_that_overlaps": film_message() + SECOND + window_message(1, (1, 0, 0), NS - 1, NS),
    "a_window_that_goes_back": film_message() + SECOND + window_message(1, (1, 0, 0), 0, NS),
    "a_window_without_end": film_message() + window_message(0, (1, 0, 0), 0, 2**63),
    "a_frame_before_its_window": film_message() + frame_message(0, 0, 0, 0, NONSENSE),
    "a_frame_of_another_window": film_message() + SECOND + frame_message(7, 0, 0, 0, NONSENSE),
    "a_frame_of_no_kind": film_message() + SECOND + frame_message(0, 0, 7, 0, NONSENSE),
    "a_frame_that_was_not_announced": film_message() + SECOND + frame_message(0, 0, 2, 0, NONSENSE),
    "a_frame_twice": film_message() + SECOND + 2 * frame_message(0, 0, 0, 0, NONSENSE),
    "a_frame_less_important_than_there_are": film_message() + SECOND + frame_message(0, 1, 0, 0, NONSENSE),
    "a_frame_outside_its_window": film_message() + SECOND + frame_message(0, 0, 0, 5 * NS, NONSENSE),
    "a_frame_without_data": film_message() + SECOND + frame_message(0, 0, 0, 0, b""),
    "a_question": film_message() + play_message("calm.mkv"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_noticed(lie: str) -> None:
    """What a streamer cannot say ends the film at once, with the reason and status 1, while the server stays; no sanitizer reports anything."""
    with liar(LIES[lie], stays=True) as place:
        one = play("--server", place, "--display", "none", "calm.mkv", program="sanitized-player")
    assert one.status == 1
    assert one.said.splitlines()[:2] == [
        "player: the film calm.mkv did not play to its end", "  reason: what the server sends is not what a streamer of this version sends",
    ]


def first_frame(name: str) -> bytes:
    """The I frame that a film begins with."""
    with streamer(film(name)) as (place, _):
        viewer = Viewer(place, f"{name}.mkv")
        while True:
            kind, body = viewer.hear()
            if kind == FRAME:
                viewer.close()
                return body[32:]


def test_damaged_frames_are_dropped() -> None:
    """Nonsense, and a frame of another size than the film's, count as damaged, and a P frame after it as one whose reference is lost; a whole one is shown."""
    frame = first_frame("calm")
    for width, data, fate in [(640, NONSENSE, "damaged"), (320, frame, "damaged"), (960, frame, "damaged"), (640, frame, "shown")]:
        said = film_message(width=width) + window_message(0, (1, 1, 0), 0, NS)
        said += frame_message(0, 0, 0, 0, data) + frame_message(0, 1, 1, NS // 2, data, reference=1) + message(END)
        with liar(said) as place:
            one = play("--server", place, "--display", "none", "calm.mkv", program="sanitized-player")
        assert (one.status, one.said) == (0, "")
        assert one.figures["frames"]["I"][fate] == 1, (width, fate, one.figures["frames"])
        assert one.figures["frames"]["P"]["shown" if fate == "shown" else "reference_lost"] == 1


def still_decodes(before: bytes, frame: bytes) -> dict[str, int]:
    """What becomes of the I frames where a server begins a film with this, and half a second and a second later sends a whole one."""
    said = film_message() + before
    for number in (1, 2):
        said += window_message(number, (1, 0, 0), number * NS // 2, NS // 2) + frame_message(number, 0, 0, number * NS // 2, frame, group=number)
    with liar(said + message(END)) as place:
        one = play("--server", place, "--display", "none", "calm.mkv", program="sanitized-player")
    assert (one.status, one.said) == (0, "")
    return one.figures["frames"]["I"]


def test_a_frame_is_decoded_to_its_end_before_another() -> None:
    """Four large frames of a window of 1 ns have one user virtual time, so that each piece of one puts it behind the others: all are decoded and shown,
    and those after them, and nothing is left of any (where one is begun in the middle of another, there is a leak, and the rest of the film is damaged)."""
    frame = first_frame("noisy")
    before = window_message(0, (4, 0, 0), 0, 1) + b"".join(frame_message(0, number, 0, 0, frame) for number in range(4))
    frames = still_decodes(before, frame)
    assert frames["shown"] == frames["due"] == 6, frames


def test_an_i_frame_after_damage_begins_afresh() -> None:
    """A P frame that has another film's parameters with it, of another size, is damaged; the whole I frames after it are shown, although their own parameters
    are those of the one before it, which are left out otherwise."""
    frame, other = first_frame("calm"), first_frame("fine")
    before = window_message(0, (1, 1, 0), 0, NS // 2) + frame_message(0, 0, 0, 0, frame) + frame_message(0, 1, 1, 1, other, reference=1)
    frames = still_decodes(before, frame)
    assert frames["shown"] == frames["due"] == 3, frames


def test_a_reference_that_was_not_sent_is_missed() -> None:
    """P and B frames whose group, or place in it, is not the one that the decoder has are not decoded: the first has none, the second
    has another's, the third skips one."""
    frame = first_frame("calm")
    wrong = [(1, 1, 1), (2, 9, 0), (1, 1, 2)]
    for kind, group, reference in wrong:
        has_i = (kind, group, reference) != wrong[0]
        said = film_message() + window_message(0, (int(has_i), int(kind == 1), int(kind == 2)), 0, NS)
        said += frame_message(0, 0, 0, 0, frame) if has_i else b""
        said += frame_message(0, int(has_i), kind, NS // 2, frame, group=group, reference=reference) + message(END)
        with liar(said) as place:
            one = play("--server", place, "--display", "none", "calm.mkv", program="sanitized-player")
        assert one.figures["frames"]["IPB"[kind]]["reference_lost"] == 1, (one.figures["frames"], one.said)


def test_a_damaged_stream_does_no_harm() -> None:
    """A film's own messages with bytes of the frames turned over, 12 times with other ones: each play ends by itself with status 0, each frame has a
    fate, and no sanitizer reports anything."""
    with streamer(film("busy")) as (place, _):
        viewer = Viewer(place, "busy.mkv")
        messages = [viewer.hear() for _ in range(14)]
        viewer.close()
    announced = sum(sum(int.from_bytes(body[at : at + 4], "big") for at in (4, 8, 12)) for kind, body in messages if kind == WINDOW)
    for seed in range(12):
        chance = random.Random(seed)
        said = b""
        for kind, body in messages:
            data = bytearray(body)
            for _ in range(seed + 1 if kind == FRAME else 0):
                data[chance.randrange(32, len(data))] = chance.randrange(256)
            said += message(kind, bytes(data))
        with liar(said + message(END)) as place:
            one = play("--server", place, "--display", "none", "--preroll-ms", "200", "busy.mkv", program="sanitized-player")
        assert (one.status, one.said) == (0, ""), f"seed {seed}"
        assert one.figures["frames_due"] == announced


def test_a_silent_server_is_given_up() -> None:
    """One that accepts and says nothing is left after 10 s, before or after it has told of the film; the test's patience is for a busy machine."""
    for said in (b"", film_message()):
        with liar(said, stays=True) as place:
            one = play("--server", place, "--display", "none", "calm.mkv")
        assert one.status == 1
        assert "the server said nothing for 10 s" in one.said


#: What the programs are called with, and what they name: the thing. The status: 64 wrong usage, 1 it cannot be.
MISUSES = [
    ("player", [], 64, "nothing to play"),
    ("player", ["a", "b"], 64, "too much to play"),
    ("player", ["--wrong"], 64, "'--wrong'"),
    ("player", ["--group"], 64, "'--group'"),
    ("player", ["--seconds", "0", "a"], 64, "'0' for --seconds"),
    ("player", ["--seconds", "3s", "a"], 64, "'3s' for --seconds"),
    ("player", ["--group", "-1", "a"], 64, "'-1' for --group"),
    ("player", ["--group", "4294967296", "a"], 64, "'4294967296' for --group"),
    ("player", ["--display", "wall", "a"], 64, "'wall' for --display"),
    ("player", ["--server", "here", "a"], 64, "'here' as an address"),
    ("player", ["--server", "127.0.0.1:", "a"], 64, "'127.0.0.1:' as an address"),
    ("player", ["--server", "127.0.0.1:1", "a"], 1, "127.0.0.1:1"),
    ("player", ["x" * 256], 64, "xxx"),
    ("streamer", [], 64, "nothing to serve"),
    ("streamer", ["--kbit", "much", "a"], 64, "'much' for --kbit"),
    ("streamer", ["--silence", "0", "a"], 64, "'0' for --silence"),
    ("streamer", ["--silence", "-1", "a"], 64, "'-1' for --silence"),
    ("streamer", ["--silence", "never", "a"], 64, "'never' for --silence"),
    ("streamer", ["--silence"], 64, "'--silence'"),
    ("streamer", ["/nonexistent.mkv"], 1, "/nonexistent.mkv"),
    ("streamer", [str(PLAYER / "Makefile")], 1, "Makefile"),
]


@pytest.mark.parametrize(("program", "arguments", "status", "named"), MISUSES)
def test_misuse_is_explained(program: str, arguments: list[str], status: int, named: str) -> None:
    """The message names the thing, the reason and the fix, and nothing is written as figures."""
    done = subprocess.run([BUILD / program, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, env=environment())
    assert (done.returncode, done.stdout) == (status, "")
    what, reason, fix = done.stderr.splitlines()
    assert what.startswith(f"{program}: ") and named in what
    assert reason.startswith("  reason: ") and fix.startswith("  fix: ")


def test_what_cannot_be_streamed_is_named(tmp_path: Path) -> None:
    """A film of another codec, one without video, and one whose points are of another kind are refused at the start, with the command that makes a good one."""
    source = ("-f", "lavfi", "-i", "testsrc2=size=64x64:rate=25:duration=0.2")
    made = {
        "other.mkv": (*source, "-c:v", "mpeg4"),
        "sound.mkv": ("-f", "lavfi", "-i", "sine=duration=0.2"),
        "points.mkv": (*source, "-c:v", "libx264", "-pix_fmt", "yuv444p"),
    }
    reasons = {"other.mkv": "is not H.264", "sound.mkv": "no video", "points.mkv": "8 bits and 4:2:0"}
    for name, arguments in made.items():
        subprocess.run(["ffmpeg", "-v", "error", *arguments, tmp_path / name], check=True, timeout=PATIENCE_S)
        done = subprocess.run([BUILD / "streamer", tmp_path / name], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1 and reasons[name] in done.stderr and name in done.stderr and "ffmpeg -i" in done.stderr


def test_what_is_not_there_is_named() -> None:
    """A film that is not served, an X server that is not there, and a port that is taken: status 1 and what to do."""
    with streamer(film("calm")) as (place, _):
        name = 'no "such" \\ film\n'
        unknown = play("--server", place, "--display", "none", name)
        assert unknown.status == 1 and "no film of this name is served" in unknown.said and unknown.figures["film"] == name
        blind = subprocess.run(
            [BUILD / "player", "--server", place, "calm.mkv"], capture_output=True, text=True, timeout=PATIENCE_S, env=environment(DISPLAY=":9999")
        )
        assert blind.returncode == 1 and "no X server at DISPLAY" in blind.stderr
        taken = subprocess.run([BUILD / "streamer", "--listen", place, film("calm")], capture_output=True, text=True, timeout=PATIENCE_S)
        assert taken.returncode == 1 and "in use" in taken.stderr


def test_a_streamer_outlives_its_viewers() -> None:
    """Nonsense, a question without end, a film asked for twice, another version, one viewer more than 64, and viewers who go in the middle: the sanitized
    streamer ends or refuses each, and plays a film for the next one."""
    with streamer(film("calm"), program="sanitized-streamer") as (place, server):
        host, port = place.split(":")
        for said in (b"GET / HTTP/1.0\r\n\r\n", message(99), message(1, b"x" * 400), b"\0\0\0\1\xff\xff\xff\xff", message(FRAME, b"1")):
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as one:
                one.sendall(said)
                assert one.recv(4096)[:4] in (b"", b"\0\0\0\7")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as one:
            one.sendall(play_message("calm.mkv", version=2))
            assert b"different versions" in one.recv(4096)
        twice = Viewer(place, "calm.mkv")
        assert twice.hear()[0] == FILM
        twice.socket.sendall(play_message("calm.mkv"))
        while twice.hear()[0] not in (0, REFUSED):
            pass
        twice.close()
        crowd = [Viewer(place, "calm.mkv") for _ in range(64)]
        assert all(one.hear()[0] == FILM for one in crowd)
        assert Viewer(place, "calm.mkv").hear() == (REFUSED, b"too many players are served already")
        for one in crowd:
            one.close()
        assert play("--server", place, "--display", "none", "--seconds", "1", "calm.mkv").figures["frames_shown"] > 0
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


def test_who_says_nothing_is_let_go() -> None:
    """Of 64 places 63 are taken by silent connections and one by a viewer who tells how far it is. After 2 s of --silence the silent ones have been let go and
    a film is played for the next one; the viewer, after twice that, is still served: what it asks for comes."""
    silence_s = 2
    with streamer("--silence", str(silence_s), film("calm"), program="sanitized-streamer") as (place, server):
        host, port = place.split(":")
        viewer = Viewer(place, "calm.mkv")
        assert viewer.hear()[0] == FILM
        crowd = [socket.create_connection((host, int(port)), timeout=PATIENCE_S) for _ in range(63)]
        assert Viewer(place, "calm.mkv").hear()[0] == REFUSED
        end = time.monotonic() + 2 * silence_s
        while time.monotonic() < end:
            viewer.tell(0)
            time.sleep(0.05)
        assert all(one.recv(1) == b"" for one in crowd)
        # Two windows have come unasked; the third is for who says that the first is being shown.
        viewer.tell(1)
        said = [viewer.hear()]
        while said[-1][0] == FRAME or (said[-1][0] == WINDOW and window_of(said[-1][1]).number < 2):
            said.append(viewer.hear())
        assert said[-1][0] == WINDOW
        assert play("--server", place, "--display", "none", "--seconds", "1", "calm.mkv").figures["frames_shown"] > 0
        viewer.close()
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


def test_a_streamer_without_descriptors_waits_for_some() -> None:
    """More viewers than it has descriptors for: it takes little CPU meanwhile (all of it where it asks again at once), and serves the next one when some have
    gone."""
    with streamer(film("calm")) as (place, server):
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (16, 16))
        host, port = place.split(":")
        crowd = [socket.create_connection((host, int(port)), timeout=PATIENCE_S) for _ in range(16)]
        time.sleep(0.5)
        before_s = cpu_s(server.pid)
        time.sleep(1)
        assert cpu_s(server.pid) - before_s < 0.2
        for one in crowd:
            one.close()
        assert play("--server", place, "--display", "none", "--seconds", "1", "calm.mkv").figures["frames_shown"] > 0


def test_a_streamer_in_the_background_serves_when_its_command_has_ended() -> None:
    """With --background the command ends once it listens, its output with it, and a film plays at once."""
    command = [BUILD / "streamer", "--background", "--listen", "127.0.0.1:0", "calm.mkv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, env=environment(), cwd=film("calm").parent)
    place = f"127.0.0.1:{done.stdout.split()[1]}"
    one = play("--server", place, "--display", "none", "--seconds", "1", "calm.mkv")
    served = subprocess.run(["pgrep", "-f", "-x", " ".join(map(str, command))], capture_output=True, text=True, check=True).stdout.split()
    for number in served:
        os.kill(int(number), signal.SIGTERM)
    assert one.status == 0 and one.figures["frames_shown"] > 0, one.said


def test_help_and_version() -> None:
    """Both programs say what they are, with every option of theirs, and limelight's version."""
    version = tomllib.loads((PLAYER.parent.parent / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for program in ("player", "streamer"):
        text = subprocess.run([BUILD / program, "--help"], capture_output=True, text=True, check=True).stdout
        source = (PLAYER / f"src/{program}.c").read_text()
        options = [line.split('"')[1] for line in source.replace("}, {", "},\n{").splitlines() if "_argument, NULL" in line]
        assert len(options) >= 5 and all(f"--{option}" in text for option in options)
        assert max(len(line) for line in text.splitlines()) <= 150
        assert subprocess.run([BUILD / program, "-V"], capture_output=True, text=True, check=True).stdout == f"{program} {version}\n"
