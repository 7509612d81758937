# SPDX-License-Identifier: GPL-2.0-only
"""The stand-in for the person and the client, on a real X server with a real window manager."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"


@unittest.skipUnless(shutil.which("Xvfb") and shutil.which("openbox"), "needs xvfb and openbox")
class TestPerson(unittest.TestCase):
    def setUp(self) -> None:
        read_end, write_end = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write_end), "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
            pass_fds=[write_end], stderr=subprocess.DEVNULL,
        )
        os.close(write_end)
        self.folder = tempfile.TemporaryDirectory()
        with os.fdopen(read_end) as numbers:
            self.env = {**os.environ, "DISPLAY": f":{numbers.readline().strip()}", "XDG_CONFIG_HOME": self.folder.name}
        # Windows that come while the window manager starts are lost to it: it says when it has.
        up = Path(self.folder.name, "up")
        self.programs = [subprocess.Popen(["openbox", "--startup", f"touch {up}"], env=self.env, stderr=subprocess.DEVNULL)]
        end = time.monotonic() + 20
        while not up.exists() and time.monotonic() < end:
            time.sleep(0.05)

    def tearDown(self) -> None:
        for program in [*self.programs, self.server]:
            program.terminate()
            program.wait()
            if program.stdout:
                program.stdout.close()
        self.folder.cleanup()

    def client(self, *options: str, title: str = "it") -> subprocess.Popen:
        program = subprocess.Popen([BUILD / "xclient", "--title", title, *options], env=self.env, stdout=subprocess.PIPE, text=True)
        self.programs.append(program)
        self.assertTrue(program.stdout.readline().startswith("ready"))
        return program

    def person(self, action: str, *options: str) -> dict:
        out = Path(self.folder.name, "out.json")
        subprocess.run([BUILD / "person", action, "--title", "it", "--out", out, *options], env=self.env, check=True, timeout=60)
        return json.loads(out.read_text())

    def test_typing_takes_as_long_as_the_client_works(self) -> None:
        """A client that works 20 ms per key shows each key after 20 ms or a little more, never before, and none is lost."""
        self.client("--work-us", "20000")
        seen = self.person("type", "--count", "5", "--interval-us", "60000")
        self.assertEqual(seen["lost"], 0)
        self.assertEqual(len(seen["latency_ns"]), 5)
        self.assertGreater(min(seen["latency_ns"]), 20_000_000)

    def test_a_silent_client_is_a_loss(self) -> None:
        """A window that never changes counts as lost after 5 s: nothing seen is never a good latency."""
        program = self.client()
        program.send_signal(19)  # SIGSTOP
        seen = self.person("type", "--count", "1")
        program.send_signal(18)  # SIGCONT
        self.assertEqual((seen["lost"], seen["latency_ns"]), (1, [5_000_000_000]))

    def test_watching_counts_frames(self) -> None:
        """A client that draws every 20 ms is seen to draw 50 frames in a second, give or take what a busy machine delays."""
        self.client("--period-us", "20000", "--period-work-us", "100")
        seen = self.person("watch", "--seconds", "1")
        self.assertGreater(len(seen["intervals_ns"]), 40)
        self.assertLessEqual(len(seen["intervals_ns"]), 52)

    def test_a_frame_of_a_covered_window_is_one(self) -> None:
        """A window with a corner covered changes in two rectangles, and is seen to draw no more frames than without."""
        self.client("--period-us", "20000", "--period-work-us", "100", "--draw-px", "300", "--geometry", "300x300+50+50")
        self.client("--geometry", "300x300+200+200", title="cover")
        seen = self.person("watch", "--seconds", "1")
        self.assertGreater(len(seen["intervals_ns"]), 30)
        self.assertLessEqual(len(seen["intervals_ns"]), 52)

    def test_dragging_is_answered_motion_by_motion(self) -> None:
        """Nearly every motion ends with the window where it belongs: the window manager really drags."""
        self.client()
        seen = self.person("drag", "--seconds", "1")
        self.assertEqual(seen["lost"], 0)
        self.assertGreater(len(seen["latency_ns"]), 45)

    def test_dragging_in_circles_is_answered_too(self) -> None:
        """A window dragged round and round is where it belongs after nearly every motion, too."""
        self.client()
        seen = self.person("drag", "--seconds", "1", "--circle")
        self.assertEqual(seen["lost"], 0)
        self.assertGreater(len(seen["latency_ns"]), 45)

    def test_a_program_is_started_from_the_menu(self) -> None:
        """Each click on the entry of the window manager's own menu starts the program, whose window is seen to draw."""
        folder = Path(self.folder.name, "openbox")
        folder.mkdir()
        action = f"<action name='Execute'><command>{BUILD / 'xclient'} --title started</command></action>"
        menu = f"<menu id='root-menu' label='Programs'><item label='Start it'>{action}</item></menu>"
        Path(folder, "menu.xml").write_text(f"<openbox_menu xmlns='http://openbox.org/3.4/menu'>{menu}</openbox_menu>")
        subprocess.run(["openbox", "--reconfigure"], env=self.env, check=True)
        time.sleep(1)
        seen = self.person("menu", "--count", "2")
        self.assertEqual((seen["lost"], len(seen["latency_ns"])), (0, 2))
        self.assertLess(max(seen["latency_ns"]), 5_000_000_000)

    def test_typing_ends_when_its_time_is_over(self) -> None:
        """With --seconds no key comes after that, however many were asked for, and each has the time at which it was pressed."""
        self.client()
        seen = self.person("type", "--count", "1000", "--interval-us", "20000", "--seconds", "1")
        self.assertEqual(len(seen["sent_ns"]), len(seen["latency_ns"]))
        self.assertGreater(len(seen["sent_ns"]), 20)
        self.assertLess(seen["sent_ns"][-1] - seen["sent_ns"][0], 1_100_000_000)

    def test_missing_server_is_named(self) -> None:
        """No server: the message says which display could not be reached."""
        done = subprocess.run(
            [BUILD / "person", "type", "--title", "x", "--out", "/dev/null"],
            env={**self.env, "DISPLAY": ":12345"}, capture_output=True, text=True,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn(":12345", done.stderr)


if __name__ == "__main__":
    unittest.main()
