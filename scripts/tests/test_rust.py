# SPDX-License-Identifier: GPL-2.0-only
"""Which Rust is used, and when Debian's is installed. apt, dpkg and the Rusts are scripts here: nothing of this machine is asked or changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "setup"
TOOLS = ("basename", "bash", "cut", "dirname", "env", "grep", "head", "id", "ln", "mktemp", "readlink", "rm", "sed", "sort", "tail")
APT_GET = """
[ "$1" != -s ] || { [ ! -e "$HERE/removes" ] || sed 's/^/Remv /' "$HERE/removes"; exit 0; }
echo "$*" >>"$HERE/asked"
[[ "$*" != *cargo* ]] || ln -s "$HERE"/shelf/* "$HERE/debian"
"""


class Machine:
    """A Debian without this machine's programs: everything of scripts/packages.txt is installed, Rust is as the test says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = [home / "fakes", home / "tools", home / "debian"]
        for directory in self.path:
            directory.mkdir()
        for tool in TOOLS:
            (home / "tools" / tool).symlink_to(shutil.which(tool) or "/nonexistent")
        self.script("fakes/apt-get", APT_GET)
        self.script("fakes/apt-cache", 'echo "  Candidate: $(grep "^$2 " "$HERE/candidates" | cut -d " " -f 2)"')
        self.script("fakes/dpkg-query", "echo installed")
        self.script("fakes/sudo", '[ "$1" != -n ] || shift; "$@"')
        self.script("fakes/clang-19", "")
        self.rust("shelf", "1.96.0")
        self.apt(rustc="1.63.0+dfsg1-2", rustc_web="1.96.0+dfsg1-1~deb12u2")

    def script(self, name: str, body: str) -> None:
        """A program of this machine."""
        program = self.home / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        program.chmod(0o755)

    def apt(self, **candidates: str) -> None:
        """What the package lists offer."""
        lines = (f"{name.replace('_', '-')} {version}\n" for name, version in candidates.items())
        (self.home / "candidates").write_text("".join(lines))

    def rust(self, where: str, version: str) -> None:
        """A Rust in this directory."""
        self.script(f"{where}/cargo", "")
        self.script(f"{where}/rustc", f"echo 'rustc {version} (0123456789 2026-01-01)'")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a line of bash there."""
        env = {"HOME": str(self.home), "HERE": str(self.home), "PATH": os.pathsep.join(map(str, self.path))}
        return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False, timeout=30)

    def setup(self) -> subprocess.CompletedProcess[str]:
        """scripts/setup, then which cargo the other scripts find."""
        return self.run(f"{SETUP} && . {SETUP.parent}/common.sh && find_cargo && command -v cargo")

    def asked(self) -> str:
        """What apt-get was asked to do."""
        file = self.home / "asked"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Debian 12, with its security updates, on which nobody has installed Rust."""
    return Machine(tmp_path)


@pytest.mark.parametrize("sudo", ["", "echo 'sudo: a password is required' >&2; exit 1"])
def test_who_cannot_be_root_is_told_so_at_once(machine: Machine, sudo: str):
    """A user without sudo, or whom it refuses, is told what needs root and how to come by it; apt-get is not called."""
    machine.script("fakes/id", '[ "$1" = -un ] && echo somebody || echo 1000')
    machine.script("fakes/sudo", sudo)
    if not sudo:
        (machine.home / "fakes" / "sudo").unlink()
    done = machine.setup()
    assert done.returncode == 1 and machine.asked() == ""
    assert "cannot install" in done.stderr and "somebody" in done.stderr and "adduser somebody sudo" in done.stderr
    assert ("a password is required" if sudo else "there is no sudo") in done.stderr


@pytest.mark.parametrize("where", ["fakes", ".cargo/bin"])
@pytest.mark.parametrize("version", ["1.91.0", "1.100.0"])
def test_a_rust_that_is_new_enough_is_left_alone(machine: Machine, where: str, version: str):
    """A good Rust, on the PATH or in rustup's own directory, is used as it is, and apt is not asked for anything."""
    machine.rust(where, version)
    done = machine.setup()
    assert (done.returncode, machine.asked()) == (0, ""), done.stderr
    assert done.stdout.strip() == str(machine.home / where / "cargo")


def test_where_there_is_no_rust_the_first_that_is_new_enough_is_installed(machine: Machine):
    """Debian 12's own rustc is older than Cargo.toml asks for; its twin for browsers is installed, with the lints."""
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert machine.asked().splitlines()[-1].endswith("--no-install-recommends rustc-web cargo-web rustfmt-web rust-web-clippy")
    assert done.stdout.strip() == str(machine.home / "debian/cargo")


def test_the_release_s_own_rust_is_installed_where_it_is_new_enough(machine: Machine):
    """A later Debian needs no twin."""
    machine.apt(rustc="1.99.0+dfsg1-1")
    assert machine.setup().returncode == 0
    assert machine.asked().splitlines()[-1].endswith("--no-install-recommends rustc cargo rustfmt rust-clippy")


@pytest.mark.parametrize("where", ["fakes", ".cargo/bin"])
def test_a_rust_that_is_too_old_stays_and_is_passed_by(machine: Machine, where: str):
    """An old Rust of rustup's is not touched; the one that apt brings is used, though it comes later on the PATH."""
    machine.rust(where, "1.75.0")
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(machine.home / "debian/cargo")


def test_without_a_rust_to_install_it_fails_before_anything_is_installed(machine: Machine):
    """The message names what apt has, why that is no use, and where to get one."""
    machine.apt(rustc="1.63.0+dfsg1-2", rustc_web="1.85.0+dfsg3-1~deb12u3")
    done = machine.setup()
    assert done.returncode == 1
    assert "rustc 1.63.0+dfsg1-2 rustc-web 1.85.0+dfsg3-1~deb12u3" in done.stderr and "bookworm-security" in done.stderr
    assert " install " not in machine.asked()


def test_debian_s_old_rust_makes_way_and_its_rustup_does_not(machine: Machine):
    """What the twin replaces may be removed for it; a rustup that somebody chose is theirs, and the message says what to do."""
    (machine.home / "removes").write_text("cargo [0.66.0+ds1-1]\nrustup [1.27.1-3+b1]\n")
    done = machine.setup()
    assert done.returncode == 1 and "would remove rustup" in done.stderr and "rustup default stable" in done.stderr
    assert " install " not in machine.asked()
    (machine.home / "removes").write_text("cargo [0.66.0+ds1-1]\nrustc [1.63.0+dfsg1-2]\n")
    done = machine.setup()
    assert done.returncode == 0 and "take the place of cargo rustc" in done.stderr
