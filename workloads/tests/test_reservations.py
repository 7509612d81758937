# SPDX-License-Identifier: GPL-2.0-only
"""The workloads that reservations are measured with: that each does what it says of itself."""

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"


def run(program: str, *arguments: object) -> dict:
    done = subprocess.run([BUILD / program, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


class TestPeriodic(unittest.TestCase):
    def test_it_uses_what_it_says(self) -> None:
        """2 ms in every 20 for 2 s: 99 or 100 periods, none of them done before it used its 2 ms, which it had by its end, and a tenth of a CPU."""
        seen = run("periodic", 2000, 20000, 2)
        periods = len(seen["done_ns"]) + seen["passed_over"]
        self.assertGreaterEqual(periods, 99)
        self.assertLessEqual(periods, 100)
        self.assertGreaterEqual(min(seen["done_ns"]), 2_000_000)
        self.assertGreaterEqual(seen["cpu_ns"], 2_000_000 * len(seen["done_ns"]))
        self.assertGreaterEqual(min(had for done, had in zip(seen["done_ns"], seen["had_ns"], strict=True) if done <= 20_000_000), 2_000_000)

    def test_what_does_not_fit_is_late_or_passed_over(self) -> None:
        """Three that want 60 % of the one CPU they share: none of them can be done in time, or have more than there is, and no period is forgotten."""
        one_cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        command = [*one_cpu, BUILD / "periodic", "6000", "10000", "2"]
        running = [subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(3)]
        seen = [json.loads(program.communicate(timeout=60)[0]) for program in running]
        for one in seen:
            self.assertAlmostEqual(len(one["done_ns"]) + one["passed_over"], 200, delta=5)
        late = sum(done > one["t_ns"] for one in seen for done in one["done_ns"]) + sum(one["passed_over"] for one in seen)
        self.assertGreater(late, 200)
        # By its end a late one has had less than it wants, but for the rest of the one before.
        had = [had for one in seen for done, had in zip(one["done_ns"], one["had_ns"], strict=True) if done > one["t_ns"]]
        self.assertLess(max(had), 10_000_000)
        self.assertLess(sum(had) / len(had), 6_000_000)

    def test_it_counts_from_when_it_is_told(self) -> None:
        """It works from its start on, and counts for a second from a signal on, which comes half a second later."""
        program = subprocess.Popen([BUILD / "periodic", "2000", "20000", "1", "--told"], stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        program.send_signal(signal.SIGUSR1)
        seen = json.loads(program.communicate(timeout=60)[0])
        self.assertAlmostEqual(len(seen["done_ns"]) + seen["passed_over"], 50, delta=1)
        # It was there before that, too; a busy machine may begin it late.
        self.assertGreaterEqual(seen["cpu_ns"], 2_000_000 * (len(seen["done_ns"]) + 5))


class TestBusy(unittest.TestCase):
    def test_the_work_is_the_same_for_many(self) -> None:
        """The same work by one and by twenty on one CPU takes as long within a fifth: other programs run on this machine."""
        one_cpu = min(os.sched_getaffinity(0))
        took = {}
        for count in (1, 20):
            command = ["taskset", "-c", str(one_cpu), BUILD / "busy", str(count), "800"]
            took[count] = min(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["took_ns"] for _ in range(3))
        self.assertLess(took[20], 1.2 * took[1])
        self.assertGreater(took[20], 0.8 * took[1])


class TestRing(unittest.TestCase):
    def test_a_hop_is_dearer_than_a_pass(self) -> None:
        """A token that goes from process to process takes longer than one that stays in a process, for two and for many."""
        for count in (2, 24):
            seen = run("ring", count, 20000)
            self.assertEqual((len(seen["hop_ns"]), len(seen["pass_ns"])), (50, 50))
            self.assertGreater(sorted(seen["hop_ns"])[25], sorted(seen["pass_ns"])[25])

    def test_nobody_is_left(self) -> None:
        """The processes of the ring end with it."""
        run("ring", 8, 800)
        self.assertEqual(subprocess.run(["pgrep", "-x", "ring"], stdout=subprocess.DEVNULL).returncode, 1)


class TestArguments(unittest.TestCase):
    def test_bad_arguments_are_explained(self) -> None:
        """Each wrong argument gets a message that names it, and status 2."""
        wrong = (
            (("periodic", "20", "10", "1"), "T_US"), (("periodic", "200", "100", "1"), "C_US"), (("busy", "0", "1"), "PROCESSES"),
            (("ring", "1", "1"), "PROCESSES"), (("ring",), "usage"),
        )
        for (program, *arguments), word in wrong:
            done = subprocess.run([BUILD / program, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
