"""What the served model does, as charts of the last minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.reactive import reactive

from cockpit.logs.sanitise import clean
from cockpit.tui.state import MetricsPoint, State
from cockpit.tui.widgets.chart import Chart, Curve
from cockpit.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Gauge:
    """One chart: its value in a look at /metrics, None where that has none, and its figures in words."""

    name: str
    unit: str
    least_top: float
    value: Callable[[MetricsPoint], float | None]
    words: Callable[[MetricsPoint], str]


def _generation(point: MetricsPoint) -> float | None:
    return point.rates.generation if point.rates else None


def _requests(point: MetricsPoint) -> float | None:
    return float(point.metrics.running)


def _cache(point: MetricsPoint) -> float | None:
    return None if point.metrics.kv_usage is None else 100 * point.metrics.kv_usage


def _ttft(point: MetricsPoint) -> float | None:
    return point.rates.ttft if point.rates else None


def _throughput_words(point: MetricsPoint) -> str:
    if point.rates is None:
        return "–"
    return f"{point.rates.generation:.1f} tokens/s out · {point.rates.prompt:.1f} in"


def _request_words(point: MetricsPoint) -> str:
    return f"{point.metrics.running} running · {point.metrics.waiting} waiting"


def _cache_words(point: MetricsPoint) -> str:
    usage = point.metrics.kv_usage
    return "not told" if usage is None else f"{100 * usage:.1f} %"


def _ttft_words(point: MetricsPoint) -> str:
    metrics = point.metrics
    if not metrics.ttft_count:
        return "no request yet"
    return f"mean {metrics.ttft_sum / metrics.ttft_count:.2f} s of {metrics.ttft_count:.0f}"


GAUGES = (
    Gauge("Throughput", "tokens/s", 10, _generation, _throughput_words),
    Gauge("Requests", "running", 4, _requests, _request_words),
    Gauge("KV cache", "%", 100, _cache, _cache_words),
    Gauge("TTFT", "s", 1, _ttft, _ttft_words),
)


def nice(value: float) -> float:
    """A scale's end: the next of 1, 2, 5 times a power of ten."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next((step * power for step in (1, 2, 5, 10) if step * power >= value), value)


class ServingPane(Container):
    """Four charts."""

    state: reactive[State] = reactive(State(), repaint=False)

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)

    def compose(self) -> ComposeResult:
        """Each with its figures above."""
        for _ in GAUGES:
            with Vertical(classes="cell"):
                yield Lines()
                yield Chart()

    def plotting(self) -> None:
        """plotext may be loaded from now on."""
        for chart in self.query(Chart):
            chart.plotting()
        self.show()

    def watch_state(self) -> None:
        """Show what came, where it is seen."""
        if self.is_mounted and self.display:
            self.show()

    def show(self) -> None:
        """Bring figures and charts up to date."""
        points = self.state.metrics
        for gauge, lines, chart in self._cells():
            curve = tuple((point.at, value) for point in points if (value := gauge.value(point)) is not None)
            top = max([gauge.least_top, *(value for _, value in curve)])
            chart.curve = Curve(curve, nice(top), unit=f"{gauge.unit}, 5 min")
            figures = gauge.words(points[-1]) if points and self.state.serving else "not serving"
            if self.state.metrics_error and self.state.serving and gauge is GAUGES[0]:
                figures = clean(self.state.metrics_error)
            lines.show(Content.assemble((f"{gauge.name}  ", "bold"), figures))

    def _cells(self) -> Iterator[tuple[Gauge, Lines, Chart]]:
        yield from zip(GAUGES, self.query(Lines), self.query(Chart), strict=True)
