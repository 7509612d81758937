# SPDX-License-Identifier: MIT
"""Turns coop.h into coop/_abi.py, so that nothing of it is typed twice: `generate.py coop.h OUTPUT`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

#: C types of the header by their ctypes names. Pointers to what is opaque are addresses.
TYPES = {
    "int": "c_int",
    "int64_t": "c_int64",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "void *": "c_void_p",
    "struct coop *": "c_void_p",
    "struct coop **": "POINTER(c_void_p)",
    "struct coop_event *": "POINTER(Event)",
    "coop_callback": "CALLBACK",
    # Bytes, and a buffer of bytes.
    "const struct coop_token *": "c_void_p",
    "struct coop_token *": "c_void_p",
}


def type_of(text: str) -> str:
    """The ctypes name of a C type; an unknown one ends the build."""
    text = re.sub(r"\s*(\*+)$", r" \1", text.strip())
    if text.startswith("enum "):
        return "c_int"
    if text not in TYPES:
        raise SystemExit(f"generate.py: no ctypes counterpart of '{text}'\n  reason: coop.h has a new type\n  fix: add it to TYPES")
    return TYPES[text]


def split(declaration: str) -> tuple[str, str]:
    """(type, name) of a declaration; an array's name keeps its bounds."""
    kind, name = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\d+\])?)", declaration.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    return kind, name


def fields(body: str) -> list[str]:
    """The fields of a struct, in order."""
    lines = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, name = split(declaration)
        bare, _, bound = name.partition("[")
        lines.append(f'    ("{bare}", {type_of(kind)}{" * " + bound[:-1] if bound else ""}),')
    return lines


def generate(header: str) -> str:
    """The module."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    out = ['"""Made from coop.h by generate.py."""', "", "from ctypes import CFUNCTYPE, POINTER, Structure"]
    out += ["from ctypes import c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p", ""]
    out += [f"{name} = {value}" for name, value in re.findall(r"^\s*(COOP_\w+) = (\d+),", code, re.MULTILINE)]
    out += [f"{name} = {value}" for name, value in re.findall(r"^#define (COOP_\w+) (\d+)u$", code, re.MULTILINE)]
    assert "#define COOP_NEVER UINT64_MAX" in code
    out += ["COOP_NEVER = 2**64 - 1", "", "", "class Event(Structure):", '    """struct coop_event."""', "", ""]
    out += ["CALLBACK = CFUNCTYPE(None, c_void_p, POINTER(Event))"]
    body = re.search(r"^struct coop_event \{(.*?)^\};", code, re.MULTILINE | re.DOTALL)
    out += ["Event._fields_ = [", *fields(body[1]), "]", "", "#: Result and arguments of each function.", "FUNCTIONS = {"]  # type: ignore[index]
    for result, name, arguments in re.findall(r"^COOP_PUBLIC (.*?)(\w+)\((.*?)\);", code, re.MULTILINE | re.DOTALL):
        kinds = [] if arguments == "void" else [type_of(split(one)[0]) for one in arguments.split(",")]
        out.append(f'    "{name}": ({type_of(result)}, [{", ".join(kinds)}]),')
    return "\n".join([*out, "}", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(generate(Path(sys.argv[1]).read_text()))
