"""What reaches the hosts for the screen: the session, its pollers, the runner. Tells the store; shows nothing."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cockpit.bringup.errors import StepError
from cockpit.bringup.events import Ended, Found, Outcome, StepChanged, StepName, StepState
from cockpit.bringup.open import Ask, open_session
from cockpit.bringup.profiles import find
from cockpit.bringup.runner import Planned, Runner, tell
from cockpit.bringup.runner import plan as make_plan
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner
from cockpit.bringup.steps import all_steps
from cockpit.logs.sources import Kind, Source
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError
from cockpit.model.profile import Profile
from cockpit.runtime.environment import environment
from cockpit.tui import earlier
from cockpit.tui import facts as f
from cockpit.tui.feed import Key, key_of
from cockpit.tui.flag_desk import HostFlags
from cockpit.tui.poll_guard import watch_guard
from cockpit.tui.poll_head import HeadPoller
from cockpit.tui.poll_host import HostPoller
from cockpit.tui.poll_log import Logs
from cockpit.tui.state import FlagsView, RunView
from cockpit.tui.store import Store

if TYPE_CHECKING:
    from cockpit.bringup.preparation.preparer import Confirm, Show
    from cockpit.bringup.preparation.task import Tell


def _nothing(*_: object) -> None:
    """Nobody listens."""


class Live:
    """One profile's hosts. ``open`` begins; ``close`` ends what is here and nothing on the hosts."""

    def __init__(self, store: Store, *, ask: Ask | None = None) -> None:
        self.store = store
        self.on_log: Callable[[Key, Path], None] = _nothing
        self._ask = ask
        self._stack = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None
        self._answer: asyncio.Task[None] | None = None
        self.session: Session | None = None
        self._pollers: dict[str, HostPoller] = {}
        self._head: HeadPoller | None = None
        self._logs: Logs | None = None
        self._wanted: Key | None = None
        self._explained_run = ""

    # Opening and closing

    async def open(self, name: str) -> None:
        """Read the profile and begin to ask its hosts."""
        try:
            profile = await asyncio.to_thread(find, name)
        except CockpitError as error:
            self.store.apply(f.ProfileFailed(str(error)))
            return
        await asyncio.to_thread(importlib.import_module, "asyncssh")
        await self._begin(profile)

    async def _begin(self, profile: Profile) -> None:
        session = await self._stack.enter_async_context(
            open_session(profile, emit=self.store.happened, ask=self._ask)
        )
        self.session = session
        # From here on keys are offered, and each finds the session.
        self.store.apply(f.ProfileLoaded(profile))
        self.store.apply(f.EarlierRead(earlier.read(profile.name)))
        quiet = _quiet(session)
        self._logs = Logs(quiet, self.store.apply, self._opened)
        for spec in profile.hosts:
            poller = HostPoller(spec, session.hosts[spec.name], self.store.apply, self.store.clock)
            self._pollers[spec.name] = poller
            self._start(poller.run())
            self._start(self._logs.watch_sources(spec, poller.up))
            self._start(watch_guard(quiet, spec, poller.up, self.store.apply, self._guarded))
        up = self._pollers[profile.head.name].up
        self._head = head = HeadPoller(quiet, up, self._took, lambda: self.busy)
        for question in (head.watch_run, head.watch_ray, head.watch_steps, head.watch_metrics):
            self._start(question())
        self._start(self._tick())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.store.apply(f.LookFailed("the screen itself", f"{task.exception()!r}"))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.store.apply(f.Ticked())

    async def close(self) -> None:
        """End everything here. What runs on the hosts goes on."""
        tasks = [task for task in (*self._tasks, self._work, self._answer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._logs is not None:
            await self._logs.close()
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        self.session = self._head = self._logs = None
        self._pollers = {}

    async def reopen(self, name: str) -> None:
        """Begin anew with the profile as it is now in its file."""
        await self.close()
        await self.open(name)

    # What the pollers tell

    def _took(self, fact: f.Fact) -> None:
        before = self.store.state.run
        self.store.apply(fact)
        run = self.store.state.run
        if run is not None:
            self._explain_ended(run)
            if self._logs is not None and (before is None or before.id != run.id):
                self._logs.wake()
                self._start(self._logs.tidy(run.id))
            self._remember_load(before, run)
        self._follow_serve()

    def _guarded(self) -> bool:
        run = self.store.state.run
        return run is not None and run.running

    def _explain_ended(self, run: RunView) -> None:
        """A run that is over is explained once by itself: whoever opens the cockpit afterwards sees why."""
        if run.running or self.busy or self._explained_run == run.id or self.session is None:
            return
        self._explained_run = run.id
        if self.store.state.explained_run != run.id:
            self._start(self._explained(run.id, stacks=False))

    def _remember_load(self, before: RunView | None, run: RunView) -> None:
        """A load that was watched from its launch until it is ready tells how long the next will take."""
        profile = self.store.state.profile
        if profile is None or not run.ready or before is None or before.ready or before.id != run.id:
            return
        durations = earlier.observed(run.began, run.phases)
        if durations is not None:
            earlier.add(profile.name, durations)
            self.store.apply(f.EarlierRead(earlier.read(profile.name)))

    def _opened(self, key: Key, path: Path) -> None:
        self.on_log(key, path)

    def serve_source(self) -> Source | None:
        """The serve log of the last run."""
        state = self.store.state
        if state.run is None:
            return None
        for host in state.hosts:
            for source in host.sources:
                if source.kind is Kind.SERVE and source.run == state.run.id:
                    return source
        return None

    def _follow_serve(self) -> None:
        """The serve log is always followed: the load is read from it. A host has four streams only, and the
        runner needs two of the head's: a second log of the head takes the place of this one then."""
        source = self.serve_source()
        if source is None or self._logs is None:
            return
        keep = {key_of(source)}
        if self._wanted is not None and self._wanted not in keep:
            keep = {self._wanted} if self.busy and self._wanted[0] == source.host else keep | {self._wanted}
        self._logs.leave(keep)
        if key_of(source) in keep:
            self._logs.follow(source)

    def show_log(self, source: Source) -> None:
        """Follow a log because it is looked at; ``on_log`` is told when it can be read."""
        if self._logs is not None:
            self._wanted = key_of(source)
            self._logs.follow(source)
            self._follow_serve()

    # The runner

    @property
    def busy(self) -> bool:
        """Whether the runner is at work."""
        return self._work is not None and not self._work.done()

    def plan(self) -> tuple[Planned, ...]:
        """Every step's commands, as they would run; touches nothing."""
        profile = self.store.state.profile
        return make_plan(Planner(profile, environment(profile))) if profile else ()

    def undo_plan(self, name: StepName | None) -> tuple[Command, ...]:
        """The commands that take back a step, or all of them in reverse."""
        profile = self.store.state.profile
        if profile is None:
            return ()
        planner = Planner(profile, environment(profile))
        steps = [step for step in reversed(all_steps()) if name is None or step.name is name]
        return tuple(command for step in steps for command in step.undo_plan(planner))

    def up(self, through: StepName = StepName.PROMPT, *, forced: bool = False) -> None:
        """All steps in order."""
        self._do("up", lambda runner: runner.up(through), forced=forced)

    def down(self) -> None:
        """All steps undone, in reverse."""
        self._do("down", lambda runner: runner.down(), undoing=True)

    def run_step(self, name: StepName) -> None:
        """One step alone."""
        self._do(f"run {name.value}", lambda runner: self._one(runner.run_one(name)))

    def undo_step(self, name: StepName) -> None:
        """One step taken back."""
        self._do(f"undo {name.value}", lambda runner: self._one(runner.undo_one(name)), undoing=True)

    def _do(
        self,
        verb: str,
        work: Callable[[Runner], Coroutine[Any, Any, Outcome | None]],
        *,
        undoing: bool = False,
        forced: bool = False,
    ) -> None:
        if self.session is None or self.busy or self.store.state.read_only:
            return
        session = replace(self.session, emit=self.store.happened, forced=forced, notes={})
        self._work = asyncio.create_task(self._worked(verb, work(Runner(session)), undoing))

    async def _worked(self, verb: str, work: Coroutine[Any, Any, Outcome | None], undoing: bool) -> None:
        outcome: Outcome | None = Outcome.DETACHED
        self.store.apply(f.WorkBegan(verb, undoing))
        try:
            outcome = await work
        finally:
            self.store.apply(f.WorkEnded(outcome))
            if self._head is not None:
                self._head.wake()

    async def _one(self, work: Coroutine[Any, Any, object]) -> Outcome | None:
        """A single step; its error is told as the runner tells those of ``up``."""
        try:
            await work
        except StepError as error:
            states = {Outcome.REFUSED: StepState.REFUSED, Outcome.UNREACHABLE: StepState.UNKNOWN}
            state = states.get(error.outcome, StepState.FAILED)
            self.store.happened(StepChanged(error.step, state, tell(error), error.host))
            for finding in error.findings:
                self.store.happened(Found(finding))
            self.store.happened(Ended(error.outcome))
            return error.outcome
        return None

    def stop_watching(self) -> None:
        """Detach the runner: what it began on the hosts goes on."""
        if self._work is not None:
            self._work.cancel()

    def attend(self, watched: bool) -> None:
        """Whether somebody looks at the charts of what is served."""
        if self._head is not None:
            self._head.attentive = watched

    def wake(self) -> None:
        """Ask every host now."""
        for poller in self._pollers.values():
            poller.wake()
        if self._head is not None:
            self._head.wake()
        if self._logs is not None:
            self._logs.wake()

    # Questions of the operator's

    def ask(self, text: str, **changes: Any) -> None:
        """Send a prompt; ``changes`` are fields of ``PromptSpec`` that differ from the profile's."""
        if self.session is None or (self._answer is not None and not self._answer.done()):
            return
        self._answer = asyncio.create_task(self._answered(text, changes))

    def stop_answer(self) -> None:
        """Cancel the prompt; vLLM ends the request."""
        if self._answer is not None:
            self._answer.cancel()

    async def _answered(self, text: str, changes: dict[str, Any]) -> None:
        from cockpit.bringup.ask import stream_answer

        if self.session is None:
            return
        profile = self.session.profile
        session = _quiet(self.session)
        session.profile = replace(profile, prompt=replace(profile.prompt, **changes))
        self.store.apply(f.PromptAsked(text))
        try:
            result = await stream_answer(session, text, lambda a, b: self.store.apply(f.PromptPiece(a, b)))
        except CockpitError as error:
            self.store.apply(f.PromptEnded(error=str(error)))
        except asyncio.CancelledError:
            self.store.apply(f.PromptEnded(error="cancelled"))
            raise
        else:
            self.store.apply(f.PromptEnded(result))

    def explain(self, *, stacks: bool = False) -> None:
        """Explain the last run from every log of every host; with ``stacks`` those are taken first."""
        run = self.store.state.run
        if self.session is not None and run is not None:
            self._start(self._explained(run.id, stacks))

    async def _explained(self, run: str, stacks: bool) -> None:
        from cockpit.bringup.evidence import explain_run, take_stacks

        if self.session is not None and stacks:
            await take_stacks(_quiet(self.session), run)
        if self.session is not None:
            self.store.apply(f.Explained(run, await explain_run(_quiet(self.session), run)))

    async def report(self) -> str:
        """A report for others on the last run; raises ``CockpitError``."""
        from cockpit.bringup.evidence import gather
        from cockpit.diagnosis.engine import explain
        from cockpit.diagnosis.report import report

        run = self.store.state.run
        if self.session is None or run is None:
            return ""
        sources = await gather(_quiet(self.session), run.id)
        addresses = {spec.cluster_address: spec.name for spec in self.session.profile.hosts}
        found = await asyncio.to_thread(explain, sources, addresses)
        return await asyncio.to_thread(report, found, sources, {})

    def judge_flags(self) -> None:
        """Judge the profile's flags by the vLLM that will run."""
        if self.session is not None and not self.busy:
            self._start(self._judged())

    async def prepare(self, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
        """Make so what preflight found missing; raises ``CockpitError``. Not while a step runs."""
        from cockpit.bringup.preparation.preparer import prepare

        if self.session is None or self.busy:
            raise CockpitError("A step is running." if self.busy else "The hosts are not connected.")
        outcome = await prepare(_quiet(self.session), only=None, confirm=confirm, show=show, tell=tell)
        self.wake()
        return outcome

    def flag_desk(self) -> HostFlags:
        """The vLLM on the head."""
        return HostFlags(lambda: _quiet(self.session) if self.session else None, self._occupied)

    def _occupied(self) -> str:
        """Why no helper may be loaded on the head now: it holds memory that a load needs."""
        if self.store.state.read_only:
            return "this cockpit only looks"
        if self.busy:
            return "a step is running"
        return "a run is loading" if self.store.state.loading else ""

    async def _judged(self) -> None:
        if self.session is None:
            return
        self.store.apply(f.FlagsJudged(FlagsView(busy=True)))
        try:
            await self.session.connect()
            result = await self.flag_desk().check(self.session.profile, None)
        except CockpitError as error:
            self.store.apply(f.FlagsJudged(FlagsView(error=str(error))))
        else:
            self.store.apply(f.FlagsJudged(FlagsView(result.vllm, result.problems, unasked=result.unasked)))


def _quiet(session: Session) -> Session:
    """The same hosts, for questions beside the runner: with notes of its own, and nobody watching."""
    return replace(session, emit=_nothing, notes={}, step=StepName.CONNECT)
