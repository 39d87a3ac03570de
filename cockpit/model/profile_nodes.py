"""A profile's bytes as a tree of nodes that know their places.

YAML 1.2's core schema, read from ruamel.yaml's events (PyYAML can't read ``{text: Why?}``): ``true`` and
``false`` alone are booleans (``yes``, ``on`` and ``off`` stay text), ``1e3`` is a number, ``010`` is ten, dates
are text. Refused, because a profile is
read by people and by a shell: anchors and aliases (so nothing can multiply), tags, several documents, keys
that come twice, more than 16 levels, more than 128 KiB.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from cockpit.model.profile import Place
from cockpit.model.profile_error import Mistake, ProfileError

MAX_BYTES = 128 * 1024
MAX_DEPTH = 16
MAX_DIGITS = 64

_CORE = (
    (re.compile(r"null|Null|NULL|~|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)

ScalarValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value; ``text`` as written, ``plain`` when it stands without quotes."""

    place: Place
    value: ScalarValue
    text: str
    plain: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's place and its value."""

    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Map:
    """A mapping; keys are the text as written."""

    place: Place
    entries: Mapping[str, Entry]


Node = Scalar | Sequence | Map


def compose(data: bytes, file: str) -> tuple[Node | None, list[Mistake]]:
    """The tree of ``data``, None for an empty file, and the mistakes one can read on after (keys that come
    twice). Raises ``ProfileError`` where there is no reading on."""
    composer = _Composer(file)
    text = composer.decode(data)
    composer.newlines = [match.start() for match in re.finditer("\n", text)]
    try:
        composer.events = iter(YAML(typ="safe", pure=True).parse(text))
        return composer.document(), composer.mistakes
    except MarkedYAMLError as error:
        raise composer.syntax(error, text) from error
    except ReaderError as error:
        place = composer.at(error.position)
        character = f"U+{ord(text[error.position]):04X}" if error.position < len(text) else "a character"
        raise ProfileError(file, [Mistake(place, f"{character} is not allowed in YAML.")]) from error
    except (ValueError, OverflowError) as error:
        # chr() and int() inside ruamel.yaml 0.19.1's scanner: "\UFFFFFFFF", a %YAML version of 5,000 digits.
        raise ProfileError(file, [Mistake(Place(file, 1, 1), f"YAML can't be read: {error}.")]) from error


def too_large(file: str, size: int) -> ProfileError:
    """The error for a file of ``size`` bytes, which is more than a profile has."""
    message = f"A profile has at most {MAX_BYTES:,} bytes; this has {size:,}."
    return ProfileError(file, [Mistake(Place(file, 1, 1), message)])


def scalar_value(text: str) -> ScalarValue:
    """What a plain scalar means in YAML 1.2's core schema."""
    if len(text) <= MAX_DIGITS:
        for pattern, convert in _CORE:
            if pattern.fullmatch(text):
                value: ScalarValue = convert(text)
                return value
    return text


class _Composer:
    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.events: Iterator[events.Event] = iter(())
        self.newlines: list[int] = []

    def at(self, index: int) -> Place:
        """The place of a character. Lines end at ``\\n`` alone; the marks count U+2028 and others too."""
        line = bisect.bisect_left(self.newlines, index)
        return Place(self.file, line + 1, index - (self.newlines[line - 1] if line else -1))

    def place(self, mark: Any) -> Place:
        return self.at(mark.index) if mark else Place(self.file, 1, 1)

    def stop(self, place: Place, message: str) -> NoReturn:
        raise ProfileError(self.file, [*self.mistakes, Mistake(place, message)])

    def decode(self, data: bytes) -> str:
        if len(data) > MAX_BYTES:
            raise too_large(self.file, len(data))
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            start = before.rfind(b"\n") + 1
            column = len(before[start:].decode("utf-8", "replace")) + 1
            place = Place(self.file, before.count(b"\n") + 1, column)
            self.stop(place, f"Expected UTF-8; the byte 0x{data[error.start]:02X} is none.")

    def syntax(self, error: MarkedYAMLError, text: str) -> ProfileError:
        """The parser's error; where a tab is to blame, every line that a tab indents."""
        lines = text.split("\n")
        place = self.place(error.problem_mark or error.context_mark)
        tabs = [n for n, line in enumerate(lines, 1) if re.match(r"[ ]*\t[ \t]*\S", line) and n >= place.line]
        if "\t" in (lines[place.line - 1][: place.column] if place.line <= len(lines) else ""):
            message = "YAML is indented with spaces; this line has a tab."
            wrong = [Mistake(Place(self.file, n, lines[n - 1].index("\t") + 1), message) for n in tabs]
            if wrong:
                return ProfileError(self.file, [*self.mistakes, *wrong])
        message = f"YAML can't be read on from here: {error.problem or error.context or 'unknown reason'}"
        if error.context and error.context_mark and error.problem:
            message += f", {error.context} that began in line {self.place(error.context_mark).line}"
        if error.problem == "mapping values are not allowed here":
            message += ' (a value that holds ": " needs quotes)'
        return ProfileError(self.file, [*self.mistakes, Mistake(place, message + ".")])

    def document(self) -> Node | None:
        """The one document of the stream."""
        root: Node | None = None
        seen = False
        for event in self.events:
            if isinstance(event, events.DocumentStartEvent):
                if seen:
                    self.stop(
                        self.place(event.start_mark), "A profile is one YAML document; here a second begins."
                    )
                seen = True
                root = self.node(next(self.events), 1)
        return root

    def node(self, event: events.Event, depth: int) -> Node:
        place = self.place(event.start_mark)
        if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None):
            self.stop(place, "Anchors (&) and aliases (*) are not read in a profile: write the value out.")
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            self.stop(
                place, f"Tags ({tag}) are not read in a profile: leave it out, or put quotes around text."
            )
        if depth > MAX_DEPTH:
            self.stop(place, f"Nested more than {MAX_DEPTH} levels deep.")
        if isinstance(event, events.ScalarEvent):
            plain = event.style is None and tag is None
            text: str = event.value
            return Scalar(place, scalar_value(text) if plain else text, text, plain)
        if isinstance(event, events.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self.events), events.SequenceEndEvent):
                items.append(self.node(event, depth + 1))
            return Sequence(place, tuple(items))
        return self.mapping(place, depth)

    def mapping(self, place: Place, depth: int) -> Map:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self.events), events.MappingEndEvent):
            key = self.node(event, depth + 1)
            value = self.node(next(self.events), depth + 1)
            if not isinstance(key, Scalar):
                self.stop(key.place, "A key is one word, not a list or a mapping.")
            if key.text in entries:
                first = entries[key.text].place.line
                self.mistakes.append(
                    Mistake(
                        key.place, f"The key `{key.text}` stands here a second time (first in line {first})."
                    )
                )
                continue
            entries[key.text] = Entry(key.place, value)
        return Map(place, entries)
