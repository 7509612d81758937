# SPDX-License-Identifier: MIT
"""The player's programs as the tests run them, and the protocol as the tests speak it."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

PLAYER = Path(__file__).resolve().parent.parent
COOP = PLAYER.parent.parent / "coop"
BUILD = PLAYER / "build"

sys.path.append(str(COOP / "tests"))
from coop_programs import environment  # noqa: E402

#: Kept between runs; never committed.
FILMS_S = 6
FILMS = BUILD / f"films-{FILMS_S}s"

#: Ends what hangs: no test plays for more than some seconds, and a busy machine makes that a minute at most.
PATIENCE_S = 120

PLAY, POSITION, FILM, WINDOW, FRAME, END, REFUSED = range(1, 8)
KINDS = "IPB"
MAGIC = 0x70726F67


class Played(NamedTuple):
    """What came of a play."""

    status: int
    figures: dict[str, Any]
    said: str

    def part(self, kind: str, *fates: str) -> float:
        """How much of the frames of a kind had one of these fates."""
        frames = self.figures["frames"][kind]
        return sum(frames[fate] for fate in fates) / frames["due"]


def film(name: str) -> Path:
    """One of the films made."""
    return FILMS / f"{name}.mkv"


def make_variable_film(path: Path, *, is_timed: bool = True) -> None:
    """A film of 6 s whose frames come at no constant rate: sixty in one second and five in each of the next two, 23 a second on average, so that most are
    closer than half the average. Not `is_timed`: its frames without their times, one behind the other."""
    source = "mandelbrot=size=320x180:rate=60,noise=alls=20:allf=t,select='lt(mod(n,180),60)+not(mod(n,12))'"
    coded = ("-pix_fmt", "yuv420p", "-threads", "1", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "2000k")
    order = ("-x264-params", "bframes=7:b-adapt=0:b-pyramid=none:keyint=48:min-keyint=48:scenecut=0")
    command = ["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", source, "-vsync", "vfr", "-t", "6", *coded, *order]
    subprocess.run([*command, "-f", "mp4" if is_timed else "h264", path], check=True, timeout=PATIENCE_S)


@contextmanager
def streamer(*arguments: str | Path, program: str = "streamer") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """One that listens, as (HOST:PORT, process)."""
    command = [BUILD / program, "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout
        yield f"127.0.0.1:{process.stdout.readline().split()[1]}", process
    finally:
        process.kill()
        process.communicate()


def start_player(*arguments: str | Path, program: str = "player", before: tuple[str, ...] = (), **extra: str) -> subprocess.Popen[str]:
    """A player that plays; `before`: the command that starts it."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*before, BUILD / program, *arguments], stdout=pipe, stderr=pipe, text=True, env=environment(**extra))


def played(process: subprocess.Popen[str]) -> Played:
    """Waits for its end."""
    try:
        out, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    # The sanitizer warns of every program that has a stack of its own making.
    said = "\n".join(line for line in said.splitlines() if "swapcontext" not in line)
    return Played(process.returncode, json.loads(out) if out else {}, said)


def play(*arguments: str | Path, program: str = "player", **extra: str) -> Played:
    """A whole play."""
    return played(start_player(*arguments, program=program, **extra))


@contextmanager
def x_server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """An X server on a free display, as (display, process)."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout
        yield f":{server.stdout.readline().strip()}", server
    finally:
        server.kill()
        server.communicate()


def message(kind: int, body: bytes = b"") -> bytes:
    """One of the protocol's."""
    return struct.pack(">II", kind, len(body)) + body


def play_message(name: str, version: int = 1) -> bytes:
    """The question for a film."""
    return message(PLAY, struct.pack(">II", MAGIC, version) + name.encode())


def film_message(width: int = 640, height: int = 360, frame_ns: int = 40_000_000) -> bytes:
    """The answer."""
    return message(FILM, struct.pack(">IIQ", width, height, frame_ns))


def window_message(number: int, frames: tuple[int, int, int], begin_ns: int, duration_ns: int) -> bytes:
    """The head of a window with so many I, P and B frames."""
    return message(WINDOW, struct.pack(">IIIIQQ", number, *frames, begin_ns, duration_ns))


def frame_message(window: int, importance: int, kind: int, shown_ns: int, data: bytes, group: int = 1, reference: int = 0) -> bytes:
    """A frame."""
    return message(FRAME, struct.pack(">IIIIIIQ", window, importance, kind, group, reference, 0, shown_ns) + data)


class Frame(NamedTuple):
    """One that a streamer sent."""

    window: int
    importance: int
    kind: str
    group: int
    reference: int
    shown_ns: int
    data: bytes


class Window(NamedTuple):
    """One that a streamer announced."""

    number: int
    frames: tuple[int, int, int]
    begin_ns: int
    duration_ns: int


def window_of(body: bytes) -> Window:
    """What a WINDOW says."""
    number, i, p, b, begin_ns, duration_ns = struct.unpack(">IIIIQQ", body)
    return Window(number, (i, p, b), begin_ns, duration_ns)


def frame_of(body: bytes) -> Frame:
    """What a FRAME says."""
    window, importance, kind, group, reference, _, shown_ns = struct.unpack(">IIIIIIQ", body[:32])
    return Frame(window, importance, KINDS[kind], group, reference, shown_ns, body[32:])


class Viewer:
    """A player's side of the protocol, without a player."""

    def __init__(self, place: str, name: str) -> None:
        host, port = place.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.socket.sendall(play_message(name))

    def read(self, count: int) -> bytes:
        """So many bytes, or fewer at the end."""
        data = b""
        while len(data) < count and (more := self.socket.recv(count - len(data))):
            data += more
        return data

    def hear(self) -> tuple[int, bytes]:
        """The next message; (0, nothing) at the end."""
        head = self.read(8)
        if not head:
            return 0, b""
        kind, length = struct.unpack(">II", head)
        return kind, self.read(length)

    def hear_frames(self, in_time: bool = False) -> tuple[list[Window], list[Frame]]:
        """The windows and frames up to the film's end, or until nothing comes any more; `in_time`: it says that a window is being shown when
        all of it has come."""
        windows: list[Window] = []
        frames: list[Frame] = []
        try:
            while True:
                kind, body = self.hear()
                if kind == WINDOW:
                    windows.append(window_of(body))
                elif kind == FRAME:
                    frames.append(frame_of(body))
                elif kind in (END, 0):
                    break
                if in_time and windows and sum(windows[-1].frames) == sum(frame.window == windows[-1].number for frame in frames):
                    self.tell(windows[-1].begin_ns + 1)
        except TimeoutError:
            pass
        return windows, frames

    def tell(self, now_ns: int) -> None:
        """How far it is."""
        self.socket.sendall(message(POSITION, struct.pack(">Q", now_ns)))

    def close(self) -> None:
        """Goes."""
        self.socket.close()


@contextmanager
def hogs(count: int, cpu: int) -> Iterator[None]:
    """So many processes that take all the CPU they get, on one CPU."""
    command = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def one_cpu() -> int:
    """A CPU that this process may use: the last, which interrupts like least."""
    return max(os.sched_getaffinity(0))
