# SPDX-License-Identifier: MIT
"""Descriptors, sleeping, other people's loops, errors, threads and fork, all without limelight (programs/loop_cases.c)."""

PROGRAM = "loop"


def test_a_descriptor_runs_when_ready_and_once(case) -> None:
    """A pipe's event runs only when there is something to read, once per submission, says for what (POLLIN, then POLLHUP), and runs again
    for what was not read."""
    case()


def test_a_descriptor_wakes_a_sleeping_loop(case) -> None:
    """A loop that sleeps for a timer in an hour runs when another thread writes into a pipe."""
    case()


def test_more_descriptors_than_one_pass_takes(case) -> None:
    """200 ready descriptors all run, once each, though the kernel is asked for 32 at a time."""
    case()


def test_best_effort_starves_no_descriptor(case) -> None:
    """Endless best-effort work in pieces of 0.1 ms: a pass runs at most 11 of them (1 ms and one more), so a ready descriptor waits no longer."""
    case()


def test_the_fd_is_readable_when_there_is_something_to_run(case) -> None:
    """coop_get_fd()'s descriptor is readable from a timer's release, from a descriptor's readiness, or as soon as there is best-effort work,
    until it has run or was taken back, and at no other time."""
    case()


def test_dispatch_waits_as_long_as_told(case) -> None:
    """coop_dispatch() with 0 does not wait, with 10 ms waits 10 ms, for ever with nothing submitted is -ENOENT, and a signal ends it
    with 0 events; coop_run() goes on in spite of signals."""
    case()


def test_every_wrong_call_has_its_error(case) -> None:
    """Each error code of the header is what its wrong call gets, and the right call after it still works."""
    case()


def test_poll_sleeps_until_the_release_or_yields(case) -> None:
    """coop_poll() without a scheduler: sleeps until the release, not shorter; returns long before a release in an hour with best-effort
    work; says COOP_NEVER for what it does not know; -EINTR by a signal even where the handler asks for a restart."""
    case()


def test_poll_leaves_the_loop_its_timers(case) -> None:
    """A callback that sleeps by coop_poll() for a while does not disturb the timers of the loop it runs in."""
    case()


def test_every_thread_has_its_own(case) -> None:
    """20 threads, ten times, run their own schedulers beside the first thread's; every use of another's is -EPERM; afterwards not one
    descriptor more is open."""
    case()


def test_a_child_starts_without_its_parents(case) -> None:
    """In a forked child every use of the parent's scheduler is -ECHILD, one of its own works, and freeing the copy changes nothing in the
    parent, whose timer and descriptor still run."""
    case()


def test_a_child_made_in_a_callback_leaves_the_loop(case) -> None:
    """A child made in a callback runs no further event of the parent's: coop_run() gives it -ECHILD, and the parent runs all four."""
    case()


def test_fork_beside_threads(case) -> None:
    """Fifty forks while another thread works in the library: no child hangs on a lock that was taken when it was made."""
    case()
