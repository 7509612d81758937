# SPDX-License-Identifier: MIT
"""Every case of the C test programs as a test: named test_PROGRAM_CASE, with the sentence that stands above the case in the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from coop_programs import BUILD, PROGRAMS, cases_of, run_case, standin

PRELOAD = {"LD_PRELOAD": BUILD / "libcoop-preload.so"}


def run_or_skip(program: str, name: str, **environment: str | Path) -> None:
    """One case, which has to pass where it can run."""
    done = run_case(f"test-{program}", name, **environment)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def test_of(program: str, name: str, sentence: str) -> Callable[[], None]:
    """The test of one case. What the preload must not change runs without it, with it, and with it where limelight is there and is talked to."""

    def test() -> None:
        run_or_skip(program, name, **(PRELOAD if program.startswith("preload") else {}))
        if program.startswith("unmodified"):
            run_or_skip(program, name, **PRELOAD)
            with standin() as limelight:
                run_or_skip(program, name, **PRELOAD, COOP_SOCKET=limelight.socket)
                assert limelight.stop()

    test.__doc__ = sentence
    return test


globals().update(
    {f"test_{program}_{name}": test_of(program, name, sentence) for program in PROGRAMS for name, sentence in cases_of(program).items()}
)
del test_of


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_case_is_a_test(program: str) -> None:
    """What is read from the source is what the program has: a case that is written otherwise would never run."""
    assert sorted(run_case(f"test-{program}", "--list").stdout.split()) == sorted(cases_of(program))


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_cases_under_the_sanitizers(program: str) -> None:
    """Every case again with the address, leak and undefined behaviour sanitizers compiled in: no report, no failure. What cannot run
    there (a limit on address space) is left out."""
    failed = {}
    for name in cases_of(program):
        done = run_case(f"sanitized-{program}", name)
        if done.returncode not in (0, 77):
            failed[name] = done.stderr
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())
