"""What single words of a profile may look like: each check gives "" or what was expected."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}")
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([KMGT])iB")
_SECRET = re.compile(r".*(_TOKEN|_API_KEY|_SECRET|_PASSWORD|_ACCESS_KEY)")


def printable(text: str, *, lines: bool) -> str:
    """No control characters and no lone surrogates; line breaks and tabs only in text of several lines."""
    for character in text:
        if lines and character in "\n\t":
            continue
        if unicodedata.category(character) in ("Cc", "Cs") or character in "\u2028\u2029":
            return f"text without the character U+{ord(character):04X}"
    return ""


def name(text: str) -> str:
    """A name becomes a folder, a container's label and a host name."""
    return "" if NAME.fullmatch(text) else "a name of a-z, 0-9, dot, dash and underscore, at most 64"


def address(text: str) -> str:
    """A host's address: IP, DNS name, ssh_config alias or ``local``."""
    if "@" in text:
        return "an address without a user: write the user as `user:`"
    if ip(text) == "" or _ALIAS.fullmatch(text):
        return ""
    if re.fullmatch(r"[^:]+:\d+|\[.*\]:\d+", text):
        return "an address without a port: write the port as `port:`"
    if text.startswith("[") and text.endswith("]"):
        return "an address without brackets"
    if "%" in text and ip(text.partition("%")[0]) == "":
        return "an address without a zone (%): write it as HostName in ssh_config, its % doubled, and the alias here"
    return "an IP address, a host name, an alias of ssh_config, or `local`"


def ip(text: str) -> str:
    """An address another host can connect to."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return "an IP address, such as 192.168.100.10"
    if parsed.is_unspecified or parsed.is_multicast:
        return "the address of one interface, such as 192.168.100.10"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.scope_id:
        return "an IP address without a zone (%)"
    return ""


def user(text: str) -> str:
    """A login name."""
    return "" if _USER.fullmatch(text) else "a login name"


def interface(text: str) -> str:
    """A network interface (Linux: at most 15 characters)."""
    return "" if _INTERFACE.fullmatch(text) else "a network interface's name, such as enp1s0f1np1"


def env_name(text: str) -> str:
    """An environment variable a shell can export."""
    return "" if _ENV.fullmatch(text) else "a variable's name of letters, digits and underscore, no digit first"


def is_secret(variable: str) -> bool:
    """Whether a variable of this name holds a secret by all experience."""
    return bool(_SECRET.fullmatch(variable.upper()))


def path(text: str) -> str:
    """A path that means the same from everywhere."""
    if text.startswith("/") or text == "~" or text.startswith("~/"):
        return ""
    return "an absolute path, or one that begins with ~/"


def image(text: str) -> str:
    """A reference docker takes as one word."""
    fine = text and not text.startswith("-") and not re.search(r"\s", text)
    return "" if fine else "an image, such as nvcr.io/nvidia/vllm:26.06-py3"


def model(text: str) -> str:
    """A folder on every host, an id of the Hugging Face hub, or a URL vLLM can load from."""
    if text.startswith("/") or _HUB.fullmatch(text) or re.fullmatch(r"[a-z0-9]+://\S+", text):
        return ""
    return "a model: ORG/NAME of the Hugging Face hub, or an absolute folder as the runtime sees it"


def mount(text: str) -> str:
    """``SOURCE:TARGET[:ro|rw]``."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if path(source) == "" and target.startswith("/") and mode in ("", "ro", "rw"):
        return ""
    return "SOURCE:TARGET or SOURCE:TARGET:ro with absolute paths (SOURCE may begin with ~/)"


def size(value: object) -> int | None:
    """Bytes: a whole number, or a number with KiB, MiB, GiB or TiB; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return round(float(match[1]) * 1024 ** ("KMGT".index(match[2]) + 1)) if match else None
