"""vLLM's HTTP API, reached through a forwarded port: health, models, metrics, and how errors are told."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cockpit.model.errors import CockpitError
from cockpit.serving.metrics import Metrics, parse_metrics

if TYPE_CHECKING:
    import httpx

CONNECT_LIMIT = 10.0
"""Seconds for a connection to stand."""


class ApiError(CockpitError):
    """The API refused, failed or went away. ``status`` is the HTTP status, None where none came; ``kind`` is
    the API's own name for the error ("NotFoundError"), "" where it gives none."""

    def __init__(self, message: str, *, status: int | None = None, kind: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the API serves."""

    id: str
    max_model_len: int | None = None


def client(base_url: str, *, read: float, api_key: str = "") -> httpx.AsyncClient:
    """A client that goes straight to ``base_url``, whatever proxies the operator's environment names."""
    import httpx

    # The API is plain HTTP on a forwarded port: loading a trust store would cost 0.1 s a client for nothing.
    return httpx.AsyncClient(
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        base_url=base_url,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        timeout=httpx.Timeout(read, connect=CONNECT_LIMIT),
        trust_env=False,
    )


async def health(base_url: str, *, limit: float = 5.0) -> int | None:
    """The status of /health: 200 when ready, 503 when the engine is dead; None when nothing answers (before
    ready the port refuses, though it is bound)."""
    import httpx

    async with client(base_url, read=limit) as http:
        try:
            return (await http.get("/health")).status_code
        except httpx.TransportError:
            return None


async def models(base_url: str, *, limit: float = 10.0, api_key: str = "") -> tuple[Model, ...]:
    """The models the API serves; raises ``ApiError``."""
    answer = json.loads(await _get(base_url, "/v1/models", limit, api_key))
    return tuple(Model(str(row["id"]), row.get("max_model_len")) for row in answer["data"])


async def metrics(base_url: str, *, limit: float = 10.0, api_key: str = "") -> Metrics:
    """One look at /metrics; raises ``ApiError``."""
    return parse_metrics(await _get(base_url, "/metrics", limit, api_key))


async def _get(base_url: str, path: str, limit: float, api_key: str) -> str:
    import httpx

    async with client(base_url, read=limit, api_key=api_key) as http:
        try:
            response = await http.get(path)
        except httpx.TransportError as error:
            raise lost(error) from error
    if response.status_code != 200:
        raise refused(response.status_code, response.content)
    return response.text


def lost(error: Exception) -> ApiError:
    """The API didn't answer, or stopped answering."""
    said = str(error) or type(error).__name__
    return ApiError(
        f"The API gave no answer: {said}.",
        remedy="Look at the serve log: the engine may have ended, or the link to a host may be down.",
    )


def refused(status: int, body: bytes) -> ApiError:
    """The API's own error, as it gives it."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = body.decode("utf-8", "replace").strip()
    return told(answer, status)


def told(answer: Any, status: int | None) -> ApiError:
    """An error object: ``{"error": {...}}``, or its fields alone as versions before 0.11 have it."""
    inner = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(inner, dict):
        said = str(inner.get("message") or inner.get("detail") or json.dumps(inner))
        code = inner.get("code")
        return ApiError(
            said, status=code if isinstance(code, int) else status, kind=str(inner.get("type") or "")
        )
    return ApiError(str(inner) or f"HTTP status {status}", status=status)
