"""Secrets, user names, host names and addresses masked in a text, the same value by the same mark. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

_SECRETS = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"\b(?:sk|ghp|gho|github_pat|nvapi|xox[bp])[-_][A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)(?<=bearer )(?!\[secret-)[\w.~+/=-]{6,}"),
    re.compile(
        r"(?i)(?:(?<=token[=:])|(?<=token: )|(?<=token': ')|(?<=api[-_]key[=:'\" ])|(?<=api[-_]key': ')"
        r"|(?<=api[-_]key': \[')|(?<=password[=:])|(?<=secret[=:])|(?<=_KEY=)|(?<=_TOKEN=))(?!\[secret-)[^\s'\",\]})]{4,}"
    ),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"),
)
_NAMED = re.compile(
    r"""(?ix)
    (?P<name>
      [\w-]* (?:passwords?|passwd|secret|access_key|private_key|credential) [\w-]*
      ['"]? \s*[:=]\s* (?!\[secret-) \[?['"]?
    )
    (?P<value> (?!\[secret-) [^\s'",\]})]{4,} )"""
)
"""A value that a word of secrets stands before, as in a shell, YAML, JSON or Python."""
_HOME = re.compile(r"(?<=/home/)[^/\s'\":,)]+|(?<=/Users/)[^/\s'\":,)]+|(?<=\\Users\\)[^\\\s'\":,)]+")
_LOGIN = re.compile(r"\b(?P<user>[a-z_][a-z0-9_-]{0,31})@(?:(?=\d)|(?P<host>[a-z][\w.-]*)(?=[:\s]|$))")
_V4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{3,45}(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_KEPT = {"0.0.0.0", "127.0.0.1", "127.0.1.1", "::", "::1"}


_COMMON = {"head", "worker", "localhost", "host", "node", "serve", "vllm", "ray", "kernel"}
"""Words that name a role or a program; as a host's name they tell nothing of anybody."""


class Mask:
    """Marks given out so far: a value met again gets the mark it had. ``hosts`` are the hosts' own names."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._marks: dict[tuple[str, str], str] = {}
        names = sorted(
            {name for name in hosts if len(name) > 1 and name.lower() not in _COMMON}, key=len, reverse=True
        )
        words = "|".join(map(re.escape, names))
        self._hosts = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") if names else None

    def _mark(self, kind: str, value: str) -> str:
        count = sum(known == kind for known, _ in self._marks) + 1
        return self._marks.setdefault((kind, value), f"[{kind}-{count}]")

    def text(self, text: str) -> str:
        """``text`` with what is private masked."""
        for pattern in _SECRETS:
            text = pattern.sub(lambda match: self._mark("secret", match[0]), text)
        text = _NAMED.sub(lambda match: match["name"] + self._mark("secret", match["value"]), text)
        text = _HOME.sub(lambda match: self._mark("user", match[0]), text)
        text = _LOGIN.sub(self._login, text)
        text = _MAC.sub(lambda match: self._mark("mac", match[0].lower()), text)
        if self._hosts is not None:
            text = self._hosts.sub(lambda match: self._host(match[0]), text)
        text = _V4.sub(lambda match: self._address(match[0]), text)
        return _V6.sub(lambda match: self._address(match[0]), text)

    def _login(self, match: re.Match[str]) -> str:
        host = match["host"] or ""
        named = self._mark("host", host) if host and host.lower() not in _COMMON else host
        return f"{self._mark('user', match['user'])}@{named}"

    def _host(self, name: str) -> str:
        try:
            return self._mark("address", str(ip_address(name)))
        except ValueError:
            return self._mark("host", name)

    def _address(self, text: str) -> str:
        try:
            address = str(ip_address(text))
        except ValueError:
            return text
        return text if address in _KEPT else self._mark("address", address)
