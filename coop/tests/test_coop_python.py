# SPDX-License-Identifier: MIT
"""The Python module: its layouts, callbacks, exceptions, asyncio, and installation. The order of events is tested in C."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from coop_programs import BUILD, COOP, environment, standin

PATIENCE_S = 300


@pytest.fixture(scope="module")
def coop() -> ModuleType:
    """The module as built. A library that is loaded already is found by its name."""
    os.environ["COOP_SOCKET"] = ""
    ctypes.CDLL(str(BUILD / "libcoop.so.0"))
    sys.path.insert(0, str(BUILD / "python"))
    return importlib.import_module("coop")


def test_layouts_are_the_compilers(coop: ModuleType, tmp_path: Path) -> None:
    """Size of an event, offset and size of each of its fields, and every constant are what a C program with coop.h says."""
    abi = importlib.import_module("coop._abi")
    names = [name for name, _ in abi.Event._fields_]
    constants = [name for name in dir(abi) if name.startswith("COOP_")]
    assert len(names) == 11 and len(constants) >= 8
    event = "((struct coop_event *)0)"
    values = ["sizeof(struct coop_event)", *constants]
    values += [text for name in names for text in (f"offsetof(struct coop_event, {name})", f"sizeof({event}->{name})")]
    source = tmp_path / "layout.c"
    prints = "".join(f'printf("%llu\\n", (unsigned long long)({text}));\n' for text in values)
    source.write_text("#include <coop.h>\n#include <stdio.h>\nint main(void)\n{\n" + prints + "}\n")
    subprocess.run(["gcc", f"-I{COOP}/include", source, "-o", tmp_path / "layout"], check=True)
    said = [int(line) for line in subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout.split()]
    known = [ctypes.sizeof(abi.Event), *(getattr(abi, name) for name in constants)]
    known += [value for name in names for value in (getattr(abi.Event, name).offset, getattr(abi.Event, name).size)]
    assert said == known


def test_callbacks_say_what_is_next(coop: ModuleType) -> None:
    """Three ticks 5 ms apart, none early, and five pieces of best-effort work by user virtual time; a cancelled event does not run, nor a second
    time where its own callback cancels it. There is no promise, for limelight is not here."""
    seen: list[int] = []
    with coop.Coop() as scheduler:
        start = coop.now_ns()

        def tick(release: int) -> int:
            assert coop.now_ns() >= release
            seen.append((release - start) // 1_000_000)
            if seen[-1] == 10:
                scheduler.stop()
            return release + 5_000_000

        def piece() -> int | None:
            seen.append(100 + len([number for number in seen if number >= 100]))
            return seen[-1] + 1 if seen[-1] < 104 else None

        scheduler.timer(start, tick)
        scheduler.best_effort(100, piece)
        assert scheduler.timer(start, lambda _: pytest.fail("it was cancelled")).cancel()

        def once(release: int) -> int | None:
            seen.append(50)
            assert not itself.cancel()
            return release if seen.count(50) < 10 else None

        itself = scheduler.timer(start, once)
        scheduler.run()
    assert [number for number in seen if number < 50] == [0, 5, 10]
    assert [number for number in seen if number >= 100] == [100, 101, 102, 103, 104]
    assert seen.count(50) == 1
    assert coop.promise() is coop.Promise.NONE
    assert coop.promise_error().errno == errno.ENOTCONN


def test_a_descriptor_runs_until_it_returns_nothing(coop: ModuleType) -> None:
    """A pipe's callback reads one byte a time, with POLLIN as what is ready, and is done when it returns nothing true."""
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    got: list[bytes] = []
    with coop.Coop() as scheduler, open(reader, "rb", buffering=0) as source, open(writer, "wb"):

        def read(ready: int) -> bool:
            assert ready == select.POLLIN
            got.append(source.read(1))
            return got[-1] != b"b"

        scheduler.descriptor(source, read)
        assert [scheduler.dispatch(1_000_000_000) for _ in range(2)] == [1, 1]
        assert scheduler.dispatch(10_000_000) == 0
    assert got == [b"a", b"b"]


def test_exceptions_pass_through(coop: ModuleType) -> None:
    """What a callback raises comes out of run(), which goes on when called again; a SIGINT 100 ms later ends a run() that sleeps for an
    hour, as KeyboardInterrupt, within 60 s on a busy machine."""
    with coop.Coop() as scheduler:
        scheduler.timer(coop.now_ns(), lambda _: {}["no such frame"])
        with pytest.raises(KeyError, match="no such frame"):
            scheduler.run()
        scheduler.timer(coop.now_ns() + 3600 * 10**9, lambda _: None)
        # Whoever is started in the background of a shell script ignores it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            scheduler.run()
        assert time.monotonic() - begin < 60
        signal.signal(signal.SIGINT, before)


def test_errors_are_os_errors(coop: ModuleType) -> None:
    """EBUSY for a second Coop and for a sleep beside it, EINVAL for never, ENOENT for nothing to run, EPERM in another thread; and closing twice is nothing."""

    def code(call: object, *arguments: object) -> int | None:
        with pytest.raises(OSError) as raised:
            call(*arguments)  # type: ignore[operator]
        return raised.value.errno

    scheduler = coop.Coop()
    assert code(coop.Coop) == errno.EBUSY
    assert code(coop.sleeping().__enter__) == errno.EBUSY
    assert code(scheduler.timer, coop.NEVER, lambda _: None) == errno.EINVAL
    assert code(scheduler.run) == errno.ENOENT
    assert code(coop.poll) == errno.EINVAL
    waiting = scheduler.timer(coop.now_ns() + 10**12, lambda _: None)
    codes: list[int | None] = []
    thread = threading.Thread(target=lambda: codes.extend([code(scheduler.dispatch), code(waiting.cancel)]))
    thread.start()
    thread.join()
    assert codes == [errno.EPERM] * 2
    assert waiting.cancel() and not waiting.cancel()
    scheduler.close()
    scheduler.close()
    assert not waiting.cancel()


@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_what_does_not_fit_is_refused(coop: ModuleType, wrong: int) -> None:
    """A time of less than 0, or of more than 64 bits, is a ValueError that names it, also as what a callback wants next: C would take another one, such as
    never for -1. A group has 32 bits. To wait for longer than 2^63 ns is to wait."""
    with coop.Coop() as scheduler:
        for call in (scheduler.timer, scheduler.best_effort):
            with pytest.raises(ValueError, match=str(wrong)):
                call(wrong, print)
        scheduler.timer(0, lambda _: wrong)
        with pytest.raises(ValueError, match=f"a release, .*{wrong}"):
            scheduler.run()
        for group in (wrong, 2**32):
            with pytest.raises(ValueError, match="a group"):
                scheduler.set_group(group)
        scheduler.timer(coop.now_ns() + 1_000_000, lambda _: None)
        assert scheduler.dispatch(2**63) == 1
    for call in (lambda: coop.poll(release_ns=wrong), lambda: coop.poll(user_virtual_time=wrong), lambda: coop.sleeping(wrong).__enter__(),
                 lambda: coop.poll(wrong, 0), lambda: coop.share_group(wrong), lambda: coop.leave_group(wrong)):
        with pytest.raises(ValueError, match=str(wrong)):
            call()


def test_a_forgotten_coop_is_closed(coop: ModuleType) -> None:
    """One that nobody has closed is, when it is forgotten, with a ResourceWarning; the thread can make another one, also where its events were kept.
    Forgotten in another thread, where nobody can close it, it stays its own thread's, and no event of it runs."""
    scheduler = coop.Coop()
    ran: list[int] = []
    event = scheduler.timer(0, ran.append)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del scheduler
    assert not event.cancel()
    coop.Coop().close()
    codes: list[int] = []

    def forgets() -> None:
        held = [coop.Coop()]
        held[0].timer(0, ran.append)
        other = threading.Thread(target=held.clear)
        other.start()
        other.join()
        try:
            coop.Coop()
        except OSError as error:
            codes.append(error.errno)

    with pytest.warns(ResourceWarning, match="unclosed"):
        thread = threading.Thread(target=forgets)
        thread.start()
        thread.join()
    assert codes == [errno.EBUSY]
    assert not ran


def test_the_calls_beneath_work(coop: ModuleType) -> None:
    """poll() sleeps until its release, not shorter, and nobody advises; a sleep of one's own leaves what is in it alone."""
    release = coop.now_ns() + 10_000_000
    assert coop.poll(release_ns=release) == (coop.NEVER, coop.NEVER)
    assert coop.now_ns() >= release
    with coop.sleeping(coop.now_ns() + 10_000_000):
        time.sleep(0.01)


SHARES = """
import coop
token = coop.share_group(0x41)
assert token == bytes(range(0x41, 0x51)), token
coop.join_group(7, token)
coop.leave_group(7)
coop.unshare_group(0x41)
"""


def test_groups_of_several_users(coop: ModuleType) -> None:
    """A token is the daemon's bytes and goes back as they are; what is none is a ValueError; and without limelight each call is an OSError of ENOTCONN."""
    with standin() as limelight:
        there = environment(COOP_SOCKET=limelight.socket, PYTHONPATH=BUILD / "python", LD_LIBRARY_PATH=BUILD)
        subprocess.run([sys.executable, "-c", SHARES], check=True, env=there, timeout=PATIENCE_S)
    for call in (lambda: coop.share_group(7), lambda: coop.unshare_group(7), lambda: coop.join_group(7, bytes(16)), lambda: coop.leave_group(7)):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ENOTCONN
    with pytest.raises(ValueError, match="16 bytes, this one 15"):
        coop.join_group(7, bytes(15))


def test_asyncio_sleeps_until_releases(coop: ModuleType) -> None:
    """Three tasks that sleep until releases 10 ms apart, begun in the wrong order, wake in the right one, none early, beside asyncio's own sleep."""
    woken: list[int] = []

    async def main() -> None:
        with coop.Coop() as scheduler:
            start = coop.now_ns()

            async def sleep(number: int) -> None:
                assert await scheduler.sleep_until(start + number * 10_000_000) >= 0
                woken.append(number)

            await asyncio.gather(*(sleep(number) for number in (3, 1, 2)), asyncio.sleep(0.05))

    asyncio.run(main())
    assert woken == [1, 2, 3]


def test_a_child_closes_what_its_parent_sleeps_by(coop: ModuleType) -> None:
    """A child made by fork closes the scheduler that asyncio watched, as it may any other; the parent's goes on to sleep by it."""

    async def main() -> int:
        with coop.Coop() as scheduler:
            await scheduler.sleep_until(coop.now_ns() + 1_000_000)
            child = os.fork()
            if not child:
                try:
                    scheduler.close()
                    os._exit(0)
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            await asyncio.wait_for(scheduler.sleep_until(coop.now_ns() + 1_000_000), 10)
            return os.waitstatus_to_exitcode(status)

    assert asyncio.run(main()) == 0


def test_one_scheduler_after_the_other_sleeps_in_asyncio(coop: ModuleType) -> None:
    """Once closed it is watched no more: the next one in the same loop, whose descriptor has the same number, wakes its sleeper, too."""

    async def main() -> None:
        for _ in range(2):
            with coop.Coop() as scheduler:
                assert await asyncio.wait_for(scheduler.sleep_until(coop.now_ns() + 1_000_000), 10) >= 0

    asyncio.run(main())


def test_the_python_example_shows_or_drops_every_frame() -> None:
    """Ten frames, each shown or dropped, in order; and without limelight it says that there is no promise, and why."""
    environ = environment(LD_LIBRARY_PATH=BUILD, PYTHONPATH=BUILD / "python")
    done = subprocess.run([sys.executable, COOP / "python/examples/plain.py"], capture_output=True, text=True, env=environ, timeout=60)
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[:10]] == [str(number) for number in range(10)], done.stderr
    assert lines[10] == "no promise (Transport endpoint is not connected): timing as the kernel gives it"


def test_pip_installs_it(tmp_path: Path) -> None:
    """pip builds it from a checkout, with the version of limelight; without the library its import says what to install."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", tmp_path / "site", COOP / "python"]
    subprocess.run(pip, check=True, timeout=PATIENCE_S)
    said = subprocess.run([sys.executable, "-c", "import coop"], capture_output=True, text=True, env=environment(PYTHONPATH=tmp_path / "site")).stderr
    assert "cannot load libcoop.so.0" in said and "fix: install libcoop" in said
    version = "import importlib.metadata, coop; print(importlib.metadata.version('coop'))"
    environ = environment(PYTHONPATH=tmp_path / "site", LD_LIBRARY_PATH=BUILD)
    said = subprocess.run([sys.executable, "-c", version], capture_output=True, text=True, env=environ, check=True).stdout.strip()
    assert said == tomllib.loads((COOP.parent / "Cargo.toml").read_text())["workspace"]["package"]["version"]
