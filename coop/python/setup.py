# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the version is limelight's, and one module is made from coop.h."""

import sys
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from generate import generate  # noqa: E402


class Build(build_py):
    """Puts coop/_abi.py beside the others."""

    def run(self) -> None:
        """After what setuptools copies."""
        super().run()
        made = Path(self.build_lib) / "coop/_abi.py"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(generate((HERE.parent / "include/coop.h").read_text()))


cargo = tomllib.loads((HERE.parent.parent / "Cargo.toml").read_text())
setup(version=cargo["workspace"]["package"]["version"], cmdclass={"build_py": Build})
