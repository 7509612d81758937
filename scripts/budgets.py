# SPDX-License-Identifier: GPL-2.0-only
"""Checks the budgets of CONTRIBUTING.md that no compiler checks: lengths of files, of C lines and of C and Python functions, and licence lines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 600
FUNCTION_LINES = 60
CALLBACK_LINES = 40
HEADER_LINES = 400
README_LINES = 150
C_COLUMNS = 150
CODE = {".rs", ".c", ".h", ".py", ".sh"}
PUBLIC_HEADERS = {("abi", "include"), ("coop", "include")}
SPDX = re.compile(r"SPDX-License-Identifier: (GPL-2\.0-only|MIT)\b")


def c_functions(text: str) -> Iterator[tuple[int, str, int]]:
    """(line, first line, length) of each C function, which opens and closes with a brace in the first column."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            yield start - 1, lines[start - 2].strip(), number - start + 1
            start = None


def python_functions(text: str) -> Iterator[tuple[int, str, int]]:
    """(line, name, length) of each Python function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def limit_of(path: Path) -> int:
    """How many lines a file may have."""
    if path.name == "README.md":
        return README_LINES
    return HEADER_LINES if path.parts[:2] in PUBLIC_HEADERS else FILE_LINES


def licence_of(path: Path) -> str:
    """What a file is under: libcoop, the boundary it shares with the scheduler, and its examples, so that anyone may link and copy them."""
    return "MIT" if path.parts[0] in ("coop", "examples") or path.name == "coop_abi.h" else "GPL-2.0-only"


def faults(path: Path, text: str) -> Iterator[str]:
    """What is wrong with one file, as sentences that begin with the place."""
    length = text.count("\n")
    if (path.suffix in CODE or path.name == "README.md") and length > limit_of(path):
        yield f"{path}: {length} lines, at most {limit_of(path)}: split it where it has a second reason to change"
    script = text.startswith("#!")
    licence = SPDX.search("\n".join(text.splitlines()[:4]))
    if text and (path.suffix in CODE or script) and (not licence or licence[1] != licence_of(path)):
        yield f"{path}: no SPDX-License-Identifier in its first lines that says {licence_of(path)}: add it"
    for number, line in enumerate(text.splitlines(), 1) if path.suffix in (".c", ".h") else ():
        if len(line) > C_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, at most {C_COLUMNS}: break the line"
    functions = c_functions(text) if path.suffix in (".c", ".h") else python_functions(text) if path.suffix == ".py" else ()
    for line, name, lines in functions:
        limit = CALLBACK_LINES if "BPF_STRUCT_OPS" in name else FUNCTION_LINES
        if lines > limit:
            yield f"{path}:{line}: {name} has {lines} lines, at most {limit}: give its parts names"


def main() -> int:
    """Looks at every file git knows; prints what is wrong; the status says whether anything is."""
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout.split("\0")
    found = []
    for path in (Path(name) for name in names if name):
        if path.is_file():
            try:
                found += faults(path, path.read_text())
            except UnicodeDecodeError:
                continue  # a picture has no lines
    for line in found:
        print(line)
    print(f"budgets: {len(found)} broken" if found else "budgets: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
