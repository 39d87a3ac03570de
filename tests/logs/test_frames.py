"""Frames survive any cutting of the stream into reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.logs.frames import Data, FrameError, Frames, Note

FRAME = st.one_of(
    st.binary(min_size=1, max_size=300),
    st.sampled_from([Note("H"), Note("W"), Note("F", ("1", "2", "3")), Note("X", ("no\nway: é",))]),
)


def wire(frame: bytes | Note) -> bytes:
    if isinstance(frame, bytes):
        return b"D %d\n" % len(frame) + frame
    if frame.kind == "X":
        text = frame.words[0].encode()
        return b"X %d\n" % len(text) + text
    return " ".join((frame.kind, *frame.words)).encode() + b"\n"


@given(frames=st.lists(FRAME, max_size=12), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_any_cutting(frames: list[bytes | Note], cuts: list[int]) -> None:
    stream = b"".join(wire(frame) for frame in frames)
    reader, found, at, turn = Frames(), list[Data | Note](), 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += reader.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert b"".join(frame.data for frame in found if isinstance(frame, Data)) == b"".join(
        frame for frame in frames if isinstance(frame, bytes)
    )
    assert [frame for frame in found if isinstance(frame, Note)] == [
        frame for frame in frames if isinstance(frame, Note)
    ]


@pytest.mark.parametrize("noise", [b"Welcome to Ubuntu\n", b"\n", b"D\n", b"D x\n", b"x" * 5000])
def test_what_is_no_frame_is_refused(noise: bytes) -> None:
    with pytest.raises(FrameError):
        list(Frames().feed(noise))
