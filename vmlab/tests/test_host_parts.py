# SPDX-License-Identifier: GPL-2.0-only
"""What the laboratory decides before a guest runs: kernels, packages, QEMU, and the words for what went wrong."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from vmlab import host, kernels, machine, near, outcome, packages, payload, player, qemu
from vmlab.errors import LabError, UsageError
from vmlab.machine import Options

AVAILABLE = [
    "linux-image-6.18.9+deb13-amd64", "linux-image-6.18.15+deb13-amd64", "linux-image-6.18.15+deb13-cloud-amd64", "linux-image-6.18.15+deb13-rt-amd64",
    "linux-image-7.2.12+deb13-amd64", "linux-binary-7.2.12+deb13-amd64", "linux-binary-7.2.9+deb14-amd64", "linux-modules-7.2.9+deb14-amd64",
    "linux-base-7.2.9+deb14-amd64", "linux-image-7.2.9+deb14-amd64", "linux-image-7.20.1+deb14-amd64", "linux-headers-7.2.99+deb14-amd64",
]


def test_newest_kernel_is_by_number():
    """6.18.15 is newer than 6.18.9, and the cloud and real-time flavours are not taken."""
    assert packages.newest_kernel(AVAILABLE, "6.18", frozenset()) == "6.18.15+deb13"


def test_broken_kernel_is_passed_over():
    """A release known to have a broken BTF is not chosen although it is the newest, nor is 7.20 a 7.2."""
    assert packages.newest_kernel(AVAILABLE, "7.2", kernels.BROKEN) == "7.2.9+deb14"


def test_the_libraries_behind_development_files_are_found():
    """Of what a development package depends on, the library of whatever version the suite has, and nothing else."""
    depends = "libavcodec61 (= 7:7.1.5-0+deb13u1), libavutil-dev (= 7:7.1.5-0+deb13u1), libc6 (>= 2.38), libswresample5 (= 7:7.1.5)"
    assert player.LIBRARY.findall(depends) == ["libavcodec61", "libswresample5"]


def test_missing_series_is_explained():
    """A series that has left the suites names the suites and what to change."""
    with pytest.raises(LabError, match=r"no kernel 5\.4") as caught:
        packages.newest_kernel(AVAILABLE, "5.4", frozenset())
    assert "trixie-backports" in caught.value.why and "kernels.py" in caught.value.fix


def test_kernel_in_one_package_or_in_three():
    """Older kernels are one package; newer ones are split into binary, modules and base."""
    assert packages.kernel_packages(AVAILABLE, "6.18.15+deb13") == ["linux-image-6.18.15+deb13-amd64"]
    assert packages.kernel_packages(AVAILABLE, "7.2.9+deb14") == [f"linux-{part}-7.2.9+deb14-amd64" for part in ("binary", "modules", "base")]


def test_modules_load_after_what_they_need():
    """modules.dep lists the nearest dependency first, so it is reversed; what is built in is left out; nothing comes twice."""
    text = "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz\nkernel/fs/jbd2/jbd2.ko.xz:\nkernel/lib/crc16.ko.xz:\n"
    text += "kernel/drivers/block/virtio_blk.ko.xz: kernel/lib/crc16.ko.xz\n"
    order = kernels.load_order(text, ("virtio_blk", "ext4", "built_in"))
    assert [Path(one).name for one in order] == ["crc16.ko.xz", "virtio_blk.ko.xz", "jbd2.ko.xz", "ext4.ko.xz"]


@pytest.mark.parametrize(("text", "good"), [
    ("QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)", False), ("QEMU emulator version 8.0.4", False), ("QEMU emulator version 8.1.0", True),
    ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", True), ("nonsense", False),
])
def test_qemu_before_8_1_is_not_used(text, good):
    """10.0 is newer than 8.1 although it sorts before it as text; what cannot be read counts as too old."""
    assert (qemu.version(text) >= qemu.OLDEST) is good


def test_measurements_never_use_kvm():
    """Virtual time needs emulation: without --fast there is no KVM whatever the CPU offers."""
    words = qemu.accelerator(Options(), "flags\t\t: fpu vmx sse")
    assert "kvm" not in words and "shift=1,sleep=off" in words


@pytest.mark.parametrize(("options", "shift"), [
    (Options(cpus=2), 1), (Options(cpus=3), 0), (Options(cpus=4), 0), (Options(cpus=4, instruction_ns=2), 1), (Options(instruction_ns=16), 4),
])
def test_a_busy_cpu_of_four_is_as_fast_as_one_of_two(options, shift):
    """The CPUs of a machine share its instructions: a machine of more than two has twice as many, unless it is told how many."""
    assert f"shift={shift},sleep=off" in qemu.accelerator(options, "flags")


def test_kvm_needs_the_cpu_flag():
    """A /dev/kvm on a CPU without vmx or svm proves nothing: emulation is used."""
    assert "kvm" not in qemu.accelerator(Options(fast=True), "flags\t\t: fpu sse vmxless\nother\t: vmx")


@pytest.mark.parametrize("line", [
    "BUG: scheduling while atomic: cat/1/0x00000002", "WARNING: CPU: 0 PID: 1 at kernel/sched/ext.c:100 scx_x+0x1/0x2", "WARNING: kernel/sched/ext.c:1 at x",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "watchdog: BUG: soft lockup - CPU#1 stuck for 26s!", "Kernel panic - not syncing: x",
    'sched_ext: BPF scheduler "bpfland" disabled (runtime error)', 'sched_ext: BPF scheduler "x" disabled (runnable task stall)',
    "sched_ext: bpfland: khugepaged failed to run for 5.048s, runtime error", "INFO: task jbd2:88 blocked for more than 120 seconds.",
    "Oops: general protection fault, probably for non-canonical address",
])
def test_bad_kernel_lines_are_found(line):
    """Each kind of complaint fails a run."""
    assert outcome.faults_in(f"fine\n{line}\nfine") == [line]


@pytest.mark.parametrize("line", [
    'sched_ext: BPF scheduler "limelight" enabled', 'sched_ext: BPF scheduler "x" disabled (unregistered from user space)',
    'sched_ext: BPF scheduler "x" disabled (disabled by sysrq-S)', "rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.",
    "EXT4-fs (vda): mounted filesystem r/w with errors=remount-ro", "random: crng reseeded on system resumption", "Warning: unable to open an initial console.",
])
def test_ordinary_kernel_lines_are_not(line):
    """An orderly end of a scheduler and the kernel's usual words do not fail a run."""
    assert outcome.faults_in(line) == []


@pytest.mark.parametrize(("printed", "why", "fix"), [
    ("E: Failed to fetch x  Temporary failure resolving 'mirror'", "a download failed", "network"),
    ("cp: error writing 'x': No space left on device", "the disk is full", "LIMELIGHT_CACHE"),
    ("E: Unable to locate package xine-ui", "no such package", "new name"),
    ("W: GPG error: the public key is not available: NO_PUBKEY 6ED0", "does not know the key", "debian-archive-keyring"),
    ("", "its last words were", "by hand"),
])
def test_failures_of_programs_are_explained(printed, why, fix):
    """What apt, mmdebstrap and mke2fs print becomes a reason and a fix."""
    reason, remedy = host.explain(printed)
    assert why in reason and fix in remedy


def test_failing_program_is_a_lab_error():
    """A real command that fails carries its status and its words; a missing one its name."""
    with pytest.raises(LabError, match="cannot try it: sh failed with status 3") as caught:
        host.run(["sh", "-c", "echo No space left on device >&2; exit 3"], "try it")
    assert "disk is full" in caught.value.why
    with pytest.raises(LabError, match="cannot try it"):
        host.run(["no-such-program-anywhere"], "try it")


def test_long_step_shows_progress(capfd):
    """A command that takes longer than one's patience is reported with its last words, so that nobody takes it for hung."""
    assert host.run(["sh", "-c", "echo unpacking >&2; sleep 0.5; echo done"], "build it", patience_s=0.2) == "done\n"
    said = capfd.readouterr().err
    assert "build it" in said and "unpacking" in said


@pytest.mark.parametrize(("options", "named"), [
    (machine.Options(sched="scx_nope"), "scx_nope"), (machine.Options(kernel="5.4"), "5.4"), (machine.Options(cpus=0), "0 CPUs"),
    (machine.Options(policy="huc"), "huc"), (machine.Options(sched="limelight", policy="fair"), "fair"),
    (machine.Options(copy=("/no/such/file",)), "/no/such/file"), (machine.Options(cpus=999), "999"),
    (machine.Options(screen="wide"), "wide"), (machine.Options(cpus=4, llcs=3), "3 last-level caches"), (machine.Options(memory_mb=16), "16 MB"),
])
def test_impossible_machines_are_refused(options, named):
    """What cannot be is refused by name before anything is built, with wrong usage as status."""
    with pytest.raises(UsageError, match=named) as caught:
        payload.check(options)
    assert caught.value.status == 64


def test_policies_are_those_of_limelight():
    """`--policy` takes what `limelight run --policy` takes, the default first: Redline's was refused for as long as there was one."""
    text = (payload.TREE / "sched" / "src" / "config.rs").read_text()
    assert set(payload.POLICIES) == set(re.findall(r'Policy::\w+ => "(\w+)"', text))
    assert re.search(r"#\[default\]\s+(\w+)", text)[1].lower() == payload.POLICIES[0]


def test_limelight_that_is_not_built_is_said(monkeypatch, tmp_path):
    """--sched limelight without a build names the missing file and cargo."""
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    with pytest.raises(LabError) as caught:
        payload.check(machine.Options(sched="limelight"))
    assert str(tmp_path) in caught.value.why and "cargo build" in caught.value.fix


def test_scheduler_command_lines():
    """limelight runs its daemon with the policy asked for, and with the arguments given."""
    assert payload.scheduler_command(machine.Options(sched="limelight", policy="huc"), "/limelight") == ["/limelight", "run", "--policy", "huc"]
    assert payload.scheduler_command(machine.Options(sched="scx_lavd", sched_args=("--verbose",)), "/scx_lavd") == ["/scx_lavd", "--verbose"]


def test_a_stale_program_is_not_measured(tmp_path, monkeypatch):
    """A source written after the program was built is named, with what to do; one elsewhere, or older, is none of it."""
    monkeypatch.setattr(payload, "TREE", tmp_path)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    release = tmp_path / "target" / "release"
    release.mkdir(parents=True)
    source, program = tmp_path / "a file.h", release / "limelight"
    source.touch()
    program.touch()
    (release / "limelight.d").write_text(f"{program}: {tmp_path}/gone.rs {str(source).replace(' ', chr(92) + ' ')} {__file__}\n")
    os.utime(program, (1000, 1000))
    os.utime(source, (999, 999))
    payload.require_fresh()
    os.utime(source, (1001, 1001))
    with pytest.raises(LabError, match="not of the sources as they are") as caught:
        payload.require_fresh()
    assert "a file.h" in caught.value.why and "cargo build" in caught.value.fix
    # That there is none is for payload.check() to say.
    program.unlink()
    payload.require_fresh()


def test_a_disk_is_brought_near(tmp_path):
    """Of a file with holes and two pieces of data all that was written is in the page cache afterwards, and root's stays there; one of nothing but a
    hole, or none, is no error."""
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        for start in (1 << 20, 5 << 20):
            file.seek(start)
            file.write(b"x" * (1 << 20))
        file.truncate(9 << 20)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if _cached_bytes(disk):
        pytest.skip("this file system keeps everything in memory")
    kept = near.Near(disk)
    assert _cached_bytes(disk) >= 2 << 20
    if os.geteuid() == 0:
        assert kept.is_locked
        assert _locked_kb() >= 2 << 10
    kept.close()
    assert _locked_kb() == 0
    disk.write_bytes(b"")
    os.truncate(disk, 1 << 20)
    near.Near(disk).close()
    near.Near(tmp_path / "nothing").close()


def test_no_more_of_a_disk_is_locked_than_there_is_room_for(tmp_path, monkeypatch):
    """Where a quarter of the free memory is less than its data it is read in, and may go again."""
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * (1 << 20))
    monkeypatch.setattr(near, "_free", lambda: 3 << 20)
    kept = near.Near(disk)
    assert not kept.is_locked
    assert _locked_kb() == 0


def _locked_kb() -> int:
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck"))


def _cached_bytes(path: Path) -> int:
    return int(subprocess.run(["fincore", "--bytes", "--noheadings", "--output=RES", path], check=True, capture_output=True, text=True).stdout)
