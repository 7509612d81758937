# SPDX-License-Identifier: GPL-2.0-only
"""Prints, as JSON, everything a scheduler and its daemon could change and leave changed: to be the same before and after."""

import json
import os
import subprocess
from pathlib import Path

FILES = [
    ("/proc/sys/kernel", "sched*"),
    ("/proc/sys/vm", "*"),
    ("/sys/fs/cgroup", "**/cpu.weight"),
    ("/sys/fs/cgroup", "**/cpu.weight.nice"),
    ("/sys/fs/cgroup", "**/cpu.max"),
    ("/sys/fs/cgroup", "**/cpu.idle"),
    ("/sys/fs/cgroup", "**/memory.low"),
    ("/sys/fs/cgroup", "**/memory.high"),
    ("/sys/fs/cgroup", "**/io.weight"),
    ("/sys/fs/cgroup", "**/cgroup.subtree_control"),
    ("/sys/kernel/tracing/events", "*/enable"),
    ("/sys/kernel/tracing", "set_event_pid"),
    ("/sys/kernel/tracing", "enabled_functions"),
    ("/sys/kernel/sched_ext", "state"),
]


def read(path):
    """A file's text, or why there is none."""
    try:
        return path.read_text().strip()
    except OSError as error:
        return f"({error.strerror})"


def bpf(kind):
    """How many BPF objects of a kind there are, by name."""
    listed = json.loads(subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True, check=True).stdout or "[]")
    return sorted(str(one.get("name", one.get("type"))) for one in listed)


def commands():
    """The programs that run, without this one, its parent, and the kernel's workers, which come and go."""
    mine = {os.getpid(), os.getppid()}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in mine:
            words = read(entry / "cmdline")
            if words and not words.startswith("("):
                found.append(words.replace("\0", " ").strip())
    return sorted(found)


def nice_and_class(entry):
    """How a task of /proc is scheduled, by a name of its own: nothing of one that ends meanwhile, nor of the kernel's workers, which come and go."""
    try:
        name = (entry / "comm").read_text().strip()
        priority = (entry / "stat").read_text().rsplit(")", 1)[1].split()[15:17]
        policy = os.sched_getscheduler(int(entry.name))
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {} if name.startswith("kworker") else {f"nice and class of {entry.name} ({name})": f"{priority} {policy}"}


# The kernel itself turns this event on for good when a program that may print is loaded; it shows nothing unless somebody reads it.
OF_THE_KERNEL = "/sys/kernel/tracing/events/bpf_trace/enable"

knobs = {
    str(path): read(path)
    for top, pattern in FILES
    for path in sorted(Path(top).glob(pattern))
    if path.is_file() and str(path) != OF_THE_KERNEL
}
knobs |= {f"bpf {kind}": str(bpf(kind)) for kind in ("prog", "map", "link")}
for entry in Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) not in (os.getpid(), os.getppid()):
        knobs |= nice_and_class(entry)
knobs["programs"] = "\n".join(commands())
for folder in ("/run", "/dev/shm", "/sys/fs/bpf"):
    knobs[folder] = " ".join(sorted(str(path) for path in Path(folder).rglob("*") if not path.is_dir() and "/run/test" not in str(path)))
print(json.dumps(knobs))
