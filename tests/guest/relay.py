# SPDX-License-Identifier: GPL-2.0-only
"""relay.py TTY: for each line typed in its own terminal it wakes another one at once, with nothing to see, and 0.3 s later shows something there."""

import sys
import time

with open(sys.argv[1], "wb", buffering=0) as other:
    for _ in sys.stdin:
        other.write(b"\0")
        time.sleep(0.3)
        other.write(b"x" * 300)
