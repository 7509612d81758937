# SPDX-License-Identifier: GPL-2.0-only
"""The guest's agent and the laboratory's end of the line, talking to each other over a socket on this machine."""

import importlib.util
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from vmlab.channel import Channel
from vmlab.errors import LabError

SOURCE = Path(__file__).resolve().parents[1] / "guest" / "agent.py"


@pytest.fixture
def channel():
    """A channel to a real agent in a thread of this process."""
    if os.getuid():
        pytest.skip("the agent runs commands as whom it is told to, which only root may: ./test as root")
    spec = importlib.util.spec_from_file_location("agent", SOURCE)
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    ours, theirs = socket.socketpair()
    served = agent.Agent(agent.Port(theirs.fileno()))
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    yield Channel(ours, lambda: True)
    # The agent waits for ever for its next request: it is a guest's whole life. It goes with this process.
    theirs.detach()


def run(channel, argv, timeout_s=None, env=None, limit_s=20.0):
    """Runs a command through the channel; returns (reply, stdout, stderr)."""
    out = {"stdout": b"", "stderr": b""}

    def sink(name, data):
        out[name] += data

    request = {"argv": argv, "timeout_s": timeout_s, "env": env or {}, "user": "root" if os.getuid() == 0 else os.environ["USER"], "cwd": "/", "tty": False}
    channel.post("R", request)
    reply = channel.follow(request, sink, limit_s)
    return reply, out["stdout"], out["stderr"]


def ends(pid):
    """Whether a process is gone or a zombie within two seconds."""
    for _ in range(40):
        try:
            if Path("/proc", str(pid), "stat").read_text().split()[2] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_output_and_status_come_back_apart(channel):
    """Standard output, standard error and the exit status each arrive as themselves."""
    reply, out, err = run(channel, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (reply["status"], out, err, reply["timed_out"]) == (7, b"out\n", b"err\n", False)


def test_large_output_is_whole(channel):
    """More than a frame and more than a pipe holds arrives complete and in order."""
    _, out, _ = run(channel, ["seq", "200000"])
    assert out == b"".join(b"%d\n" % number for number in range(1, 200001))


def test_signal_is_128_and_its_number(channel):
    """A command ended by SIGKILL has status 137, as in a shell."""
    assert run(channel, ["sh", "-c", "kill -9 $$"])[0]["status"] == 137


def test_command_out_of_time_is_killed_with_its_children(channel, tmp_path):
    """After timeout_s the whole process group is gone, what was printed is kept, and the status is 124."""
    pids = tmp_path / "pids"
    reply, out, _ = run(channel, ["sh", "-c", f"sleep 60 & echo $! > {pids}; echo began; wait"], timeout_s=0.5)
    assert (reply["status"], reply["timed_out"], out) == (124, True, b"began\n")
    assert ends(int(pids.read_text()))


def test_background_process_does_not_hold_the_command(channel):
    """What a command leaves running keeps its output open; the command has ended all the same."""
    reply, out, _ = run(channel, ["sh", "-c", "sleep 5 & echo done"])
    assert reply["status"] == 0 and out == b"done\n" and reply["virtual_s"] < 4


def test_missing_program_is_127(channel):
    """A program that does not exist is the command's failure, not the laboratory's."""
    reply, _, err = run(channel, ["no-such-program-anywhere"])
    assert reply["status"] == 127 and b"no-such-program-anywhere" in err


def test_files_go_in_and_come_out(channel, tmp_path):
    """A directory sent and fetched again is the same, larger than one frame, execute bits included."""
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "big").write_bytes(os.urandom(300_000))
    (tree / "tool").write_text("#!/bin/sh\n")
    (tree / "tool").chmod(0o755)
    channel.send_tree(tree, str(tmp_path / "guest"))
    files = channel.fetch_tree(str(tmp_path / "guest" / "tree"), tmp_path / "back")
    assert sorted(path.name for path in files) == ["big", "tool"]
    assert (tmp_path / "back" / "sub" / "big").read_bytes() == (tree / "sub" / "big").read_bytes()
    assert os.access(tmp_path / "back" / "tool", os.X_OK)


def test_links_do_not_come_out(channel, tmp_path):
    """A symbolic link in /root/out would point at this machine's files: it stays behind."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to("/etc/passwd")
    (tmp_path / "out" / "file").write_text("x")
    assert [path.name for path in channel.fetch_tree(str(tmp_path / "out"), tmp_path / "back")] == ["file"]


def test_missing_directory_is_a_clear_error(channel, tmp_path):
    """Fetching what is not there names it."""
    with pytest.raises(LabError, match="nothing-here"):
        channel.fetch_tree(str(tmp_path / "nothing-here"), tmp_path / "back")


def test_no_sched_ext_is_a_clear_error(channel):
    """On a kernel without sched_ext, or with a scheduler that ends at once, loading one fails with the reason."""
    with pytest.raises(LabError) as caught:
        channel.call({"op": "scheduler", "argv": ["false"]}, 20.0)
    assert "sched_ext" in caught.value.why or "before taking charge" in caught.value.what


def test_silent_guest_is_given_up(channel):
    """A command that outlives the limit of this machine's clock is an error that names it."""
    with pytest.raises(LabError, match="sleep 60"):
        run(channel, ["sleep", "60"], limit_s=1.5)


def test_guest_that_goes_away_is_noticed():
    """The port closing in the middle of a command is an error, not a hang."""
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(LabError):
        run(Channel(ours, lambda: False), ["true"])
