# SPDX-License-Identifier: GPL-2.0-only
"""The budgets are really counted."""

from pathlib import Path

from scripts.budgets import C_COLUMNS, CALLBACK_LINES, FILE_LINES, FUNCTION_LINES, README_LINES, faults

LICENCE = "# SPDX-License-Identifier: GPL-2.0-only\n"


def test_a_file_may_have_its_budget_and_no_line_more():
    """Exactly the budget passes, one line more is named with both numbers."""
    full = LICENCE + "\n" * (FILE_LINES - 1)
    assert list(faults(Path("a.rs"), full)) == []
    (fault,) = faults(Path("a.rs"), full + "\n")
    assert "601 lines, at most 600" in fault


def test_a_readme_is_short():
    """README.md has a budget of its own, smaller than a source file's, and needs no licence line."""
    assert list(faults(Path("README.md"), "\n" * README_LINES)) == []
    assert list(faults(Path("README.md"), "\n" * (README_LINES + 1)))


def test_long_functions_are_found_in_c_and_python():
    """A function longer than 60 lines is named; a BPF callback may have 40 only."""
    body = "\n" * (FUNCTION_LINES - 1)
    (fault,) = faults(Path("a.c"), LICENCE + "int f(void)\n{" + body + "}\n\nint g(void)\n{\n" + body + "}\n")
    assert "int g(void) has 61 lines" in fault
    callback = "void BPF_STRUCT_OPS(ll_x)\n{" + "\n" * CALLBACK_LINES + "}\n"
    assert "at most 40" in next(faults(Path("a.c"), LICENCE + callback))
    (fault,) = faults(Path("a.py"), LICENCE + "def f():\n" + "    pass\n" * FUNCTION_LINES)
    assert "f has 61 lines" in fault


def test_long_lines_of_c_are_found():
    """A line of C of exactly the width passes, a column more is named with its number."""
    assert list(faults(Path("a.h"), LICENCE + "x" * C_COLUMNS + "\n")) == []
    (fault,) = faults(Path("a.h"), LICENCE + "\n" + "x" * (C_COLUMNS + 1) + "\n")
    assert fault.startswith("a.h:3: 151 columns")


def test_a_licence_is_asked_for():
    """A source file or script without an SPDX line is named; a text file needs none."""
    assert "SPDX" in next(faults(Path("a.py"), "pass\n"))
    assert "SPDX" in next(faults(Path("run"), "#!/bin/sh\n"))
    assert list(faults(Path("notes.md"), "words\n")) == []


def test_the_library_for_applications_is_mit():
    """Files of coop/, of its examples/ and the boundary it shares are MIT, all others GPL: a slip either way would keep programs from linking
    it, or give the scheduler away. Its public header has the budget of a header."""
    mit = "/* SPDX-License-Identifier: MIT */\n"
    for name in ("coop/src/loop.c", "examples/player/src/play.c", "abi/include/coop_abi.h"):
        assert list(faults(Path(name), mit)) == []
        assert "says MIT" in next(faults(Path(name), mit.replace("MIT", "GPL-2.0-only")))
    assert "says GPL-2.0-only" in next(faults(Path("sched/bpf/a.h"), mit))
    assert "at most 400" in next(faults(Path("coop/include/coop.h"), mit + "\n" * 400))
