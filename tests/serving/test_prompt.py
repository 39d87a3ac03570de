"""The stream's reading: vLLM's recorded answers, replayed by a server that sends these very bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cockpit.model.profile import PromptSpec
from cockpit.serving import api
from cockpit.serving.prompt import Piece, PromptError, PromptResult, stream_prompt

RECORDED = Path(__file__).parent.parent / "data" / "api"
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n"


def body(name: str) -> bytes:
    """A recorded answer's body; curl has taken the transfer's chunks apart."""
    return (RECORDED / name).read_bytes().partition(b"\r\n\r\n")[2]


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + b"\n\n"


def delta(**fields: str) -> bytes:
    return event(model="m", choices=[{"index": 0, "delta": fields, "finish_reason": None}])


@asynccontextmanager
async def replay(
    *answers: bytes, pieces: int = 1 << 20, hold: bool = False
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The URL of a server that gives one answer a connection, and the requests that came."""
    left, requests = list(answers), list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        requests.append(head + await reader.readexactly(length))
        answer = left.pop(0)
        for at in range(0, len(answer), pieces):
            writer.write(answer[at : at + pieces])
            await writer.drain()
        if hold:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


async def ask(url: str, spec: PromptSpec | None = None, **more: float) -> list[Piece | PromptResult]:
    return [item async for item in stream_prompt(url, "m", spec or PromptSpec("x"), **more)]


@pytest.mark.parametrize("pieces", [1 << 20, 7])
@pytest.mark.parametrize(
    ("name", "model"), [("chat_stream.txt", "tiny"), ("ray_tp2_cold.chat_stream.txt", "big")]
)
async def test_recorded_streams(name: str, model: str, pieces: int) -> None:
    async with replay(OK + body(name), pieces=pieces) as (url, requests):
        *got, result = await ask(url, PromptSpec("Hi", system="Be brief.", max_tokens=9, temperature=0.5))
    assert isinstance(result, PromptResult)
    assert result.text == "".join(piece.text for piece in got if isinstance(piece, Piece))
    assert result.text
    assert result.model == model
    assert result.usage["completion_tokens"] > 1
    assert result.finish_reason in ("stop", "length")
    sent = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    assert (sent["max_tokens"], sent["temperature"], sent["stream"]) == (9, 0.5, True)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_stands_apart(name: str) -> None:
    stream = (
        delta(role="assistant", content="") + delta(**{name: "hm"}) + delta(content="yes") + b"data: [DONE]\n\n"
    )
    async with replay(OK + stream) as (url, _):
        *pieces, result = await ask(url)
    assert pieces == [Piece("", "hm"), Piece("yes", "")]
    assert isinstance(result, PromptResult)
    assert (result.text, result.reasoning) == ("yes", "hm")
    assert (result.tokens_per_second, result.usage) == (None, {})


async def test_text_may_hold_any_line_separator() -> None:
    odd = "a\u2028b\x0bc\x85d"
    async with replay(OK + delta(content=odd) + b"data: [DONE]\n\n", pieces=3) as (url, _):
        *_, result = await ask(url)
    assert isinstance(result, PromptResult)
    assert result.text == odd


async def test_an_error_inside_a_stream_that_began_well() -> None:
    error = event(
        error={"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}
    )
    async with replay(OK + delta(content="half") + error + b"data: [DONE]\n\n") as (url, _):
        with pytest.raises(PromptError, match="EngineCore encountered an issue") as raised:
            await ask(url)
    assert (raised.value.text, raised.value.status) == ("half", 500)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (OK + delta(content="half"), "ended before the answer did"),
        (OK + b"data: <html>\n\n", "no JSON"),
        (b"", "gave no answer"),
        (b"HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\noops", "oops"),
        (b'HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n{"error":"Unauthorized"}', "Unauthorized"),
        (b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n", "HTTP status 500"),
    ],
)
async def test_answers_that_are_none(answer: bytes, says: str) -> None:
    async with replay(answer) as (url, _):
        with pytest.raises(PromptError, match=says):
            await ask(url)


async def test_silence_has_a_limit() -> None:
    async with replay(OK + delta(content="half"), hold=True) as (url, _):
        with pytest.raises(PromptError, match="gave no answer: ReadTimeout") as raised:
            await ask(url, silence=0.2)
    assert raised.value.text == "half"


async def test_the_operators_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with replay(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\n") as (url, _):
        assert await api.health(url) == 503
