"""Queries and filters as they are typed at a log."""

from __future__ import annotations

from cockpit.logs.filters import LEVELS, Filter
from cockpit.logs.search import Query


def read_query(text: str) -> Query:
    """A query as it is typed: ``/.../`` is a regular expression; capitals make case count."""
    regex = len(text) > 2 and text.startswith("/") and text.endswith("/")
    pattern = text[1:-1] if regex else text
    return Query(pattern, regex, pattern != pattern.lower())


def read_filter(text: str) -> Filter:
    """A filter as it is typed: words with a colon are conditions, the rest is searched for."""
    rest: list[str] = []
    processes: set[str] = set()
    ranks: set[int] = set()
    level = address = ""
    for word in text.split(" "):
        key, _, value = word.partition(":")
        known = next((name for name in LEVELS if value and name.startswith(value.upper())), "")
        if key == "level" and known:
            level = known
        elif key == "process" and value:
            processes.add(value)
        elif key == "rank" and value.isdecimal():
            ranks.add(int(value))
        elif key == "host" and value:
            address = value
        else:
            rest.append(word)
    words = " ".join(rest).strip()
    invert = words.startswith("!") and len(words) > 1
    query = read_query(words[1:] if invert else words) if words else None
    return Filter(query, invert, frozenset(processes), frozenset(ranks), level, address)
