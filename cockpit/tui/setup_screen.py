"""The guided set-up: hosts, what they have, a model; in the end a profile. Nothing is changed on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from cockpit.bringup.profiles import listing, user_folder
from cockpit.logs.sanitise import clean
from cockpit.model.profile import Profile
from cockpit.model.profile_error import ProfileError
from cockpit.tui import words
from cockpit.tui.screen import WIDTHS
from cockpit.tui.setup_hosts import Ask, known_aliases, look_at
from cockpit.tui.setup_profile import AddressError, Candidate, fabric, image_of, notes, parse_address
from cockpit.tui.setup_yaml import MARK, propose
from cockpit.tui.themes import shipped_folder
from cockpit.tui.widgets.bars import Footer
from cockpit.tui.widgets.lines import Lines

INTRO = (
    "No profile yet: it is made here of hosts and a model, and can be changed by hand before it is saved. Nothing is "
    "changed on the hosts."
)


def candidate_lines(number: int, candidate: Candidate, end: str, *, brief: bool = False) -> list[Content]:
    """A host as far as it is known; in two lines where it is to be ``brief``."""
    role = "head" if number == 0 else "worker"
    head = [(clean(candidate.address), "bold"), (f" · {role}", "$muted")]
    found = candidate.found
    if candidate.error:
        told = clean(candidate.error, multiline=True).split("\n")
        return [Content.assemble(("✗ ", "$text-error"), *head), *(Content(f"  {line}") for line in told)]
    if found is None:
        return [Content.assemble(("◐ ", "$text-accent"), *head, (" · connecting …", "$text-accent"))]
    gpus = ", ".join(f"{clean(name)} (driver {clean(driver)})" for driver, name in found.gpus) or "no GPU seen"
    docker = (
        f"Docker {clean(found.docker)}, {words.plural(len(found.images), 'image')}"
        if found.docker
        else "no Docker"
    )
    fast = [
        f"{clean(port.name)} {'up' if port.up else 'down'}"
        + (f" {port.speed / 1000:g} Gb/s" if port.speed else "")
        + "".join(f" {address.ip}" for address in port.addresses)
        for port in found.ports
        if port.fast
    ]
    first = Content.assemble(("✓ ", "$text-success"), *head, f" · {clean(found.name)} · {clean(found.system)}")
    if brief:
        return [first, Content(f"  {gpus} · {f'fabric: {end}' if end else 'no fabric that joins the hosts'}")]
    return [
        first,
        Content(f"  {gpus} · {words.gib(found.memory, 0)} GiB · {docker}"),
        Content(
            f"  fabric: {end or 'none that joins the hosts'}"
            + (f" · ConnectX: {'; '.join(fast)}" if fast else "")
        ),
        Content.styled(f"  models here: {clean(', '.join(found.models[:6])) or 'none in the cache'}", "$muted"),
    ]


class SetupScreen(Screen[Path | None]):
    """Gives the path of the profile that was saved, or None."""

    AUTO_FOCUS = "#address"
    CSS_PATH = str(shipped_folder() / "setup.tcss")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    LETTERS = (Input, TextArea)
    """Where keys are text; the footer leaves them out there."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "next", key_display="⇥"),
        Binding("escape", "leave", "leave", key_display="esc"),
        Binding("ctrl+s", "save", "save", priority=True, key_display="^s"),
        Binding("ctrl+x", "drop", "drop host", priority=True, key_display="^x"),
        Binding("ctrl+o", "turn", "other head", priority=True, key_display="^o"),
        Binding("ctrl+r", "again", "again", priority=True, key_display="^r"),
    ]

    def __init__(self, ask: Ask, *, ssh_config: str = "", aliases: Sequence[str] | None = None) -> None:
        super().__init__()
        self._ask = ask
        self._ssh_config = ssh_config
        config = Path(ssh_config) if ssh_config else None
        self.aliases = list(aliases) if aliases is not None else known_aliases(config)
        self.candidates: list[Candidate] = []
        self._bases = {
            entry.name: entry for entry in listing() if entry.source == "shipped" and not entry.error
        }
        self._base = next(iter(self._bases), "")
        self._edited = False
        self._proposed = ""

    def compose(self) -> ComposeResult:
        """Hosts and choices on the left, the profile on the right."""
        yield Static(INTRO, id="setup-intro", markup=False)
        with Horizontal(id="setup"):
            with VerticalScroll(id="setup-left", can_focus=False):
                yield from self._field("1  Hosts, head first", Input(placeholder=self._hint(), id="address"))
                yield Lines(id="hosts-found")
                yield Static("2  Model and flags from", classes="title", markup=False)
                yield OptionList(
                    *(
                        Option(Content(f"{name}  {clean(e.description)}"), id=name)
                        for name, e in self._bases.items()
                    ),
                    id="bases",
                )
                yield from self._field(
                    "3  Image, or venv", Input(placeholder="as in the profile", id="runtime")
                )
                yield from self._field("4  Another model", Input(placeholder="as in the profile", id="model"))
                yield from self._field("5  Profile's name", Input(value="sparks", id="name"))
            with Vertical(id="setup-right"):
                yield TextArea("", language=None, id="yaml", show_line_numbers=True)
                yield Lines(id="setup-notes")
        yield Footer()

    def _field(self, label: str, line: Input) -> ComposeResult:
        with Horizontal(classes="field"):
            yield Static(label, classes="title", markup=False)
            yield line

    def _hint(self) -> str:
        names = " ".join(self.aliases[:6])
        return f"user@host:port, ⏎ adds it{f' · in ssh_config: {names}' if names else ''}"

    def on_mount(self) -> None:
        """Show the first proposal."""
        self.query_one("#setup-right").border_title = Content("The profile")
        self._show()

    def on_resize(self) -> None:
        """Hosts are told in as many lines as there is room for."""
        self.call_after_refresh(self._show)

    # Hosts

    @on(Input.Submitted, "#address")
    def _add(self, event: Input.Submitted) -> None:
        address = event.value.strip()
        if not address:
            return
        try:
            parts = parse_address(address)
        except AddressError as error:
            self.notify(clean(error.message), title="No address", severity="warning", markup=False)
            return
        event.input.value = ""
        if any(one.reached == parts for one in self.candidates):
            self.notify(clean(f"{address} is among the hosts already."), severity="warning", markup=False)
            return
        self.candidates.append(Candidate(address))
        self._show()
        self._look(address)

    def _look(self, address: str) -> None:
        self.run_worker(
            self._looked(address), name=address, group=f"look {address}", exclusive=True, exit_on_error=False
        )

    async def _looked(self, address: str) -> None:
        seen = await look_at(address, self._ask, ssh_config=self._ssh_config)
        self.candidates = [seen if one.address == address else one for one in self.candidates]
        self._show()

    def action_again(self) -> None:
        """Look at every host again."""
        self.candidates = [Candidate(one.address) for one in self.candidates]
        self._show()
        for candidate in self.candidates:
            self._look(candidate.address)

    def action_turn(self) -> None:
        """Make the next host the head."""
        self.candidates = [*self.candidates[1:], *self.candidates[:1]]
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what does something is offered."""
        least = {"turn": 2, "again": 1, "drop": 1}.get(action, 0)
        return len(self.candidates) >= least

    def action_drop(self) -> None:
        """Take the last host out."""
        self.candidates = self.candidates[:-1]
        self._show()

    # The profile

    @on(OptionList.OptionHighlighted, "#bases")
    def _based(self, event: OptionList.OptionHighlighted) -> None:
        self._base = event.option.id or self._base
        self._show()

    @on(Input.Changed, "#runtime, #model, #name")
    def _changed(self) -> None:
        self._show()

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        """What is changed by hand is not overwritten by a later proposal."""
        self._edited = event.text_area.text != self._proposed
        self._tell()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        self.refresh_bindings()
        ends = fabric(self.candidates) or []
        lines: list[Content] = []
        for number, candidate in enumerate(self.candidates):
            end = f"{ends[number].address} on {clean(ends[number].interface)}" if number < len(ends) else ""
            lines += candidate_lines(number, candidate, end, brief=self.has_class("-narrow"))
        self.query_one("#hosts-found", Lines).show(
            Content("\n").join(lines) if lines else Content.styled("no host yet", "$muted")
        )
        if not self._edited:
            self._proposed = self._propose()
            self.query_one("#yaml", TextArea).text = self._proposed
        self._tell()

    def _propose(self) -> str:
        entry = self._bases.get(self._base)
        if entry is None or not self.candidates:
            return ""
        runtime = self.query_one("#runtime", Input).value.strip() or image_of(self.candidates)
        model = self.query_one("#model", Input).value.strip()
        name = self.query_one("#name", Input).value.strip() or "sparks"
        base = entry.path.read_text(encoding="utf-8")
        return clean(propose(base, name, self.candidates, runtime, model), multiline=True)

    def _tell(self) -> None:
        profile, mistakes = self._read()
        told = [f"▲ {clean(note)}" for note in notes(self.candidates, profile)]
        told += [f"✗ {clean(line.strip())}" for line in mistakes[:4]]
        if len(mistakes) > 4:
            told.append(f"✗ and {words.plural(len(mistakes) - 4, 'more mistake')}")
        marked = self._marked()
        if marked:
            told.append(f"· look at the lines marked {MARK}: {', '.join(marked)}")
        if self._edited:
            told.append("· changed by hand: it is saved as it stands here")
        self.query_one("#setup-notes", Lines).show(Content("\n".join(told)))

    def _marked(self) -> list[str]:
        """The numbers of the lines that are still to be filled in."""
        lines = self.query_one("#yaml", TextArea).text.split("\n")
        return [str(number) for number, line in enumerate(lines, 1) if f"# {MARK}" in line]

    def _read(self) -> tuple[Profile | None, list[str]]:
        """The profile as it stands, or its mistakes, the first line being how many."""
        from cockpit.model.profile_yaml import parse

        text = self.query_one("#yaml", TextArea).text
        if not text:
            return None, []
        try:
            return parse(text.encode(), f"{self.query_one('#name', Input).value}.yaml"), []
        except ProfileError as error:
            return None, error.message.split("\n")

    def action_save(self) -> None:
        """Save the profile in the user's folder, and open the cockpit on it."""
        text = self.query_one("#yaml", TextArea).text
        mistakes = self._read()[1] if text else ["There is no host yet: type its address, ⏎ adds it."]
        if mistakes:
            first = "\n".join(mistakes[:2])
            self.notify(clean(first, multiline=True), title="Not saved", severity="warning", markup=False)
            return
        path = user_folder() / f"{self.query_one('#name', Input).value.strip() or 'sparks'}.yaml"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") else f"{text}\n")
        except FileExistsError:
            self.notify(f"{path} is there already: take another name.", severity="warning", markup=False)
        except OSError as error:
            self.notify(clean(f"{path}: {error.strerror}"), title="Not saved", severity="error", markup=False)
        else:
            self.dismiss(path)

    def action_leave(self) -> None:
        """Leave without a profile."""
        self.dismiss(None)
