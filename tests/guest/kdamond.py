# SPDX-License-Identifier: GPL-2.0-only
"""Has a kernel thread that takes nearly all of a CPU, without a nice value: DAMON, which many kernels run by themselves with few regions, looks at
the memory with very many. Prints its process id.
"""

import json
import subprocess
import time
from pathlib import Path

DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
#: To look at all of them takes some 15 ms, and begins 1 ms after that has ended.
REGIONS = 20_000


def memory():
    """First and last address of the largest piece."""
    pieces = [line.split(" : ")[0].split("-") for line in Path("/proc/iomem").read_text().splitlines() if line.endswith(": System RAM")]
    return max(([int(bound, 16) for bound in piece] for piece in pieces), key=lambda piece: piece[1] - piece[0])


def main():
    first, last = memory()
    # Only one at a time can look at all memory.
    Path("/sys/module/damon_stat/parameters/enabled").write_text("N")
    (DAMON / "nr_kdamonds").write_text("1")
    (DAMON / "0/contexts/nr_contexts").write_text("1")
    context = DAMON / "0/contexts/0"
    (context / "operations").write_text("paddr")
    for name, value in {"intervals/sample_us": 1_000, "intervals/aggr_us": 1_000_000, "nr_regions/max": 2 * REGIONS, "nr_regions/min": REGIONS}.items():
        (context / "monitoring_attrs" / name).write_text(str(value))
    (context / "targets/nr_targets").write_text("1")
    (context / "targets/0/regions/nr_regions").write_text("1")
    (context / "targets/0/regions/0/start").write_text(str(first))
    (context / "targets/0/regions/0/end").write_text(str(last))
    (DAMON / "0/state").write_text("on")
    time.sleep(0.5)
    print(json.dumps({"pid": int(subprocess.run(["pgrep", "-n", "kdamond"], capture_output=True, text=True, check=True).stdout)}))


main()
