"""The guided set-up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, TextArea

from cockpit.bringup.profiles import find, shipped_folder, user_folder
from cockpit.hosts.errors import HostKeyUnknown
from cockpit.model.profile import DockerRuntime, NativeRuntime
from cockpit.model.profile_yaml import parse
from cockpit.probes.setup import Found, Port, SetupError, parse_found
from cockpit.tui.app import CockpitApp
from cockpit.tui.setup_hosts import known_aliases, look_at
from cockpit.tui.setup_profile import (
    Address,
    AddressError,
    Candidate,
    End,
    fabric,
    host_name,
    image_of,
    notes,
    parse_address,
)
from cockpit.tui.setup_screen import SetupScreen, candidate_lines
from cockpit.tui.setup_yaml import propose
from tests.tui.scenes import HOSTILE, QuietFeed


def port(name: str, address: str, speed: int | None, driver: str = "", up: bool = True) -> Port:
    """A network interface."""
    return Port(name, driver, up, speed, (IPv4Interface(address),))


def spark(number: int) -> Found:
    """A Spark with its management network, both twins of the cabled port, and Docker's bridge."""
    return Found(
        f"spark-{number}",
        "Linux 6.11 aarch64",
        128 * 10**9,
        (("580.95.05", "NVIDIA GB10"),),
        "28.3.3",
        ("vllm-node:latest", "ubuntu:24.04"),
        (
            port("lo", "127.0.0.1/8", None),
            port("enP7s7", f"10.0.0.{number}/24", 10_000, "r8127"),
            port("enp1s0f1np1", f"192.168.100.{9 + number}/24", 200_000, "mlx5_core"),
            port("enP2p1s0f1np1", f"192.168.101.{9 + number}/24", 200_000, "mlx5_core"),
            port("enp1s0f0np0", f"192.168.102.{9 + number}/24", 200_000, "mlx5_core", up=False),
            port("docker0", "172.17.0.1/16", 10_000, "bridge"),
        ),
        ("Qwen/Qwen3.5-122B-A10B-FP8",),
    )


BOTH = [Candidate("spark-1.local", spark(1)), Candidate("ubuntu@spark-2.local", spark(2))]


def test_the_fabric_is_found() -> None:
    """The fastest network that joins the hosts; never the management network, a bridge with the same address on
    both, or a port that is down."""
    assert fabric(BOTH) == [End("192.168.100.10", "enp1s0f1np1"), End("192.168.100.11", "enp1s0f1np1")]
    assert fabric(BOTH[:1]) is None
    assert fabric([BOTH[0], Candidate("x")]) is None


def test_another_port_on_the_other_host() -> None:
    """The two boxes may be cabled at different ports."""
    other = Found("b", "", 1, ports=(port("enp1s0f0np0", "192.168.100.20/24", 200_000, "mlx5_core"),))
    assert fabric([BOTH[0], Candidate("b", other)]) == [
        End("192.168.100.10", "enp1s0f1np1"),
        End("192.168.100.20", "enp1s0f0np0"),
    ]


@pytest.mark.parametrize("base", ["qwen3.5-122b-fp8", "llama-3.3-70b"])
def test_a_proposal_is_a_good_profile(base: str) -> None:
    """What is proposed can be used as it stands, and keeps the base's flags and comments."""
    text = (shipped_folder() / f"{base}.yaml").read_text()
    made = propose(text, "mine", BOTH, image_of(BOTH), "")
    profile = parse(made.encode(), "mine.yaml")
    before = parse(text.encode(), "base.yaml")
    assert profile.name == "mine"
    assert [(host.name, host.address, host.user) for host in profile.hosts] == [
        ("spark-1", "spark-1.local", ""),
        ("spark-2", "spark-2.local", "ubuntu"),
    ]
    assert profile.head.fabric is not None
    assert profile.head.fabric.address == "192.168.100.10"
    assert isinstance(profile.runtime, DockerRuntime)
    assert profile.runtime.image == "vllm-node:latest"
    assert dict(profile.serve.flags) == dict(before.serve.flags)
    assert "# " in made


def test_a_native_runtime_and_another_model() -> None:
    """A folder is a virtual environment."""
    text = (shipped_folder() / "single-spark.yaml").read_text()
    profile = parse(propose(text, "one", BOTH[:1], "~/venv", "/models/x").encode(), "one.yaml")
    assert isinstance(profile.runtime, NativeRuntime)
    assert (profile.runtime.venv, profile.serve.model) == ("~/venv", "/models/x")


def test_host_names() -> None:
    """Of the alias, else the host's own; told apart where they are the same."""
    assert host_name(Candidate("Spark_A.lan"), []) == "spark-a"
    assert host_name(Candidate("10.0.0.7", spark(1)), []) == "spark-1"
    assert host_name(Candidate("local", spark(2)), ["spark-2"]) == "spark-2-2"
    assert host_name(Candidate("u@10.0.0.7"), []) == "10-0-0-7"


def test_notes_say_what_to_look_at() -> None:
    """Different drivers, no GPU, no fabric."""
    odd = Found("b", "", 1, (("570.1", "NVIDIA GB10"),))
    assert any("drivers differ" in note for note in notes([BOTH[0], Candidate("b", odd)]))
    assert any("No network joins" in note for note in notes([BOTH[0], Candidate("b", odd)]))
    assert any("no GPU" in note for note in notes([Candidate("b", Found("b", "", 1))]))
    assert notes(BOTH) == []


def test_aliases_are_read(tmp_path: Path) -> None:
    """Names of ssh_config, patterns left out."""
    config = tmp_path / "config"
    config.write_text("Host spark-1 s1\n  HostName 10.0.0.1\nHost *\n  User x\nHost=spark-2\nHost !no *.lan\n")
    assert known_aliases(config) == ["spark-1", "s1", "spark-2"]
    assert known_aliases(tmp_path / "none") == []


@pytest.mark.parametrize("output", [b"", b"{}", b"[1]", b'{"name": 1}', b"\xff"])
def test_nonsense_is_no_answer(output: bytes) -> None:
    """What is no set of facts is refused."""
    with pytest.raises(SetupError):
        parse_found(output)


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("spark-1", Address("spark-1")),
        ("nvidia@spark-1.local:2222", Address("spark-1.local", "nvidia", 2222)),
        ("10.0.0.7:22", Address("10.0.0.7", "", 22)),
        (" ssh://u@spark-1:22/ ", Address("spark-1", "u", 22)),
        ("u@[fd00::7]:2222", Address("fd00::7", "u", 2222)),
        ("fd00::7", Address("fd00::7")),
        ("local", Address("local")),
    ],
)
def test_addresses_are_understood(typed: str, address: Address) -> None:
    """Whatever ssh takes: user, host, port in one word."""
    assert parse_address(typed) == address


@pytest.mark.parametrize(
    "typed",
    ["spark-1 spark-2", "u@", "@spark-1", "spark-1:", "spark-1:x", "h:99999", "h:0", "-oProxyCommand=x", "a b@c",
     "u@local", "local:22", "[fd00::7", "h:22:", ":22", HOSTILE],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_a_sentence(typed: str) -> None:
    """Each says what was expected."""
    with pytest.raises(AddressError) as error:
        parse_address(typed)
    assert error.value.message.endswith(".")
    assert (
        "expected" in error.value.message or "takes no" in error.value.message or "one word" in str(error.value)
    )


async def test_an_address_that_is_none_stays_to_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told why, and no host is looked for; one that is known already is told as that."""
    looked: list[str] = []

    async def look(address: str, _ask: object, *, ssh_config: str = "") -> Candidate:
        looked.append(address)
        return Candidate(address, spark(1))

    monkeypatch.setattr("cockpit.tui.setup_screen.look_at", look)
    app = CockpitApp(None, feed=lambda store, _ask: QuietFeed(store))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await app_in_setup(pilot)
        line = screen.query_one("#address", Input)
        for typed, left in (("u@spark-1:x", "u@spark-1:x"), ("u@spark-1:22", ""), ("ssh://u@spark-1:22", "")):
            line.value = typed
            await pilot.press("enter")
            await pilot.pause()
            assert line.value == left
        assert looked == ["u@spark-1:22"]
        told = [one.message for one in app._notifications]
        assert any("expected a port" in message for message in told), told
        assert any("among the hosts already" in message for message in told), told
        text = screen.query_one("#yaml", TextArea).text
        assert [line.strip() for line in text.split("\n") if "user:" in line or "port: 22" in line] == [
            "user: u",
            "port: 22",
        ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"])
def test_two_hosts_and_a_model_for_one(
    snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """As it looks with both Sparks found, one of them unlike the other."""
    odd = replace(spark(2), gpus=(("570.1", "NVIDIA GB10"),))

    async def look(address: str, _ask: object, *, ssh_config: str = "") -> Candidate:
        return Candidate(address, spark(1) if "1" in address else odd)

    async def added(pilot: Pilot[Any]) -> None:
        screen = await app_in_setup(pilot)
        for line in screen.query(Input):
            line.cursor_blink = False
        for address in ("spark-1.local", "nvidia@spark-2.local:2222"):
            screen.query_one("#address", Input).value = address
            await pilot.press("enter")
            while any(one.found is None for one in screen.candidates):
                await pilot.pause(0.02)
        bases = screen.query_one("#bases", OptionList)
        bases.highlighted = bases.get_option_index("single-spark")
        await pilot.pause()
        await pilot.pause()

    monkeypatch.setattr("cockpit.tui.setup_screen.look_at", look)
    monkeypatch.setattr("cockpit.tui.setup_screen.known_aliases", lambda _config: ["spark-1", "spark-2"])
    app = CockpitApp(None, feed=lambda store, _ask: QuietFeed(store))
    assert snap_compare(app, terminal_size=size, run_before=added)


async def test_everything_has_its_place_at_80x24(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two hosts found every field is on the screen, and the footer says how to leave and save."""

    async def look(address: str, _ask: object, *, ssh_config: str = "") -> Candidate:
        return Candidate(address, spark(1 if "1" in address else 2))

    monkeypatch.setattr("cockpit.tui.setup_screen.look_at", look)
    app = CockpitApp(None, feed=lambda store, _ask: QuietFeed(store))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await app_in_setup(pilot)
        for address in ("spark-1.local", "spark-2.local"):
            screen.query_one("#address", Input).value = address
            await pilot.press("enter")
            while any(one.found is None for one in screen.candidates):
                await pilot.pause(0.02)
        await pilot.pause()
        for name in ("address", "bases", "runtime", "model", "name", "yaml"):
            shown = screen.find_widget(screen.query_one(f"#{name}"))
            assert shown.visible_region.height >= (1 if name not in ("bases", "yaml") else 3), name
        last = "".join(segment.text for segment in screen._compositor.render_strips()[-1])
        for key in ("esc leave", "^s save", "^x drop host", "^o other head"):
            assert key in last, last
        assert "? help" not in last
        assert "⇥ next" in last


async def test_the_palette_has_the_keys_of_the_screen_it_is_over() -> None:
    """Over the set-up it offers what the set-up does, and nothing that is done to the screen behind it."""
    app = CockpitApp(None, feed=lambda store, _ask: QuietFeed(store))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await app_in_setup(pilot)
        commands = {command.title: command for command in app.get_system_commands(screen)}
        assert set(commands) == {"next  (⇥)", "leave  (esc)", "save  (^s)"}
        await commands["save  (^s)"].callback()
        await pilot.pause()
        told = [one.message for one in app._notifications]
        assert told == ["There is no host yet: type its address, ⏎ adds it."]


def test_flags_that_ask_for_more_than_there_is_are_told() -> None:
    """A model for two Sparks on one, and one for one on two."""

    def told(base: str, candidates: list[Candidate]) -> list[str]:
        text = (shipped_folder() / f"{base}.yaml").read_text()
        return notes(candidates, parse(propose(text, "x", candidates, "", "").encode(), "x.yaml"))

    assert "spread over 2 GPUs, and there is 1 GPU" in told("llama-3.3-70b", BOTH[:1])[0]
    assert "takes one GPU of 2 hosts" in told("single-spark", BOTH)[0]
    assert told("llama-3.3-70b", BOTH) == told("single-spark", BOTH[:1]) == []
    four = replace(spark(1), gpus=(("580", "H200"),) * 4)
    assert told("llama-3.3-70b", [Candidate("h", four)]) == []


def comments(text: str) -> list[str]:
    """Every comment of a profile."""
    return [line.partition("#")[2].strip() for line in text.split("\n") if "#" in line and "'" not in line]


@pytest.mark.parametrize("base", ["qwen3.5-122b-fp8", "llama-3.3-70b", "single-spark"])
def test_comments_stay_where_they_hold(base: str) -> None:
    """All of the shipped profile's, but for its marks and what is told of its own file."""
    text = (shipped_folder() / f"{base}.yaml").read_text()
    hosts = BOTH[:1] if base == "single-spark" else BOTH
    made = propose(text, "mine", hosts, "my/image:1", "")
    gone = {"CHANGE", "To keep your changes", "Before the first run", "Look at the lines"}
    kept = [one.replace("CHANGE: ", "") for one in comments(text)]
    wanted = [one for one in kept if not any(word in one for word in gone)]
    assert [one.replace("mine", base) for one in comments(made)] == wanted
    assert "CHANGE" not in made
    assert "CHANGE" in propose(text, "mine", hosts, "", "")


def test_comments_on_another_model_port_or_runtime_go() -> None:
    """What no longer holds is not kept."""
    text = (shipped_folder() / "llama-3.3-70b.yaml").read_text()
    other = propose(text, "mine", BOTH, "~/venv", "my/model")
    assert "Llama" not in other
    assert "140 GB" not in other
    assert "gated" not in other
    assert "image" not in other
    assert parse(other.encode(), "mine.yaml").serve.api_name == "my/model"
    assert "cable" not in propose(text, "mine", BOTH[:1], "", "")
    left = replace(spark(2), ports=(port("enp1s0f0np0", "192.168.100.20/24", 200_000, "mlx5_core"),))
    hosts = parse(propose(text, "x", [BOTH[0], Candidate("b", left)], "", "").encode(), "x.yaml").hosts
    assert [host.env["NCCL_IB_HCA"] for host in hosts] == ["rocep1s0f1,roceP2p1s0f1", "rocep1s0f0,roceP2p1s0f0"]
    usb = replace(left, ports=(port("eth7", "192.168.100.20/24", 200_000),))
    hosts = parse(propose(text, "x", [BOTH[0], Candidate("b", usb)], "", "").encode(), "x.yaml").hosts
    assert [dict(host.env) for host in hosts][1] == {}


async def refuse(_error: HostKeyUnknown) -> bool:
    """Accept no key."""
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="the hosts are Linux")
async def test_a_real_look_at_this_machine() -> None:
    """The question is really asked: of the machine the tests run on."""
    seen = await look_at("local", refuse)
    assert seen.error == ""
    assert seen.found is not None
    assert seen.found.memory > 0
    assert any(port.name == "lo" for port in seen.found.ports)


async def test_a_host_that_is_not_there() -> None:
    """The error stands with its host, and says what to do."""
    seen = await look_at("127.0.0.1:1", refuse)
    assert seen.found is None
    assert "127.0.0.1" in seen.error


def test_hostile_facts_are_shown_safely() -> None:
    """No field of a host reaches the screen raw."""
    bad = Found(
        HOSTILE,
        HOSTILE,
        1,
        ((HOSTILE, HOSTILE),),
        HOSTILE,
        (),
        (port(HOSTILE, "10.0.0.1/8", 200_000),),
        (HOSTILE,),
    )
    for candidate in (Candidate(HOSTILE, bad), Candidate(HOSTILE, error=HOSTILE)):
        for line in candidate_lines(0, candidate, ""):
            assert line.plain.isprintable(), line.plain


async def app_in_setup(pilot: Pilot[Any]) -> SetupScreen:
    """The set-up, open."""
    while not isinstance(pilot.app.screen, SetupScreen) or not pilot.app.screen.is_mounted:
        await pilot.pause(0.02)
    await pilot.pause()
    assert isinstance(pilot.app.screen, SetupScreen)
    return pilot.app.screen


async def test_from_the_empty_screen_to_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts named, a model taken, saved, and opened; an existing profile is not overwritten."""

    async def look(address: str, _ask: object, *, ssh_config: str = "") -> Candidate:
        return Candidate(address, spark(1 if "1" in address else 2))

    monkeypatch.setattr("cockpit.tui.setup_screen.look_at", look)
    feeds: list[QuietFeed] = []

    def make(store: Any, _ask: object) -> QuietFeed:
        feeds.append(QuietFeed(store))
        return feeds[-1]

    app = CockpitApp(None, feed=make)
    async with app.run_test(size=(140, 42)) as pilot:
        screen = await app_in_setup(pilot)
        for address in ("spark-1.local", "spark-2.local"):
            screen.query_one("#address", Input).value = address
            await pilot.press("enter")
            await pilot.pause()
        while any(one.found is None for one in screen.candidates):
            await pilot.pause(0.02)
        bases = screen.query_one("#bases", OptionList)
        bases.highlighted = bases.get_option_index("qwen3.5-122b-fp8")
        await pilot.pause()
        assert "192.168.100.11" in screen.query_one("#yaml", TextArea).text
        (user_folder()).mkdir(parents=True)
        (user_folder() / "sparks.yaml").write_text("mine")
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert app.screen is screen
        screen.query_one("#name", Input).value = "two"
        await pilot.pause()
        await pilot.press("ctrl+s")
        while not feeds or not feeds[0].asked:
            await pilot.pause(0.02)
    assert feeds[0].asked[0] == ("open", str(user_folder() / "two.yaml"))
    assert find("two").serve.api_name == "qwen3.5-122b"
    assert (user_folder() / "sparks.yaml").read_text() == "mine"


async def test_what_is_typed_by_hand_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later proposal does not overwrite it; mistakes are told and not saved."""

    async def look(address: str, _ask: object, *, ssh_config: str = "") -> Candidate:
        return Candidate(address, spark(1))

    monkeypatch.setattr("cockpit.tui.setup_screen.look_at", look)
    app = CockpitApp(None, feed=lambda store, _ask: QuietFeed(store))
    async with app.run_test(size=(140, 42)) as pilot:
        screen = await app_in_setup(pilot)
        screen.query_one("#address", Input).value = "spark-1"
        await pilot.press("enter")
        await pilot.pause()
        screen.query_one("#yaml", TextArea).text = "name: [\n"
        await pilot.pause()
        screen.query_one("#name", Input).value = "other"
        await pilot.pause()
        assert screen.query_one("#yaml", TextArea).text == "name: [\n"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert app.screen is screen
        await pilot.press("escape")
        await pilot.pause()
    assert not (user_folder() / "other.yaml").exists()
