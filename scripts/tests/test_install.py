# SPDX-License-Identifier: GPL-2.0-only
"""packaging/install brings libcoop, too, and takes it away again. What it does with limelight itself is in ctl/tests/command_line.rs and tests/test_unit.py."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent

#: In place of limelight, which is long in the building.
LIMELIGHT = """#!/bin/sh
case $1 in
man) echo page >"$2/limelight.1" ;;
completions) echo words ;;
esac
"""


@pytest.fixture
def limelight(tmp_path: Path) -> Path:
    """A program that makes its pages and completions, as limelight does."""
    program = tmp_path / "limelight"
    program.write_text(LIMELIGHT)
    program.chmod(0o755)
    return program


def install(top: Path, *arguments: str | Path, destination: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """packaging/install of a source tree, run in a folder; it has to end well."""
    command = [top / "packaging/install", *arguments]
    environment = {**os.environ, "DESTDIR": str(destination), "PREFIX": "/usr"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def files(folder: Path) -> set[str]:
    """All files and links below, by their paths there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_libcoop_comes_and_goes_with_limelight(limelight: Path, tmp_path: Path) -> None:
    """An install into a folder that is named from here has what make -C coop install has, coop-run runs a program there, and nothing is left afterwards."""
    subprocess.run(["make", "-s", "-C", TOP / "coop", "all"], check=True)
    subprocess.run(["make", "-s", "-C", TOP / "coop", "install", f"DESTDIR={tmp_path}/alone", "PREFIX=/usr"], check=True)
    done = install(TOP, "--binary", limelight, destination="whole", folder=tmp_path)
    assert "libcoop" in done.stdout and not done.stderr
    brought = files(tmp_path / "whole")
    assert {"usr/bin/limelight", "usr/bin/coop-run", "usr/lib/libcoop.so.0"} <= brought
    assert files(tmp_path / "alone") <= brought
    maps = subprocess.run([tmp_path / "whole/usr/bin/coop-run", "cat", "/proc/self/maps"], capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path}/whole/usr/lib/libcoop-preload.so" in maps
    install(TOP, "--uninstall", destination="whole", folder=tmp_path)
    assert files(tmp_path / "whole") == set()


def source_tree(top: Path, *without: str) -> None:
    """What an install of limelight and libcoop takes, at `top`."""
    shutil.copytree(TOP / "packaging", top / "packaging")
    shutil.copytree(TOP / "LICENSES", top / "LICENSES")
    shutil.copytree(TOP / "abi/include", top / "abi/include")
    shutil.copytree(TOP / "coop", top / "coop", symlinks=True, ignore=shutil.ignore_patterns("tests", "__pycache__", *without))
    shutil.copy2(TOP / "Cargo.toml", top)


def test_what_is_built_of_older_sources_is_left_out(limelight: Path, tmp_path: Path) -> None:
    """After an update of the sources alone: a library of an older version would find no limelight."""
    subprocess.run(["make", "-s", "-C", TOP / "coop", "all"], check=True)
    top = tmp_path / "top"
    source_tree(top)
    done = install(top, "--binary", limelight, destination=tmp_path / "current", folder=tmp_path)
    assert "libcoop" in done.stdout and not done.stderr
    (top / "coop/src/loop.c").touch()
    done = install(top, "--binary", limelight, destination=tmp_path / "older", folder=tmp_path)
    assert "coop-run are left out" in done.stderr and "older sources" in done.stderr
    assert not [path for path in files(tmp_path / "older") if "coop" in path]


def test_without_make_limelight_comes_and_goes_alone(limelight: Path, tmp_path: Path) -> None:
    """It has no part in limelight itself: that is installed, and removed, with a word about the rest."""
    top = tmp_path / "top"
    source_tree(top)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "mktemp", "mkdir", "rm", "rmdir", "sed", "install", "cat"):
        (tools / name).symlink_to(shutil.which(name) or name)
    environment = {"PATH": str(tools), "DESTDIR": str(tmp_path / "whole"), "PREFIX": "/usr"}
    done = subprocess.run([top / "packaging/install", "--binary", limelight], env=environment, capture_output=True, text=True, check=True)
    assert "coop-run are left out" in done.stderr
    assert "usr/bin/limelight" in files(tmp_path / "whole")
    done = subprocess.run([top / "packaging/install", "--uninstall"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "make" in done.stderr
    assert files(tmp_path / "whole") == set()


def test_what_is_not_built_is_said_to_be_left_out(limelight: Path, tmp_path: Path) -> None:
    """Of a source tree in which libcoop is not built, or only in part, limelight is installed alone, with a word about the rest and what to do."""
    top = tmp_path / "top"
    source_tree(top, "build")
    (top / "coop/build").mkdir()
    (top / "coop/build/libcoop.a").touch()
    done = install(top, "--binary", limelight, destination=tmp_path / "whole", folder=tmp_path)
    assert "coop-run are left out" in done.stderr and "make -C" in done.stderr
    assert "usr/bin/limelight" in files(tmp_path / "whole")
    assert not [path for path in files(tmp_path / "whole") if "coop" in path]
    install(top, "--uninstall", destination=tmp_path / "whole", folder=tmp_path)
    assert files(tmp_path / "whole") == set()
