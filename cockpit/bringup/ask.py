"""Asks the served model, through the head's SSH connection."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from cockpit.bringup.api import api, api_healthy
from cockpit.bringup.session import Session
from cockpit.bringup.standing import standing
from cockpit.model.errors import CockpitError
from cockpit.serving.prompt import PromptResult, stream_prompt

API_KEY = "VLLM_API_KEY"
"""The variable vLLM itself reads its key from (vllm/envs.py)."""


class NotServingError(CockpitError):
    """Nothing answers at the API."""


async def _why_not(session: Session) -> str:
    run = await standing(session)
    name = session.profile.name
    if run is None:
        return f"{name} has no run: nothing is served."
    return f"Run {run.id} of {name} does not serve: {run.words}."


async def stream_answer(session: Session, text: str | None, write: Callable[[str, str], None]) -> PromptResult:
    """One streamed answer to ``text``, or to the profile's test prompt. ``write`` is given each piece as it
    comes: answer and reasoning. Raises ``PromptError`` and ``HostError``."""
    profile = session.profile
    spec = profile.prompt if text is None else replace(profile.prompt, text=text)
    await session.head.connect()
    if not await api_healthy(session):
        raise NotServingError(
            await _why_not(session), remedy=f"spark-cockpit status {profile.word} tells more."
        )
    async with api(session) as url:
        key = os.environ.get(API_KEY, "") if API_KEY in profile.serve.secrets else ""
        stream = stream_prompt(url, profile.serve.api_name, spec, api_key=key)
        async with aclosing(stream):
            async for piece in stream:
                if isinstance(piece, PromptResult):
                    return piece
                write(piece.text, piece.reasoning)
    raise AssertionError("the stream ends with its result or with an error")
