"""Which log the screen shows, and how another is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.logs.sources import Kind, Source
from cockpit.tui import words
from cockpit.tui.feed import Key, key_of

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


class LogChoice:
    """The log that is wanted; the serve log of the last run, until another is chosen."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self._wanted: Key | None = None

    def follow_run(self) -> None:
        """A new run's serve log takes the place of the one before."""
        if self._wanted is None or self._wanted[1] == "serve":
            source = self._app.feed.serve_source() if self._app.opened else None
            if source is not None and key_of(source) != self._wanted:
                self.look_at(source)

    def look_at(self, source: Source) -> None:
        """Show ``source`` as soon as its copy can be read."""
        self._wanted = key_of(source)
        self._app.feed.show_log(source)

    def opened(self, key: Key, path: Path) -> None:
        """The copy of a log can be read."""
        if key != self._wanted:
            return
        host, name, run = key
        title = f"{name} · {host}" + (f" · run {words.run_name(run)}" if run else "")
        work = self._app.cockpit.lower.show_log(path, title)
        self._app.run_worker(work, name="log", group="log", exclusive=True, exit_on_error=False)

    def turn(self, step: int) -> None:
        """The log ``step`` further on."""
        sources = self._sources()
        if not sources:
            self._app.notify("There is no log yet.", markup=False)
            return
        keys = [key_of(source) for source in sources]
        at = keys.index(self._wanted) if self._wanted in keys else -step
        self.look_at(sources[(at + step) % len(sources)])
        self._app.show("log")

    def _sources(self) -> list[Source]:
        """The logs in the order in which they are gone through: of each host, the last run's serve log alone."""
        state = self._app.state
        run = state.run.id if state.run else ""
        return [
            source
            for host in state.hosts
            for source in host.sources
            if not source.grant and (source.kind is not Kind.SERVE or source.run == run)
        ]

    def go_to_evidence(self, *, focus: bool) -> None:
        """The decisive line in the log, selected."""
        found = self._app.state.explanation
        evidence = next((e for finding in (found.findings if found else ()) for e in finding.evidence), None)
        if evidence is None:
            return
        source = self._app.feed.serve_source()
        other = source is not None and self._wanted != key_of(source)
        self._app.show("log", focus=focus)
        self._app.cockpit.lower.go_to(evidence.line, evidence.text, later=other)
        if source is not None and other:
            self.look_at(source)
