"""One host's panel."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive

from cockpit.tui import host_text, load_text, words
from cockpit.tui.state import HostView, Link, State
from cockpit.tui.widgets.chart import Chart, Curve
from cockpit.tui.widgets.lines import Lines


class HostPanel(Vertical, can_focus=True):
    """A host at a glance. In the ``-brief`` form it is two lines."""

    state: reactive[State] = reactive(State(), repaint=False)

    def __init__(self, host: str) -> None:
        super().__init__(classes="panel")
        self.host = host
        self._frame: tuple[Content, Content] | None = None

    def compose(self) -> ComposeResult:
        """Memory, chart, what the GPUs do, Ray, load."""
        yield Lines(classes="brief")
        yield Lines(classes="memory")
        yield Lines(classes="trouble")
        yield Chart(classes="chart")
        yield Lines(classes="rest")

    @property
    def view(self) -> HostView | None:
        """The host in the state."""
        return self.state.host(self.host)

    def watch_state(self) -> None:
        """Show the host as it is now."""
        self.show()

    def on_resize(self) -> None:
        """Text is made for a width."""
        self.show()

    def plotting(self) -> None:
        """plotext may be loaded from now on. A panel without its parts yet is told again once it has them."""
        if self.is_mounted:
            self.query_one(Chart).plotting()
            self.show()

    def show(self) -> None:
        """Bring every line up to date."""
        host, state = self.view, self.state
        width = self.content_size.width
        if host is None or width < 20 or not self.is_mounted:
            return
        frame = (host_text.title(host), host_text.badge(host, state))
        if frame != self._frame:
            # A title that is set paints the whole panel anew, whether or not it reads differently.
            self._frame = frame
            self.border_title, self.border_subtitle = frame
        trouble = host_text.trouble_lines(host, state)
        down = host.link.state is not Link.UP
        self.set_class(bool(trouble), "-trouble")
        self.set_class(down, "-down")
        unseen = down and host.sample is None
        self.set_class(unseen, "-unseen")
        if self.has_class("-brief"):
            line = load_text.one_line(host, state)
            self.query_one(".brief", Lines).show(host_text.summary(host, state, line, width))
            return
        newline = Content("\n")
        self.query_one(".memory", Lines).show(newline.join(host_text.memory_lines(host, state, width)))
        self.query_one(".trouble", Lines).show(newline.join(trouble))
        rest = [host_text.gpu_line(host, width), host_text.ray_line(host, state, width)]
        rest += host_text.guard_lines(host, state, width)
        rest += load_text.load_lines(host, state, width)
        rest += host_text.unasked_lines(host, state, width)
        if unseen and self.screen.has_class("-narrow") and not rest[-1].plain:
            # Here what to do about the host needs the row that is kept free for a load's figures.
            rest.pop()
        self.query_one(".rest", Lines).show(newline.join(rest))
        self.query_one(Chart).curve = curve_of(host, state)


def curve_of(host: HostView, state: State) -> Curve:
    """The host's memory over the last minutes, in GiB: the GPU's own where it has its own."""
    sample = host.sample
    if sample is None:
        return Curve()
    shared = host_text.unified(sample)
    totals = [gpu.total for gpu in sample.gpus if gpu.total is not None]
    if shared or not totals:
        points = tuple((point.at, point.used / words.GIB) for point in host.history)
        top, unit = sample.memory.total / words.GIB, "memory, GiB, 5 min"
    else:
        points = tuple((p.at, p.gpu / words.GIB) for p in host.history if p.gpu is not None)
        top, unit = sum(totals) / words.GIB, "GPU memory, GiB, 5 min"
    share = host_text.utilisation(state) if sample.gpus else None
    return Curve(points, top, share * top if share else None, f"{share:g}" if share else "", unit)
