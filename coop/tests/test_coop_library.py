# SPDX-License-Identifier: MIT
"""libcoop as those get it who use it: symbols, header, installation, man pages, examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from coop_programs import BUILD, COOP, environment

HEADER = (COOP / "include/coop.h").read_text()
FUNCTIONS = sorted(re.findall(r"^COOP_PUBLIC .*?\b(coop_\w+)\(", HEADER, re.MULTILINE))
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]


def run(*command: str | Path, **extra: str) -> str:
    """The output of a command that has to end well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(**extra))
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


#: What came after version 0.1, so that a program that needs it does not start with a library without it.
LATER = {f"coop_{what}_group": "LIBCOOP_0.2" for what in ("join", "leave", "share", "unshare")} | {"coop_promise_error": "LIBCOOP_0.3"}


def test_only_the_header_is_exported() -> None:
    """The shared library shows exactly the header's functions, of version LIBCOOP_0.1 or that in which they came, and is found by the name libcoop.so.0; the
    static one shows no others either: a program's own queue_push() was called by it."""
    static = [line.split()[-1] for line in run("nm", "--defined-only", "--extern-only", BUILD / "libcoop.a").splitlines() if len(line.split()) == 3]
    assert sorted(static) == sorted(FUNCTIONS)
    shown = [line.split()[-1] for line in run("nm", "-D", "--defined-only", BUILD / "libcoop.so").splitlines() if " T " in line]
    assert sorted(shown) == [f"{name}@@{LATER.get(name, 'LIBCOOP_0.1')}" for name in FUNCTIONS]
    assert "SONAME" in run("objdump", "-p", BUILD / "libcoop.so")
    assert re.search(r"SONAME\s+libcoop\.so\.0$", run("objdump", "-p", BUILD / "libcoop.so"), re.MULTILINE)


def test_the_header_is_c_and_cpp(tmp_path: Path) -> None:
    """It compiles alone, with all warnings, as C99 and as C++11; an event is 80 bytes, which programs have built in."""
    source = tmp_path / "use.c"
    source.write_text("#include <coop.h>\ntypedef char event_is_80_bytes[sizeof(struct coop_event) == 80 ? 1 : -1];\n")
    run("gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{COOP}/include", "-fsyntax-only", source)
    run("g++", "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{COOP}/include", "-fsyntax-only", "-x", "c++", source)


def test_an_installed_library_is_found_by_pkg_config(tmp_path: Path) -> None:
    """make install puts it where it is told, and a program builds with no more than pkg-config's flags, shared and static; the version is limelight's."""
    run("make", "-s", "-C", COOP, "install", f"DESTDIR={tmp_path}", "PREFIX=/opt/coop")
    found = {"PKG_CONFIG_PATH": f"{tmp_path}/opt/coop/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    flags = run("pkg-config", "--cflags", "--libs", "coop", **found).split()
    program = tmp_path / "plain"
    run("gcc", *STRICT, COOP / "examples/plain.c", "-o", program, *flags)
    assert "frame 9" in run(program, LD_LIBRARY_PATH=f"{tmp_path}/opt/coop/lib")
    static = run("pkg-config", "--static", "--cflags", "--libs", "coop", **found).split()
    run("gcc", *STRICT, "-static", COOP / "examples/plain.c", "-o", program, *static)
    assert "frame 9" in run(program)
    cargo = tomllib.loads((COOP.parent / "Cargo.toml").read_text())
    assert run("pkg-config", "--modversion", "coop", **found).strip() == cargo["workspace"]["package"]["version"]
    pages = {path.name for path in (tmp_path / "opt/coop/share/man").glob("man?/*")}
    assert pages == {path.name for path in (COOP / "man").iterdir()}


def test_uninstalled_it_leaves_no_file_of_its_own(tmp_path: Path) -> None:
    """make uninstall removes every file and link that make install brought, into folders of any name, and somebody else's stays; again it changes nothing."""
    folder = tmp_path / "a folder"
    where = [f"DESTDIR={folder}", "PREFIX=/usr", "LIBDIR=lib/here"]
    run("make", "-s", "-C", COOP, "uninstall", *where)
    run("make", "-s", "-C", COOP, "install", f"BUILD={tmp_path}/build", *where)
    brought = [path for path in folder.rglob("*") if not path.is_dir()]
    libraries = {"libcoop.so", "libcoop.so.0", "libcoop.a", "libcoop-preload.so"}
    assert {"MIT.txt", "coop-run", "coop.pc", "coop.h", "coop.7"} | libraries <= {path.name for path in brought}
    others = folder / "usr/lib/here/libother.so"
    others.touch()
    for _ in range(2):
        run("make", "-s", "-C", COOP, "uninstall", *where)
        assert [path for path in folder.rglob("*") if not path.is_dir()] == [others]


def test_coop_run_goes_with_its_library(tmp_path: Path) -> None:
    """Installed into a library folder that only make install is told, coop-run finds its library there; and what was built for another one is not
    installed: make says what to do."""
    where = [f"BUILD={tmp_path}/build", f"DESTDIR={tmp_path}", "PREFIX=/usr"]
    run("make", "-s", "-C", COOP, *where)
    run("make", "-s", "-C", COOP, "install", "LIBDIR=lib64", *where)
    run(tmp_path / "usr/bin/coop-run", "true")
    refused = subprocess.run(["make", "-s", "-C", COOP, "install-built", *where], capture_output=True, text=True)
    assert refused.returncode and "run make LIBDIR=lib first" in refused.stderr


def test_every_function_has_a_man_page() -> None:
    """One page for each public function, coop(7) and coop-run(1); what the header says a function can fail with, its page says too."""
    assert {path.name for path in (COOP / "man").iterdir()} == {f"{name}.3" for name in FUNCTIONS} | {"coop.7", "coop-run.1"}
    told = 0
    for comment, name in re.findall(r"/\*((?:(?!\*/).)*)\*/\nCOOP_PUBLIC .*?\b(coop_\w+)\(", HEADER, re.DOTALL):
        page = (COOP / f"man/{name}.3").read_text()
        for error in re.findall(r"-(E[A-Z]+)", comment):
            told += 1
            assert f"\\-{error}" in page, f"{name}.3 does not tell {error}"
    assert told >= 20


@pytest.mark.parametrize("page", [*[f"{name}.3" for name in FUNCTIONS], "coop.7", "coop-run.1"])
def test_man_pages_are_well_formed(page: str) -> None:
    """groff formats the page with all its warnings on and has none."""
    assert shutil.which("groff"), "groff is missing: scripts/setup"
    done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", COOP / "man" / page], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_example_of_each_man_page_runs(function: str, tmp_path: Path) -> None:
    """The program in the page's EXAMPLES is taken as it stands, compiled with all warnings, and run: status 0, within 60 s on a busy machine."""
    page = (COOP / f"man/{function}.3").read_text()
    example = re.search(r"^\.Sh EXAMPLES\n.*?^\.Bd -literal\n(.*?)^\.Ed$", page, re.MULTILINE | re.DOTALL)
    assert example, "the page has no example"
    source = tmp_path / "example.c"
    source.write_text(example[1].replace("\\e", "\\"))
    assert f"{function}(" in source.read_text()
    run("gcc", *STRICT, f"-I{COOP}/include", source, "-o", tmp_path / "example", BUILD / "libcoop.a", "-pthread")
    subprocess.run([tmp_path / "example"], check=True, timeout=60, env=environment())


def test_the_plain_example_shows_or_drops_every_frame() -> None:
    """Ten frames, each shown or dropped, in order; and without limelight it says that there is no promise, and why."""
    lines = run(BUILD / "plain").splitlines()
    assert [line.split()[1] for line in lines[:10]] == [str(number) for number in range(10)]
    assert lines[10] == "no promise (Transport endpoint is not connected): timing as the kernel gives it"


def test_the_glib_example_runs_both_kinds_of_timer() -> None:
    """In a GLib main loop five ticks of libcoop come beside GLib's own timeout."""
    if subprocess.run(["pkg-config", "--exists", "glib-2.0"]).returncode:
        assert "LIMELIGHT_NEED_PROGRAMS" not in os.environ
        pytest.skip("GLib's development files are not installed: scripts/setup")
    lines = run(BUILD / "glib").splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("tick")] == [f"tick {number}" for number in range(1, 6)]
    assert "GLib's own timeout" in lines
