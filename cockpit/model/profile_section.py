"""Reading one mapping of a profile: every question gives a usable value and notes what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from cockpit.model import profile_flags as flags_
from cockpit.model import profile_words as words
from cockpit.model.profile import FlagValue, Place
from cockpit.model.profile_error import Mistake, nearest
from cockpit.model.profile_nodes import Map, Node, Scalar
from cockpit.model.profile_nodes import Sequence as List

Path = tuple[str | int, ...]
Check = Callable[[str], str]


def spell(path: Path) -> str:
    """A path as the messages write it: ``hosts[0].fabric``; the whole file is "the profile"."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the profile"


def kind(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Map):
        return "a mapping"
    if isinstance(node, List):
        return "a list"
    if node.value is None:
        return "nothing"
    shown = node.text if len(node.text) <= 40 else node.text[:39] + "…"
    if isinstance(node.value, bool):
        return f"the switch {shown}"
    return f"the number {shown}" if isinstance(node.value, int | float) else f'"{shown}"'


class Notes:
    """The mistakes found so far, and the place of every key and list item."""

    def __init__(self, file: str, mistakes: Sequence[Mistake] = ()) -> None:
        self.file = file
        self.mistakes = list(mistakes)
        self.places: dict[Path, Place] = {}

    def mistake(self, place: Place, message: str, right: str = "") -> None:
        """Note a mistake."""
        self.mistakes.append(Mistake(place, message, right))

    def record(self, node: Node, path: Path) -> None:
        """Remember where everything below ``path`` stands; a key's place is the key's own."""
        if isinstance(node, Map):
            for key, entry in node.entries.items():
                self.places[(*path, key)] = entry.place
                self.record(entry.node, (*path, key))
        elif isinstance(node, List):
            for index, item in enumerate(node.items):
                self.places[(*path, index)] = item.place
                self.record(item, (*path, index))


class Section:
    """A mapping with known keys. Wrong values are noted, and the default is given for them."""

    def __init__(
        self, notes: Notes, node: Map, path: Path, keys: Sequence[str], required: Sequence[str] = ()
    ) -> None:
        self.notes = notes
        self.map = node
        self.path = path
        meant = set()
        for key, entry in node.entries.items():
            if key not in keys:
                message = f"{spell(path)} has no key `{key}`; its keys are {', '.join(keys)}."
                right = nearest(key, keys)
                meant.add(right)
                notes.mistake(entry.place, message, right)
        for key in required:
            # A key that is there under a misspelt name is one mistake, not two.
            if key not in node.entries and key not in meant:
                notes.mistake(node.place, f"{spell(path)} needs the key `{key}`.")

    def node(self, key: str) -> Node | None:
        """The value of ``key``; None where the key is missing."""
        entry = self.map.entries.get(key)
        return entry.node if entry else None

    def place(self, key: str) -> Place:
        """Where ``key`` stands, else where the mapping begins."""
        entry = self.map.entries.get(key)
        return entry.place if entry else self.map.place

    def expected(self, key: str, what: str, node: Node, right: str = "") -> None:
        """Note that ``key`` holds something else than ``what``."""
        self.notes.mistake(
            node.place, f"{spell((*self.path, key))}: expected {what}, found {kind(node)}.", right
        )

    def text(self, key: str, default: str = "", check: Check | None = None, *, lines: bool = False) -> str:
        """A text, not empty, that ``check`` has nothing against."""
        node = self.node(key)
        if node is None:
            return default
        return self.word(key, node, check, lines=lines) or default

    def word(self, key: str, node: Node, check: Check | None = None, *, lines: bool = False) -> str:
        """The text of ``node``; "" after noting why it is none."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            quotes = isinstance(node, Scalar) and node.value is not None
            self.expected(key, "text" + (" (put quotes around it)" if quotes else ""), node)
            return ""
        wrong = words.printable(node.value, lines=lines)
        wrong = wrong or ("" if node.value.strip() else "text") or (check(node.value) if check else "")
        if wrong:
            self.expected(key, wrong, node)
            return ""
        return node.value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of ``choices``, "" where it is none of them or missing."""
        node = self.node(key)
        if node is None:
            return ""
        if isinstance(node, Scalar) and node.value in choices:
            return str(node.value)
        right = nearest(node.text, choices) if isinstance(node, Scalar) else ""
        self.expected(key, " or ".join(f"`{choice}`" for choice in choices), node, right)
        return ""

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        node = self.node(key)
        if node is None:
            return default
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.expected(key, f"a whole number from {low} to {high}", node)
        return default

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """A number from ``low`` to ``high``; NaN and infinities are in no range."""
        node = self.node(key)
        if node is None:
            return default
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        self.expected(key, f"a number from {low:g} to {high:g}", node)
        return default

    def size(self, key: str, default: int, low: int, high: int) -> int:
        """Bytes: a whole number, or a number with KiB, MiB, GiB or TiB, from ``low`` to ``high``."""
        node = self.node(key)
        if node is None:
            return default
        value = words.size(node.value) if isinstance(node, Scalar) else None
        if value is not None and low <= value <= high:
            return value
        self.expected(key, f"bytes from {low} to {high}, or a size such as 8GiB", node)
        return default

    def items(self, key: str) -> tuple[Node, ...]:
        """The items of a list; none for a missing key or an empty value."""
        node = self.node(key)
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return ()
        if isinstance(node, List):
            return node.items
        self.expected(key, "a list", node)
        return ()

    def words(self, key: str, check: Check | None = None) -> tuple[str, ...]:
        """A list of texts; those noted as wrong are left out, and one that comes twice is noted."""
        found: list[str] = []
        for index, node in enumerate(self.items(key)):
            word = self.word(f"{key}[{index}]", node, check)
            if word and word in found:
                self.notes.mistake(node.place, f"{spell((*self.path, key))} has `{word}` twice.")
            elif word:
                found.append(word)
        return tuple(found)

    def mapping(self, key: str) -> Map | None:
        """A mapping; None for a missing key or an empty value."""
        node = self.node(key)
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return None
        if isinstance(node, Map):
            return node
        self.expected(key, "a mapping", node)
        return None

    def section(self, key: str, keys: Sequence[str], required: Sequence[str] = ()) -> Section | None:
        """A mapping with known keys."""
        node = self.mapping(key)
        return Section(self.notes, node, (*self.path, key), keys, required) if node else None

    def env(self, key: str = "env") -> Mapping[str, str]:
        """Environment variables; numbers count as they are written."""
        node = self.mapping(key)
        found: dict[str, str] = {}
        for variable, entry in node.entries.items() if node else ():
            where = spell((*self.path, key, variable))
            if wrong := words.env_name(variable):
                self.notes.mistake(
                    entry.place, f"{spell((*self.path, key))}: expected {wrong}, found `{variable}`."
                )
            elif wrong := flags_.env_mistake(entry.node):
                self.notes.mistake(entry.node.place, f"{where}: {wrong}.")
            elif isinstance(entry.node, Scalar):
                if wrong := words.printable(entry.node.text, lines=False):
                    self.notes.mistake(entry.node.place, f"{where}: expected {wrong}.")
                elif words.is_secret(variable) and entry.node.text:
                    message = f"{where}: a secret does not belong in a file; name it in serve.secrets."
                    self.notes.mistake(entry.place, message)
                found[variable] = entry.node.text
        return MappingProxyType(found)

    def flags(
        self, key: str, elsewhere: Mapping[str, str], own: frozenset[str], short: Mapping[str, str]
    ) -> Mapping[str, FlagValue]:
        """Flags. ``elsewhere`` tells which key of the profile a flag is written as, ``own`` which the cockpit
        sets itself, ``short`` the program's short forms."""
        node = self.mapping(key)
        found: dict[str, FlagValue] = {}
        seen: dict[str, str] = {}
        for flag, entry in node.entries.items() if node else ():
            where = spell((*self.path, key, flag))
            wrong, right = flags_.name_mistake(flag, short)
            name = flags_.positive(flag, short)
            if name in elsewhere:
                wrong, right = f"This is written as {elsewhere[name]}", ""
            elif name in own:
                wrong, right = "The cockpit sets this flag itself: leave it out", ""
            if wrong:
                self.notes.mistake(entry.place, f"{where}: {wrong}.", right)
            if name in seen:
                message = (
                    f"{where}: the same flag as `{seen[name]}` in line {self.place_of(key, seen[name]).line}."
                )
                self.notes.mistake(entry.place, message)
            seen.setdefault(name, flag)
            self.flag_value(where, entry.node)
            found[flag] = flags_.plain_value(entry.node)
        return MappingProxyType(found)

    def place_of(self, key: str, flag: str) -> Place:
        """Where a key of the mapping ``key`` stands."""
        node = self.node(key)
        return node.entries[flag].place if isinstance(node, Map) else self.map.place

    def flag_value(self, where: str, node: Node) -> None:
        """Note what no program could read as a flag's value."""
        wrong, right = flags_.value_mistake(node)
        if wrong:
            self.notes.mistake(node.place, f"{where}: {wrong}.", right)
        for scalar in flags_.scalars(node):
            if not flags_.finite(scalar):
                self.notes.mistake(scalar.place, f"{where}: expected a number, found {scalar.text}.")
            elif isinstance(scalar.value, str) and (wrong := words.printable(scalar.value, lines=True)):
                self.notes.mistake(scalar.place, f"{where}: expected {wrong}.")
