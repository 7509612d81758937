# SPDX-License-Identifier: GPL-2.0-only
"""A desktop to take a picture of: a film, vim typed into, and top telling of the load beside them. scene.py LOAD COUNT FILE."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import apps
import desk
from desk_tasks import Stage

#: Above the load, as the instruments of the experiments: one of twelve processes that share what a film leaves, the program that takes the
#: picture would be at it for minutes.
ABOVE = ("chrt", "-f", "50")
#: What the person types, character by character.
WORDS = "What the person is attending to runs first."


def type_words() -> None:
    """Types WORDS into the editor, 8 characters a second."""
    subprocess.run([*ABOVE, "xdotool", "search", "--name", "^vim$", "windowfocus"], check=True, stdout=subprocess.DEVNULL)
    for number, line in enumerate(WORDS.split("\\n")):
        keys = ["key", "Return"] if number else []
        subprocess.run([*ABOVE, "xdotool", *keys, "type", "--delay", "125", line], check=True)


def main() -> None:
    """Sets the scene and writes the picture."""
    load, count, picture = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    picture.parent.mkdir(parents=True, exist_ok=True)
    desk.become_instrument()
    with Stage() as stage:
        stage.take(apps.film("small", position="+500+20").group)
        stage.take(apps.editor("vim").group)
        stage.group("top").start("xterm", "-T", "top", "-geometry", "80x18+40+440", "-e", "top", "-d", "2")
        time.sleep(apps.WARM_UP_S)
        stage.take(desk.start_load(load, count, 1))
        type_words()
        subprocess.run([*ABOVE, "import", "-window", "root", str(picture)], check=True)


if __name__ == "__main__":
    main()
