#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory's agent in the guest: does what comes over its virtio-serial port, one request at a time.

The frames are described in vmlab/channel.py. The agent itself runs in the real-time class, so that the laboratory stays in charge
whatever the scheduler under test does; what it starts does not inherit that. While a command runs it sleeps, unless there is output.
"""

import ctypes
import fcntl
import io
import json
import os
import pwd
import select
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import time

HEADER = struct.Struct(">IB")
CHUNK_BYTES = 60_000
TIMED_OUT = 124
STATE = "/sys/kernel/sched_ext/state"
OPS = "/sys/kernel/sched_ext/root/ops"
LOGS = "/run/lab"
SCHEDULER_LIMIT_S = 300.0
DESKTOP_LIMIT_S = 60.0
RESEED = 0x5207
"""RNDRESEEDCRNG of linux/random.h."""
SHIFT_MS = 37.7
PERIOD_MS = 1000
"""A repetition starts this much later than the one before, within one second, which is the longest period programs here have."""
BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "xterm-256color",
    "XDG_SESSION_TYPE": "x11",
}


class Failure(Exception):
    """Something the agent was asked to do did not work: what, why, fix."""


class Port:
    """The port to the laboratory."""

    def __init__(self, fd):
        self.fd = fd

    def send(self, kind, data=b""):
        frame = HEADER.pack(len(data) + 1, ord(kind)) + data
        while frame:
            frame = frame[os.write(self.fd, frame):]

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value).encode())

    def receive(self):
        length, kind = HEADER.unpack(self.exactly(HEADER.size))
        return chr(kind), self.exactly(length - 1)

    def exactly(self, count):
        parts = []
        while count:
            part = os.read(self.fd, count)
            if not part:
                # Nobody is connected on the other side yet, or any more.
                time.sleep(0.05)
                continue
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def find_port(name):
    """The device of a virtio-serial port; there may be no udev to make links."""
    base = "/sys/class/virtio-ports"
    for _ in range(1000):
        for port in os.listdir(base) if os.path.isdir(base) else ():
            try:
                with open(f"{base}/{port}/name") as file:
                    if file.read().strip() == name and os.path.exists(f"/dev/{port}"):
                        return f"/dev/{port}"
            except OSError:
                pass
        time.sleep(0.01)
    sys.exit(f"lab: no virtio port {name}")


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


class Agent:
    """Serves requests."""

    def __init__(self, port):
        self.port = port
        self.env = dict(BASE_ENV)
        self.services = {}
        self.operations = {
            "hello": self.hello, "begin": self.begin, "desktop": self.desktop, "scheduler": self.scheduler, "fetch": self.fetch,
        }

    def environment(self, user, extra):
        account = pwd.getpwnam(user)
        env = {**self.env, "HOME": account.pw_dir, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash"}
        if user != "root":
            env["XDG_RUNTIME_DIR"] = f"/run/user/{account.pw_uid}"
        return {**env, **extra}, account

    def popen(self, argv, user="root", extra=None, cwd=None, **more):
        env, account = self.environment(user, extra or {})
        if user != "root":
            more |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": os.getgrouplist(user, account.pw_gid)}
        return subprocess.Popen(argv, env=env, cwd=cwd or account.pw_dir, start_new_session=True, **more)

    def run(self, request):
        """A command: streams its output, then tells how it ended."""
        begun = time.monotonic()
        try:
            if request["tty"]:
                child = self.on_console(request)
            else:
                child = self.popen(request["argv"], request["user"], request["env"], request["cwd"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            self.port.send("e", f"lab: cannot run {request['argv'][0]}: {error}\n".encode())
            status = 127 if isinstance(error, FileNotFoundError) else 126
            self.port.send_json("X", {"status": status, "virtual_s": 0.0, "timed_out": False})
            return
        timed_out = self.stream(child, None if request["timeout_s"] is None else begun + request["timeout_s"])
        status = TIMED_OUT if timed_out else child.returncode if child.returncode >= 0 else 128 - child.returncode
        self.port.send_json("X", {"status": status, "virtual_s": time.monotonic() - begun, "timed_out": timed_out})

    def stream(self, child, deadline):
        """Forwards output until the command ends; returns whether it ran out of time.

        It ends when its first process does: what that left running in the background may hold the pipes for ever.
        """
        streams = {file.fileno(): kind for file, kind in ((child.stdout, "o"), (child.stderr, "e")) if file}
        pidfd = os.pidfd_open(child.pid)
        poll = select.poll()
        for fd in (*streams, pidfd):
            poll.register(fd, select.POLLIN)
        timed_out = ended = False
        while not ended:
            limit_ms = None if deadline is None else max(0, (deadline - time.monotonic()) * 1000)
            ready = [fd for fd, _ in poll.poll(limit_ms)]
            if not ready:
                timed_out = True
                os.killpg(child.pid, signal.SIGKILL)
            for fd in ready:
                if fd == pidfd:
                    ended = True
                elif not self.forward(fd, streams[fd]):
                    poll.unregister(fd)
            if timed_out:
                break
        child.wait()
        os.close(pidfd)
        for fd, kind in streams.items():
            os.set_blocking(fd, False)
            while self.forward(fd, kind):
                pass
        for file in (child.stdout, child.stderr):
            if file:
                file.close()
        return timed_out

    def forward(self, fd, kind):
        """Passes on what is there; False at the end of the stream."""
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if data:
            self.port.send(kind, data)
        return bool(data)

    def on_console(self, request):
        """A command on the person's terminal."""
        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 1)

        fd = os.open("/dev/hvc0", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", *request["size"], 0, 0))
        env, account = self.environment(request["user"], request["env"])
        child = subprocess.Popen(request["argv"], env=env, cwd=account.pw_dir, stdin=fd, stdout=fd, stderr=fd, start_new_session=True,
                                 preexec_fn=own_terminal)
        os.close(fd)
        return child

    def service(self, name, argv, user="root", extra=None):
        """Starts something that stays, with a log in /run/lab."""
        os.makedirs(LOGS, exist_ok=True)
        with open(f"{LOGS}/{name}.log", "ab") as log:
            try:
                child = self.popen(argv, user, extra, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except OSError as error:
                raise Failure(f"cannot start {name} in the guest", str(error), "check that it is built and part of the image") from error
        self.services[name] = child
        return child

    def wait_for(self, name, condition, limit_s, what):
        """Waits until a service has done its part; Failure when it ended or took too long."""
        deadline = time.monotonic() + limit_s
        child = self.services[name]
        while not condition():
            log = read(f"{LOGS}/{name}.log")[-3000:]
            if child.poll() is not None:
                raise Failure(f"{name} ended before {what} (status {child.returncode})", f"its log:\n{log}", "./lab shell, then start it by hand")
            if time.monotonic() > deadline:
                late = f"{name}: {what} did not happen within {limit_s:.0f} s of the guest's time"
                raise Failure(late, f"its log:\n{log}", "./lab shell, then start it by hand")
            time.sleep(0.05)

    def hello(self, _request):
        """Tells that the guest is up: under systemd, when it has started all it starts."""
        if os.path.isdir("/run/systemd/system"):
            subprocess.run(["systemctl", "is-system-running", "--wait"], check=False, stdout=subprocess.DEVNULL)
        return {}

    def begin(self, request):
        """Takes the disk of this run into use; up to here the machine was the same for every run."""
        with open("/dev/urandom", "wb", buffering=0) as pool:
            pool.write(f"variation {request['variation']}".encode())
            fcntl.ioctl(pool, RESEED)
        time.sleep(request["variation"] * SHIFT_MS % PERIOD_MS / 1000)
        # Under systemd, memory lies over the root file system and it is writable from the start.
        writable = [] if not os.statvfs("/").f_flag & os.ST_RDONLY else [["mount", "-o", "remount,rw", "/"]]
        for command in (*writable, ["mount", "-t", "ext4", "-o", "noatime", "/dev/vdc", "/mnt"],
                        ["mount", "--bind", "/mnt/in", "/root/in"], ["mount", "--bind", "/mnt/bin", "/usr/local/bin"]):
            subprocess.run(command, check=True)
        # Whoever runs the command may read what came in, and leave something.
        os.chmod("/root", 0o711)
        os.chmod("/root/out", 0o1777)
        return {"release": os.uname().release, "ops": read(OPS)}

    def scheduler(self, request):
        """Loads a scheduler and waits until it is in charge."""
        argv = request["argv"]
        if not os.path.exists(STATE):
            raise Failure("cannot load a scheduler", "this kernel has no sched_ext", "boot another kernel (--kernel)")
        self.service("scheduler", argv)
        self.wait_for("scheduler", lambda: read(STATE) == "enabled", SCHEDULER_LIMIT_S, "taking charge")
        return {}

    def desktop(self, request):
        """Starts the X server and the window manager as the ordinary user."""
        display, screen = request["display"], request["screen"]
        if os.path.isdir("/run/systemd/system"):
            subprocess.run(["systemctl", "start", "user@1000.service"], check=True)
        cookie = "/home/person/.Xauthority"
        subprocess.run(["runuser", "-u", "person", "--", "xauth", "-f", cookie, "add", ":0", "MIT-MAGIC-COOKIE-1", os.urandom(16).hex()],
                       check=True, capture_output=True, env={**BASE_ENV, "HOME": "/home/person"})
        if display == "xorg":
            argv = ["/usr/lib/xorg/Xorg", ":0", "-config", "/lab/guest/xorg.conf", "-auth", cookie, "-nolisten", "tcp", "-novtswitch", "-sharevts",
                    "-noreset", "-logfile", f"{LOGS}/Xorg.0.log"]
            self.service("desktop", argv)
        else:
            argv = ["Xvfb", ":0", "-screen", "0", f"{screen}x24", "-auth", cookie, "-nolisten", "tcp", "-noreset"]
            self.service("desktop", argv, user="person")
        self.env |= {"DISPLAY": ":0", "XAUTHORITY": cookie}
        self.wait_for("desktop", lambda: os.path.exists("/tmp/.X11-unix/X0"), DESKTOP_LIMIT_S, "opening the display")
        # It announces itself seconds before it is ready, and windows that come in between are lost to it: it says when it is.
        ready = "/tmp/.openbox-is-ready"
        self.service("openbox", ["openbox", "--startup", f"touch {ready}"], user="person")
        self.wait_for("openbox", lambda: os.path.exists(ready), DESKTOP_LIMIT_S, "managing windows")
        os.unlink(ready)
        return {}

    def fetch(self, request):
        """Sends the contents of a directory."""
        agent = self

        class Pieces:
            def write(self, data):
                for start in range(0, len(data), CHUNK_BYTES):
                    agent.port.send("D", bytes(data[start:start + CHUNK_BYTES]))
                return len(data)

        if not os.path.isdir(request["path"]):
            raise Failure(f"cannot fetch {request['path']}", "there is no such directory in the guest", "check the path")
        with tarfile.open(fileobj=Pieces(), mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(os.listdir(request["path"])):
                archive.add(os.path.join(request["path"], name), arcname=name, filter=plain_only)
        return {}

    def take(self, destination):
        """Unpacks what the laboratory sends."""
        packed = io.BytesIO()
        while True:
            kind, data = self.port.receive()
            if kind == "E":
                break
            packed.write(data)
        packed.seek(0)
        os.makedirs(destination, exist_ok=True)
        with tarfile.open(fileobj=packed, mode="r") as archive:
            archive.extractall(destination, filter="fully_trusted")
        return {}

    def serve(self):
        """Takes requests for ever."""
        while True:
            kind, data = self.port.receive()
            if kind == "R":
                self.run(json.loads(data))
                continue
            try:
                if kind == "P":
                    reply = self.take(data.decode())
                else:
                    request = json.loads(data)
                    reply = self.operations[request["op"]](request)
            except Failure as failure:
                what, why, fix = failure.args
                reply = {"error": what, "reason": why, "fix": fix}
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                reply = {"error": "the guest could not do what the laboratory asked", "reason": str(error), "fix": "./lab shell, and try it by hand"}
            self.port.send_json("X", reply)


def plain_only(member):
    """Leaves out sockets and devices, and links, which would not mean the same outside."""
    return member if member.isfile() or member.isdir() else None


def stay_in_charge():
    """Real-time for the agent alone (SCHED_RESET_ON_FORK), and its memory kept resident."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    ctypes.CDLL(None).mlockall(3)


def main():
    port = Port(os.open(find_port("lab.agent"), os.O_RDWR))
    stay_in_charge()
    Agent(port).serve()


if __name__ == "__main__":
    main()
