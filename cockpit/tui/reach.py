"""Who does not answer, and what that leaves unknown. Pure; what it says of a host is sanitised by who shows it."""

from __future__ import annotations

import time

from cockpit.tui import words
from cockpit.tui.state import HostView, Link, State, Trouble


def away(host: HostView) -> bool:
    """Whether the host was tried and does not answer; one that is tried for the first time may yet."""
    link = host.link
    return link.state in (Link.LOST, Link.REFUSED) or (link.state is Link.CONNECTING and bool(link.error))


def head_away(state: State) -> HostView | None:
    """The head, while it does not answer: run, steps and Ray are asked of it, and are as old as its last answer."""
    return next((host for host in state.hosts[:1] if away(host)), None)


def stuck(state: State) -> bool:
    """Whether nothing can be begun from here, whatever the operator wants: no profile, or no head."""
    return bool(state.profile_error) or head_away(state) is not None


def who(state: State) -> str:
    """Who does not answer, in words; "" while the head does."""
    head = head_away(state)
    if head is None:
        return ""
    if len(state.hosts) > 1 and all(away(host) for host in state.hosts):
        return "no host answers"
    return f"{head.name} does not answer"


def how(host: HostView) -> str:
    """How the connection to a host stands, in a word or two."""
    if host.link.state is Link.UP:
        return "connected"
    if not away(host):
        return "connecting"
    return "not let in" if host.link.state is Link.REFUSED else "lost" if host.sample else "not reachable"


def since(host: HostView) -> str:
    """When a host was lost, or first tried in vain."""
    return f"{how(host)} since {time.strftime('%H:%M:%S', time.localtime(host.link.since))}"


def next_try(host: HostView, now: float) -> str:
    """What is tried next."""
    link = host.link
    if link.state is Link.CONNECTING:
        return "connecting again …"
    if link.next_try is None:
        return "not tried again by itself"
    return f"next try in {words.coarse(link.next_try - now)}"


def age(state: State) -> str:
    """How old what the head told is, while it does not answer; "" while it does, or where it never told."""
    if head_away(state) is None or state.looked_at is None:
        return ""
    return words.coarse(state.now - state.looked_at)


def unasked(state: State, what: str) -> Trouble | None:
    """Why ``what`` could not be asked of a head that answers, None where it could."""
    return next((trouble for trouble in state.troubles if trouble.what == what), None)
