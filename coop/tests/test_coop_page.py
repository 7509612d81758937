# SPDX-License-Identifier: MIT
"""The client's side of the page, against a daemon and a scheduler of the test's own (programs/page_cases.c, server.c, scheduler.c)."""

PROGRAM = "page"


def test_a_call_is_a_request_and_an_answer(case) -> None:
    """coop_poll() writes thread, group, release, user virtual time and state, each call numbered one higher, and returns the earlier one of
    release and slice end, and the group's least user virtual time, as section 3.1 has it."""
    case()


def test_a_sleeper_is_answered_too(case) -> None:
    """Without best-effort work the state is 'sleeps', the thread sleeps its 100 ms in full, and the answer that came meanwhile is returned
    (in one of 50 tries: on a busy machine the test's scheduler may sleep, too)."""
    case()


def test_the_promise_is_what_the_scheduler_says(case) -> None:
    """Each of the three reasons of policing makes the promise 'demoted' until the next good answer; one unanswered yield, or two unanswered
    sleeps, make it 'none'."""
    case()


def test_the_daemon_dies_and_another_one_comes(case) -> None:
    """150 ms after the daemon's end (it is looked for every 100 ms) its page is no longer used; a new daemon is found by itself, within
    20 s on a busy machine, and asked once."""
    case()


def test_what_is_wrong_is_refused(case) -> None:
    """17 wrong welcomes and pages (version, error, garbage, sizes, descriptors, seals, headers): none is used, nothing of it stays open,
    the program's timers run on, and the daemon is not asked again at once."""
    case()


def test_a_daemon_that_hangs_up_is_asked_again(case) -> None:
    """A daemon that ends the connection without an answer is asked a second time, within 20 s on a busy machine."""
    case()


def test_a_silent_daemon_is_not_waited_for(case) -> None:
    """A daemon that never answers costs coop_new() its 10 ms, and 1,000 calls and runs together less than 2 s (waiting each time would
    be 10 s at least); it is asked once."""
    case()


def test_a_late_page_is_taken(case) -> None:
    """A daemon that takes 300 ms to answer is believed when it does, without being asked again."""
    case()


def test_the_child_has_no_page(case) -> None:
    """After fork neither mapping nor connection is in the child, which asks for a page of its own; the parent's slot is unchanged and
    its promise kept."""
    case()


def test_more_threads_than_slots(case) -> None:
    """Of 40 threads at most 31 have a slot, no two the same, the others do without; when they end, their slots are free again."""
    case()
