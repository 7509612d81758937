#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The smallest program with both kinds of work: a frame is shown every 20 ms, at its time, and in between the next ones are decoded, the most
important first, in pieces well below 1 ms (Figure 3 of the paper, without the video). It is examples/plain.c."""

from __future__ import annotations

import coop

FRAMES = 10
PIECES = 40
FRAME_NS = 20_000_000


class Frame:
    """One of the film."""

    def __init__(self, scheduler: coop.Coop, number: int, start_ns: int) -> None:
        self.scheduler, self.number, self.pieces_done = scheduler, number, 0
        self.decoding = scheduler.best_effort(number, self.decode)
        scheduler.timer(start_ns + (number + 1) * FRAME_NS, self.display)

    def decode(self) -> int | None:
        """About 0.1 ms of work."""
        end_ns = coop.now_ns() + 100_000
        while coop.now_ns() < end_ns:
            pass
        self.pieces_done += 1
        return self.number if self.pieces_done < PIECES else None

    def display(self, release_ns: int) -> None:
        """Not decoded in time: it is dropped, and its decoding with it. Nobody had to estimate anything."""
        tardiness_ns = coop.now_ns() - release_ns
        if self.decoding.cancel():
            print(f"frame {self.number} dropped after {self.pieces_done} of {PIECES} pieces")
        else:
            print(f"frame {self.number} shown {tardiness_ns // 1000} us late")
        if self.number == FRAMES - 1:
            self.scheduler.stop()


def main() -> None:
    """Ten frames."""
    with coop.Coop() as scheduler:
        start_ns = coop.now_ns()
        for number in range(FRAMES):
            Frame(scheduler, number, start_ns)
        scheduler.run()
        error = coop.promise_error()
    print(f"no promise ({error.strerror}): timing as the kernel gives it" if error else "limelight kept the releases")


if __name__ == "__main__":
    main()
