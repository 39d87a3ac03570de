"""A host's place in Ray, in words."""

from __future__ import annotations

from typing import Final

from cockpit.model.facts import Member, MemberState


def member_words(member: Member) -> str:
    """A host's place in Ray, without its name; ``address`` is remote text."""
    match member.state:
        case MemberState.JOINED:
            gpus = f"{member.gpus:g} GPU" if member.gpus == 1 else f"{member.gpus:g} GPUs"
            return f"joined as {member.address} · {gpus}"
        case MemberState.MISSING:
            return "expected, not joined"
        case MemberState.WRONG_ADDRESS:
            return f"joined over another network, as {member.address}"
        case MemberState.UNEXPECTED:
            return f"joined as {member.address}, not of this profile"


MEMBER_MARKS: Final = {
    MemberState.JOINED: ("●", "$text-success"),
    MemberState.MISSING: ("○", "$text-warning"),
    MemberState.WRONG_ADDRESS: ("▲", "$text-warning"),
    MemberState.UNEXPECTED: ("▲", "$text-warning"),
}
