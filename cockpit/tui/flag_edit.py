"""What the editor of flags shows at one moment, and how a key changes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cockpit.bringup.flag_draft import Draft
from cockpit.bringup.flag_judge import FlagCheck
from cockpit.model.finding import Problem, Severity, profile_fixes
from cockpit.model.profile import FlagValue
from cockpit.serving.arguments import canonical, serve_argv, written_key
from cockpit.serving.flag_differences import Difference, between, from_defaults
from cockpit.serving.flag_editor import FlagEditor
from cockpit.serving.schema import Kind, Schema
from cockpit.tui.flag_keys import Mode


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: ``key`` is the flag as the profile or vLLM writes it, ``text`` its value or what it
    takes, ``severity`` the worst that was found about it."""

    key: str
    text: str
    severity: Severity | None = None
    present: bool = True
    changed: bool = False


@dataclass(frozen=True, slots=True)
class EditView:
    """The editor's state. ``check`` is the last verdict and ``judged`` the file's bytes that it is about;
    ``judging`` is when vLLM was asked anew. ``key`` and ``text`` are what is being typed, ``refused`` why it would
    make no profile."""

    draft: Draft
    schema: Schema
    mode: Mode = Mode.FLAGS
    key: str = ""
    text: str = ""
    check: FlagCheck | None = None
    judged: bytes = b""
    took: float | None = None
    judging: float | None = None
    resting: str = ""
    error: str = ""
    refused: str = ""
    past: tuple[Draft, ...] = ()

    @property
    def editor(self) -> FlagEditor:
        """Completion, help and mistakes."""
        return FlagEditor(self.schema)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found last."""
        return self.check.problems if self.check else ()

    @property
    def run(self) -> tuple[str, ...]:
        """The command line of the run in progress, () where none is known."""
        facts = self.check.facts if self.check else None
        return facts.run if facts else ()

    # What is seen

    def rows(self) -> tuple[Row, ...]:
        """The list: the profile's flags, the flags that a name may mean, or a value's proposals."""
        if self.mode is Mode.NAME:
            flags = self.draft.profile.serve.flags
            found = self.editor.complete_name(self.text, most=400)
            return tuple(
                Row(one.text, one.detail, present=written_key(flags, one.text) is not None) for one in found
            )
        if self.mode is Mode.VALUE:
            return self._values()
        others = frozenset(one.flag for one in self.from_run)
        return tuple(self._row(key, value, others) for key, value in self.draft.profile.serve.flags.items())

    def _values(self) -> tuple[Row, ...]:
        """What the value may be: all of it while what is typed is one of them, or none."""
        every = self.editor.complete_value(self.key)
        meant = self.editor.complete_value(self.key, self.text)
        whole = not meant or any(one.text == self.text for one in every)
        return tuple(Row(one.text, one.detail) for one in (every if whole else meant))

    def _row(self, key: str, value: FlagValue, others: frozenset[str]) -> Row:
        flag = self.schema.find(key)
        names = {canonical(key), flag.name if flag else ""}
        worst = [one.severity for one in self.about(key)]
        order = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
        severity = min(worst, key=order.index) if worst else None
        return Row(key, self.editor.shown(value), severity, changed=bool(names & others))

    def about(self, key: str) -> tuple[Problem, ...]:
        """The problems that blame the flag ``key``: by its name, or by its line of the profile."""
        flag = self.schema.find(key)
        names = {canonical(key), flag.name if flag else canonical(key)}
        place = self.draft.profile.place("serve", "flags", key)
        return tuple(
            one for one in self.problems if canonical(one.flag) in names or (place and one.place == place)
        )

    @property
    def mistake(self) -> str:
        """What the flags' list alone says against what is typed; vLLM's own words come a moment later."""
        if self.mode is not Mode.VALUE:
            return ""
        return self.editor.mistake(self.key, self.typed)

    @property
    def typed(self) -> FlagValue:
        """The value that is being typed, as the profile would have it."""
        return self.editor.typed(self.key, self.text)

    @property
    def from_defaults(self) -> tuple[Difference, ...]:
        """What differs from vLLM's defaults."""
        return from_defaults(self.draft.profile.serve.flags, self.schema)

    @property
    def from_run(self) -> tuple[Difference, ...]:
        """What differs from the run in progress."""
        return between(serve_argv(self.draft.profile), self.run, self.schema) if self.run else ()

    # What a key does

    def naming(self, text: str = "") -> EditView:
        """A flag is to be named."""
        return replace(self, mode=Mode.NAME, key="", text=text)

    def valuing(self, key: str) -> EditView:
        """The value of ``key`` is to be typed: it begins with the one it has."""
        flags = self.draft.profile.serve.flags
        written = key if key in flags else written_key(flags, canonical(key)) or canonical(key)
        text = self.editor.shown(flags[written]) if written in flags else self._first_value(written)
        return replace(self, mode=Mode.VALUE, key=written, text=text)

    def _first_value(self, key: str) -> str:
        """A flag that is new begins with what it is set for: a switch is turned from its default."""
        flag = self.schema.find(key)
        if flag is None or "." in key:
            return ""
        if flag.kind is Kind.SWITCH:
            return "false" if flag.default is True else "true"
        return ""

    def typing(self, text: str) -> EditView:
        """Something was typed."""
        return replace(self, text=text, refused="")

    def listing(self) -> EditView:
        """Back to the profile's flags, nothing taken."""
        return replace(self, mode=Mode.FLAGS, key="", text="", refused="")

    def trial(self) -> Draft:
        """The draft with what is being typed; raises ``ProfileError`` and ``ChangeError``."""
        flags = self.draft.profile.serve.flags
        if self.mode is not Mode.VALUE or (self.key in flags and flags[self.key] == self.typed):
            return self.draft
        return self.draft.with_flag(self.key, self.typed)

    def taken(self) -> EditView:
        """What was typed is the flag's value now; raises as ``trial``."""
        return self.edited(self.trial()).listing()

    def edited(self, draft: Draft) -> EditView:
        """Another draft; the one before can be had back."""
        return replace(self, draft=draft, past=(*self.past, self.draft)) if draft != self.draft else self

    def undone(self) -> EditView:
        """The draft before the last change."""
        return replace(self, draft=self.past[-1], past=self.past[:-1]) if self.past else self

    def saved(self, path: Path) -> EditView:
        """What was written to ``path`` is what the file holds now; undoing goes back past it all the same."""
        before, file = self.draft.data, str(path)
        past = tuple(replace(one, before=before) for one in self.past)
        draft = replace(self.draft, before=before)
        return replace(self, draft=draft.moved(file), past=tuple(one.moved(file) for one in past))

    def mended(self, problems: tuple[Problem, ...]) -> EditView:
        """The changes of the profile that ``problems`` propose, made; raises as ``trial``."""
        fixes = profile_fixes(problems)
        return self.edited(self.draft.mended(fixes)) if fixes else self

    def next_fix(self, key: str) -> tuple[Problem, ...]:
        """The problem that is mended next: the flag's own, else the first that has a change."""
        mendable = [one for one in self.problems if profile_fixes([one])]
        own = [one for one in mendable if key and one in self.about(key)]
        return tuple((own or mendable)[:1])


def split_entry(text: str) -> tuple[str, str | None]:
    """A flag as it is written elsewhere, ``--name=value``, ``--name value`` or ``name: value``: its name and
    its value, None where there is only a name."""
    stripped = text.strip()
    name, _, rest = stripped.partition(" ")
    if "=" in name:
        name, _, value = stripped.partition("=")
        return name, value
    return (name.rstrip(":"), rest.strip()) if rest.strip() else (name.rstrip(":"), None)
