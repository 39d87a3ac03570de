"""Profiles: what is read, and that every mistake is told at its place, all of them at once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cockpit.model.profile import DockerRuntime, GuardSpec, GuardWhile, NativeRuntime, Place, Profile, Role
from cockpit.model.profile_yaml import ProfileError, parse

GOOD = """\
name: pair
description: two Sparks
ssh: {config: ~/.ssh/config}
hosts:
  - name: spark-1
    address: local
    role: head
    fabric: {address: 192.168.100.10, interface: enp1s0f1np1}
    env:
      NCCL_IB_DISABLE: 0
      NUMBER: 1e3
      OCTAL: 010
      SWITCH: "true"
      WORD: yes
      EMPTY: ""
  - name: spark-2
    address: spark-b
    port: 2222
    user: nvidia
    role: worker
    fabric: {address: 192.168.100.11}
runtime:
  kind: docker
  image: nvcr.io/nvidia/vllm:26.06-py3
  mounts: ["~/.cache/huggingface:/root/.cache/huggingface", "/models:/models:ro"]
  run_flags: [--shm-size=16g, --cap-add, IPC_LOCK, --device, /dev/infiniband]
ray: {port: 29501, dashboard_port: 8266, flags: {num-cpus: 2}, env: {RAY_DEDUP_LOGS: 0}}
serve:
  model: Qwen/Qwen3.5-122B-A10B-FP8
  served_name: qwen
  flags:
    tensor-parallel-size: 2
    distributed-executor-backend: ray
    gpu-memory-utilization: 0.8
    enable-prefix-caching: true
    enable-log-requests: false
    port: 8001
    middleware: [a, b]
    speculative-config: {method: mtp, num_speculative_tokens: 1}
    chat-template: on-the-host.jinja
  env: {VLLM_ENGINE_READY_TIMEOUT_S: 3600}
  secrets: [HF_TOKEN]
  ready_within: 900
prompt: {text: Hello?, system: Be brief., max_tokens: 64, temperature: 0.5}
"""


def good(text: str = GOOD) -> Profile:
    return parse(text.encode(), "profiles/pair.yaml")


def bad(text: str | bytes) -> list[str]:
    """The mistakes as ``LINE:COLUMN: message``."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ProfileError) as caught:
        parse(data, "p.yaml")
    assert all(str(mistake) in str(caught.value) for mistake in caught.value.mistakes)
    return [str(mistake).removeprefix("p.yaml:") for mistake in caught.value.mistakes]


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def one(old: str, new: str) -> str:
    """The only mistake after one change of the good profile."""
    (mistake,) = bad(changed(old, new))
    return mistake


def test_everything_is_read() -> None:
    profile = good()
    head, worker = profile.hosts
    assert (profile.name, profile.description, profile.ssh_config) == ("pair", "two Sparks", "~/.ssh/config")
    assert (head.role, head.is_local, head.port, head.cluster_address) == (Role.HEAD, True, 0, "192.168.100.10")
    assert (worker.role, worker.address, worker.port, worker.user) == (Role.WORKER, "spark-b", 2222, "nvidia")
    assert isinstance(profile.runtime, DockerRuntime)
    assert profile.runtime.run_flags == (
        "--shm-size=16g",
        "--cap-add",
        "IPC_LOCK",
        "--device",
        "/dev/infiniband",
    )
    assert profile.runtime.mounts[1] == "/models:/models:ro"
    assert (profile.ray.port, profile.ray.dashboard_port) == (29501, 8266)
    assert (profile.ray.flags, profile.ray.env) == ({"num-cpus": 2}, {"RAY_DEDUP_LOGS": "0"})
    assert (profile.serve.port, profile.serve.ready_within, profile.serve.secrets) == (
        8001,
        900.0,
        ("HF_TOKEN",),
    )
    assert profile.serve.flags["speculative-config"] == {"method": "mtp", "num_speculative_tokens": 1}
    assert profile.serve.flags["middleware"] == ["a", "b"]
    assert profile.serve.flags["enable-log-requests"] is False
    assert (profile.prompt.max_tokens, profile.prompt.temperature) == (64, 0.5)
    assert profile.digest == hashlib.sha256(GOOD.encode()).hexdigest()


def test_environment_values_are_text_as_written() -> None:
    assert good().hosts[0].env == {
        "NCCL_IB_DISABLE": "0",
        "NUMBER": "1e3",
        "OCTAL": "010",
        "SWITCH": "true",
        "WORD": "yes",
        "EMPTY": "",
    }


def test_scalars_mean_what_yaml_1_2_says() -> None:
    flags = "{a: 1e3, b: 010, c: 0x10, d: 0o10, e: 1_000, f: 12:30:00, g: 2026-01-01, h: '1', i: .5, j: -3}"
    profile = good(changed("{num-cpus: 2}", flags))
    assert profile.ray.flags == {
        "a": 1000.0,
        "b": 10,
        "c": 16,
        "d": 8,
        "e": "1_000",
        "f": "12:30:00",
        "g": "2026-01-01",
        "h": "1",
        "i": 0.5,
        "j": -3,
    }


def test_places_of_keys_and_list_items() -> None:
    places = good().places
    file = "profiles/pair.yaml"
    lines = GOOD.splitlines()
    port = lines.index("    port: 8001") + 1
    assert places["serve", "flags", "port"] == Place(file, port, 5)
    assert places["hosts", 1] == Place(file, 16, 5)
    assert places["hosts", 1, "fabric", "address"] == Place(file, 21, 14)
    assert places["runtime", "mounts", 1].line == lines.index(next(x for x in lines if "mounts" in x)) + 1
    assert good().place("serve", "flags", "nowhere") == places["serve", "flags"]


def test_a_native_profile_of_one_host_needs_little() -> None:
    text = """
hosts: [{name: a, address: 10.0.0.1, role: head}]
runtime: {kind: native, venv: /opt/vllm}
serve: {model: /models/tiny, flags: , env: }
"""
    profile = parse(text.encode(), "folder/only-one.yaml")
    assert (profile.name, profile.runtime) == ("only-one", NativeRuntime("/opt/vllm"))
    assert (profile.serve.port, profile.ray.port, profile.hosts[0].fabric) == (8000, 6379, None)
    with pytest.raises(ProfileError, match="`Only One` is none"):
        parse(text.encode(), "Only One.yaml")


def test_all_mistakes_come_together_in_order() -> None:
    found = bad("""\
hosts:
  - {name: Spark, address: a@b, role: head}
  - {name: b, address: c:22, role: haed}
runtime: {kind: dokcer}
serve: {modle: x, flags: {tp: 2}}
prot: 1
""")
    assert [mistake.split(": ")[0] for mistake in found] == [
        "2:5", "2:12", "2:28", "3:5", "3:24", "3:36", "4:17", "5:9", "5:27", "6:1",
    ]  # fmt: skip
    assert found[5].endswith("Did you mean `head`?")
    assert found[6].endswith("Did you mean `docker`?")
    assert found[7].endswith("Did you mean `model`?")
    assert found[8].endswith("Did you mean `tensor-parallel-size`?")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: pair", "name: Pair", "expected a name of a-z"),
        ("name: pair", "name: 122", "expected text (put quotes around it), found the number 122"),
        ("name: pair", "name: true", "found the switch true"),
        ("name: pair", "name:", "expected text, found nothing"),
        ("name: pair", "name: ../../etc", "expected a name of a-z"),
        ("description: two Sparks", 'description: "\\e[31m"', "without the character U+001B"),
        ("description: two Sparks", 'description: "\\uD800"', "without the character U+D800"),
        ("~/.ssh/config", "config", "expected an absolute path"),
        ("name: spark-2", "name: spark-1", "Two hosts with the same name (the other is in line 5)"),
        ("name: spark-2", "nane: spark-2", "has no key `nane`; its keys are name, address"),
        ("address: spark-b", "address: -oProxyCommand=x", "expected an IP address, a host name"),
        ("address: spark-b", "address: a b", "expected an IP address, a host name"),
        ("address: spark-b", "address: [a]", "expected text, found a list"),
        ("address: spark-b", "address: local", None),
        ("address: spark-b", "address: '[::1]:22'", "write the port as `port:`"),
        ("address: spark-b", "address: '[::1]'", "an address without brackets"),
        ("address: spark-b", "address: fe80::1%eth0", "write it as HostName in ssh_config"),
        ("port: 2222", "port: 0", "expected a whole number from 1 to 65535"),
        ("port: 2222", "port: 65536", "expected a whole number from 1 to 65535"),
        ("port: 2222", "port: '22'", "expected a whole number from 1 to 65535"),
        ("port: 2222", "port: true", "expected a whole number from 1 to 65535"),
        ("port: 2222", "port: 22.5", "expected a whole number from 1 to 65535"),
        ("user: nvidia", "user: -x", "expected a login name"),
        ("role: worker", "role: head", "A second head (the first is in line 7)"),
        ("role: head", "role: worker", "No host has `role: head`"),
        ("192.168.100.11", "192.168.100.10", "same fabric address (the other is in line 8)"),
        ("192.168.100.11", "fd00::1", "of one family"),
        ("192.168.100.11", "0.0.0.0", "the address of one interface"),
        ("192.168.100.11", "spark-b", "expected an IP address"),
        ("192.168.100.11", "fe80::1%eth0", "without a zone"),
        ("    fabric: {address: 192.168.100.11}\n", "", "Of several hosts each needs `fabric"),
        ("interface: enp1s0f1np1", "interface: a/b", "expected a network interface"),
        ("kind: docker", "kind: podman", "expected `docker` or `native`"),
        ("  kind: docker\n", "", "runtime needs the key `kind`"),
        ("image: nvcr.io/nvidia/vllm:26.06-py3", "image: --privileged", "expected an image"),
        ("image: nvcr.io/nvidia/vllm:26.06-py3", "venv: /opt/x", None),
        ("/models:/models:ro", "models:/models", "expected SOURCE:TARGET"),
        ("/models:/models:ro", "/x:/root/.cache/huggingface/", "two mounts on /root/.cache/huggingface"),
        ("--shm-size=16g", "--shm-size 16g", "Did you mean `--shm-size=16g`?"),
        ("--shm-size=16g", "--entrypoint=sh", "the cockpit sets `--entrypoint` itself"),
        ("--shm-size=16g", "-it", "the cockpit sets `-it` itself"),
        ("dashboard_port: 8266", "dashboard_port: 29501", "ray.dashboard_port and ray.port are both 29501"),
        ("port: 8001", "port: 8266", "are both 8266: on the head host both listen"),
        ("port: 8001", "port: '8001'", "serve.flags.port: expected a whole number"),
        ("{num-cpus: 2}", "{block: true}", "The cockpit sets this flag itself"),
        ("{num-cpus: 2}", "{address: x}", "This is written as hosts[].fabric.address"),
        ("model: Qwen/Qwen3.5-122B-A10B-FP8", "model: ./here", "expected a model"),
        ("model: Qwen/Qwen3.5-122B-A10B-FP8", "model: ~/models/x", "expected a model"),
        ("tensor-parallel-size: 2", "--tensor-parallel-size: 2", "Did you mean `tensor-parallel-size`?"),
        ("tensor-parallel-size: 2", "tensor_parallel_size: 2", "Did you mean `tensor-parallel-size`?"),
        ("tensor-parallel-size: 2", "tp: 2", "Did you mean `tensor-parallel-size`?"),
        ("tensor-parallel-size: 2", "O3: true", "Did you mean `optimization-level: 3`?"),
        ("tensor-parallel-size: 2", "-O0: true", "Did you mean `optimization-level: 0`?"),
        ("tensor-parallel-size: 2", "a b: 2", "Expected a flag's name"),
        ("tensor-parallel-size: 2", "tensor-parallel-size:", "The flag has no value"),
        ("tensor-parallel-size: 2", "tensor-parallel-size: .inf", "expected a number, found .inf"),
        ("tensor-parallel-size: 2", "a: {b: [.nan]}", "expected a number, found .nan"),
        ("tensor-parallel-size: 2", "a: []", "An empty list gives the flag no value"),
        ("tensor-parallel-size: 2", "a: [[1]]", "holds words and numbers only"),
        ("enable-log-requests: false", "enable-log-requests: yes", "Did you mean `true`?"),
        ("enable-log-requests: false", "no-enable-prefix-caching: true", "same flag as `enable-prefix"),
        ("enable-log-requests: false", "served-model-name: x", "This is written as serve.served_name"),
        ("enable-log-requests: false", "api-key: x", "This is written as serve.secrets"),
        ("secrets: [HF_TOKEN]", "secrets: [VLLM_ENGINE_READY_TIMEOUT_S]", "is also set in serve.env"),
        ("secrets: [HF_TOKEN]", "secrets: [A, A]", "has `A` twice"),
        ("secrets: [HF_TOKEN]", "secrets: HF_TOKEN", "expected a list"),
        ("NUMBER: 1e3", "1NUMBER: 1e3", "expected a variable's name"),
        ("NUMBER: 1e3", "NUMBER: true", "write the text it wants, in quotes"),
        ("NUMBER: 1e3", "NUMBER:", "the variable has no value"),
        ("NUMBER: 1e3", "NUMBER: [1]", "expected text or a number"),
        ("NUMBER: 1e3", "NUMBER: .nan", "is no number a program can use"),
        ("NUMBER: 1e3", 'NUMBER: "a\\nb"', "without the character U+000A"),
        ("NUMBER: 1e3", "HF_TOKEN: hf_abc", "a secret does not belong in a file"),
        ("ready_within: 900", "ready_within: .inf", "expected a number from 1 to"),
        ("ready_within: 900", "ready_within: 15m", "expected a number from 1 to"),
        ("temperature: 0.5", "temperature: .nan", "expected a number from 0 to 2"),
        ("max_tokens: 64", "max_tokens: 0", "expected a whole number from 1"),
        ("max_tokens: 64", "max_token: 64", "Did you mean `max_tokens`?"),
    ],
)  # fmt: skip
def test_one_wrong_thing(old: str, new: str, expected: str | None) -> None:
    if expected is None:
        assert len(bad(changed(old, new))) == 2
    else:
        mistake = one(old, new)
        assert expected in mistake
        line, column, _ = mistake.split(":", 2)
        assert int(line) <= GOOD.count("\n") + 1
        assert int(column) >= 1


def test_two_hosts_at_one_address() -> None:
    text = changed("address: spark-b", "address: 10.0.0.1").replace("address: local", "address: 10.0.0.1")
    assert good(text).hosts[1].port == 2222, "two ports of one address are two hosts"
    assert "same address and port (the other is in line 6)" in bad(text.replace("    port: 2222\n", ""))[0]


def test_duplicate_keys_are_told_with_all_else() -> None:
    found = bad(changed("name: pair", "name: pair\nname: other").replace("port: 2222", "port: x"))
    assert found[0] == "2:1: The key `name` stands here a second time (first in line 1)."
    assert found[1].startswith("19:11: hosts[1].port: expected a whole number")


def test_tabs_are_all_told() -> None:
    assert bad("hosts:\n\t- name: a\n  x: 1\n \t y: 2\n") == [
        "2:1: YAML is indented with spaces; this line has a tab.",
        "4:2: YAML is indented with spaces; this line has a tab.",
    ]
    assert (
        good(changed("description: two Sparks", "description: |\n  a\tb\n  \tc")).description == "a\tb\n\tc\n"
    )


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (b"", "1:1", "The profile is empty"),
        (b"# nothing\n", "1:1", "The profile is empty"),
        (b"- a\n", "1:1", "Expected a mapping"),
        (b"name: a\nx: \xff\n", "2:4", "the byte 0xFF"),
        (b"a: \x00", "1:4", "U+0000 is not allowed"),
        (b"\xef\xbb\xbfa: b: c\n", "1:5", "mapping values are not allowed here"),
        (b"a: 1\nb: {c: 1\n", "3:1", "a flow mapping that began in line 2"),
        ("a: x\u2028y\nb: [".encode(), "2:5", "can't be read on"),
        (b"a: &x 1\nb: *x\n", "1:4", "Anchors"),
        (b"a: !!python/object/apply:os.system [ls]", "1:4", "Tags"),
        (b"a: !!str 1", "1:4", "Tags"),
        (b"a: 1\n---\nb: 1\n", "2:1", "one YAML document"),
        (b"? [a]\n: b\n", "1:3", "A key is one word"),
        (b"[" * 5000, "1:17", "more than 16 levels"),
        (b"a" * 300_000, "1:1", "at most 131,072 bytes"),
        (b'"\\UFFFFFFFF"', "1:1", "can't be read"),
        (b"%YAML " + b"9" * 5000 + b".1\n---\na: b", "1:1", "can't be read"),
    ],
)
def test_what_is_no_profile(data: bytes, place: str, expected: str) -> None:
    (mistake,) = bad(data)
    assert mistake.startswith(f"{place}: ")
    assert expected in mistake


def test_a_laugh_stays_one_line() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20)
    ]
    (mistake,) = bad("\n".join(lines))
    assert "Anchors" in mistake


def usable(profile: Profile) -> None:
    """What every profile that is read may rely on."""
    assert profile.head in profile.hosts
    assert len({host.name for host in profile.hosts}) == len(profile.hosts)
    assert len(profile.hosts) == 1 or all(host.fabric for host in profile.hosts)
    environments: list[Mapping[str, str]] = [profile.runtime.env, profile.ray.env, profile.serve.env]
    for env in [*environments, *(host.env for host in profile.hosts)]:
        assert all("\n" not in value and "\0" not in value for value in env.values())
    assert math.isfinite(profile.serve.ready_within)
    assert 1 <= profile.serve.port <= 65535
    profile.serve.model.encode()


def check(data: bytes) -> None:
    try:
        profile = parse(data, "p.yaml")
    except ProfileError as error:
        assert error.mistakes
        lines = data.count(b"\n") + 1
        assert all(1 <= m.place.line <= lines and m.place.column >= 1 for m in error.mistakes)
    else:
        usable(profile)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_profile_or_an_error(data: bytes) -> None:
    check(data)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab:-,{}[]\"'\\&*!|>%@`?#\n\t 01.~eN\u2028\ufeffUxu<="), max_size=60))
def test_any_yaml_like_text_is_a_profile_or_an_error(text: str) -> None:
    check(text.encode())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_damage_to_a_profile_is_a_profile_or_an_error(data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(begin, min(len(GOOD), begin + 40)))
    check((GOOD[:begin] + data.draw(st.text(max_size=10)) + GOOD[end:]).encode("utf-8", "replace"))


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["name", "ssh", "hosts", "runtime", "ray", "serve", "prompt", "description"]), trees)
def test_any_value_at_any_key_is_a_profile_or_an_error(key: str, value: object) -> None:
    whole = YAML(typ="safe", pure=True).load(GOOD)
    whole[key] = value
    check(yaml.safe_dump(whole, allow_unicode=True).encode("utf-8", "surrogatepass"))


def everywhere(node: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value below ``node``."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path] * bool(path) + [one for key, value in inner for one in everywhere(value, (*path, key))]


@pytest.mark.parametrize("wrong", [None, 3, "x", True, [], {}, {"a": 1}, [1]], ids=repr)
def test_each_mistake_is_told_once(wrong: object) -> None:
    for path in everywhere(YAML(typ="safe", pure=True).load(GOOD)):
        whole = YAML(typ="safe", pure=True).load(GOOD)
        inner = whole
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = wrong
        try:
            parse(yaml.safe_dump(whole, sort_keys=False).encode(), "pair.yaml")
        except ProfileError as error:
            assert len(set(error.mistakes)) == len(error.mistakes), (path, error.message)
            assert f"it has {len(error.mistakes)} mistake" in error.message


@pytest.mark.parametrize("hosts", ["[]", "", "3"])
def test_hosts_that_are_none(hosts: str) -> None:
    text = GOOD[: GOOD.index("hosts:")] + f"hosts: {hosts}\n" + GOOD[GOOD.index("runtime:") :]
    (told,) = bad(text)
    assert "hosts: expected" in told


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("", GuardSpec(0, GuardWhile.LOADING)),
        ("guard: {reserve: 8GiB}", GuardSpec(8 << 30, GuardWhile.LOADING)),
        ("guard: {reserve: 12.5 GiB, while: serving}", GuardSpec(12800 << 20, GuardWhile.SERVING)),
        ("guard: {reserve: 8589934592}", GuardSpec(8 << 30, GuardWhile.LOADING)),
        ("guard: {while: off}", GuardSpec(0, GuardWhile.OFF)),
    ],
)
def test_the_memory_guard_is_read(text: str, spec: GuardSpec) -> None:
    assert good(GOOD.replace("  secrets: [HF_TOKEN]", f"  secrets: [HF_TOKEN]\n  {text}")).serve.guard == spec


@pytest.mark.parametrize(
    "text", ["{reserve: 8}", "{reserve: 8GB}", "{reserve: .inf}", "{while: always}", "on", "{a: 1}"]
)
def test_a_memory_guard_that_is_none(text: str) -> None:
    told = bad(GOOD.replace("  secrets: [HF_TOKEN]", f"  secrets: [HF_TOKEN]\n  guard: {text}"))
    assert any("guard" in line for line in told)
