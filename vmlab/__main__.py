# SPDX-License-Identifier: GPL-2.0-only
"""`python -m vmlab`: what `./lab` runs."""

import sys

from vmlab.cli import main

sys.exit(main())
