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
from cockpit.model.profile_error import ProfileError
from cockpit.tui import words
from cockpit.tui.screen import WIDTHS
from cockpit.tui.setup_hosts import Ask, known_aliases, look_at
from cockpit.tui.setup_profile import Candidate, fabric, image_of, notes, propose
from cockpit.tui.widgets.bars import Footer
from cockpit.tui.widgets.host_panel import Lines

INTRO = (
    "No profile yet. Name the hosts, see what they have, take a model: the profile below is made of it, and can be "
    "changed by hand before it is saved. Nothing is changed on the hosts."
)


def candidate_lines(number: int, candidate: Candidate, end: str) -> list[Content]:
    """A host as far as it is known."""
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
    return [
        Content.assemble(("✓ ", "$text-success"), *head, f" · {clean(found.name)} · {clean(found.system)}"),
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
    HORIZONTAL_BREAKPOINTS = WIDTHS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save and open", priority=True, key_display="^s"),
        Binding("ctrl+o", "turn", "other host is head", priority=True, key_display="^o"),
        Binding("ctrl+r", "again", "look again", priority=True, key_display="^r"),
        Binding("ctrl+x", "drop", "drop last host", priority=True, key_display="^x"),
        Binding("escape", "leave", "leave", key_display="esc"),
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
                yield Static("1  Hosts, the head first", classes="title", markup=False)
                yield Input(placeholder=self._hint(), id="address")
                yield Lines(id="hosts-found")
                yield Static("2  Model and flags from", classes="title", markup=False)
                yield OptionList(
                    *(
                        Option(Content(f"{name}  {clean(e.description)}"), id=name)
                        for name, e in self._bases.items()
                    ),
                    id="bases",
                )
                yield Static("3  Image, or folder of a virtual environment", classes="title", markup=False)
                yield Input(placeholder="as in the profile", id="runtime")
                yield Static("4  Model, where it is another", classes="title", markup=False)
                yield Input(placeholder="as in the profile", id="model")
                yield Static("5  The profile's name", classes="title", markup=False)
                yield Input(value="sparks", id="name")
            with Vertical(id="setup-right"):
                yield TextArea("", language=None, id="yaml", show_line_numbers=True)
                yield Lines(id="setup-notes")
        yield Footer()

    def _hint(self) -> str:
        names = " ".join(self.aliases[:6])
        return f"address or alias, ⏎ adds it{f' · in ssh_config: {names}' if names else ''}"

    def on_mount(self) -> None:
        """Show the first proposal."""
        self.query_one("#setup-right").border_title = Content("The profile")
        self._show()

    # Hosts

    @on(Input.Submitted, "#address")
    def _add(self, event: Input.Submitted) -> None:
        address = event.value.strip()
        event.input.value = ""
        if not address or any(one.address == address for one in self.candidates):
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
        ends = fabric(self.candidates) or []
        lines: list[Content] = []
        for number, candidate in enumerate(self.candidates):
            end = f"{ends[number].address} on {clean(ends[number].interface)}" if number < len(ends) else ""
            lines += candidate_lines(number, candidate, end)
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
        told = [f"· {clean(note)}" for note in notes(self.candidates)]
        told += [f"✗ {clean(line)}" for line in self._mistakes()[:3]]
        if self._edited:
            told.append("· changed by hand: it is saved as it stands here")
        self.query_one("#setup-notes", Lines).show(Content("\n".join(told)))

    def _mistakes(self) -> list[str]:
        from cockpit.model.profile_yaml import parse

        text = self.query_one("#yaml", TextArea).text
        if not text:
            return []
        try:
            parse(text.encode(), f"{self.query_one('#name', Input).value}.yaml")
        except ProfileError as error:
            return error.message.split("\n")
        return []

    def action_save(self) -> None:
        """Save the profile in the user's folder, and open the cockpit on it."""
        text = self.query_one("#yaml", TextArea).text
        mistakes = self._mistakes() if text else ["There is no host yet."]
        if mistakes:
            self.notify(clean(mistakes[0]), title="Not saved", severity="warning", markup=False)
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
