# SPDX-License-Identifier: GPL-2.0-only
"""wakelat on a written trace: every figure of it can be checked by hand."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"

#: Two CPUs; task 100 is followed, 200 is somebody else, 101 is a thread 100 makes.
TRACE = """\
# tracer: nop
   <idle>-0 [000] d..2. 1.000000: sched_waking: comm=a pid=100 prio=120 target_cpu=000
   <idle>-0 [000] d..2. 1.000060: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=100 next_prio=120
   a-100 [000] d..2. 1.001060: sched_switch: prev_comm=a prev_pid=100 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=200 next_prio=120
   b-200 [000] d..2. 1.004060: sched_switch: prev_comm=b prev_pid=200 prev_prio=120 prev_state=S ==> next_comm=a next_pid=100 next_prio=120
   a-100 [000] d..2. 1.004100: sched_waking: comm=a pid=100 prio=120 target_cpu=000
   a-100 [000] d..2. 1.004560: sched_switch: prev_comm=a prev_pid=100 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
   <idle>-0 [000] d..2. 2.000000: sched_waking: comm=x pid=7 pid=100 prio=120 target_cpu=000
   <idle>-0 [000] d..2. 2.000000: sched_waking: comm=z pid=200 prio=120 target_cpu=000
   <idle>-0 [000] d..2. 2.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=x pid=7 next_pid=100 next_prio=120
   a-100 [000] d..2. 2.000200: sched_process_fork: comm=a pid=100 child_comm=a child_pid=101
   a-100 [001] d..2. 2.000300: sched_waking: comm=a pid=101 prio=120 target_cpu=001
   <idle>-0 [001] d..2. 2.000310: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=101 next_prio=120
"""


def analyse(trace: str, *groups: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "trace"), Path(folder, "out.json")
        source.write_text(trace)
        subprocess.run([BUILD / "wakelat", "--input", source, "--out", out, *groups], check=True)
        return json.loads(out.read_text())


class TestTrace(unittest.TestCase):
    def setUp(self) -> None:
        self.data = analyse(TRACE, "app=100")
        self.app = self.data["groups"]["app"]

    def test_dispatch_latency_is_waking_to_running(self) -> None:
        """60 and 100 us for the task, 10 us for the thread it made; waking a task that runs is no sample."""
        self.assertEqual(self.app["dispatch_ns"], [60_000, 100_000, 10_000])

    def test_preempted_time_is_not_dispatch_latency(self) -> None:
        """Having been preempted and waiting to go on is kept apart: 3 ms."""
        self.assertEqual(self.app["requeue_ns"], [3_000_000])

    def test_quanta_and_kinds_of_switch(self) -> None:
        """One quantum of 1 ms ended by preemption, one of 0.5 ms by blocking; the one still running counts for nothing."""
        self.assertEqual(self.app["quantum_ns"], [1_000_000, 500_000])
        self.assertEqual((self.app["voluntary"], self.app["forced"]), (1, 1))

    def test_runs_are_kept_where_asked_for(self) -> None:
        """With --runs the two quanta have their times, and without it nobody pays for them."""
        app = analyse(TRACE, "--runs", "app=100")["groups"]["app"]
        self.assertEqual(app["began_ns"], [1_000_060_000, 1_004_060_000])
        self.assertEqual(app["ended_ns"], [1_001_060_000, 1_004_560_000])
        self.assertNotIn("began_ns", self.app)

    def test_depths_are_those_of_the_wake_ups(self) -> None:
        """With --depths each wake-up says how deep the code was that it interrupted: preemption off, three locks, or serving interrupts."""
        deep = TRACE.replace("d..2. 2.000000: sched_waking: comm=x", "dNH3. 2.000000: sched_waking: comm=x").replace("d..2. 2.000300", "d.h5. 2.000300")
        app = analyse(deep, "--depths", "app=100")["groups"]["app"]
        self.assertEqual(app["depth"], [2, 0x13, 5])
        self.assertEqual(len(app["dispatch_ns"]), 3)
        self.assertNotIn("depth", self.app)

    def test_names_cannot_forge_fields(self) -> None:
        """A task that calls itself "x pid=7" is still found by its own pid, and does not speak for task 7."""
        data = analyse(TRACE, "seven=7")
        self.assertEqual(data["groups"]["seven"]["dispatch_ns"], [])

    def test_lost_events_are_told(self) -> None:
        """A trace with a hole says so: a hole may hide the worst latency."""
        self.assertEqual(self.data["lost"], 0)
        self.assertEqual(analyse("CPU:0 [LOST 12 EVENTS]\n" + TRACE, "app=100")["lost"], 1)


if __name__ == "__main__":
    unittest.main()
