# SPDX-License-Identifier: GPL-2.0-only
"""Prints, as JSON, the class of each rated process as the scheduler in the kernel holds it now, by name: the daemon hears of what the
scheduler lends and bequeaths by itself only with its next pass."""

import json
import subprocess
from pathlib import Path

classes = {}
for entry in json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "name", "ratings"], capture_output=True, text=True, check=True).stdout):
    tgid, rating = entry["formatted"]["key"], entry["formatted"]["value"]
    comm = Path(f"/proc/{tgid}/comm")
    if comm.exists():
        classes[comm.read_text().strip()] = "HUCIN" if rating["in_milli"] else "HUCOUT" if rating["out_milli"] else "OTHER"
print(json.dumps(classes))
