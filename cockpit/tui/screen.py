"""The one screen: header, hosts, steps, lower half, footer."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, HorizontalScroll
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from cockpit.bringup.names import StepName
from cockpit.tui.actions import bindings
from cockpit.tui.lower import Lower
from cockpit.tui.state import State
from cockpit.tui.widgets.bars import Footer, Header
from cockpit.tui.widgets.step_list import StepList

WIDTHS = [(0, "-narrow"), (100, "-middle"), (140, "-wide")]
HEIGHTS = [(0, "-short"), (30, "-tall"), (46, "-high")]


class Steps(StepList):
    """The steps, with the keys of the registry."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("steps")]


class CockpitScreen(Screen[None]):
    """Shows a state; the app decides what happens."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    AUTO_FOCUS = "#steps"

    state: reactive[State] = reactive(State(), repaint=False)
    selected = StepName.CONNECT
    drawing = False
    active_host: reactive[int] = reactive(0)

    def compose(self) -> ComposeResult:
        """The skeleton; the hosts come with the profile."""
        yield Header().data_bind(CockpitScreen.state)
        with HorizontalScroll(id="hosts", can_focus=False):
            yield Static("◐ reading the profile …", id="no-hosts", classes="empty", markup=False)
        with Container(id="bottom"):
            yield Steps().data_bind(CockpitScreen.state)
            yield Lower().data_bind(CockpitScreen.state)
        yield Footer()

    @property
    def steps(self) -> StepList:
        """The steps."""
        return self.query_one(StepList)

    @property
    def lower(self) -> Lower:
        """The lower half."""
        return self.query_one(Lower)

    async def watch_state(self, before: State, after: State) -> None:
        """Make panels for hosts that are new."""
        if not self.query("#hosts"):
            # The app is ending: what is told meanwhile has no place any more.
            return
        names = [host.name for host in after.hosts]
        if self.is_mounted and names != [host.name for host in before.hosts]:
            await self._mount_hosts(names)

    async def _mount_hosts(self, names: list[str]) -> None:
        from cockpit.tui.widgets.host_panel import HostPanel

        box = self.query_one("#hosts", HorizontalScroll)
        await box.remove_children()
        await box.mount(*(HostPanel(name).data_bind(CockpitScreen.state) for name in names))
        self._brief()
        if self.drawing:
            self.plotting()

    def plotting(self) -> None:
        """plotext is loaded: charts may be drawn."""
        from cockpit.tui.widgets.host_panel import HostPanel
        from cockpit.tui.widgets.serving_pane import ServingPane

        self.drawing = True
        for panel in self.query(HostPanel):
            panel.plotting()
        self.query_one(ServingPane).plotting()

    def on_resize(self) -> None:
        """One host has the screen where it is narrow."""
        self.call_after_refresh(self._brief)

    def watch_active_host(self) -> None:
        """Another host has the screen."""
        self._brief()

    def _brief(self) -> None:
        self.steps.column = self.has_class("-wide")
        if not self.state.hosts:
            return
        from cockpit.tui.widgets.chart import Chart
        from cockpit.tui.widgets.host_panel import HostPanel

        narrow = self.has_class("-narrow")
        for number, panel in enumerate(self.query(HostPanel)):
            panel.set_class(narrow and number != self.active_host, "-brief")
            panel.show()
        for chart in self.query(Chart):
            chart.refresh()

    @on(StepList.Selected)
    def _selected(self, event: StepList.Selected) -> None:
        self.selected = event.step
        self.refresh_bindings()
