# SPDX-License-Identifier: MIT
"""The order in which a streamer sends a film, and what it leaves out."""

from __future__ import annotations

import subprocess
from pathlib import Path

from player_programs import FILMS_S, PATIENCE_S, WINDOW, Frame, Viewer, Window, film, make_variable_film, streamer, window_of

FRAME_NS = 40_000_000
#: Two windows beyond the one that is shown (protocol.h).
WINDOWS_AHEAD = 2


def whole(name: str) -> tuple[list[Window], list[Frame]]:
    """All of a film, for a viewer who is always in time."""
    with streamer(film(name)) as (place, _):
        return Viewer(place, f"{name}.mkv").hear_frames(in_time=True)


def test_frames_come_in_order_of_importance() -> None:
    """Each window of a film of seven B frames between anchors has what others need first, in the order of coding, and then the B frames
    so that what is left when the rest is dropped is spread evenly: the middle one, those of the halves, the others. All frames come, each once."""
    windows, frames = whole("calm")
    assert sorted(frame.shown_ns for frame in frames) == [number * FRAME_NS for number in range(25 * FILMS_S)]
    for number, counts, begin_ns, duration_ns in windows:
        mine = [frame for frame in frames if frame.window == number]
        assert [sum(frame.kind == kind for frame in mine) for kind in "IPB"] == list(counts)
        assert "".join(frame.kind for frame in mine).lstrip("I").lstrip("P").strip("B") == ""
        assert [frame.importance for frame in mine] == list(range(len(mine)))
        assert min(frame.shown_ns for frame in mine) == begin_ns
        assert max(frame.shown_ns for frame in mine) == begin_ns + duration_ns - FRAME_NS
        last_i = max([frame.shown_ns for frame in mine if frame.kind == "I"], default=begin_ns - FRAME_NS)
        if counts[2] == 7:
            assert [(frame.shown_ns - last_i) // FRAME_NS for frame in mine if frame.kind == "B"] == [4, 2, 6, 1, 5, 3, 7]
    assert len([window for window in windows if window.frames[2] == 7]) >= 15
    assert [window.begin_ns for window in windows[1:]] == [window.begin_ns + window.duration_ns for window in windows[:-1]]


def shown_times(path: Path) -> list[int]:
    """When the frames of a film are shown, by ffprobe, in ns from the first one on."""
    command = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    times = sorted(round(float(line) * 10**9) for line in done.stdout.split())
    return [time - times[0] for time in times]


def test_windows_do_not_overlap(tmp_path: Path) -> None:
    """Of a film whose frames come at no constant rate each window ends where the next one begins, or before, and has all of its frames within; the frames
    keep their times, to the microsecond. So do the windows of a film that has no times at all, whose frames are all of one moment."""
    for name, is_timed in (("variable.mp4", True), ("untimed.h264", False)):
        make_variable_film(tmp_path / name, is_timed=is_timed)
        with streamer(tmp_path / name) as (place, _):
            windows, frames = Viewer(place, name).hear_frames(in_time=True)
        assert len(windows) >= 3 and len(frames) == 140
        assert [(one, next) for one, next in zip(windows, windows[1:]) if next.begin_ns < one.begin_ns + one.duration_ns] == []
        for number, _, begin_ns, duration_ns in windows:
            mine = [frame.shown_ns for frame in frames if frame.window == number]
            assert begin_ns == min(mine) and max(mine) < begin_ns + duration_ns
        if is_timed:
            assert max(abs(a - b) for a, b in zip(sorted(frame.shown_ns for frame in frames), shown_times(tmp_path / name), strict=True)) < 1000


def test_what_a_frame_needs_is_told() -> None:
    """I frames count the groups; references count from their I frame; a B frame has the number of the last reference of its window."""
    _, frames = whole("calm")
    group = reference = 0
    for frame in frames:
        if frame.kind == "I":
            group, reference = group + 1, 0
        elif frame.kind == "P":
            reference += 1
        assert (frame.group, frame.reference) == (group, reference)
    assert group == -(-25 * FILMS_S // 48)


def test_the_order_can_be_decoded() -> None:
    """The frames as they were sent, one behind the other, are a film that ffmpeg decodes without a complaint: reordering B frames harms none."""
    _, frames = whole("busy")
    command = ["ffmpeg", "-v", "warning", "-f", "h264", "-i", "-", "-f", "null", "-"]
    done = subprocess.run(command, input=b"".join(frame.data for frame in frames), capture_output=True, timeout=PATIENCE_S)
    complaints = [line for line in done.stderr.decode().splitlines() if "timestamp" not in line and "not enough frames to estimate rate" not in line]
    assert (done.returncode, complaints) == (0, [])


def test_nobody_is_served_further_than_he_asked() -> None:
    """Who says nothing, or that the film has not begun, gets two windows, for the rest is of no use yet; who says that the first one is
    being shown gets the third."""
    with streamer(film("calm")) as (place, _):
        viewer = Viewer(place, "calm.mkv")
        viewer.tell(0)
        viewer.socket.settimeout(1)
        assert [window.number for window in viewer.hear_frames()[0]] == [0, 1]
        viewer.tell(1)
        viewer.socket.settimeout(PATIENCE_S)
        kind, body = viewer.hear()
        assert kind == WINDOW and window_of(body).number == WINDOWS_AHEAD


def test_what_is_too_late_is_not_sent() -> None:
    """A viewer who is always at the film's end is told of every window, but gets frames of the last one only, without its B frames: those are
    too late when their window begins, references when it is over, and what needs one that was left out is left out."""
    with streamer(film("calm")) as (place, _):
        viewer = Viewer(place, "calm.mkv")
        viewer.tell(FILMS_S * 10**9 - 1)
        windows, frames = viewer.hear_frames()
    assert sum(sum(window.frames) for window in windows) == 25 * FILMS_S
    # Before it is heard, two windows may have been sent.
    late = [frame for frame in frames if frame.window >= WINDOWS_AHEAD]
    assert [(frame.window, frame.kind) for frame in late] == [(windows[-1].number, "I"), (windows[-1].number, "P")]


def test_after_a_lost_reference_an_i_frame_comes_next() -> None:
    """A viewer who was away from the second window of the first group to its last gets nothing of it any more, but what is in time of the next."""
    with streamer(film("calm")) as (place, _):
        viewer = Viewer(place, "calm.mkv")
        # In the window that begins with frame 41, the last of the first group: all before were over.
        viewer.tell(42 * FRAME_NS)
        viewer.socket.settimeout(2)
        _, frames = viewer.hear_frames()
    late = [frame for frame in frames if frame.window >= WINDOWS_AHEAD]
    assert late and late[0].kind == "I" and all(frame.group == 2 for frame in late)
