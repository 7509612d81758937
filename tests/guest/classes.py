# SPDX-License-Identifier: GPL-2.0-only
"""Prints, as JSON, the class of each rated process as the scheduler in the kernel holds it now, by name: the daemon hears of what the
scheduler lends and bequeaths by itself only with its next pass. With a number of seconds, a list of what was held during those."""

import json
import subprocess
import sys
import time
from pathlib import Path


def held() -> dict[str, str]:
    """The classes at this moment."""
    classes = {}
    for entry in json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "name", "ratings"], capture_output=True, text=True, check=True).stdout):
        tgid, rating = entry["formatted"]["key"], entry["formatted"]["value"]
        comm = Path(f"/proc/{tgid}/comm")
        if comm.exists():
            classes[comm.read_text().strip()] = "HUCIN" if rating["in_milli"] else "HUCOUT" if rating["out_milli"] else "OTHER"
    return classes


def main() -> None:
    """Looks once, or again and again for the seconds named."""
    if len(sys.argv) == 1:
        print(json.dumps(held()))
        return
    until = time.monotonic() + float(sys.argv[1])
    history = []
    while time.monotonic() < until:
        history.append(held())
    print(json.dumps(history))


main()
