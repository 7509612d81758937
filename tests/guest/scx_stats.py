# SPDX-License-Identifier: GPL-2.0-only
"""Asks the scx_stats socket for the values and for their descriptions, as the ecosystem's tools do; prints both as JSON."""

import json
import socket

PATH = "/run/scx/root/stats"
with socket.socket(socket.AF_UNIX) as server:
    server.connect(PATH)
    lines = server.makefile("rw")
    answers = {}
    for request in ("stats", "stats_meta"):
        lines.write(json.dumps({"req": request}) + "\n")
        lines.flush()
        reply = json.loads(lines.readline())
        answers[request] = reply.get("args", {}).get("resp", reply)
print(json.dumps(answers))
