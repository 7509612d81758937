# SPDX-License-Identifier: MIT
"""In which order events run, and what callbacks may do to them (programs/order_cases.c)."""

PROGRAM = "order"


def test_due_timers_run_by_release(case) -> None:
    """Of 1,000 due timers, shuffled, 50 releases among them, the earliest release runs first, and equal ones as submitted: none
    is dropped, as section 2.1 of the paper promises."""
    case()


def test_what_is_left_after_cancels_is_in_order(case) -> None:
    """Half of 1,000 timers are taken back from anywhere in the queue; the others run by release."""
    case()


def test_a_timer_is_never_early(case) -> None:
    """Twenty timers of 3 ms: not one runs before its release. How late they are is the machine's matter here, and not bounded."""
    case()


def test_best_effort_runs_by_user_virtual_time(case) -> None:
    """Of 1,000 best-effort events the least user virtual time runs first, and equal ones as submitted."""
    case()


def test_best_effort_waits_for_due_timers(case) -> None:
    """Beside endless best-effort work in pieces of 0.2 ms, at most one piece begins between a timer's release and the timer: the library
    looks at the clock before each, and the release may come between that look and the piece's own."""
    case()


def test_a_callback_cancels(case) -> None:
    """A timer, a best-effort event and a ready descriptor each take another one away, which then does not run, though it was due,
    pending or already reported by the kernel; a second cancel, and one of the running event, give -ENOENT."""
    case()


def test_a_callback_submits(case) -> None:
    """A timer that is submitted by a timer, with a release before one that is due already, runs before that one; best-effort work that
    submits itself goes on after them."""
    case()


def test_an_always_due_timer_starves_no_descriptor(case) -> None:
    """A timer that submits itself as due runs at most twice before a ready descriptor does: a pass takes only the timers that were
    there when it began."""
    case()


def test_stop_ends_after_this_event(case) -> None:
    """Three events that stop: each coop_run() runs exactly one, and a fourth call finds nothing (-ENOENT)."""
    case()


def test_an_event_is_the_callers_in_its_callback(case) -> None:
    """A callback of each kind overwrites and frees its event; nothing of the library looks at it again (the sanitized run proves it)."""
    case()


def test_a_changed_release_counts_at_the_next_submit(case) -> None:
    """100 timers whose releases are overwritten while they wait still run in the order they were submitted with."""
    case()


def test_a_hundred_thousand_timers(case) -> None:
    """Cancelling and submitting costs less than 30 times as much with 100,000 timers pending as with 100 (a logarithm makes it 2.5,
    caches up to 10; a list would make it 1,000), and all of them then run in order."""
    case()


def test_no_memory_left(case) -> None:
    """With 4 MB of address space left, coop_submit() ends with -ENOMEM after 1,000 events or more, what was submitted before runs in
    order, and coop_new() gives -ENOMEM."""
    case()
