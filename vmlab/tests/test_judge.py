# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts: that what must fail fails, and what could not be judged never passes."""

from dataclasses import replace
from pathlib import Path

from vmlab.experiment import Column, Expectation, Experiment
from vmlab.judge import Row, judge


def row(scheduler: str, count: int, ejected: str = "", cpus: int = 1, kernel: str = "7.2", policy: str = "", **metrics: float) -> Row:
    load = "bursty" if count else "none"
    return Row(scheduler, policy, cpus, kernel, {"count": count, "load": load}, metrics, {}, {}, 1, ejected)


def verdicts(expectation: Expectation, rows: list[Row]):
    one = Experiment("x", Path("."), "t", "c", (Column("m", "m"),), (), (expectation,))
    return judge(one, rows, rows)


def test_bounds_are_inclusive_and_can_fail():
    """Exactly at the bound is kept, above it is a failure."""
    expectation = Expectation("m", "r", at_most=1.0)
    assert [v.failure for v in verdicts(expectation, [row("limelight", 4, m=1.0), row("limelight", 4, m=1.01)])] == [False, True]


def test_ratio_to_the_unloaded_row_of_the_same_machine():
    """`of = {count = 0}` compares with the same scheduler unloaded, on the same number of CPUs."""
    expectation = Expectation("m", "r", at_most=1.2, times=True, of={"count": 0})
    rows = [row("limelight", 0, m=1.0), row("limelight", 0, cpus=4, m=100.0), row("eevdf", 0, m=100.0), row("limelight", 4, m=1.3)]
    assert [v.passed for v in verdicts(expectation, rows)] == [True, True, False]


def test_ratio_to_another_scheduler():
    """`of_scheduler` compares with the same point under another scheduler, whatever the policy is called."""
    expectation = Expectation("m", "r", at_least=0.98, times=True, of_scheduler="eevdf")
    assert [v.passed for v in verdicts(expectation, [row("eevdf", 4, m=10.0), row("limelight", 4, m=9.7)])] == [False]


def test_what_it_is_compared_with_is_of_the_same_kernel_and_policy():
    """A row measured on another kernel, or with another policy of limelight's, is nothing to compare with; of another scheduler limelight's own default is."""
    unloaded = Expectation("m", "r", at_most=1.2, times=True, of={"count": 0})
    others = [row("limelight", 0, kernel="6.18", m=9.0), row("limelight", 0, policy="huc", m=9.0)]
    loaded = row("limelight", 4, m=1.3)
    assert {v.passed for v in verdicts(unloaded, [*others, loaded]) if v.key() == loaded.key()} == {None}
    assert {v.passed for v in verdicts(unloaded, [*others, row("limelight", 0, m=1.0), loaded]) if v.key() == loaded.key()} == {False}
    like_ours = Expectation("m", "r", scheduler="eevdf", at_most=1.0, times=True, of_scheduler="limelight")
    rows = [row("eevdf", 4, m=2.0), row("limelight", 4, policy="huc", m=9.0), row("limelight", 4, m=1.0)]
    assert [v.passed for v in verdicts(like_ours, rows)] == [False]


def test_a_row_of_another_speed_is_another_row():
    """What an instruction takes makes another machine: such a row is not compared with, and does not stand in the place of the usual one's."""
    one = row("limelight", 4, m=1.0)
    assert replace(one, instruction_ns=4).key() != one.key()
    unloaded, loaded = (replace(row("limelight", count, cpus=4, m=1.0), instruction_ns=ns) for count, ns in ((0, 2), (4, 1)))
    expectation = Expectation("m", "r", at_most=1.2, times=True, of={"count": 0})
    assert {v.passed for v in verdicts(expectation, [unloaded, loaded]) if v.key() == loaded.key()} == {None}


def test_what_a_slower_machine_misses_fails_nothing():
    """The bounds are for machines of the usual speed: a row of another is judged, and a miss is told, but does not decide the exit status."""
    usual = row("limelight", 4, m=2.0)
    judged = verdicts(Expectation("m", "r", at_most=1.0), [usual, replace(usual, instruction_ns=4)])
    assert [(v.passed, v.failure) for v in judged] == [(False, True), (False, False)]


def test_what_cannot_be_judged_fails():
    """Nothing measured, or nothing to compare with, is a failure of the run and says so."""
    (missing,) = verdicts(Expectation("m", "r", at_most=1.0), [row("limelight", 4)])
    (alone,) = verdicts(Expectation("m", "r", at_most=1.0, times=True, of={"count": 0}), [row("limelight", 4, m=0.1)])
    assert (missing.passed, alone.passed) == (None, None)
    assert missing.failure and alone.failure
    assert "not measured" in alone.text


def test_an_ejected_scheduler_fails_whatever_it_measured():
    """After an ejection the kernel's scheduler was measured: its good figures do not count."""
    (verdict,) = verdicts(Expectation("m", "r", at_most=1.0), [row("limelight", 4, ejected="stalled", m=0.1)])
    assert verdict.failure and "stalled" in verdict.text


def test_observations_on_others_fail_nothing():
    """A bound on the kernel's scheduler tells whether the paper's observation is seen; missing it is no failure of ours."""
    (verdict,) = verdicts(Expectation("m", "r", scheduler="eevdf", at_least=40.0), [row("eevdf", 10, m=1.0), row("limelight", 10, m=1.0)])
    assert verdict.passed is False and not verdict.failure


def test_a_bound_may_be_for_some_machines_only():
    """With `cpus` a bound judges the rows of machines with so many CPUs and no others."""
    expectation = Expectation("m", "r", at_most=1.0, cpus=[4])
    assert [v.passed for v in verdicts(expectation, [row("limelight", 4, m=2.0), row("limelight", 4, cpus=4, m=2.0)])] == [False]
