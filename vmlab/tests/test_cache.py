# SPDX-License-Identifier: GPL-2.0-only
"""The cache: whole or absent, rebuilt when its inputs change, and clear when it cannot be written."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vmlab import cache
from vmlab.errors import LabError

TREE = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache for each test."""
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "cache"))


def test_item_is_built_once():
    """What is in the cache is not built again."""
    built = []
    for _ in range(2):
        home = cache.item("thing", cache.key("a"), lambda into: (built.append(1), (into / "file").write_text("x")))
    assert (home / "file").read_text() == "x"
    assert len(built) == 1


def test_changed_input_builds_anew_and_drops_what_is_not_used(tmp_path):
    """Another key makes another item. One of an old key goes when nobody has used it for a day; another checkout's of today stays."""
    listed = tmp_path / "list"
    homes = []
    for text in ("one", "two"):
        listed.write_text(text)
        homes.append(cache.item("thing", cache.key("recipe", listed), lambda into: None))
    old, used = homes
    os.utime(old, (0, 0))
    listed.write_text("three")
    new = cache.item("thing", cache.key("recipe", listed), lambda into: None)
    assert new.is_dir() and used.is_dir() and not old.exists()


def test_items_with_similar_names_do_not_drop_each_other():
    """Building `warm-1cpu` leaves `warm-1cpu-desk` alone: only the same item under another key is out of date."""
    desk = cache.item("warm-1cpu-desk", cache.key("a"), lambda into: None)
    cache.item("warm-1cpu", cache.key("b"), lambda into: None)
    assert desk.is_dir()


def test_items_that_do_not_replace_each_other_both_stay():
    """Two builds of one scheduler have a kept machine each: who uses the one does not take away the other."""
    first = cache.item("warm-1cpu", cache.key("a"), lambda into: None, replaces=False)
    second = cache.item("warm-1cpu", cache.key("b"), lambda into: None, replaces=False)
    assert first.is_dir() and second.is_dir()


def test_key_keeps_inputs_apart():
    """("ab", "c") and ("a", "bc") are different inputs."""
    assert cache.key("ab", "c") != cache.key("a", "bc")


def test_failed_build_leaves_nothing_that_looks_finished():
    """A build that raises is not in the cache, and the next attempt starts from an empty directory."""
    def half(into):
        (into / "half").write_text("x")
        raise LabError("no", "because", "fix")

    with pytest.raises(LabError):
        cache.item("thing", "k", half)
    seen = []
    cache.item("thing", "k", lambda into: seen.extend(into.iterdir()))
    assert seen == []


def test_killed_build_is_started_over(tmp_path, capfd):
    """After kill -9 in the middle of a build the lock is free, the half-built item is not used, and the next build says so."""
    code = (
        "import sys, time; from vmlab import cache\n"
        "def build(into):\n    (into / 'half').write_text('x'); print('building', flush=True); time.sleep(60)\n"
        "cache.item('thing', 'k', build)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=TREE, stdout=subprocess.PIPE, env=os.environ)
    assert child.stdout.readline() == b"building\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    home = cache.item("thing", "k", lambda into: (into / "whole").write_text("x"))
    assert [path.name for path in home.iterdir()] == ["whole"]
    assert "interrupted" in capfd.readouterr().err


def test_second_laboratory_waits_for_the_first(tmp_path):
    """Two that need the same item build it once: the second waits for the lock and finds it finished."""
    code = (
        "import time; from vmlab import cache\n"
        "def build(into):\n    print('building', flush=True); time.sleep(1.0); (into / 'by').write_text('first')\n"
        "cache.item('thing', 'k', build)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=TREE, stdout=subprocess.PIPE, env=os.environ)
    assert child.stdout.readline() == b"building\n"
    begun = time.monotonic()
    home = cache.item("thing", "k", lambda into: pytest.fail("built twice"))
    assert (home / "by").read_text() == "first"
    assert time.monotonic() - begun > 0.5
    child.wait()
    child.stdout.close()


def test_too_little_space_is_said_before_building():
    """An item that cannot fit names the space it needs and there is, and is not begun."""
    with pytest.raises(LabError, match="cannot build thing") as caught:
        cache.item("thing", "k", lambda into: pytest.fail("begun"), needs_mb=1 << 40)
    assert "MB free" in caught.value.why and "LIMELIGHT_CACHE" in caught.value.fix


def test_disk_that_fills_up_is_explained():
    """ENOSPC in the middle of a build becomes a sentence with the way out, not a traceback."""
    def build(into):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(LabError) as caught:
        cache.item("thing", "k", build)
    assert "No space left" in caught.value.why and caught.value.status == 69


def test_cache_that_cannot_be_made_is_explained(monkeypatch):
    """A cache below something that is no place for directories is refused with its name."""
    monkeypatch.setenv("LIMELIGHT_CACHE", "/proc/limelight")
    with pytest.raises(LabError, match="/proc/limelight"):
        cache.item("thing", "k", lambda into: None)
