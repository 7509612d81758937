# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory's command line: `./lab setup|exec|shell`, and the experiments' `list|run|report` from `vmlab.commands`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from vmlab import cache, commands, kernels, machine, payload, peers, player
from vmlab.errors import EX_UNAVAILABLE, EX_USAGE, LabError

EPILOG = """exit status of exec and shell:
  the command's own; 124 it ran out of --timeout; 69 the laboratory itself failed; 70 the guest's kernel log has a BUG, a WARNING,
  a stall or a sched_ext error; 64 wrong usage. A message on stderr, after "lab:", says which. That a scheduler was not in charge any
  more when the command ended is said there, too, and is no status: the command may have been to end it."""


class Parser(argparse.ArgumentParser):
    """Wrong usage has an exit status of its own."""

    def error(self, message: str) -> None:
        self.print_usage(sys.stderr)
        self.exit(EX_USAGE, f"lab: {message}\n")


def _machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sched", default="none", metavar="S", help=f"none, eevdf, limelight, {', '.join(peers.VERSION)} (default: none)")
    parser.add_argument("--policy", metavar="P", help=f"limelight's policy: {', '.join(payload.POLICIES)} (default: {payload.POLICIES[0]})")
    parser.add_argument("--sched-arg", action="append", default=[], metavar="WORD", help="one more argument for the scheduler's program; may be repeated")
    parser.add_argument("--cpus", type=int, default=1, metavar="N", help="virtual CPUs (default: 1)")
    parser.add_argument("--llcs", type=int, default=1, metavar="N", help="last-level caches that they share, each as many of them (default: 1)")
    parser.add_argument("--instruction-ns", type=int, choices=machine.INSTRUCTION_NS, metavar="NS", help=machine.INSTRUCTION_HELP)
    parser.add_argument("--memory", type=int, default=2048, metavar="MB", help="memory (default: 2048)")
    parser.add_argument("--kernel", default=kernels.DEFAULT, metavar="K", help=f"series: {', '.join(kernels.SERIES)} (default: {kernels.DEFAULT})")
    parser.add_argument("--desktop", action="store_true", help="start an X server and openbox as the user `person`")
    parser.add_argument("--display", choices=("xvfb", "xorg"), default="xvfb", help="the desktop's X server (default: xvfb)")
    parser.add_argument("--screen", default="1280x720", metavar="WxH", help="size of the xvfb screen (default: 1280x720)")
    parser.add_argument("--fast", action="store_true", help="real time, all host CPUs: for tests of function, never for figures")
    parser.add_argument("--init", choices=("lab", "systemd"), default="lab", help="what boots: the laboratory's script (default), or systemd")
    parser.add_argument("--copy", action="append", default=[], metavar="PATH", help="a file or directory for /root/in; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("results/out"), metavar="DIR", help="where /root/out goes (default: results/out)")
    parser.add_argument("--real-timeout", type=float, default=1800.0, metavar="S", help="seconds on this machine's clock (default: 1800)")
    parser.add_argument("--allow-faults", action="store_true", help="print what the kernel complained about, but do not fail for it")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(prog="lab", description="A virtual machine laboratory for sched_ext schedulers, in virtual time.")
    verbs = top.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    commands.register(verbs)
    setup = verbs.add_parser("setup", help="fetch and build everything the laboratory needs (the other verbs do so when they need it)")
    setup.add_argument("--without-peers", action="store_true", help="leave out the other schedulers")
    setup.add_argument("--root-parts", action="store_true", help="only what needs root, by sudo where this is not root: who gives a password gives it now")
    setup.add_argument("--fetch", action="store_true", help="only fetch and unpack image, QEMU and kernels: what can go on while limelight is built")
    setup.set_defaults(handler=_setup)
    run = verbs.add_parser("exec", help="run a command in a fresh machine", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    _machine_options(run)
    run.add_argument("--user", default="root", metavar="NAME", help="who runs the command: root (default), person")
    run.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds of the guest's time (default: 600)")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --; one word with spaces is given to a shell")
    run.set_defaults(handler=_exec)
    shell = verbs.add_parser("shell", help="a shell in a fresh machine", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    _machine_options(shell)
    shell.set_defaults(handler=_shell)
    return top


def _setup(arguments: argparse.Namespace) -> int:
    if arguments.root_parts:
        payload.root_parts()
        return 0
    root, emulator = payload.fetch(tuple(kernels.SERIES))
    if arguments.fetch:
        return 0
    print(f"image    {root.disk}")
    print(f"qemu     {next(word for word in emulator if word.endswith('qemu-system-x86_64'))}")
    for series, role in kernels.SERIES.items():
        kernel = kernels.get(series, root.busybox)
        print(f"kernel   {series} ({role}): {kernel.release}")
    print(f"player   {player.build()}")
    for name in () if arguments.without_peers else peers.STANDARD:
        print(f"peer     {peers.get(name)}")
    return 0


def _options(arguments: argparse.Namespace, tty: bool = False) -> machine.Options:
    return machine.Options(
        sched=arguments.sched, policy=arguments.policy, sched_args=tuple(arguments.sched_arg), cpus=arguments.cpus, llcs=arguments.llcs,
        instruction_ns=arguments.instruction_ns, memory_mb=arguments.memory, kernel=arguments.kernel, desktop=arguments.desktop, display=arguments.display,
        screen=arguments.screen, fast=arguments.fast, init=arguments.init, copy=tuple(arguments.copy), real_timeout_s=arguments.real_timeout,
        faults="collect" if arguments.allow_faults else "raise", tty=tty,
    )


def _progress(arguments: argparse.Namespace):
    return (lambda _text: None) if arguments.quiet else cache.say


def _pass_on(name: str, data: bytes) -> None:
    stream = sys.stdout.buffer if name == "stdout" else sys.stderr.buffer
    stream.write(data)
    stream.flush()


def _exec(arguments: argparse.Namespace) -> int:
    say = _progress(arguments)
    words = arguments.command
    command = words[0] if len(words) == 1 and " " in words[0] else words
    with machine.boot(_options(arguments), say) as guest:
        result = guest.run(command, timeout_s=arguments.timeout, user=arguments.user, sink=_pass_on)
        if result.timed_out:
            cache.say(f"the command was stopped after {arguments.timeout:.0f} s of the guest's time (--timeout)")
        _bring_back(guest, arguments.out, say)
        if not guest.scheduler_alive():
            cache.say(f"{arguments.sched} is no longer in charge; its log:\n{guest.run('tail -n 20 /run/lab/scheduler.log').stdout}")
        say(f"status {result.status} after {result.virtual_s:.2f} s of the guest's time")
    for line in guest.faults:
        cache.say(f"kernel: {line}")
    return result.status


def _shell(arguments: argparse.Namespace) -> int:
    if not sys.stdin.isatty():
        raise LabError("no shell without a terminal", "standard input is not one", "use ./lab exec for scripts")
    with machine.boot(_options(arguments, tty=True), _progress(arguments)) as guest:
        result = guest.interactive()
        _bring_back(guest, arguments.out, cache.say)
    return result.status


def _bring_back(guest: machine.Machine, out: Path, say) -> None:
    """Fetches /root/out if there is anything in it."""
    if not guest.run(["ls", "-A", "/root/out"]).stdout.strip():
        return
    files = guest.get("/root/out", out)
    say(f"{len(files)} file(s) from /root/out are in {out}")


def main(words: list[str] | None = None) -> int:
    """Runs the laboratory; returns the exit status."""
    arguments = parser().parse_args(words)
    try:
        return arguments.handler(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("lab: interrupted; what was built so far is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_UNAVAILABLE
