# SPDX-License-Identifier: MIT
"""What the application scheduler makes of the scheduler's answers (programs/advice_cases.c)."""

PROGRAM = "advice"


def test_it_yields_at_the_end_of_the_slice(case) -> None:
    """In 20 slices of 2 ms it yields never before a slice's end, and at most one event of 0.1 ms begins after it: between the library's look
    at the clock and the event's own."""
    case()


def test_who_was_due_runs_its_timers_and_yields(case) -> None:
    """With every slice over before it begins, no best-effort event runs in a turn that was given for a due timer (section 3.2), and one in
    each turn that was not: 200 of them take 200 yields or more, and none starves."""
    case()


def test_it_yields_to_more_important_work_of_its_group(case) -> None:
    """Where the least user virtual time of the group is 5, events of 1 to 5 run in one go, and each later one after a yield of its own."""
    case()


def test_it_tells_what_it_sleeps_for(case) -> None:
    """A loop that sleeps for a timer in an hour says so, with its release and no best-effort work, does not yield, and hears the answer
    when a descriptor wakes it."""
    case()


def test_anothers_loop_sleeps_cooperatively(case) -> None:
    """With coop_get_fd() the slot says 'sleeps' with the earliest release whenever the other loop may sleep, 'runs' in callbacks and while
    there is best-effort work; what the scheduler answered meanwhile is heeded."""
    case()


def test_without_a_scheduler_due_timers_yield_to_nobody(case) -> None:
    """Without limelight a due timer runs before the thread yields, in coop_run() and beside another loop, for nobody would give the
    CPU back for it; best-effort work yields once a period of 20 ms."""
    case()


def test_hostile_answers_lose_no_event(case) -> None:
    """With random answers (0, the past, never, garbage) 200 timers, 1,000 best-effort events and a pipe of 8 bytes all run, each once,
    no timer early or out of order."""
    case()


def test_a_scribbled_page_loses_no_event(case) -> None:
    """The same while another thread overwrites the whole page with random words."""
    case()
