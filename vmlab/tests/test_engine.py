# SPDX-License-Identifier: GPL-2.0-only
"""The engine on a guest that is no machine: what it boots, what it keeps, what it does when a scheduler is ejected."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from vmlab import engine, results
from vmlab.errors import KernelFault, LabError
from vmlab.experiment import Column, Expectation, Experiment, Parameter
from vmlab.machine import Result

EJECTED = "sched_ext: x disabled (runnable task stall)"


class Guest:
    """Answers a measure with `answer(point)`; is ejected at the count `dies_at`."""

    def __init__(self, options, log, answer, dies_at=None, faults=()):
        self.options, self.log, self.answer, self.dies_at, self.faults = options, log, answer, dies_at, list(faults)
        self.alive, self.point = True, {}

    def put(self, source, destination):
        self.log.append(f"put {Path(source).name} {destination}")

    def run(self, command, timeout_s=None, env=None):
        if "dmesg" in command:
            return Result(0, f"{EJECTED}\n", "", 0.0)
        self.point = json.loads(env["LIMELIGHT_POINT"])
        self.log.append(f"measure {self.options.sched} {self.point['count']}")
        self.alive = self.point["count"] != self.dies_at
        return Result(*self.answer(self.point)[0], 1.0)

    def get(self, source, destination):
        path = Path(destination) / "result.json"
        path.write_text(json.dumps(self.answer(self.point)[1]))
        return [path]

    def scheduler_alive(self):
        return self.alive

    def check_faults(self):
        return [*([] if self.alive else [EJECTED]), *self.faults]


def good(point):
    values = [1.0, 2.0, float(point["count"])]
    return (0, "", ""), {"metrics": {"m": point["count"]}, "series": {"s": {"unit": "ms", "source": "test", "values": values}}}


def plan(boots=1, schedulers=(("limelight", ""),)):
    one = Experiment(
        "x", Path("/experiments/x"), "t", "c", (Column("m", "m"),), (Parameter("count", (0, 4, 10), (0,), "h"),),
        (Expectation("m", "r", at_most=5.0),),
    )
    return engine.Plan(one, one.points(False, []), list(schedulers), [1], "7.2", boots, Path("/"))


def run(a_plan, kept=None, **guest):
    log, kept = [], [] if kept is None else kept

    @contextlib.contextmanager
    def boot(options):
        log.append(f"boot {options.sched}" + (f" variation {options.variation}" if options.variation else ""))
        yield Guest(options, log, **{"answer": good, **guest})

    rows = engine.run(a_plan, boot, lambda text: None, kept.extend)
    return rows, log, kept


def test_all_points_share_one_boot():
    """Three points cost one boot, and each becomes a row with its metrics and the figures of its distributions."""
    rows, log, kept = run(plan())
    steps = [line for line in log if line.startswith(("boot", "measure"))]
    assert steps == ["boot limelight", *(f"measure limelight {count}" for count in (0, 4, 10))]
    assert [row.metrics["m"] for row in rows] == [0, 4, 10]
    assert rows[2].metrics["s.max"] == 10.0
    assert kept == rows


def test_ejected_scheduler_is_booted_again_and_told():
    """After an ejection the next point gets a fresh machine; the row says why the scheduler went."""
    rows, log, _ = run(plan(schedulers=(("scx_x", ""),)), dies_at=4)
    assert log.count("boot scx_x") == 2
    assert [bool(row.ejected) for row in rows] == [False, True, False]
    assert "runnable task stall" in rows[1].ejected


def test_boots_give_median_and_spread():
    """Several boots: the median of each metric, least and greatest beside it, and the samples of all of them."""
    values = iter([3, 0, 0, 1, 0, 0, 2, 0, 0])
    rows, _, _ = run(plan(boots=3), answer=cached(lambda: next(values)))
    assert rows[0].metrics["m"] == 2
    assert rows[0].spread["m"] == (1, 3)
    assert rows[0].series["s"]["count"] == 3


def test_known_rows_are_not_measured_again():
    """What the results hold already costs nothing; a machine with nothing left to measure is not booted."""
    both = plan(schedulers=(("limelight", ""), ("eevdf", "")))
    rows, _, _ = run(plan())
    both.known = {row.key() for row in rows}
    assert {key[0] for key in both.keys()} == {"eevdf"}
    fresh, log, _ = run(both)
    assert [line for line in log if line.startswith("boot")] == ["boot eevdf"]
    assert len(fresh) == 3


def test_boots_differ():
    """Each repetition boots another variation: virtual time would repeat itself otherwise, and its spread mean nothing."""
    _, log, _ = run(plan(boots=3))
    assert [line for line in log if line.startswith("boot")] == ["boot limelight", "boot limelight variation 1", "boot limelight variation 2"]


def cached(draw):
    """A new value for every measurement: the status is asked for first, the result after it."""
    latest = {}

    def answer(point):
        if latest.pop("asked", None) is None:
            latest.update(asked=True, value=draw())
        return (0, "", ""), {"metrics": {"m": latest["value"]}, "series": {"s": {"unit": "ms", "source": "t", "values": [1.0]}}}

    return answer


def test_failed_measure_is_the_labs_failure():
    """A measure that fails ends the run with its message: a figure that was not taken must not look like a miss, or a success."""
    with pytest.raises(LabError) as caught:
        run(plan(), answer=lambda point: ((1, "", "measure: no X server"), {}))
    assert "no X server" in str(caught.value)
    assert caught.value.status == 69


@pytest.mark.parametrize("boots", [1, 2])
def test_a_point_that_fails_leaves_those_before_it(boots):
    """What was measured before a point failed, or the run was interrupted, is kept; with several boots, what the last of them measured."""
    kept, asked = [], iter(range(100))

    def fails_at_the_last(point):
        # Each point is asked for its status and for its result.
        return ((1, "", "measure: no X server"), {}) if point["count"] == 10 and next(asked) >= 2 * (boots - 1) else good(point)

    with pytest.raises(LabError):
        run(plan(boots=boots), kept=kept, answer=fails_at_the_last)
    assert [(row.point["count"], row.boots) for row in kept] == [(0, boots), (4, boots)]


def stalls_at_4(point):
    return ((75, "", "measure: mpv's first frame: not within 120 s"), {}) if point["count"] == 4 else good(point)


def test_stall_beside_a_load_is_a_result():
    """A program that never starts beside a load says what the scheduler is worth: the row tells, and the other points are measured."""
    rows, log, _ = run(plan(), answer=stalls_at_4)
    assert [row.failed for row in rows] == ["", "stalled: measure: mpv's first frame: not within 120 s", ""]
    assert log.count("boot limelight") == 2
    verdicts = results.judge_rows(plan().experiment, rows, results.Results("x", rows))
    assert verdicts[1].failure and "first frame" in verdicts[1].text


def test_stall_without_a_load_is_the_labs_failure():
    """What does not even start on an idle machine is broken, and says nothing about a scheduler."""
    with pytest.raises(LabError, match="could not be measured"):
        run(plan(), answer=lambda point: ((75, "", "measure: no"), {}))


def test_ejection_during_a_measure_is_a_result():
    """A scheduler thrown out while a program waited for it is ejected, whatever the measure then ended with."""
    broken = lambda point: ((1, "", "measure: person failed"), {}) if point["count"] == 4 else good(point)  # noqa: E731
    rows, _, _ = run(plan(), answer=broken, dies_at=4)
    assert "runnable task stall" in rows[1].ejected
    assert rows[2].metrics["m"] == 10


def test_kernel_complaint_fails_the_run():
    """A BUG in the kernel log under limelight fails the run although every figure was fine; the figures are kept."""
    kept = []
    with pytest.raises(KernelFault):
        run(plan(), kept, faults=["BUG: something"])
    assert len(kept) == 3


def test_kernel_complaint_beside_an_ejection_fails_the_run():
    """An ejection explains its own lines in the kernel log, and no others."""
    with pytest.raises(KernelFault) as told:
        run(replace(plan(), points=[{"count": 4}]), dies_at=4, faults=["BUG: something"])
    assert "BUG: something" in str(told.value) and EJECTED not in str(told.value)


def test_what_real_time_processes_do_to_the_kernel_is_their_result():
    """A grace period that never ends beside processes of SCHED_RR fails nothing, under no other scheduler; a BUG does there, too."""
    stall = ["rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "Call Trace:"]
    hogs = replace(plan(), points=[{"count": 4}], schedulers=[("rr", "")])
    rows, _, _ = run(hogs, faults=stall)
    assert [row.failed for row in rows] == [""]
    for others, faults in ((hogs, ["BUG: something"]), (hogs, stall[1:]), (replace(hogs, schedulers=[("eevdf", "")]), stall)):
        with pytest.raises(KernelFault):
            run(others, faults=faults)


def test_an_ejection_that_is_measured_is_no_complaint():
    """Where the measurement has the kernel throw the scheduler out its lines about that fail nothing; at other points, and other lines, do."""
    thrown = replace(plan(), points=[{"count": 4}], experiment=replace(plan().experiment, ends_scheduler=True, thrown_out_at={"count": [4]}))
    rows, _, _ = run(thrown, dies_at=4)
    assert [row.failed for row in rows] == [""]
    with pytest.raises(KernelFault):
        run(replace(thrown, points=[{"count": 10}]), dies_at=10)
    with pytest.raises(KernelFault):
        run(thrown, dies_at=4, faults=["BUG: something"])


def test_results_replace_rows_of_the_same_point(tmp_path):
    """Measuring a point again replaces its row and leaves the others; what is read is what was written."""
    rows, _, _ = run(plan())
    kept = results.Results("x")
    kept.put(rows, "./lab run x")
    kept.put(run(plan())[0][:1], "./lab run x --set count=0")
    kept.save(tmp_path / "x.json", [])
    again = results.load(tmp_path / "x.json", "x")
    assert len(again.rows) == 3
    assert {row.key() for row in again.rows} == {row.key() for row in rows}
    assert again.commands == ["./lab run x", "./lab run x --set count=0"]


def test_table_shows_what_was_missed():
    """The table has a line per row, and beside a miss the value and the bound."""
    rows, _, _ = run(plan())
    one = plan().experiment
    kept = results.Results("x", rows)
    text = results.table(one, rows, results.judge_rows(one, rows, kept))
    assert len(text.splitlines()) == 4
    assert "m = 10, at most 5" in text.splitlines()[3]
