# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machine laboratory: see `vmlab.machine` for its interface, `vmlab.cli` for its command line."""
