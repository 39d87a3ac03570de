"""One prompt to the served model, streamed, with its time to first token and its speed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cockpit.model.profile import PromptSpec
from cockpit.serving.api import ApiError, client, lost, refused, told

if TYPE_CHECKING:
    import httpx

SILENCE_LIMIT = 180.0
"""Seconds without a byte before a prompt is given up: a first request may compile kernels, and a lost
fabric link shows after 63 seconds only (0.24.0)."""

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one event; more is no answer of vLLM's."""


class PromptError(ApiError):
    """The prompt was not answered. ``text`` is what had come until then."""

    def __init__(self, error: ApiError, text: str = "") -> None:
        super().__init__(error.message, status=error.status, kind=error.kind, remedy=error.remedy)
        self.text = text


@dataclass(frozen=True, slots=True)
class Piece:
    """What came at once; reasoning and answer are kept apart."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The whole answer. ``ttft`` in seconds from the request to the first token; ``tokens_per_second`` from
    the first token to the last, None for fewer than two tokens; ``usage`` as the API gives it."""

    text: str
    reasoning: str
    model: str
    ttft: float | None
    tokens_per_second: float | None
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The answer as the command line's contract has it."""
        return {
            "text": self.text,
            "reasoning": self.reasoning,
            "model": self.model,
            "ttft": self.ttft,
            "tokens_per_second": self.tokens_per_second,
            "usage": self.usage,
            "finish_reason": self.finish_reason,
        }


async def stream_prompt(
    base_url: str,
    model: str,
    spec: PromptSpec,
    *,
    api_key: str = "",
    limit: float = 600.0,
    silence: float = SILENCE_LIMIT,
) -> AsyncGenerator[Piece | PromptResult, None]:
    """The pieces of the answer as they come, and last the ``PromptResult``.

    A model without a chat template is asked by /v1/completions. Raises ``PromptError``: what the API says,
    also inside a stream that began well, or that nothing came for ``silence`` seconds, or that ``limit``
    seconds were not enough. Closing the generator closes the connection, and vLLM ends the request.
    """
    taken, events = _Taken(model), _Events()
    deadline = asyncio.get_running_loop().time() + limit
    try:
        async with client(base_url, read=silence, api_key=api_key) as http:
            async with _limited(deadline):
                response = await _ask(http, model, spec)
            async with aclosing(response):
                data = response.aiter_bytes()
                while not events.ended:
                    async with _limited(deadline):
                        received = await anext(data, b"")
                    for event in events.feed(received):
                        piece = taken.take(event)
                        if piece is not None:
                            yield piece
    except TimeoutError as error:
        late = ApiError(f"The answer was not complete after {limit:g} seconds.")
        raise PromptError(late, taken.text) from error
    except ApiError as error:
        raise PromptError(error, taken.text) from error
    yield taken.result()


@asynccontextmanager
async def _limited(deadline: float) -> AsyncIterator[None]:
    """One wait for the API, until ``deadline`` at most."""
    import httpx

    try:
        async with asyncio.timeout_at(deadline):
            yield
    except httpx.TransportError as error:
        raise lost(error) from error


async def _ask(http: httpx.AsyncClient, model: str, spec: PromptSpec) -> httpx.Response:
    """The open answer of the chat API, else of the completions API."""
    try:
        return await _post(http, "/v1/chat/completions", _chat_body(model, spec))
    except ApiError as error:
        if error.status != 400 or "chat template" not in error.message.lower():
            raise
    return await _post(http, "/v1/completions", _completion_body(model, spec))


async def _post(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    response = await http.send(http.build_request("POST", path, json=body), stream=True)
    if response.status_code == 200:
        return response
    async with aclosing(response):
        raise refused(response.status_code, await response.aread())


class _Events:
    """Server-sent events from bytes. Lines end at newlines only: httpx's own end at U+2028 and the like."""

    def __init__(self) -> None:
        self._pending = b""
        self.ended = False

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The events that ``data`` completes; raises ``ApiError`` when the stream ends (``b""``) too early."""
        if not data:
            raise ApiError("The API's stream ended before the answer did.")
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > LINE_LIMIT:
            raise ApiError("The API's stream is not made of events.")
        for line in lines:
            name, _, value = line.strip().partition(b":")
            if name == b"data" and value.strip() == b"[DONE]":
                self.ended = True
                return
            if name == b"data":
                yield _event(value)


def _event(value: bytes) -> dict[str, Any]:
    try:
        event = json.loads(value)
    except ValueError as error:
        raise ApiError(f"The API's stream holds what is no JSON: {value[:200]!r}") from error
    if not isinstance(event, dict) or event.get("error") or event.get("object") == "error":
        raise told(event, None)
    return event


def _chat_body(model: str, spec: PromptSpec) -> dict[str, Any]:
    system = [{"role": "system", "content": spec.system}] if spec.system else []
    return _common(model, spec) | {"messages": [*system, {"role": "user", "content": spec.text}]}


def _completion_body(model: str, spec: PromptSpec) -> dict[str, Any]:
    return _common(model, spec) | {"prompt": f"{spec.system}\n\n{spec.text}" if spec.system else spec.text}


def _common(model: str, spec: PromptSpec) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": spec.max_tokens,
        "temperature": spec.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class _Taken:
    """What has come of the answer so far, and when."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._began = time.monotonic()
        self._first: float | None = None
        self._last = self._began
        self._texts: list[str] = []
        self._reasonings: list[str] = []
        self._usage: dict[str, Any] = {}
        self._finish = ""

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, event: dict[str, Any]) -> Piece | None:
        """The piece that an event of either API holds, None where it holds none."""
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        text, reasoning = "", ""
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            text += delta.get("content") or choice.get("text") or ""
            reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            self._finish = choice.get("finish_reason") or self._finish
        if not text and not reasoning:
            return None
        self._last = time.monotonic()
        if self._first is None:
            self._first = self._last
        self._texts.append(text)
        self._reasonings.append(reasoning)
        return Piece(text, reasoning)

    def result(self) -> PromptResult:
        tokens, first = self._usage.get("completion_tokens"), self._first
        speed = None
        if isinstance(tokens, int) and tokens > 1 and first is not None and self._last > first:
            speed = (tokens - 1) / (self._last - first)
        return PromptResult(
            self.text,
            "".join(self._reasonings),
            self._model,
            None if first is None else first - self._began,
            speed,
            self._usage,
            self._finish,
        )
