# SPDX-License-Identifier: GPL-2.0-only
"""The line between this program and the agent in the guest: frames over one virtio-serial port.

A frame is a length (4 bytes, big endian, of what follows), one byte that says what it is, and the payload.
To the guest: `R` run a command, `C` call (both JSON), `P` destination directory, followed by `D` pieces of a tar archive and `E`.
From the guest: `o` and `e` output, `D` and `E` as above, `X` the reply (JSON).
One request at a time; kernel messages never mix in, they go to the serial console.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from vmlab.errors import LabError

CHUNK_BYTES = 60_000
HEADER = struct.Struct(">IB")


class Channel:
    """Speaks with the agent. Every method raises LabError when the guest is gone or too slow."""

    def __init__(self, connection: socket.socket, alive: Callable[[], bool]) -> None:
        self._socket = connection
        self._alive = alive
        self._buffer = bytearray()

    def post(self, kind: str, request: dict) -> None:
        """Sends a request without waiting: a guest that stands still finds it when it goes on, and no idle time passes in it."""
        self._send(kind, json.dumps(request).encode())

    def call(self, request: dict, limit_s: float) -> dict:
        """Has the agent do something of its own; a failure it reports becomes a LabError."""
        self.post("C", request)
        return self.answer(request, limit_s)

    def answer(self, request: dict, limit_s: float) -> dict:
        """Waits for the end of a call that was posted."""
        reply = self._reply(time.monotonic() + limit_s, f"the guest did not finish `{request['op']}`")
        if "error" in reply:
            raise LabError(reply["error"], reply["reason"], reply["fix"])
        return reply

    def follow(self, request: dict, sink: Callable[[str, bytes], None], limit_s: float | None) -> dict:
        """Waits for the end of a command that was posted (`R`); gives its output to `sink` as it comes."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        what = f"the command `{' '.join(request['argv'])[:200]}` did not end"
        while True:
            kind, data = self._receive(deadline, what)
            if kind == "X":
                return json.loads(data)
            sink("stdout" if kind == "o" else "stderr", data)

    def send_tree(self, source: Path, destination: str, limit_s: float = 600.0) -> None:
        """Packs a file or directory and has the agent unpack it in `destination`."""
        self._send("P", destination.encode())
        with tarfile.open(fileobj=_Pieces(self._send), mode="w|", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, arcname=source.name, filter=_of_root)
        self._send("E", b"")
        reply = self._reply(time.monotonic() + limit_s, f"the guest did not take {source}")
        if "error" in reply:
            raise LabError(reply["error"], reply["reason"], reply["fix"])

    def fetch_tree(self, source: str, destination: Path, limit_s: float = 600.0) -> list[Path]:
        """Unpacks the contents of a directory of the guest into `destination`."""
        self._send("C", json.dumps({"op": "fetch", "path": source}).encode())
        packed = io.BytesIO()
        deadline = time.monotonic() + limit_s
        while True:
            kind, data = self._receive(deadline, f"the guest did not hand over {source}")
            if kind == "D":
                packed.write(data)
            elif kind == "X":
                reply = json.loads(data)
                break
        if "error" in reply:
            raise LabError(reply["error"], reply["reason"], reply["fix"])
        packed.seek(0)
        with tarfile.open(fileobj=packed, mode="r") as archive:
            # "data" refuses links and names that lead out of the destination.
            archive.extractall(destination, filter="data")
            return [destination / member.name for member in archive.getmembers() if member.isfile()]

    def _reply(self, deadline: float, what: str) -> dict:
        while True:
            kind, data = self._receive(deadline, what)
            if kind == "X":
                return json.loads(data)

    def _send(self, kind: str, data: bytes) -> None:
        try:
            self._socket.settimeout(120.0)
            self._socket.sendall(HEADER.pack(len(data) + 1, ord(kind)) + data)
        except OSError as error:
            raise LabError("lost the guest", f"its agent's port is closed ({error})", "see what the console said") from error

    def _receive(self, deadline: float | None, what: str) -> tuple[str, bytes]:
        head = self._exactly(HEADER.size, deadline, what)
        length, kind = HEADER.unpack(head)
        return chr(kind), self._exactly(length - 1, deadline, what)

    def _exactly(self, count: int, deadline: float | None, what: str) -> bytes:
        while len(self._buffer) < count:
            if deadline is not None and time.monotonic() > deadline:
                raise LabError(what, "the time limit on this machine's clock ran out", "give it more (--real-timeout), or look with ./lab shell")
            self._socket.settimeout(1.0)
            try:
                piece = self._socket.recv(1 << 20)
            except TimeoutError:
                if not self._alive():
                    raise LabError(what, "the virtual machine ended", "see what the console said") from None
                continue
            except OSError as error:
                raise LabError(what, f"the agent's port broke ({error})", "see what the console said") from error
            if not piece:
                raise LabError(what, "the virtual machine ended", "see what the console said")
            self._buffer += piece
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The laboratory's files belong to root in the guest, whoever has them here: a user's number there may be somebody else's."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


class _Pieces:
    """A file that tarfile writes to and that leaves as frames."""

    def __init__(self, send: Callable[[str, bytes], None]) -> None:
        self._send = send

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        for start in range(0, len(view), CHUNK_BYTES):
            self._send("D", bytes(view[start : start + CHUNK_BYTES]))
        return len(data)
