"""The cockpit's app: shows the store's state, turns keys into intents. Everything it does, the command line can."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Final, Protocol

from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.content import Content
from textual.screen import Screen

from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.runner import Planned
from cockpit.hosts.errors import HostKeyUnknown
from cockpit.logs.sanitise import clean
from cockpit.logs.sources import Kind, Source
from cockpit.model.command import Command
from cockpit.tui import themes, words
from cockpit.tui.actions import ACTIONS, BY_ID, Context, available, bindings
from cockpit.tui.dialogs import Confirm, ConfirmHost, Help, key_question
from cockpit.tui.reduce_steps import STOPPED
from cockpit.tui.remember import recall, remember
from cockpit.tui.screen import CockpitScreen
from cockpit.tui.state import State
from cockpit.tui.store import Store
from cockpit.tui.widgets.host_panel import HostPanel
from cockpit.tui.widgets.panes import host_content, planned_of, step_content
from cockpit.tui.widgets.prompt_pane import PromptPane
from cockpit.tui.widgets.step_list import StepList

FRAME: Final = 0.1
"""Seconds between two looks at the store: however much happens, the screen is painted ten times a second."""
CALM_FRAME: Final = 0.95
"""Seconds between two paints for what comes all the time."""

Key = tuple[str, str, str]


class Feed(Protocol):
    """What brings facts to the store, and takes intents: the hosts (``live.Live``), or a replay."""

    on_log: Callable[[Key, Path], None]

    async def open(self, name: str) -> None:
        """Begin."""
        ...

    async def close(self) -> None:
        """End; nothing on the hosts ends with it."""
        ...

    async def reopen(self, name: str) -> None:
        """Begin anew with the profile as it is in its file."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a step is being run from here."""
        ...

    def plan(self) -> tuple[Planned, ...]:
        """Every step's commands."""
        ...

    def undo_plan(self, name: StepName | None) -> tuple[Command, ...]:
        """The commands that take back a step, or all."""
        ...

    def up(self, through: StepName = StepName.PROMPT, *, forced: bool = False) -> None:
        """All steps in order."""
        ...

    def down(self) -> None:
        """All steps undone."""
        ...

    def run_step(self, name: StepName) -> None:
        """One step."""
        ...

    def undo_step(self, name: StepName) -> None:
        """One step taken back."""
        ...

    def stop_watching(self) -> None:
        """Detach."""
        ...

    def attend(self, watched: bool) -> None:
        """Whether somebody looks at the charts of what is served."""
        ...

    def wake(self) -> None:
        """Ask every host now."""
        ...

    def ask(self, text: str, **changes: Any) -> None:
        """Send a prompt."""
        ...

    def stop_answer(self) -> None:
        """Cancel it."""
        ...

    def explain(self) -> None:
        """Explain the last run."""
        ...

    async def report(self) -> str:
        """A report for others."""
        ...

    def judge_flags(self) -> None:
        """Judge the flags."""
        ...

    def serve_source(self) -> Source | None:
        """The serve log of the last run."""
        ...

    def show_log(self, source: Source) -> None:
        """Follow a log."""
        ...


MakeFeed = Callable[[Store, Callable[[HostKeyUnknown], Awaitable[bool]]], Feed]


def live_feed(store: Store, ask: Callable[[HostKeyUnknown], Awaitable[bool]]) -> Feed:
    """The hosts themselves."""
    from cockpit.tui.live import Live

    return Live(store, ask=ask)


class CockpitApp(App[None]):
    """The cockpit on one profile."""

    TITLE = "Spark Cockpit"
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
        self.profile_name = profile or recall() or ""
        self.store = store or Store(self.profile_name, read_only=read_only)
        self._make_feed = feed
        self._remembers = remembers
        self._feed: Feed | None = None
        self._painted = -1
        self._painted_at = 0.0
        self._asking = asyncio.Lock()
        self._wanted_log: Key | None = None
        self._usable: tuple[bool, ...] = ()
        self._had_finding = False
        self._had_failure: StepName | None = None
        self._was_asking = False
        self._load_themes()
        if os.environ.get("SSH_CONNECTION"):
            self.animation_level = "none"

    def _load_themes(self) -> None:
        found, self._theme_faults = themes.load()
        for theme in found:
            self.register_theme(theme)
        self._theme_names = [theme.name for theme in found]
        wanted = os.environ.get("SPARK_COCKPIT_THEME", themes.DEFAULT)
        if wanted in self._theme_names:
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
    def feed(self) -> Feed:
        """What reaches the hosts; loaded on first use, after the first paint."""
        if self._feed is None:
            self._feed = self._make_feed(self.store, self._ask_about_key)
            self._feed.on_log = self._log_opened
        return self._feed

    @property
    def state(self) -> State:
        """What is known."""
        return self.store.state

    # Beginning and ending

    def on_mount(self) -> None:
        """Paint the skeleton first; then begin."""
        self.set_interval(FRAME, self._paint)
        self.call_after_refresh(self._begin)
        for fault in self._theme_faults:
            self.notify(clean(fault), severity="warning", markup=False)

    def _begin(self) -> None:
        self.run_worker(self._open(), name="open", group="open", exclusive=True, exit_on_error=False)

    async def _open(self) -> None:
        await asyncio.to_thread(importlib.import_module, "cockpit.tui.live")
        if not self.profile_name:
            path = await self._set_up()
            if path is None:
                self.exit()
                return
            self.profile_name = str(path)
        await self.feed.open(self.profile_name)
        if self.state.profile is not None and self._remembers:
            await asyncio.to_thread(remember, self.profile_name)
        await asyncio.to_thread(importlib.import_module, "plotext")
        self.cockpit.plotting()

    async def _set_up(self) -> Path | None:
        """The guided set-up; None when it was left without a profile."""
        await asyncio.to_thread(importlib.import_module, "ruamel.yaml")
        from cockpit.tui.setup_screen import SetupScreen

        return await self.push_screen_wait(SetupScreen(self._ask_about_key))

    async def on_unmount(self) -> None:
        """Leave the hosts as they are."""
        if self._feed is not None:
            await self._feed.close()
        with suppress(Exception):
            self.cockpit.lower.close()

    # Painting

    def _paint(self) -> None:
        """Show the state, when it changed since the last time."""
        state = self.store.state
        if state.epoch == self._painted or not self.screen_stack or not self.cockpit.is_mounted:
            return
        now = monotonic()
        if self.store.urgent <= self._painted and now - self._painted_at < CALM_FRAME:
            return
        self._painted, self._painted_at = state.epoch, now
        with self.batch_update():
            self.cockpit.state = state
        self._follow_events(state)
        usable = tuple(action.available(self._usage()) for action in ACTIONS)
        if usable != self._usable:
            self._usable = usable
            self.screen.refresh_bindings()

    def _follow_events(self, state: State) -> None:
        """What the screen does by itself: the serve log is shown when there is one, a cause when it is found."""
        found = bool(state.explanation and state.explanation.findings) or bool(state.refused)
        if found and not self._had_finding:
            self._show("why", focus=not self.cockpit.lower.writing)
        self._had_finding = found
        self._follow_failure(state, found)
        self._follow_prompt(state)
        if self._wanted_log is None or self._wanted_log[1] == "serve":
            source = self.feed.serve_source() if self._feed else None
            if source is not None and (source.host, source.name, source.run) != self._wanted_log:
                self._look_at(source)

    def _follow_prompt(self, state: State) -> None:
        """The test prompt's answer is shown as it comes."""
        asking = state.step(StepName.PROMPT).state is StepState.RUNNING
        if asking and not self._was_asking:
            self._show("prompt")
        self._was_asking = asking

    def _follow_failure(self, state: State, found: bool) -> None:
        """A step that failed here is selected, and shows why unless its cause is shown already."""
        failed = next((step.name for step in state.steps if step.state in STOPPED), None)
        if failed is not None and failed is not self._had_failure and not self.cockpit.lower.writing:
            self.cockpit.steps.selected = failed
            if not found:
                self._show_step()
                self._show("details")
        self._had_failure = failed

    def _usage(self) -> Context:
        return Context(self.state, self.cockpit.selected)

    # Logs

    def _look_at(self, source: Source) -> None:
        self._wanted_log = (source.host, source.name, source.run)
        self.feed.show_log(source)

    def _log_opened(self, key: Key, path: Path) -> None:
        if key == self._wanted_log:
            host, name, run = key
            title = f"{name} · {host}" + (f" · run {words.run_name(run)}" if run else "")
            self.run_worker(
                self.cockpit.lower.show_log(path, title),
                name="log",
                group="log",
                exclusive=True,
                exit_on_error=False,
            )

    def _sources(self) -> list[Source]:
        """The logs in the order in which they are gone through: of each host, the last run's serve log alone."""
        run = self.state.run.id if self.state.run else ""
        return [
            source
            for host in self.state.hosts
            for source in host.sources
            if not source.grant and (source.kind is not Kind.SERVE or source.run == run)
        ]

    def _next_log(self, step: int) -> None:
        sources = self._sources()
        if not sources:
            self.notify("There is no log yet.", markup=False)
            return
        keys = [(source.host, source.name, source.run) for source in sources]
        at = keys.index(self._wanted_log) if self._wanted_log in keys else -step
        self._look_at(sources[(at + step) % len(sources)])
        self._show("log")

    # Intents

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what can't be used now."""
        if action != "do" or not parameters or not self.screen_stack:
            return True
        if isinstance(self.screen, CockpitScreen):
            return True if available(str(parameters[0]), self._usage()) else None
        return False

    def action_do(self, action_id: str) -> None:
        """Do what a key, the palette or a click asks for."""
        if available(action_id, self._usage()):
            getattr(self, f"do_{action_id}")()
        else:
            self.notify(f"{BY_ID[action_id].help} Not now.", severity="warning", markup=False)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action that can be used, then Textual's own."""
        context = self._usage()
        for action in ACTIONS:
            if action.available(context):
                yield SystemCommand(
                    f"{action.label}  ({action.shown_keys[0]})", action.help, self._doing(action.id)
                )
        yield SystemCommand("screenshot", "Save this screen as SVG.", self.deliver_screenshot)

    def _doing(self, action_id: str) -> Callable[[], None]:
        return lambda: self.action_do(action_id)

    def _show(self, pane: str, *, focus: bool = False) -> None:
        self.cockpit.lower.pane = pane
        if self._feed is not None:
            self.feed.attend(pane in ("serving", "prompt"))
        if focus:
            self.cockpit.lower.focus_pane()

    # Steps

    def do_run(self) -> None:
        """Run the selected step."""
        self.feed.run_step(self.cockpit.selected)

    def do_run_all(self) -> None:
        """Run every step."""
        self.feed.up()

    def do_run_through(self) -> None:
        """Run up to the selected step."""
        self.feed.up(self.cockpit.selected)

    def do_force(self) -> None:
        """Run every step past refused flags."""
        text = Content("The flag checks and preflight are run, and what they refuse is launched all the same.")
        self.push_screen(Confirm("Launch anyway?", text, "launch anyway"), self._forced)

    def _forced(self, yes: bool | None) -> None:
        if yes:
            self.feed.up(forced=True)

    def do_undo(self) -> None:
        """Undo the selected step."""
        name = self.cockpit.selected
        title = self.state.step(name).title
        self._ask_host(f"Undo {title}?", self.feed.undo_plan(name), lambda: self.feed.undo_step(name))

    def do_down(self) -> None:
        """Undo everything."""
        self._ask_host("Undo every step?", self.feed.undo_plan(None), self.feed.down)

    def _ask_host(self, title: str, commands: tuple[Command, ...], then: Callable[[], None]) -> None:
        profile = self.state.profile
        if profile is None:
            return
        hosts = {command.host for command in commands}
        host = next((one.name for one in profile.hosts if one.name in hosts), profile.head.name)

        def answered(yes: bool | None) -> None:
            if yes:
                then()

        self.push_screen(ConfirmHost(title, host, commands), answered)

    def do_stop(self) -> None:
        """Detach from the step that runs."""
        self.feed.stop_watching()
        self.notify("Detached: what was begun on the hosts goes on.", markup=False)

    def do_details(self) -> None:
        """The selected step's commands and output."""
        self._show_step()
        self._show("details", focus=True)

    def _show_step(self) -> None:
        step = self.state.step(self.cockpit.selected)
        planned = planned_of(self.feed.plan(), step.name)
        content = step_content(step, planned, self.feed.undo_plan(step.name))
        self.cockpit.lower.show_details(f"{step.title} · plan and output", content)

    @on(StepList.Selected)
    def _step_selected(self) -> None:
        if self.cockpit.lower.pane == "details" and self._feed is not None and self.state.profile is not None:
            self._show_step()

    @on(StepList.Opened)
    def _step_opened(self) -> None:
        self.action_do("details")

    # Looking

    def do_log(self) -> None:
        """The log."""
        self._show("log", focus=True)

    def do_log_next(self) -> None:
        """The next log."""
        self._next_log(1)

    def do_log_previous(self) -> None:
        """The log before."""
        self._next_log(-1)

    def do_full(self) -> None:
        """The lower half on the full screen, and back."""
        self.cockpit.toggle_class("-full")
        if self.cockpit.has_class("-full"):
            self.cockpit.lower.focus_pane()

    def do_evidence(self) -> None:
        """The decisive line in the log."""
        found = self.state.explanation
        evidence = next((e for finding in (found.findings if found else ()) for e in finding.evidence), None)
        if evidence is None:
            return
        source = self.feed.serve_source()
        other = source is not None and self._wanted_log != (source.host, source.name, source.run)
        self._show("log", focus=True)
        self.cockpit.lower.go_to(evidence.line, evidence.text, later=other)
        if source is not None and other:
            self._look_at(source)

    def do_show(self) -> None:
        """The finding's line in the log."""
        self.do_evidence()

    def do_explain(self) -> None:
        """Why it is as it is."""
        self._show("why", focus=True)
        self.feed.explain()

    def do_host_1(self) -> None:
        """The first host."""
        self._show_host(0)

    def do_host_2(self) -> None:
        """The second host."""
        self._show_host(1)

    def do_host_next(self) -> None:
        """The next host."""
        self._show_host((self.cockpit.active_host + 1) % max(1, len(self.state.hosts)))

    def _show_host(self, number: int) -> None:
        panels = list(self.cockpit.query(HostPanel))
        if number < len(panels):
            self.cockpit.active_host = number
            panels[number].focus()
            self.cockpit.lower.show_details(panels[number].host, self._host_content(number))

    def _host_content(self, number: int) -> Content:
        return host_content(self.state.hosts[number], self.state)

    def do_serving(self) -> None:
        """The charts of what is served."""
        self._show("serving")

    # Asking

    def do_flags(self) -> None:
        """Judge the flags."""
        self._show("flags", focus=True)
        self.feed.judge_flags()

    def do_prompt(self) -> None:
        """The prompt."""
        self._show("prompt", focus=True)

    @on(PromptPane.Asked)
    def _asked(self, event: PromptPane.Asked) -> None:
        self.feed.ask(event.text, **event.changes)

    def do_stop_answer(self) -> None:
        """Cancel the answer."""
        self.feed.stop_answer()

    def do_retry(self) -> None:
        """Ask every host now."""
        self.feed.wake()

    def do_fix(self) -> None:
        """Apply the fix and run every step."""
        self._apply(relaunch=True)

    def do_apply(self) -> None:
        """Apply the fix."""
        self._apply(relaunch=False)

    def _apply(self, *, relaunch: bool) -> None:
        from cockpit.tui.fixing import apply_fix

        self.run_worker(
            apply_fix(self, relaunch=relaunch), name="fix", group="fix", exclusive=True, exit_on_error=False
        )

    def do_report(self) -> None:
        """Save a report."""
        from cockpit.tui.fixing import save_report

        self.run_worker(save_report(self), name="report", group="report", exclusive=True, exit_on_error=False)

    # The cockpit

    def do_back(self) -> None:
        """Back to the steps, or out of the full screen."""
        if self.cockpit.has_class("-full"):
            self.cockpit.remove_class("-full")
            return
        self.cockpit.steps.focus()

    def do_theme(self) -> None:
        """The next theme."""
        names = self._theme_names
        if names:
            at = names.index(self.theme) if self.theme in names else -1
            self.theme = names[(at + 1) % len(names)]
            self.notify(f"Theme: {self.theme}", timeout=2, markup=False)

    def do_help(self) -> None:
        """All keys."""
        self.push_screen(Help())

    def do_quit(self) -> None:
        """Leave; asks while a step runs."""
        if self._feed is None or not self.feed.busy:
            self.exit()
            return
        running = next((s.title for s in self.state.steps if s.state is StepState.RUNNING), "A step")
        text = Content(
            f"{running} is running. Leaving detaches: what was begun on the hosts goes on, and the next cockpit "
            "sees how it stands. A command that is under way right now is ended."
        )
        self.push_screen(Confirm("Leave?", text, "leave"), self._left)

    def _left(self, yes: bool | None) -> None:
        if yes:
            self.exit()

    async def action_quit(self) -> None:
        """As ``q``: Textual's own ctrl+q must not leave a running step unasked."""
        self.do_quit()

    async def _ask_about_key(self, error: HostKeyUnknown) -> bool:
        """Show an unknown host key and ask; one host at a time."""
        async with self._asking:
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self.push_screen(key_question(error), lambda yes: answer.set_result(bool(yes)))
            return await answer
