"""What a follower on a host sends, taken apart. Pure: bytes in, frames out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_LONGEST = 4096


class FrameError(ValueError):
    """The stream does not hold frames: something else writes to the follower's output."""


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of the source, in order; a frame on the wire may come in several pieces."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A frame without data: its letter and its words. ``X`` carries its text as the only word."""

    kind: str
    words: tuple[str, ...] = ()


class Frames:
    """Takes a byte stream apart, however it is cut into reads."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._text: bytes | None = None

    def feed(self, data: bytes) -> Iterator[Data | Note]:
        """The frames, or pieces of them, that ``data`` holds. Raises ``FrameError``."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                if self._text is None:
                    yield Data(piece)
                    continue
                self._text += piece
                if not self._left:
                    yield Note("X", (self._text.decode("utf-8", "replace"),))
                    self._text = None
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._head += data[at:]
                if len(self._head) > _LONGEST:
                    raise FrameError(repr(self._head[:80]))
                return
            head, self._head = self._head + data[at:end], b""
            at = end + 1
            note = self._begin(head)
            if note is not None:
                yield note

    def _begin(self, head: bytes) -> Note | None:
        kind, *words = head.decode("ascii", "replace").split(" ") if head else [""]
        if kind in ("D", "X") and len(words) == 1 and words[0].isdigit():
            self._left = int(words[0])
            self._text = b"" if kind == "X" else None
            return None
        if len(kind) != 1 or not kind.isupper() or kind in "DX":
            raise FrameError(repr(head[:80]))
        return Note(kind, tuple(words))
