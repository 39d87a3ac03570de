"""The cockpit's app: shows the store's state, turns keys into intents. Everything it does, the command line can."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from cockpit.logs.sanitise import clean
from cockpit.tui import themes
from cockpit.tui.actions import ACTIONS, BY_ID, Action, Context, available, bindings, yields
from cockpit.tui.feed import Feed, MakeFeed, live_feed
from cockpit.tui.plain_app import PlainApp
from cockpit.tui.remember import recall, remember, still_there
from cockpit.tui.screen import CockpitScreen
from cockpit.tui.signals import leave_at_signals, redraw_when_resumed
from cockpit.tui.state import State
from cockpit.tui.store import Store
from cockpit.tui.widgets.step_list import StepList

if TYPE_CHECKING:
    # Loaded when they are needed, which is after the first paint.
    from cockpit.hosts.errors import HostKeyUnknown
    from cockpit.tui.attention import Attention
    from cockpit.tui.log_choice import LogChoice
    from cockpit.tui.widgets.prompt_pane import PromptPane

FRAME: Final = 0.1
"""Seconds between two looks at the store: however much happens, the screen is painted ten times a second."""
REFUSED: Final = 6.0
"""Seconds that it is told why a key does nothing."""
CALM_FRAME: Final = 0.95
"""Seconds between two paints for what comes all the time."""


class CockpitApp(PlainApp[None]):
    """The cockpit on one profile."""

    TITLE = "Spark Cockpit"
    LEAVING = BY_ID["quit"].help
    CSS_PATH = str(themes.shipped_folder() / "cockpit.tcss")
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]

    def __init__(
        self,
        profile: str | None,
        *,
        read_only: bool = False,
        store: Store | None = None,
        feed: MakeFeed = live_feed,
        remembers: bool = True,
    ) -> None:
        super().__init__()
        self.profile_name = profile or recall()
        self._recalled = not profile and bool(self.profile_name)
        self.store = store or Store(self.profile_name, read_only=read_only)
        self._make_feed = feed
        self._remembers = remembers
        self._feed: Feed | None = None
        self._painted = -1
        self._painted_at = 0.0
        self._asking = asyncio.Lock()
        self._usable: tuple[bool, ...] = ()
        self._refused_at = -REFUSED
        self._logs: LogChoice | None = None
        self._attention: Attention | None = None
        self._load_themes()
        if os.environ.get("SSH_CONNECTION"):
            self.animation_level = "none"

    def _load_themes(self) -> None:
        found, self._theme_faults = themes.load()
        for theme in found:
            self.register_theme(theme)
        self.theme_names = [theme.name for theme in found]
        wanted = os.environ.get("SPARK_COCKPIT_THEME", themes.DEFAULT)
        if wanted in self.theme_names:
            self.theme = wanted

    def get_default_screen(self) -> Screen[Any]:
        """The cockpit's own."""
        return CockpitScreen()

    @property
    def cockpit(self) -> CockpitScreen:
        """The screen, whatever stands over it."""
        screen = self.screen_stack[0]
        assert isinstance(screen, CockpitScreen)
        return screen

    @property
    def logs(self) -> LogChoice:
        """Which log is shown."""
        if self._logs is None:
            from cockpit.tui.log_choice import LogChoice

            self._logs = LogChoice(self)
        return self._logs

    @property
    def feed(self) -> Feed:
        """What reaches the hosts; loaded on first use, after the first paint."""
        if self._feed is None:
            self._feed = self._make_feed(self.store, self._ask_about_key)
            self._feed.on_log = self.logs.opened
        return self._feed

    @property
    def opened(self) -> bool:
        """Whether hosts are reached yet."""
        return self._feed is not None

    @property
    def busy(self) -> bool:
        """Whether a step is being run from here."""
        return self._feed is not None and self._feed.busy

    @property
    def state(self) -> State:
        """What is known."""
        return self.store.state

    # Beginning and ending

    def on_mount(self) -> None:
        """Paint the skeleton first; then begin."""
        leave_at_signals(self)
        redraw_when_resumed(self)
        self.set_interval(FRAME, self._paint)
        self.call_after_refresh(self._begin)
        for fault in self._theme_faults:
            self.notify(clean(fault), severity="warning", markup=False)

    def _begin(self) -> None:
        gc.freeze()
        gc.enable()
        self.run_worker(self._open(), name="open", group="open", exclusive=True, exit_on_error=False)

    async def _open(self) -> None:
        await self.cockpit.lower.furnished.wait()
        await asyncio.to_thread(importlib.import_module, "cockpit.tui.live")
        if self._recalled and not await asyncio.to_thread(still_there, self.profile_name):
            self.profile_name = ""
        if not self.profile_name:
            path = await self._set_up()
            if path is None:
                self.exit()
                return
            self.profile_name = str(path)
        await self.feed.open(self.profile_name)
        await self._read()
        await asyncio.to_thread(importlib.import_module, "plotext")
        self.cockpit.plotting()

    async def _read(self) -> None:
        self.logs.follow_run()
        if self.state.profile is not None and self._remembers:
            await asyncio.to_thread(remember, self.profile_name)

    async def read_again(self) -> None:
        """Read the profile as it is now in its file, and begin anew with it."""
        await self.feed.reopen(self.profile_name)
        await self._read()

    async def _set_up(self) -> Path | None:
        """The guided set-up; None when it was left without a profile."""
        await asyncio.to_thread(importlib.import_module, "ruamel.yaml")
        from cockpit.tui.setup_screen import SetupScreen

        return await self.push_screen_wait(SetupScreen(self._ask_about_key))

    async def on_unmount(self) -> None:
        """Leave the hosts as they are."""
        if self._feed is not None:
            await self._feed.close()

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        """What fails in the background is told, never swallowed."""
        if event.state is WorkerState.ERROR:
            self.notify(clean(f"{event.worker.name}: {event.worker.error!r}"), severity="error", markup=False)

    # Painting

    def _paint(self) -> None:
        """Show the state, when it changed since the last time."""
        state = self.store.state
        if state.epoch == self._painted or not self.screen_stack or not self.cockpit.is_mounted:
            return
        if not self.cockpit.lower.furnished.is_set():
            return
        now = monotonic()
        if self.store.urgent <= self._painted and now - self._painted_at < CALM_FRAME:
            return
        self._painted, self._painted_at = state.epoch, now
        with self.batch_update():
            self.cockpit.state = state
        if self._attention is None:
            from cockpit.tui.attention import Attention

            self._attention = Attention(self)
        self._attention.follow(state)
        usable = tuple(action.available(self.usage) for action in ACTIONS)
        if usable != self._usable:
            self._usable = usable
            self.screen.refresh_bindings()

    @property
    def usage(self) -> Context:
        """What decides which actions can be used now."""
        return Context(self.state, self.cockpit.selected)

    def show(self, pane: str, *, focus: bool = False) -> None:
        """Show a pane in the lower half."""
        self.cockpit.lower.pane = pane
        if self._feed is not None:
            self._feed.attend(pane in ("serving", "prompt"))
        if focus:
            self.cockpit.lower.focus_pane()

    # Intents

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of the registry are the cockpit's screen's alone."""
        if action != "do" or not parameters or not self.screen_stack:
            return True
        if not isinstance(self.screen, CockpitScreen):
            return False
        # A key that can't be used is answered all the same, but where it means something else to the rest of the
        # screen.
        name = str(parameters[0])
        return None if yields(BY_ID[name]) and not available(name, self.usage) else True

    def action_do(self, action_id: str) -> None:
        """Do what a key, the palette or a click asks for."""
        action = BY_ID[action_id]
        refusal = action.refusal(self.usage)
        if refusal:
            self._refuse(action, refusal)
        else:
            from cockpit.tui.intents import INTENTS

            INTENTS[action_id](self)

    def _refuse(self, action: Action, why: str) -> None:
        """Say why a key does nothing, in place of the last such answer."""
        now = monotonic()
        if now - self._refused_at < REFUSED:
            self.clear_notifications()
        self._refused_at = now
        title = f"{action.shown_keys[0]}  {action.label}"
        self.notify(clean(why), title=title, severity="warning", timeout=REFUSED, markup=False)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action that can be used on this screen, then Textual's own."""
        if not isinstance(screen, CockpitScreen):
            yield from self._keys_of(screen)
            return
        context = self.usage
        for action in ACTIONS:
            if action.available(context):
                yield SystemCommand(
                    f"{action.label}  ({action.shown_keys[0]})", action.help, self._doing(action.id)
                )
        yield SystemCommand("screenshot", "Save this screen as SVG.", self.deliver_screenshot)

    def _keys_of(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the keys of a screen of its own do, where its focus is."""
        for active in screen.active_bindings.values():
            binding = active.binding
            if active.node is self or not (binding.show and binding.description and active.enabled):
                continue
            shown = binding.key_display or self.get_key_display(binding)
            doing = partial(self.run_action, binding.action, active.node)
            yield SystemCommand(f"{binding.description}  ({shown})", binding.tooltip, doing)

    def _doing(self, action_id: str) -> Callable[[], None]:
        return lambda: self.action_do(action_id)

    async def action_quit(self) -> None:
        """As ``q``: Textual's own ctrl+q must not leave a running step unasked."""
        self.action_do("quit")

    @on(StepList.Selected)
    def _step_selected(self) -> None:
        if self.cockpit.lower.pane == "details" and self.opened and self.state.profile is not None:
            from cockpit.tui.intents.steps import show_step

            show_step(self)

    @on(StepList.Opened)
    def _step_opened(self) -> None:
        self.action_do("details")

    def on_prompt_pane_asked(self, event: PromptPane.Asked) -> None:
        """A prompt was written."""
        self.feed.ask(event.text, **event.changes)

    async def _ask_about_key(self, error: HostKeyUnknown) -> bool:
        """Show an unknown host key and ask; one host at a time."""
        from cockpit.tui.dialogs import key_question

        async with self._asking:
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self.push_screen(key_question(error), lambda yes: answer.set_result(bool(yes)))
            return await answer
