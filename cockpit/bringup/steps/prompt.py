"""Prompt: the test prompt is answered."""

from __future__ import annotations

import json

from cockpit.bringup.api import api_healthy, api_url
from cockpit.bringup.ask import stream_answer
from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import Answered, StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.model.command import Command
from cockpit.model.profile import Profile
from cockpit.serving.prompt import PromptError, PromptResult


class Prompt(StepBase):
    """The model answers."""

    name = StepName.PROMPT
    title = "Prompt"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The same request, made on the head by curl."""
        profile = planner.profile
        argv = ("curl", "-sSN", "--fail-with-body", "-H", "Content-Type: application/json", "-d", "@-")
        return (
            Command(
                profile.head.name,
                (*argv, f"{api_url(profile)}/v1/chat/completions"),
                "ask the test prompt",
                stdin=json.dumps(_body(profile), ensure_ascii=False) + "\n",
                limit=600,
            ),
        )

    async def check(self, session: Session) -> Report:
        """Whether it can be asked; an answer given earlier does not count."""
        if await api_healthy(session):
            return Report(StepState.READY_TO_RUN)
        return Report(StepState.WAITING, "for the model to be ready")

    async def run(self, session: Session) -> Report:
        """Ask, and show the answer as it comes."""

        def write(text: str, reasoning: str) -> None:
            session.emit(Answered(text, reasoning))

        try:
            result = await stream_answer(session, None, write)
        except PromptError as error:
            raise StepFailed(
                self.name,
                f"{session.profile.head.name}: the prompt was not answered: {error.message}",
                host=session.profile.head.name,
                command=f"POST {api_url(session.profile)}/v1/chat/completions",
                remedy=error.remedy,
            ) from error
        return Report(StepState.DONE, figures(result))


def figures(result: PromptResult) -> str:
    """An answer's figures in words."""
    parts = []
    if result.ttft is not None:
        parts.append(f"first token after {result.ttft:.2f} s")
    if result.tokens_per_second is not None:
        parts.append(f"{result.tokens_per_second:.1f} tokens/s")
    if "completion_tokens" in result.usage:
        parts.append(f"{result.usage.get('prompt_tokens')} + {result.usage['completion_tokens']} tokens")
    if result.finish_reason:
        parts.append(f"finished: {result.finish_reason}")
    return ", ".join(parts) or "an empty answer"


def _body(profile: Profile) -> dict[str, object]:
    spec = profile.prompt
    system = [{"role": "system", "content": spec.system}] if spec.system else []
    return {
        "model": profile.serve.api_name,
        "messages": [*system, {"role": "user", "content": spec.text}],
        "max_tokens": spec.max_tokens,
        "temperature": spec.temperature,
    }
