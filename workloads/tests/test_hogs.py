# SPDX-License-Identifier: GPL-2.0-only
"""The background loads: that each is what it says, and leaves nothing behind."""

import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


class Hogs:
    """A running load; ended with SIGTERM at the end of the block."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen([BUILD / "hogs", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().strip()

    def __enter__(self) -> "Hogs":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


class TestHogs(unittest.TestCase):
    def test_spinning_never_sleeps(self) -> None:
        """As many processes as asked for, none of which gives up the CPU by itself."""
        with Hogs("spinning", "2") as hogs:
            self.assertEqual(hogs.first, "ready")
            pids = children(hogs.process.pid)
            self.assertEqual(len(pids), 2)
            # Until then it may have the gate before it, at which all wait.
            until = time.monotonic() + 20
            while min(map(cpu_s, pids)) < 0.1:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            before = [switches(pid) for pid in pids]
            time.sleep(0.5)
            self.assertEqual([switches(pid) for pid in pids], before)

    def test_bursty_sleeps_between_bursts_of_3_ms(self) -> None:
        """A bursty process uses 3 ms of CPU per sleep: 2 to 5 ms here, where the clock tick and other programs blur it."""
        with Hogs("bursty", "1") as hogs:
            (pid,) = children(hogs.process.pid)
            time.sleep(0.2)
            before = (cpu_s(pid), switches(pid))
            time.sleep(2)
            burst_ms = 1000 * (cpu_s(pid) - before[0]) / (switches(pid) - before[1])
        self.assertGreater(burst_ms, 2)
        self.assertLess(burst_ms, 5)

    def test_a_bomb_does_not_wait(self) -> None:
        """With --at-once the first of many uses the CPU while the last is still being forked, and all end with the parent."""
        with Hogs("spinning", "300", "--at-once") as hogs:
            self.assertEqual(hogs.first, "ready")
            # "ready" comes before the first fork: by then not all are there, as without --at-once.
            self.assertLess(len(children(hogs.process.pid)), 300)
            end = time.monotonic() + 20
            while len(children(hogs.process.pid)) < 300 and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(len(children(hogs.process.pid)), 300)
        self.assertEqual(subprocess.run(["pgrep", "-g", str(hogs.process.pid)], stdout=subprocess.DEVNULL).returncode, 1)

    def test_chatty_wakes_its_partner(self) -> None:
        """Both of a pair go to sleep and are woken again, hundreds of times a second."""
        with Hogs("chatty", "2") as hogs:
            time.sleep(1)
            self.assertTrue(all(switches(pid) > 200 for pid in children(hogs.process.pid)))

    def test_make_compiles_and_cleans_up(self) -> None:
        """Real compilers run; afterwards neither they nor the tree are there any more."""
        trees = set(Path("/dev/shm").glob("hogs-make.*"))
        with Hogs("make", "2") as hogs:
            (mine,) = set(Path("/dev/shm").glob("hogs-make.*")) - trees
            end = time.monotonic() + 20
            while not list(mine.glob("*.o")) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertTrue(list(mine.glob("*.o")))
            group = hogs.process.pid
        self.assertFalse(mine.exists())
        self.assertEqual(subprocess.run(["pgrep", "-g", str(group)], stdout=subprocess.DEVNULL).returncode, 1)

    def test_killed_parent_takes_all_along(self) -> None:
        """kill -9 of the parent ends the hogs too: a measurement that crashed must not load the machine for ever."""
        with Hogs("spinning", "2") as hogs:
            pids = children(hogs.process.pid)
            hogs.process.send_signal(signal.SIGKILL)
            hogs.process.wait()
            end = time.monotonic() + 5
            while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertFalse(any(Path(f"/proc/{pid}").exists() for pid in pids))

    def test_bad_arguments_are_explained(self) -> None:
        """Each wrong argument gets a message that names it, and status 2."""
        for arguments, word in ((("foo", "1"), "foo"), (("chatty", "3"), "odd"), (("spinning", "0"), "from 1 to"), (("spinning", "1", "--once"), "usage")):
            done = subprocess.run([BUILD / "hogs", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
