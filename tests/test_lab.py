# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory itself, in real virtual machines: what goes in comes out, and failures are told apart."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.guests import rare
from vmlab import kernels
from vmlab.errors import KernelFault
from vmlab.machine import Options, boot

TREE = Path(__file__).resolve().parents[1]
LAB = TREE / "lab"


def lab(*words, timeout_s=900):
    """Runs ./lab; returns the finished process."""
    return subprocess.run([LAB, *words], cwd=TREE, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False)


@pytest.fixture(scope="module")
def plain():
    """One machine without a scheduler, for the tests that leave it as it was."""
    with boot(Options()) as machine:
        yield machine


@pytest.mark.parametrize("series", kernels.SERIES)
def test_every_kernel_boots_with_what_schedulers_need(series):
    """Each kernel series comes up with sched_ext, its BTF, its configuration in /boot, and cgroup2, tracefs and bpffs mounted."""
    with boot(Options(kernel=series)) as machine:
        assert machine.release.startswith(series)
        machine.check("test -f /boot/config-$(uname -r) && test -f /sys/kernel/btf/vmlinux && test -f /sys/kernel/sched_ext/state")
        machine.check("grep -q cgroup2 /proc/mounts && grep -q tracefs /proc/mounts && grep -q bpf /proc/mounts && modprobe uinput")


def test_command_line_passes_on_output_status_and_files(tmp_path):
    """exec copies in, prints what the command printed, brings /root/out back and has the command's status."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("there and back\n")
    out = tmp_path / "out"
    done = lab("exec", "--copy", str(tmp_path / "given"), "--out", str(out), "--", "cp -r /root/in/given /root/out/; echo said; echo erred >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "said\n")
    assert "erred" in done.stderr
    assert (out / "given" / "file").read_text() == "there and back\n"


def test_time_is_virtual(plain):
    """Ten minutes of sleep pass in the guest in a fraction of that time here, and the guest counts every second of it."""
    # Its file is read in first: real time that a disk takes is virtual time in which the guest has nothing to do.
    plain.check(["sleep", "0"])
    begun = time.monotonic()
    result = plain.run(["sleep", "600"])
    assert result.status == 0 and 600 <= result.virtual_s < 601
    assert time.monotonic() - begun < 300


def test_guest_stands_still_between_commands(plain):
    """While this side thinks, the guest's clock moves by less than a second: nothing times out or warps behind one's back."""
    first = float(plain.check("cut -d' ' -f1 /proc/uptime").stdout)
    time.sleep(3.0)
    assert float(plain.check("cut -d' ' -f1 /proc/uptime").stdout) - first < 1.0


def test_virtual_time_repeats():
    """The same computation takes the same virtual time in two machines, to one per cent: it does not depend on this machine's load."""
    took = []
    # With Python's hashes at random even this loop takes up to 15 % more instructions in some processes: the dictionary of its names.
    # Timed from within: a process that starts waits for the disk, and that is this machine's.
    work = "import time; began = time.monotonic()\nfor i in range(10**6): pass\nprint(time.monotonic() - began)"
    for _ in range(2):
        with boot(Options()) as machine:
            took.append(float(machine.check(["env", "PYTHONHASHSEED=0", "python3", "-c", work]).stdout))
    assert abs(took[0] - took[1]) < 0.01 * took[0]


def test_repetitions_are_not_the_same_run():
    """Another number of repetition gives the guest another random state, so that a spread over boots means something."""
    seen = set()
    for number in (0, 1):
        with boot(Options(variation=number)) as machine:
            seen.add((machine.check("head -1 /proc/self/maps").stdout.split("-")[0], machine.check("cat /proc/uptime").stdout))
    assert len(seen) == 2


def test_out_of_virtual_time(plain):
    """timeout_s counts the guest's seconds, ends the command and says so."""
    result = plain.run("echo begun; sleep 100", timeout_s=2)
    assert (result.status, result.timed_out, result.stdout) == (124, True, "begun\n")


def test_person_is_an_ordinary_user(plain):
    """user="person" runs as uid 1000 with a home and a runtime directory of its own."""
    assert plain.check("id -u; touch ~/x $XDG_RUNTIME_DIR/x", user="person").stdout == "1000\n"


@pytest.mark.parametrize("display", ["xvfb", rare("xorg")])
def test_desktop_is_up(display):
    """With a desktop, DISPLAY works for root and for the person, and a window manager runs."""
    with boot(Options(desktop=True, display=display)) as machine:
        for user in ("root", "person"):
            assert "1280x720" in machine.check("xdpyinfo | grep dimensions", user=user).stdout
        machine.check("pgrep -u person openbox")


@pytest.mark.everywhere
def test_peer_takes_charge_and_leaves():
    """A peer is the scheduler in charge when commands run, and its orderly end is no fault."""
    with boot(Options(sched="scx_bpfland", cpus=2)) as machine:
        assert "bpfland" in machine.check("cat /sys/kernel/sched_ext/root/ops").stdout
        assert machine.scheduler_alive()
        machine.check("kill -INT $(pidof scx_bpfland); while [ $(cat /sys/kernel/sched_ext/state) != disabled ]; do sleep 0.1; done")
        assert not machine.scheduler_alive()
        assert machine.check_faults() == []


def test_complaint_of_the_kernel_fails_the_run():
    """A kernel warning after an otherwise good command fails the run, with its lines; "collect" only notes it."""
    warn = "echo 'kernel message' > /dev/kmsg; echo t > /proc/sysrq-trigger; echo l > /proc/sysrq-trigger"
    with pytest.raises(KernelFault, match="kernel complained"), boot(Options()) as machine:
        machine.check(warn)
    with boot(Options(faults="collect")) as machine:
        machine.check(warn)
    assert machine.faults


def test_crash_is_the_kernels_fault_not_the_laboratorys():
    """A panic has the status of a kernel fault, and the message holds the panic's line."""
    done = lab("exec", "--quiet", "--", "echo c > /proc/sysrq-trigger; sleep 5")
    assert done.returncode == 70
    assert "Kernel panic - not syncing" in done.stderr


def test_killed_qemu_is_the_laboratorys_fault():
    """When the virtual machine dies under a command the laboratory failed: status 69, not the command's."""
    child = subprocess.Popen([LAB, "exec", "--", "echo begun; while :; do :; done"], cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    os.kill(qemu_of(child.pid), signal.SIGKILL)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 69 and "virtual machine ended" in said


def test_killed_laboratory_leaves_no_qemu():
    """kill -9 of ./lab takes its virtual machine along."""
    command = [LAB, "exec", "--", "echo begun; while :; do :; done"]
    child = subprocess.Popen(command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout.readline() == "begun\n"
    qemu = qemu_of(child.pid)
    child.kill()
    child.communicate()
    for _ in range(50):
        if not Path("/proc", str(qemu)).exists():
            return
        time.sleep(0.1)
    pytest.fail(f"QEMU {qemu} outlived the laboratory")


def test_systemd_guest():
    """--init systemd boots a whole system that is running, with nothing failed and units that can be started."""
    with boot(Options(init="systemd")) as machine:
        assert machine.check("systemctl is-system-running").stdout == "running\n"
        machine.check("systemd-run --wait -q -p CPUWeight=20 true")


def qemu_of(pid):
    """The QEMU among the children of a process."""
    for _ in range(100):
        children = Path("/proc", str(pid), "task", str(pid), "children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise AssertionError("no QEMU")
