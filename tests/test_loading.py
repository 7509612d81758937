# SPDX-License-Identifier: GPL-2.0-only
"""Specifications as programs are executed (Redline, section 3, Figure 3): whose is whose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.guests import DESKTOP, LIMELIGHT, OLDER, Guest, on, rare
from tests.reserving import FOLDER, install, listed, write
from vmlab.machine import Options

MACHINES = [LIMELIGHT]
PACKAGING = Path(__file__).resolve().parent.parent / "packaging"

CHILDREN = """
(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; read never </run/reserve) &
(exec sleep 100) &
read never </run/reserve
"""


@pytest.mark.parametrize("inheritable", [rare(False), True])
def test_children_have_a_reservation_only_if_it_may_be_inherited(guest: Guest, inheritable: bool) -> None:
    """Of a reserved shell's two children one uses more than 1 ms of CPU and one executes a program: each has a reservation of its own by flag I,
    none without it; and the shell, which executes something else then, keeps its own only with it."""
    guest.start_limelight()
    guest.check("install -m 755 $(readlink -f /bin/sh) /usr/local/bin/shell; mkfifo /run/reserve")
    write(guest, f"/usr/local/bin/shell:Iact:2:100:{'IR' if inheritable else 'R'}:-:-")
    guest.check(f"cat >/run/children <<'X'\n{CHILDREN}X")
    shell = guest.background("/usr/local/bin/shell /run/children")
    guest.check("sleep 1")
    names = sorted(held["name"] for held in listed(guest))
    assert names == (["shell", "shell", "sleep"] if inheritable else ["shell"])
    guest.check(f"kill {shell}; pkill -x shell; pkill -x sleep; sleep 0.3")
    assert not listed(guest)
    executes = guest.background("/usr/local/bin/shell -c 'exec sleep 100'")
    guest.check("sleep 0.5")
    assert [held["pid"] for held in listed(guest)] == ([executes] if inheritable else [])


BURN = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
#: Who executes `only`, whose entry is for who is executed by an interactive process alone: its first word says who, and how.
WAYS = {
    "best-effort": "plain -c 'only {idle}; :'",
    "child": "shell -c 'only {idle}; :'",
    "itself": "shell -c 'exec only {idle}'",
    "through another": "shell -c 'plain -c \"only {idle}; :\"; :'",
    # Far more than 10 ms of CPU.
    "late": "shell -c '(" + BURN + "; exec only {idle}); :'",
    "grandchild": "shell -c '(" + BURN + "; (exec only {idle}); :); :'",
    "great-grandchild": "shell -c '(" + BURN + "; (" + BURN + "; (exec only {idle}); :); :); :'",
}


@pytest.mark.everywhere
@on(LIMELIGHT, replace(LIMELIGHT, **OLDER))
def test_an_entry_may_be_for_who_is_executed_by_an_interactive_process_alone(guest: Guest) -> None:
    """With flag P a program has its reservation where an interactive process, or its child or grandchild within 10 ms of CPU, executes it, and where
    anybody else does none; without it all of them have. The flag takes effect on who runs already when it comes and goes, and a new daemon finds the same."""
    guest.start_limelight()
    install(guest, "only")
    guest.check("for name in shell plain; do install -m 755 $(readlink -f /bin/sh) /usr/local/bin/$name; done")
    shell, only = "/usr/local/bin/shell:Iact:2:100:R:-:-", "/usr/local/bin/only:Iact:1:100:R:-:-"

    def held() -> list[int]:
        return sorted(one["pid"] for one in listed(guest) if one["name"] == "only" and one["state"] == "admitted")

    write(guest, shell, only.replace(":R:", ":RP:"))
    begun: dict[str, int] = {}
    for way, command in WAYS.items():
        guest.background(command.format(idle="1000 1000000 300"))
        guest.wait_for(lambda: set(guest.processes("only")) - set(begun.values()), "it is executed")
        (begun[way],) = set(guest.processes("only")) - set(begun.values())
    by_interactive = sorted(begun[way] for way in ("child", "itself", "grandchild"))
    assert held() == by_interactive, begun
    assert {one["interactive_parent"] for one in listed(guest) if one["name"] == "only"} == {True}
    write(guest, shell, only)
    assert held() == sorted(begun.values()), begun
    write(guest, shell, only.replace(":R:", ":RP:"))
    # By the parent of today: what was run before the program was executed is not known any more, and whoever is found running `shell` has had its
    # reservation since the first reload. Who executed it in place of itself has none for a parent, and the line of before did not say that it had.
    by_today = sorted(begun[way] for way in ("child", "late", "grandchild", "great-grandchild"))
    assert held() == by_today, begun
    write(guest, shell, only.replace(":1:", ":2:").replace(":R:", ":RP:"))
    assert held() == by_today, begun
    guest.check("pkill -9 -x limelight; until [ $(cat /sys/kernel/sched_ext/state) = disabled ]; do sleep 0.1; done")
    guest.start_limelight()
    guest.wait_for(lambda: held() == by_today, "they hold theirs again", 5)


#: As a build does, it has a shell for each rule, and the small programs that the shipped set has entries for.
MAKEFILE = """
all: $(addprefix t,$(shell seq 400))
t%:
\t@mkdir -p /tmp/made/$*; date >/tmp/made/$*/a; cat /tmp/made/$*/a >/tmp/made/$*/b; rm -r /tmp/made/$*
"""
#: A session by a key whose terminal stays open.
SSH = "ssh -tt -i /root/.ssh/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@on(DESKTOP)
def test_with_the_shipped_set_a_build_asks_for_nothing_and_a_persons_shell_has_a_reservation(guest: Guest) -> None:
    """With what limelight ships in force, none of the shells and small programs of `make -j4` asks for a reservation; bash in an xterm has one, and in
    sessions by ssh, root's and a user's."""
    guest.start_limelight()
    guest.machine.put(PACKAGING)
    guest.check("install -D -m 644 -t /usr/share/limelight/spec.d /root/in/packaging/spec.d/*.toml")
    guest.check(f"cat >/tmp/Makefile <<'X'\n{MAKEFILE}X\nmkdir -p /run/sshd /root/.ssh && ssh-keygen -q -A && chmod 700 /root/.ssh")
    guest.check("cd /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f id_ed25519 && cp id_ed25519.pub authorized_keys")
    guest.check("cd ~person && install -d -o person -m 700 .ssh && install -o person -m 600 /root/.ssh/id_ed25519.pub .ssh/authorized_keys")
    write(guest)
    view = json.loads(guest.check("limelight spec list --json"))
    assert view["specifications"] > 20 and view["complaints"] == 0
    guest.check("/usr/sbin/sshd -o UsePAM=yes")
    for user in ("root", "person"):
        guest.background(f"sh -c 'sleep 300 | {SSH} {user}@127.0.0.1 bash --norc'")
    guest.background("xterm -e bash --norc", user="person")
    guest.wait_for(lambda: len(guest.processes("bash")) == 3, "the shells are there", 20)

    def served() -> set[int]:
        return {one["pid"] for one in listed(guest) if one["name"] == "bash" and one["state"] == "admitted"}

    # Beside what a login expects to use one may be refused at first, and one is tried again every four seconds.
    guest.wait_for(lambda: served() == set(guest.processes("bash")), "each bash has its reservation", 20)

    def asked() -> int:
        counters = guest.status()["counters"]
        return counters["reserved_admitted"] + counters["reserved_refused"]

    before, seen = asked(), 0
    make = guest.background("make -s -j4 -f /tmp/Makefile")
    while guest.is_running(make):
        assert {one["name"] for one in listed(guest)} & {"make", "sh", "mkdir", "date", "cat", "rm"} == set()
        seen += 1
        guest.run("timeout 0.2 sh -c 'while :; do :; done'")
    assert seen >= 5, "make was not there for long enough to be looked at"
    assert guest.run("cat /run/test/make.log").stdout == ""
    # Those that were refused are tried again, one in four seconds.
    assert asked() - before <= 20, "of two thousand programs some have asked for one"


UNITS = """[[spec]]
unit = "batch@*.service"
type = "interactive"
runtime_ms = 2
period_ms = 100
revocable = false

[[spec]]
app = "org.example.Script"
type = "interactive"
runtime_ms = 3
period_ms = 100
revocable = true
"""
#: A script: what it executes has no specification.
SCRIPT = "/usr/bin/python3 -c 'import time; time.sleep(1000)'"
#: Where a user's services and applications are, as systemd names them.
OF_USER = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"


@on(Options(init="systemd"))
def test_a_unit_and_an_app_have_theirs_whatever_program_they_run(guest: Guest) -> None:
    """A script in a unit of the system's and one in an application's scope of the person's have what their TOML entries say, without having been executed
    since; one in a unit that the person named like the system's has not, as that entry cannot be revoked. Without the entries nobody has."""
    guest.start_limelight()
    guest.check(f"systemd-run --unit=batch@1.service {SCRIPT}")
    app, forged = f"{OF_USER}/app.slice/app-flatpak-org.example.Script-77.scope", f"{OF_USER}/app.slice/batch@2.service"
    pids = {}
    for folder in (app, forged):
        pids[folder] = guest.background(SCRIPT, user="person")
        guest.check(f"mkdir -p '{folder}'; echo {pids[folder]} >'{folder}/cgroup.procs'")
    service = int(guest.check("systemctl show -p MainPID --value batch@1.service"))
    guest.check(f"mkdir -p {FOLDER}; cat >{FOLDER}/units.toml <<'X'\n{UNITS}X\nlimelight spec reload")
    guest.wait_for(lambda: len(listed(guest)) >= 2, "both are found")
    guest.check("sleep 4")
    held = {one["pid"]: (one["runtime_ms"], one["revocable"], one["state"]) for one in listed(guest)}
    assert held == {service: (2.0, False, "admitted"), pids[app]: (3.0, True, "admitted")}
    guest.check(f"rm {FOLDER}/units.toml; limelight spec reload")
    guest.wait_for(lambda: not [one for one in listed(guest) if one["state"] != "ended"], "nobody has any")
