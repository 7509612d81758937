# SPDX-License-Identifier: GPL-2.0-only
"""The program that ends at once."""

import json
import shutil
import subprocess
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"


def exec_ns(program: str) -> int:
    """What an execution of it takes, its fork and its end included: the least of several, for the machine may be busy."""
    run = subprocess.run([BUILD / "swcost", "exec", "30", program], capture_output=True, text=True, check=True)
    return min(json.loads(run.stdout)["cost_ns"])


class TestNothing(unittest.TestCase):
    def test_it_costs_little_beside_a_program_with_a_libc(self) -> None:
        """It succeeds, and an execution of it takes less than two thirds of one of `true`: what is left is the kernel's own."""
        true = shutil.which("true")
        assert true
        self.assertLess(exec_ns(str(BUILD / "nothing")), exec_ns(true) * 2 / 3)
