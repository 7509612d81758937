# SPDX-License-Identifier: GPL-2.0-only
"""The program with a deadline: it does what it says, and tells when it was late."""

import json
import subprocess
import unittest
from pathlib import Path

PERIODIC = Path(__file__).resolve().parent.parent / "build" / "shifting"


def seen(*words: object) -> dict:
    run = subprocess.run([PERIODIC, *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


class TestPeriodic(unittest.TestCase):
    def test_every_period_is_counted_and_worked_for(self) -> None:
        """One second of 1 ms in every 100 is ten periods and 10 ms of CPU."""
        figures = seen(1000, 100000, 1)
        self.assertEqual(figures["periods"], 10)
        self.assertGreaterEqual(figures["cpu_ms"], 10)
        # It may be the only test that runs, or one of many: what is burnt beyond is the clock's and start-up's.
        self.assertLess(figures["cpu_ms"], 20)
        self.assertGreaterEqual(figures["worst_ms"], 1)

    def test_who_wants_more_than_there_is_is_late(self) -> None:
        """From the start on it uses 12 ms in every 10: all but the periods that it begins early enough are late."""
        figures = seen(1, 10000, 1, 0, 12000)
        self.assertEqual(figures["periods"], 100)
        self.assertEqual(figures["missed"], 100)

    def test_who_never_sleeps_ends_in_time(self) -> None:
        """Without C it uses the CPU for all of its second."""
        self.assertGreater(seen(0, 10000, 1)["cpu_ms"], 100)

    def test_nonsense_is_refused(self) -> None:
        """Words that are no numbers, and too few of them, are a usage error."""
        for words in ((), (1, 2), ("x", 1000, 1)):
            run = subprocess.run([PERIODIC, *map(str, words)], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == "__main__":
    unittest.main()
