# SPDX-License-Identifier: GPL-2.0-only
"""As much of the Python library prometheus_client as the exporter that comes with scx_stats uses, as strict as that one about names.

It lets the exporter go round twice and then ends it, which by itself never ends.
"""

import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
ROUNDS = 2


class CollectorRegistry:
    """The gauges by name, and how often they were written."""

    def __init__(self):
        self.gauges = {}
        self.written = 0


class Gauge:
    """One number."""

    def __init__(self, name, documentation, labelnames, registry):
        if not NAME.fullmatch(name):
            raise ValueError(f"Invalid metric name: {name}")
        if name in registry.gauges:
            raise ValueError(f"Duplicated timeseries in CollectorRegistry: {name}")
        if labelnames:
            raise ValueError(f"{name} has labels: one that is not by itself cannot be read by its name")
        registry.gauges[name] = self
        self.documentation, self.value = documentation, 0.0

    def set(self, value):
        """Takes what was measured."""
        self.value = float(value)


def write_to_textfile(path, registry):
    """Writes every gauge in the text format."""
    registry.written += 1
    if registry.written > ROUNDS:
        raise SystemExit(0)
    with open(path, "w", encoding="utf-8") as file:
        for name, gauge in registry.gauges.items():
            file.write(f"# HELP {name} {gauge.documentation}\n# TYPE {name} gauge\n{name} {gauge.value}\n")
