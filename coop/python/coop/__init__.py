# SPDX-License-Identifier: MIT
"""Events with fair and timely scheduling, by cooperative polling (Krasic, Saubhasik, Sinha, Goel: EuroSys 2009): libcoop, see coop(7).

    with coop.Coop() as scheduler:
        scheduler.timer(coop.now_ns(), lambda release_ns: release_ns + 5_000_000)
        scheduler.run()

A callback's result is what it wants next; None is nothing more. Times are ns of CLOCK_MONOTONIC, as time.monotonic_ns() has them. Errors of the library are
OSError with its errno; what a callback raises comes out of run() or dispatch().
"""

from __future__ import annotations

import asyncio
import ctypes
import enum
import errno
import os
import select
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from . import _abi

__all__ = ["NEVER", "Advice", "Coop", "Event", "HasFileno", "Promise", "join_group", "leave_group", "now_ns", "poll", "promise",
           "promise_error", "share_group", "sleeping", "unshare_group"]

#: As an answer: there is none. As a release: never.
NEVER: int = _abi.COOP_NEVER

_GROUP_MAX = 2**32 - 1
_TIMEOUT_MAX_NS = 2**63 - 1


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcoop.so.0")
    except OSError as error:
        raise ImportError(f"cannot load libcoop.so.0\n  reason: {error}\n  fix: install libcoop (make -C coop install)") from error
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _check(result: int) -> int:
    """The result, unless it is a negative errno."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _within(value: int, most: int, what: str) -> int:
    """The value, which C would take modulo 2^64, or another power of two, where it is out of range."""
    if not 0 <= value <= most:
        raise ValueError(f"{what} is from 0 to {most}, not {value}")
    return value


def _release(release_ns: int) -> int:
    return _within(release_ns, NEVER, "a release, in ns of CLOCK_MONOTONIC,")


def _user_time(user_virtual_time: int) -> int:
    return _within(user_virtual_time, NEVER, "a user virtual time")


def _group(group: int) -> int:
    return _within(group, _GROUP_MAX, "a group")


class Promise(enum.IntEnum):
    """What a thread can rely on."""

    #: No scheduler answered its last call: timing is as good as the kernel's own.
    NONE = _abi.COOP_PROMISE_NONE
    #: It overran, slept elsewhere or is ahead of its share: an ordinary thread until its next call.
    DEMOTED = _abi.COOP_PROMISE_DEMOTED
    #: Its releases are kept.
    KEPT = _abi.COOP_PROMISE_KEPT


def now_ns() -> int:
    """Now, in ns of CLOCK_MONOTONIC."""
    return _library.coop_now()


def promise() -> Promise:
    """What the last call of the scheduler by this thread got."""
    return Promise(_library.coop_promise())


def promise_error() -> OSError | None:
    """Why that is Promise.NONE; None where it is not. Not raised: the program runs as correctly.

    Its errno is EINPROGRESS: too early to tell; ENOTCONN: limelight is not here; EPROTONOSUPPORT: it is of another version; ENOTSUP: this process is in a
    time namespace with another clock; EDQUOT, ENOSPC: this user, or all together, have as many cooperative processes as may be; EUSERS: this process has
    as many such threads as it may; ENODATA: no scheduler answers this thread; EAGAIN, ECONNRESET, ETIMEDOUT, EPROTO, ENOMEM, EMFILE, ENFILE, or what else
    a socket fails with: coop_promise_error(3).
    """
    error = -_library.coop_promise_error()
    return OSError(error, os.strerror(error)) if error else None


class Advice(NamedTuple):
    """What the scheduler answers; NEVER: there is none, or no scheduler."""

    #: When to give up the CPU next: the earliest release among the other threads of its CPU, of its class or a more urgent one, or the end of the slice.
    yield_by_ns: int
    #: The least among the other threads of the group that wait for this CPU.
    user_virtual_time: int


def poll(group: int = _abi.COOP_GROUP_SELF, release_ns: int = NEVER, user_virtual_time: int = NEVER) -> Advice:
    """The call beneath, for programs that keep their events themselves: tells the scheduler the release of the earliest timer and the user virtual
    time of the most important best-effort work, and gives up the CPU: it yields with work, or a release that has come, and else sleeps until the release.

    Raises OSError: EINVAL with neither; EINTR where a signal came first; ENOMEM, EMFILE, ENFILE at a thread's first call or sleep. ValueError: out of range.
    """
    timer = _abi.Event(type=_abi.COOP_TIMER, release=_release(release_ns))
    work = _abi.Event(type=_abi.COOP_BEST_EFFORT, user_virtual_time=_user_time(user_virtual_time))
    _check(_library.coop_poll(_group(group), timer, work))
    return Advice(timer.release, work.user_virtual_time)


@contextmanager
def sleeping(release_ns: int = NEVER) -> Iterator[None]:
    """Around a sleep of the program's own (select, another library's loop), until `release_ns` or until something wakes it: makes it a cooperative one.

    Raises OSError: EBUSY where the thread speaks for itself by a Coop. ValueError: out of range.
    """
    _check(_library.coop_sleep_begin(_release(release_ns)))
    try:
        yield
    finally:
        _library.coop_sleep_end()


def share_group(group: int) -> bytes:
    """Lets other users' processes into this user's group: the token, to be passed on to them as a password is. It is good until unshare_group(), this
    process's end or limelight's.

    Raises OSError: EBUSY: it is another user's here; EDQUOT, ENOSPC: too many; ENOTCONN: limelight is not here; ECONNRESET: it has just gone, or is older than
    this call; ETIMEDOUT; EINVAL for 0; EAGAIN; EPROTO. ValueError: out of range.
    """
    token = ctypes.create_string_buffer(_abi.COOP_TOKEN_BYTES)
    _check(_library.coop_share_group(_group(group), token))
    return token.raw


def unshare_group(group: int) -> None:
    """The token is good no more, and who joined by it is out. Raises OSError: ENOENT: this process has not shared it; and as share_group() does."""
    _check(_library.coop_unshare_group(_group(group)))


def join_group(group: int, token: bytes) -> None:
    """What this process calls `group` is the one that the token is for, until leave_group() or the consent ends.

    Raises ValueError for what is no token, and OSError: EACCES: no such token, or no longer; EBUSY: this process has shared `group`; EDQUOT: it is in eight
    groups of others; and as share_group() does.
    """
    if len(token) != _abi.COOP_TOKEN_BYTES:
        raise ValueError(f"a token has {_abi.COOP_TOKEN_BYTES} bytes, this one {len(token)}: pass on what share_group() returned")
    _check(_library.coop_join_group(_group(group), bytes(token)))


def leave_group(group: int) -> None:
    """`group` is this user's own again. Raises OSError: ENOENT: it was not another's; and as share_group() does."""
    _check(_library.coop_leave_group(_group(group)))


class HasFileno(Protocol):
    """A file, a socket, or anything else that select takes."""

    def fileno(self) -> int:
        """Its descriptor."""


class Event:
    """A submitted event, from Coop.timer(), best_effort() or descriptor()."""

    def __init__(self, coop: Coop, raw: _abi.Event, work: Callable[[_abi.Event], bool], source: object = None) -> None:
        self._coop, self._raw, self._work, self._source = weakref.ref(coop), raw, work, source
        self._is_cancelled = False

    def cancel(self) -> bool:
        """Takes it back: it does not run, or not again. False: it was not waiting, because it runs just now, or is done, or its Coop is.

        Raises OSError: EPERM in another thread than the Coop's; ECHILD in a child made by fork.
        """
        coop = self._coop()
        was_waiting = coop is not None and coop._take_back(self)
        self._is_cancelled = True
        return was_waiting


def _caller_of(coop: weakref.ref[Coop]) -> Callable[[int, ctypes._Pointer[_abi.Event]], None]:
    """What the library calls for a Coop's events; it does not keep that from being forgotten."""

    def run(_: int, raw: ctypes._Pointer[_abi.Event]) -> None:
        known = coop()
        if known is not None:
            known._run(raw)

    return run


#: What the library has of a Coop that was forgotten and could not be closed, in another thread than its own, say: it must stay where it is.
_left_behind: list[object] = []


class Coop:
    """One thread's events, and what runs them. It belongs to the thread that made it, which can have one; a child made by fork can only close it. One that is
    forgotten without having been closed is closed by that, with a ResourceWarning.

    Raises OSError: EBUSY where this thread has one; EMFILE, ENFILE: no descriptor left (it needs two); ENOMEM.
    """

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        self._handle: ctypes.c_void_p | None = None
        _check(_library.coop_new(handle))
        self._handle = handle
        #: Lent to the library, by address.
        self._submitted: dict[int, Event] = {}
        self._run_event = _abi.CALLBACK(_caller_of(weakref.ref(self)))
        self._error: BaseException | None = None
        self._is_stopped = False
        #: asyncio's loop, where that watches fileno() for sleep_until().
        self._watched_by: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()

    def __enter__(self) -> Self:
        """The same."""
        return self

    def __del__(self) -> None:
        """Closes it, should nobody have."""
        if getattr(self, "_handle", None) is None:
            return
        try:
            self.close()
        except BaseException:  # whatever it was, the library has them still
            _left_behind.append((self._handle, self._submitted, self._run_event))
        # Last: it may be an error.
        warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Ends it; what is still submitted does not run. A second time it does nothing."""
        if self._handle is not None:
            # Before its number is another descriptor's, which asyncio would take for this one, and not watch. Not in a child made by fork: what the
            # loop looks at there is the parent's.
            if self._watched_by is not None and not self._watched_by.is_closed() and os.getpid() == self._process:
                self._watched_by.remove_reader(self)
            self._watched_by = None
            _check(_library.coop_free(self._handle))
            self._handle = None
            self._submitted.clear()

    def timer(self, release_ns: int, callback: Callable[[int], int | None]) -> Event:
        """Calls callback(release_ns) when that has come, which returns the next release or None. Due timers run before all else, the earliest first.

        Like all callbacks it should take well below 1 ms, and not block.
        Raises OSError: EINVAL for NEVER, ENOMEM, EPERM in another thread, ECHILD in a child made by fork. ValueError: out of range.
        """

        def work(raw: _abi.Event) -> bool:
            following = callback(raw.release)
            raw.release = raw.release if following is None else _release(following)
            return following is not None

        return self._submit(_abi.Event(type=_abi.COOP_TIMER, release=_release(release_ns)), work)

    def best_effort(self, user_virtual_time: int, callback: Callable[[], int | None]) -> Event:
        """Calls callback() when no timer is due, the least user virtual time (the program's own measure of progress) first; it returns that of the
        next piece of work, or None. Raises OSError as timer() does."""

        def work(raw: _abi.Event) -> bool:
            following = callback()
            raw.user_virtual_time = raw.user_virtual_time if following is None else _user_time(following)
            return following is not None

        return self._submit(_abi.Event(type=_abi.COOP_BEST_EFFORT, user_virtual_time=_user_time(user_virtual_time)), work)

    def descriptor(self, source: int | HasFileno, callback: Callable[[int], bool | None], events: int = select.POLLIN) -> Event:
        """Calls callback(revents) when `source` is ready for one of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP of select), until it returns nothing true.
        A source that is an object is kept open by being kept; it is to be closed only when the event is done or cancelled.

        Raises OSError as timer() does, and: EEXIST: another event has the descriptor; EBADF; EOPNOTSUPP: it is always ready; ENOSPC.
        """
        fd = source if isinstance(source, int) else source.fileno()
        return self._submit(_abi.Event(type=_abi.COOP_DESCRIPTOR, fd=fd, events=events), lambda raw: bool(callback(raw.revents)), source)

    def set_group(self, group: int) -> None:
        """The group in which this thread's CPU time is pooled, and divided by user virtual time; 0, the default, shares with nobody.

        Raises OSError: EPERM in another thread, ECHILD in a child made by fork. ValueError: out of range."""
        _check(_library.coop_set_group(self._handle, _group(group)))

    def run(self) -> None:
        """Runs events until stop(). Raises OSError: ENOENT: nothing is submitted, so that nothing could ever happen; EBUSY: called from a callback."""
        self._is_stopped = False
        # Turn by turn: a signal ends one, and its Python handler (a KeyboardInterrupt) runs in between.
        while not self._is_stopped:
            self._dispatch(-1)

    def stop(self) -> None:
        """From a callback: ends run() or dispatch() after this event. Raises OSError: ENOENT: nothing is being run."""
        _check(_library.coop_stop(self._handle))
        self._is_stopped = True

    def dispatch(self, timeout_ns: int = 0) -> int:
        """Waits at most timeout_ns (0: not at all; negative: as long as it takes) for something to run, and runs what is due. Returns how many events ran; 0
        after the timeout or a signal. Raises OSError as run() does."""
        return self._dispatch(min(timeout_ns, _TIMEOUT_MAX_NS) if timeout_ns >= 0 else -1)

    def fileno(self) -> int:
        """A descriptor that is readable whenever dispatch() would find something to run, for another loop: loop.add_reader(coop, coop.dispatch). It stays the
        library's."""
        return _check(_library.coop_get_fd(self._handle))

    async def sleep_until(self, release_ns: int) -> int:
        """In asyncio: comes back when that release has come, and returns by how many ns it is late. The loop watches fileno() from then on, until close()."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        loop.add_reader(self, self.dispatch)
        self._watched_by = loop

        def wake(release: int) -> None:
            if not done.done():
                done.set_result(now_ns() - release)

        event = self.timer(release_ns, wake)
        try:
            return await done
        finally:
            event.cancel()

    def _submit(self, raw: _abi.Event, work: Callable[[_abi.Event], bool], source: object = None) -> Event:
        raw.callback = self._run_event
        event = Event(self, raw, work, source)
        self._lend(event)
        return event

    def _lend(self, event: Event) -> None:
        _check(_library.coop_submit(self._handle, event._raw))
        self._submitted[ctypes.addressof(event._raw)] = event

    def _take_back(self, event: Event) -> bool:
        if self._handle is None:
            return False
        result = _library.coop_cancel(self._handle, event._raw)
        if result == -errno.ENOENT:
            return False
        _check(result)
        del self._submitted[ctypes.addressof(event._raw)]
        return True

    def _dispatch(self, timeout_ns: int) -> int:
        ran = _library.coop_dispatch(self._handle, timeout_ns)
        error, self._error = self._error, None
        if error:
            raise error
        return _check(ran)

    def _run(self, raw: ctypes._Pointer[_abi.Event]) -> None:
        """What the library calls. Nothing may be raised through it."""
        event = self._submitted.pop(ctypes.addressof(raw.contents))
        try:
            if event._work(event._raw) and not event._is_cancelled:
                self._lend(event)
        except BaseException as error:  # a KeyboardInterrupt, too, goes on in dispatch()
            self._error = error
            self.stop()
