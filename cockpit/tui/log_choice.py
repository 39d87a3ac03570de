"""Which log the screen shows, and how another is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from textual.worker import Worker

from cockpit.logs.sources import Kind, Reach, Source
from cockpit.model.finding import Evidence
from cockpit.tui import words
from cockpit.tui.feed import Key, key_of

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


class LogChoice:
    """The log that is wanted; the serve log of the last run, until another is chosen."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self._wanted: Key | None = None
        self._shown: Path | None = None
        self._paths: dict[Key, Path] = {}
        self._merged: tuple[Key, Key] | None = None
        """The two logs that are shown by time, the serve log first."""
        self._evidence: Evidence | None = None
        self._stood_for: Key | None = None
        """The serve log of the run whose evidence is shown in another log, until one is chosen."""

    def follow_run(self) -> None:
        """A new run's serve log takes the place of the one before, and of what was shown as that one's evidence."""
        mine = self._wanted is None or self._wanted[1] == "serve" or self._stood_for is not None
        source = self._app.feed.serve_source() if mine and self._app.opened else None
        if source is not None and key_of(source) not in (self._wanted, self._stood_for):
            self.look_at(source)

    def look_at(self, source: Source) -> None:
        """Show ``source`` as soon as its copy can be read."""
        self._merged = self._stood_for = None
        self._wanted = key_of(source)
        self._app.feed.show_log(source)

    def opened(self, key: Key, path: Path) -> None:
        """The copy of a log can be read."""
        self._paths[key] = path
        if self._merged is not None:
            if all(each in self._paths for each in self._merged):
                self._show_merged(self._merged)
            return
        if key != self._wanted or path == self._shown:
            return
        self._shown = path
        host, name, run = key
        title = f"{name} · {host}" + (f" · run {words.run_name(run)}" if run else "")
        self._show({host: path}, title)

    def _show_merged(self, keys: tuple[Key, Key]) -> None:
        paths = {host: self._paths[host, name, run] for host, name, run in keys}
        if self._shown != self._paths[keys[1]] or len(self._app.cockpit.lower.shown_logs) < 2:
            self._shown = self._paths[keys[1]]
            self._show(paths, " + ".join(f"{name} · {host}" for host, name, _ in keys) + " · by time")

    def _show(self, paths: Mapping[str, Path], title: str) -> None:
        async def show() -> None:
            await self._app.cockpit.lower.show_logs(paths, title)

        self._showing: Worker[None] = self._app.run_worker(
            show, name="log", group="log", exclusive=True, exit_on_error=False
        )

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

    def merge(self) -> None:
        """Show the serve log and a log of another host by time: the one that was looked at, else what Ray's
        newest worker there wrote. Asked again, show the serve log alone."""
        serve = self._app.feed.serve_source()
        if serve is None:
            self._app.notify("There is no serve log yet.", markup=False)
            return
        if self._merged is not None:
            self.look_at(serve)
            self._app.show("log")
            return
        others = [source for source in self._sources() if source.host != serve.host]
        chosen = [source for source in others if key_of(source) == self._wanted]
        workers = [source for source in others if source.name.startswith("worker-") and source.size]
        partner = next(iter([*chosen, *workers, *others]), None)
        if partner is None:
            self._app.notify("No other host has a log yet.", markup=False)
            return
        self._merged = (key_of(serve), key_of(partner))
        self._wanted, self._shown = key_of(partner), None
        for source in (serve, partner):
            self._app.feed.show_log(source)
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

    def stand_at_evidence(self) -> bool:
        """Let the log that holds the line that decided be shown with that line selected, as soon as its copy has
        it; False where no log of the hosts holds it (the kernel's is kept by a cursor, not by lines)."""
        found = self._app.state.explanation
        for finding in found.findings if found else ():
            for evidence in finding.evidence:
                source = self._holding(evidence)
                if source is not None:
                    self._evidence = evidence
                    if self._wanted != key_of(source):
                        self.look_at(source)
                    serve = self._app.feed.serve_source()
                    if serve is not None and source.kind is not Kind.SERVE:
                        self._stood_for = key_of(serve)
                    self.keep_up()
                    return True
        return False

    def _holding(self, evidence: Evidence) -> Source | None:
        """The log that a line of evidence stands in: its file is "serve.log of run R on HOST", or "NAME on HOST"."""
        if evidence.file.startswith("serve.log"):
            return self._app.feed.serve_source()
        name, _, host = evidence.file.rpartition(" on ")
        return next(
            (
                source
                for view in self._app.state.hosts
                if view.name == host
                for source in view.sources
                if source.name == name and source.reach is not Reach.JOURNAL
            ),
            None,
        )

    def keep_up(self) -> None:
        """The copy may have the line by now."""
        evidence, lower = self._evidence, self._app.cockpit.lower
        source = self._holding(evidence) if evidence is not None else None
        if source is None or evidence is None or lower.shown_log is None or self._wanted != key_of(source):
            return
        if lower.shown_log.file.path == self._shown and lower.go_to(evidence.line):
            self._evidence = None
