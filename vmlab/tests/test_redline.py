# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic of the Redline experiments, which runs in the guest: every figure can be checked by hand."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "guest"))

import admission  # noqa: E402  (the guest has them on its path)
import redline  # noqa: E402
import reservations  # noqa: E402
import specs  # noqa: E402

S = 1_000_000_000


def test_control_is_back_with_the_last_slow_answer():
    """Keys at 1, 2, 3 and 4 s after the blow at 1 s, answered after 10 ms, 1.5 s, 10 ms and 10 ms: control is back 2.5 s after it."""
    sent = [second * S for second in (1, 2, 3, 4)]
    assert redline.control_back_s(sent, [S // 100, 3 * S // 2, S // 100, S // 100], 1 * S) == pytest.approx(2.5)
    assert redline.control_back_s(sent, [S // 100] * 4, 1 * S) == 0
    # Slow and over before the blow: no business of the bomb's.
    assert redline.control_back_s([0], [S // 2], 1 * S) == 0


def test_a_sum_refuses_what_does_not_fit():
    """Of 60, 30, 20 and 10 % one CPU has room for the first two and the last; of none, nothing is refused."""
    assert admission.refused_by_sum([0.6, 0.3, 0.2, 0.1], 1) == 1
    assert admission.refused_by_sum([], 1) == 0
    assert admission.refused_by_sum([0.6, 0.6], 2) == 0


def test_the_papers_table_does_not_fit_one_cpu():
    """Table 1 as it is measured here asks for more than a CPU: a test that adds up refuses some of it."""
    asked = [spec.share() for spec in specs.DESKTOP] + [c_ms / t_ms for _, c_ms, t_ms in admission.STAND_INS]
    assert sum(asked) > 1
    assert admission.refused_by_sum(asked, 1) > 0


def test_what_was_late_or_passed_over_was_not_honoured():
    """Of five periods of 10 ms one was done in time, one 3 ms late and one 9 ms, that one with all of its 1 ms, two passed over; of one that never
    ended none of its 500."""
    task = reservations.Task(700, 10_000, specs.Spec("periodic", 1, 10), 0)
    said = {"t_ns": 10_000_000, "done_ns": [10_000_000, 13_000_000, 19_000_000], "had_ns": [700_000, 999_999, 1_000_000], "passed_over": 2}
    assert reservations.judge(task, said, 5) == {"periods": 5, "honoured": 2, "used_up": 1, "worst_late_ms": 3.0}
    assert reservations.judge(task, None, 5) == {"periods": 500, "honoured": 0, "used_up": 0, "worst_late_ms": 5000.0}


def test_the_tasks_that_are_measured_fit():
    """What is promised to the periodic tasks fits a CPU and leaves something, and each wants no more than it is promised."""
    assert sum(c_ms / t_ms for _, _, c_ms, t_ms in reservations.TASKS) < 0.8
    assert all(c_us < 1000 * c_ms and t_us == 1000 * t_ms for c_us, t_us, c_ms, t_ms in reservations.TASKS)


def test_a_specification_has_the_papers_form(tmp_path):
    """pathname:type:C:T:flags:memory:io, the program's own file where it is called by a link, and `-` for no flag; who is not there is named."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(program)
    assert specs.Spec(str(link), 5, 30, "IR").line() == f"{program}:Iact:5:30:IR:-:-"
    assert specs.Spec(str(program), 5, 30).line() == f"{program}:Iact:5:30:-:-:-"
    with pytest.raises(specs.desk.MeasureError, match="no-such-program"):
        specs.Spec("no-such-program", 1, 2).line()


def test_only_limelight_is_told(monkeypatch):
    """Under any other scheduler nothing is written, and there is no daemon to be told."""
    monkeypatch.setenv("LIMELIGHT_SCHED", "eevdf")
    monkeypatch.setattr(specs, "FILE", Path("/nonexistent/measure.tab"))
    specs.write([specs.Spec("sh", 1, 10)])
    assert not specs.is_promised()
