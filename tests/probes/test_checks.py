"""The checks over the answers: each verdict both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cockpit.model.profile import DockerRuntime, Profile
from cockpit.model.profile_edit import changed
from cockpit.model.profile_yaml import parse
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_host, checks_model
from cockpit.probes.answers import EnvironmentFacts, HostFacts, ImageFacts, Listener, ModelFacts
from cockpit.probes.asked import Asked, Failure, merged
from cockpit.probes.machine import Disk, MachineFacts
from cockpit.runtime.prelude import NO_ENVIRONMENT

TWO = """\
name: pair
hosts:
  - {name: one, address: one, role: head, fabric: {address: 192.168.100.10}}
  - {name: two, address: two, role: worker, fabric: {address: 192.168.100.11}}
runtime: RUNTIME
serve: {model: MODEL, flags: {port: 8001}}
"""
DOCKER = "{kind: docker, image: vllm-node, mounts: ['~/.cache/huggingface:/root/.cache/huggingface']}"
NATIVE = "{kind: native, venv: /opt/vllm}"
HUB = "/root/.cache/huggingface/hub/models--Qwen--Qwen3"

IMAGE = ImageFacts("sha256:aaaaaaaaaaaaaaaa", ("sha256:d1",), ("l1", "l2"), "arm64")
HOST = HostFacts(
    "6.17.0-nvidia",
    "aarch64",
    "Ubuntu 24.04",
    "nvidia",
    (("580.95", "NVIDIA GB10"),),
    docker_version="28.2",
    image=IMAGE,
)
WHOLE = ModelFacts("hub", True, True, f"{HUB}/snapshots/c0ffee", config=True, shards=4, bytes=26_400_000_000)
ENVIRONMENT = EnvironmentFacts(
    "3.12.3", "/usr/bin/python3", "0.32.0", "2.60.0", "2.13.0", "/usr/bin/vllm", WHOLE
)


def yaml(runtime: str = DOCKER, model: str = "Qwen/Qwen3") -> bytes:
    return TWO.replace("RUNTIME", runtime).replace("MODEL", model).encode()


def profile(runtime: str = DOCKER, model: str = "Qwen/Qwen3") -> Profile:
    return parse(yaml(runtime, model), "pair.yaml")


def asked(*, two: dict[str, Any] | None = None, both: dict[str, Any] | None = None, **more: Any) -> Asked:
    """All is well, but for what is told of host ``two``, or of ``both``."""
    one = replace(HOST, **(both or {}))
    hosts = {"one": one, "two": replace(one, **(two or {}))}
    environments = {"one": ENVIRONMENT, "two": ENVIRONMENT}
    return Asked(**{"profile": profile(), "hosts": hosts, "environments": environments, "failures": {}, **more})


def inside(**two: Any) -> dict[str, EnvironmentFacts]:
    return {"one": ENVIRONMENT, "two": replace(ENVIRONMENT, **two)}


def worst(verdicts: Any) -> Verdict:
    """The gravest verdict; ready when all are."""
    order = [Grade.BLOCKED, Grade.UNKNOWN, Grade.SLOW, Grade.READY]
    found: Verdict = min(verdicts, key=lambda verdict: order.index(verdict.grade))
    return found


def expect(verdict: Verdict, grade: Grade, hosts: tuple[str, ...], observed: str, remedy: str) -> None:
    assert (verdict.grade, verdict.hosts) == (grade, hosts)
    assert observed in verdict.observed
    assert remedy in verdict.remedy
    assert verdict.why


ALL = (
    checks_host.system,
    checks_host.gpu,
    checks_host.docker,
    checks_host.image,
    checks_host.mounts,
    checks_host.ports,
    checks_environment.environment,
    checks_environment.vllm,
    checks_environment.ray,
    checks_environment.python,
    checks_model.model,
)


def test_all_is_well_and_said_once_for_both() -> None:
    verdicts = merged(verdict for check in ALL for verdict in check(asked()))
    assert {verdict.grade for verdict in verdicts} == {Grade.READY}
    assert [verdict.id for verdict in verdicts] == [
        "system", "gpu", "docker", "image", "ports", "environment", "vllm", "ray", "model",
    ]  # fmt: skip
    assert all(verdict.hosts == ("one", "two") for verdict in verdicts if verdict.id != "ports")


def test_what_is_wrong_on_both_is_said_once_with_a_remedy_for_both() -> None:
    (verdict,) = merged(checks_host.mounts(asked(both={"missing": ("/data",)})))
    expect(verdict, Grade.BLOCKED, ("one", "two"), "/data", "On one and two: mkdir -p /data")


def test_kernels_differ_slowly_and_architectures_not_at_all() -> None:
    verdict = worst(checks_host.system(asked(two={"kernel": "6.11.0"})))
    expect(verdict, Grade.SLOW, ("one", "two"), "6.11.0 on two", "full-upgrade")
    verdict = worst(checks_host.system(asked(two={"arch": "x86_64"})))
    expect(verdict, Grade.BLOCKED, ("one", "two"), "x86_64 on two", "one kind")


def test_gpu() -> None:
    hung = {"gpus": (), "gpu_error": "nvidia-smi has not answered for 10 s"}
    expect(
        worst(checks_host.gpu(asked(two=hung))), Grade.BLOCKED, ("two",), "not answered", "On two: nvidia-smi"
    )
    missing = {"gpus": (), "gpu_error": "x", "gpu_missing": True}
    expect(worst(checks_host.gpu(asked(two=missing))), Grade.BLOCKED, ("two",), "no nvidia-smi", "apt install")
    expect(worst(checks_host.gpu(asked(two={"gpus": ()}))), Grade.BLOCKED, ("two",), "no GPU", "nvidia-smi -L")
    other = {"gpus": (("570.1", "NVIDIA GB10"),)}
    expect(worst(checks_host.gpu(asked(two=other))), Grade.SLOW, ("one", "two"), "570.1 on two", "full-upgrade")


def test_docker() -> None:
    denied = {
        "docker_error": "permission denied while trying to connect to the Docker daemon socket",
        "user": "a b",
    }
    expect(
        worst(checks_host.docker(asked(two=denied))), Grade.BLOCKED, ("two",), "may not talk", "docker 'a b'"
    )
    down = {"docker_error": "Cannot connect to the Docker daemon"}
    expect(
        worst(checks_host.docker(asked(two=down))), Grade.BLOCKED, ("two",), "Cannot connect", "start docker"
    )
    missing = {"docker_error": "x", "docker_missing": True}
    expect(worst(checks_host.docker(asked(two=missing))), Grade.BLOCKED, ("two",), "no docker", "apt install")
    assert not list(checks_host.docker(asked(profile=profile(NATIVE))))


def test_image() -> None:
    verdict = worst(checks_host.image(asked(two={"image": ImageFacts(error="No such image")})))
    expect(
        verdict,
        Grade.BLOCKED,
        ("two",),
        "vllm-node is not there",
        "prepare pair --only image ; or on two: docker pull",
    )
    verdict = worst(checks_host.image(asked(two={"image": replace(IMAGE, arch="amd64")})))
    expect(verdict, Grade.BLOCKED, ("two",), "for amd64, the host is aarch64", "docker pull")
    other = replace(IMAGE, id="sha256:bbbbbbbbbbbbbbbb")
    assert worst(checks_host.image(asked(two={"image": other}))).grade is Grade.READY, "a digest in common"
    imported = replace(other, digests=())
    assert worst(checks_host.image(asked(two={"image": imported}))).grade is Grade.READY, "the same layers"
    renamed = replace(imported, config="another environment")
    verdict = worst(checks_host.image(asked(two={"image": renamed})))
    expect(verdict, Grade.SLOW, ("one", "two"), "not the same image", "docker save")
    rebuilt = replace(imported, layers=("l1", "l3"))
    verdict = worst(checks_host.image(asked(two={"image": rebuilt})))
    expect(verdict, Grade.SLOW, ("one", "two"), "aaaaaaaaaaaa on one, bbbbbbbbbbbb on two", "docker save")


def test_mounts() -> None:
    verdict = worst(checks_host.mounts(asked(two={"missing": ("~/.cache/vllm", "/a b")})))
    expect(verdict, Grade.BLOCKED, ("two",), "~/.cache/vllm", "mkdir -p ~/.cache/vllm '/a b'")


@pytest.mark.parametrize(
    ("port", "address", "taken"),
    [
        (8001, "0.0.0.0", True),
        (8001, "127.0.0.1", True),
        (6379, "127.0.0.1", True),  # Ray's GCS listens on every address
        (8265, "192.168.100.10", True),
        (8265, "::", True),
        (8265, "10.0.0.1", False),  # the dashboard does not
    ],
)
def test_ports(port: int, address: str, taken: bool) -> None:
    held = {"listeners": (Listener(port, address, 4711, "redis-server *:6379"),)}
    verdict = worst(checks_host.ports(asked(both=held)))
    if taken:
        expect(verdict, Grade.BLOCKED, ("one",), f"Port {port}", "kill 4711")
        assert "redis-server" in verdict.observed
        mine = worst(checks_host.ports(asked(both=held, ours=True)))
        assert mine.grade is Grade.READY and "by this cluster" in mine.observed
    else:
        assert verdict.grade is Grade.READY
    hidden = {"listeners": (Listener(6379, "0.0.0.0", None, ""),)}
    verdict = worst(checks_host.ports(asked(both=hidden)))
    expect(verdict, Grade.BLOCKED, ("one",), "another user", "sudo ss -ltnp 'sport = :6379'")


def test_a_port_of_another_cluster_of_the_cockpit() -> None:
    held = {"listeners": (Listener(6379, "0.0.0.0", 4711, "gcs_server", "other"),)}
    verdict = worst(checks_host.ports(asked(both=held)))
    expect(verdict, Grade.BLOCKED, ("one",), "by the cluster other", "spark-cockpit down other")
    hidden = {"listeners": (Listener(6379, "0.0.0.0", None, ""),)}
    machine = MachineFacts({}, containers=(("c0ffee", "spark-cockpit-other", "vllm-node", "other"),))
    verdict = worst(checks_host.ports(asked(both=hidden, machines={"one": machine})))
    expect(
        verdict, Grade.BLOCKED, ("one",), "perhaps in the container of the cluster other", "cockpit down other"
    )


def test_cuda() -> None:
    """As `nvidia-smi --version` of driver 580 has it, and PyTorch's local versions."""
    verdict = worst(checks_host.gpu(asked(both={"cuda": "13.0"}, two={"cuda": "12.8"})))
    expect(verdict, Grade.SLOW, ("one", "two"), "13.0 on one, 12.8 on two", "full-upgrade")
    inside_ = inside(torch="2.13.0+cu130")
    fine = list(checks_environment.cuda(asked(both={"cuda": "13.0"}, environments=inside_)))
    assert [(verdict.grade, verdict.hosts) for verdict in fine] == [(Grade.READY, ("two",))]
    verdict = worst(checks_environment.cuda(asked(both={"cuda": "12.8"}, environments=inside_)))
    expect(verdict, Grade.BLOCKED, ("two",), "built for CUDA 13.0, and the driver does 12.8", "older image")
    assert not list(checks_environment.cuda(asked(environments=inside_))), "where nvidia-smi does not say"


def test_an_environment_that_could_not_be_entered() -> None:
    gpu = Failure(125, 'could not select device driver "" with capabilities: [[gpu]].')
    verdict = worst(checks_environment.environment(asked(failures={"two": gpu})))
    expect(verdict, Grade.BLOCKED, ("two",), "device driver", "nvidia-container-toolkit")
    no_venv = asked(profile=profile(NATIVE), failures={"two": Failure(NO_ENVIRONMENT, "There is no …")})
    verdict = worst(checks_environment.environment(no_venv))
    expect(verdict, Grade.BLOCKED, ("two",), "/opt/vllm", "python3 -m venv /opt/vllm")
    late = asked(failures={"two": Failure(None, "gave up after 60 s")})
    verdict = worst(checks_environment.environment(late))
    expect(verdict, Grade.UNKNOWN, ("two",), "gave up", "check again")


@pytest.mark.parametrize(
    ("two", "because"),
    [
        ({"image": ImageFacts(error="x")}, "the image is missing"),
        ({"docker_error": "x"}, "Docker does not answer"),
        ({"missing": ("/x",)}, "a folder to mount is missing"),
    ],
)
def test_what_is_known_already_is_not_blamed_twice(two: dict[str, Any], because: str) -> None:
    shut = asked(two=two, failures={"two": Failure(1, "x")})
    verdict = worst(checks_environment.environment(shut))
    expect(verdict, Grade.UNKNOWN, ("two",), because, "first")


def test_vllm_ray_and_python() -> None:
    def check(function: Any, **two: Any) -> Verdict:
        return worst(function(asked(environments=inside(**two))))

    vllm, ray, python = checks_environment.vllm, checks_environment.ray, checks_environment.python
    expect(check(vllm, vllm=""), Grade.BLOCKED, ("two",), "not installed", "FROM vllm-node")
    expect(check(vllm, command=""), Grade.BLOCKED, ("two",), "no command", "runtime.image")
    expect(check(vllm, vllm="0.31.0"), Grade.BLOCKED, ("one", "two"), "0.31.0 on two", "--only image")
    expect(check(ray, ray=""), Grade.BLOCKED, ("two",), "Ray is not installed", "ray[default]")
    expect(check(ray, ray="2.55.1"), Grade.BLOCKED, ("one", "two"), "2.55.1 on two", "--only image")
    expect(check(python, python="3.11.9"), Grade.BLOCKED, ("one", "two"), "3.11 on two", "--only image")
    assert not list(python(asked(environments=inside(python="3.12.9")))), "the third number may differ"
    native = asked(profile=profile(NATIVE), environments=inside(ray=""))
    assert "/opt/vllm/bin/pip install 'ray[default]'" in worst(ray(native)).remedy
    behind = asked(profile=profile(NATIVE), environments=inside(ray="2.55.1", python="3.11.9"))
    assert "On two, as on one: /opt/vllm/bin/pip install 'ray[default]==2.60.0'" in worst(ray(behind)).remedy
    assert "On two, as on one: python3.12 -m venv --clear /opt/vllm" in worst(python(behind)).remedy


def test_one_host_needs_no_ray() -> None:
    text = "hosts: [{name: one, address: one, role: head}]\nruntime: RUNTIME\nserve: {model: a/b}\n"
    single = parse(text.replace("RUNTIME", NATIVE).encode(), "single.yaml")
    alone = asked(profile=single, environments={"one": replace(ENVIRONMENT, ray="")})
    assert not list(checks_environment.ray(alone))
    assert checks_host.wanted_ports(single) == {8000: "the API"}


def test_the_model_that_is_absent() -> None:
    away = ModelFacts("hub", False, False, HUB)
    verdict = worst(checks_model.model(asked(environments=inside(model=away))))
    expect(
        verdict,
        Grade.SLOW,
        ("two",),
        "is not there",
        "spark-cockpit prepare pair --only model ; or on one: rsync -a --info=progress2",
    )
    assert (
        "~/.cache/huggingface/hub/models--Qwen--Qwen3 192.168.100.11:~/.cache/huggingface/hub/"
        in verdict.remedy
    )
    verdict = worst(checks_model.model(asked(environments=inside(model=replace(away, offline=True)))))
    expect(verdict, Grade.BLOCKED, ("two",), "is not there", "rsync")
    nowhere = {name: replace(ENVIRONMENT, model=away) for name in ("one", "two")}
    verdict = worst(checks_model.model(asked(environments=nowhere)))
    expect(verdict, Grade.SLOW, ("one",), "is not there", "hf download Qwen/Qwen3")
    needs = "about 141 GB are to come"
    llama = profile(DOCKER, "meta-llama/Llama-3.3-70B-Instruct")
    verdict = worst(checks_model.model(asked(profile=llama, environments=nowhere)))
    command = "hf download meta-llama/Llama-3.3-70B-Instruct --cache-dir ~/.cache/huggingface/hub"
    expect(verdict, Grade.SLOW, ("one",), "is not there", command)
    assert needs in verdict.remedy and "HF_TOKEN exported there" in verdict.remedy
    started = replace(away, expected=200_000_000_000, bytes=50_000_000_000)
    disks = {"two": MachineFacts({}, (Disk("~", 10**12, 90 * 10**9), Disk("/tmp", 1, 1)))}
    half = {"two": replace(ENVIRONMENT, model=started)}
    verdict = worst(checks_model.model(asked(environments=half, machines=disks)))
    assert "about 150 GB are to come, 90 GB are free" in verdict.remedy
    native = profile(NATIVE)
    verdict = worst(checks_model.model(asked(profile=native, environments=nowhere)))
    assert "/opt/vllm/bin/hf download Qwen/Qwen3 --cache-dir " in verdict.remedy
    local = ModelFacts("local", False, True, "/models/x")
    here = {name: replace(ENVIRONMENT, model=local) for name in ("one", "two")}
    verdict = worst(checks_model.model(asked(profile=profile(NATIVE, "/models/x"), environments=here)))
    expect(verdict, Grade.BLOCKED, ("one",), "/models/x is not there", "/models/x")


def test_a_model_that_the_runtime_does_not_look_for() -> None:
    """In a cache that is not mounted, or that only a log-in shell is told of."""
    away, here = ModelFacts("hub", False, False, HUB), "/data/hf/hub/models--Qwen--Qwen3"
    machines = {"two": MachineFacts({}, models=(here,))}
    both = inside(model=away)
    verdict = worst(checks_model.model(asked(environments=both, machines=machines)))
    expect(verdict, Grade.SLOW, ("two",), f"is on this host in {here}", "/data/hf:/root/.cache/huggingface")
    mended = changed(yaml(DOCKER), "pair.yaml", [fix.change for fix in verdict.fix if fix.change])
    runtime = parse(mended, "pair.yaml").runtime
    assert isinstance(runtime, DockerRuntime) and runtime.mounts == ("/data/hf:/root/.cache/huggingface",)
    offline = inside(
        model=replace(away, offline=True, path=here.replace("/data/hf", "/home/n/.cache/huggingface"))
    )
    native = asked(profile=profile(NATIVE), environments=offline, machines=machines)
    verdict = worst(checks_model.model(native))
    expect(verdict, Grade.BLOCKED, ("two",), "is on this host", "runtime.env.HF_HOME: /data/hf")
    mended = changed(yaml(NATIVE), "pair.yaml", [fix.change for fix in verdict.fix if fix.change])
    assert parse(mended, "pair.yaml").runtime.env == {"HF_HOME": "/data/hf"}
    local = inside(model=ModelFacts("local", False, False, "/models/x"))
    unmounted = {"two": MachineFacts({}, models=("/models/x",))}
    folder = asked(profile=profile(DOCKER, "/models/x"), environments=local, machines=unmounted)
    verdict = worst(checks_model.model(folder))
    expect(
        verdict, Grade.BLOCKED, ("two",), "is on this host in /models/x", "runtime.mounts, /models/x:/models/x"
    )
    nothing = asked(profile=profile(NATIVE, "/models/x"), environments=local, machines=unmounted)
    assert "is not there" in worst(checks_model.model(nothing)).observed, "what is looked for is not elsewhere"


def test_a_model_where_the_container_has_a_folder_of_its_own() -> None:
    away = inside(model=ModelFacts("hub", False, False, HUB))
    bare = "{kind: docker, image: vllm-node}"
    verdict = worst(checks_model.model(asked(profile=profile(bare), environments=away)))
    expect(verdict, Grade.SLOW, ("two",), "no mount holds", "~/.cache/huggingface:/root/.cache/huggingface")
    mended = changed(yaml(bare), "pair.yaml", [fix.change for fix in verdict.fix if fix.change])
    again = worst(checks_model.model(asked(profile=parse(mended, "pair.yaml"), environments=away)))
    assert "no mount holds" not in again.observed
    local = inside(model=ModelFacts("local", False, False, "/models/x"))
    verdict = worst(checks_model.model(asked(profile=profile(bare, "/models/x"), environments=local)))
    expect(verdict, Grade.BLOCKED, ("two",), "no mount holds", "mkdir -p /models/x ; and mount it")


@pytest.mark.parametrize(
    ("lack", "offline", "grade", "told"),
    [
        (
            {"absent": 1, "names": ("model-2.safetensors",)},
            True,
            Grade.BLOCKED,
            "1 of 4 weight files are missing",
        ),
        ({"absent": 1}, False, Grade.SLOW, "1 of 4"),
        ({"damaged": 1, "names": ("model-3.safetensors",)}, False, Grade.BLOCKED, "(model-3.safetensors)"),
        ({"config": False}, True, Grade.BLOCKED, "config.json is missing"),
        ({"shards": 0, "wrong": 1}, False, Grade.BLOCKED, "1 index files can't be read"),
    ],
)
def test_the_model_that_is_incomplete(lack: dict[str, Any], offline: bool, grade: Grade, told: str) -> None:
    model = replace(WHOLE, offline=offline, **lack)
    verdict = worst(checks_model.model(asked(environments=inside(model=model))))
    expect(verdict, grade, ("two",), told, "rsync")


def test_a_model_that_may_not_be_read() -> None:
    model = replace(WHOLE, locked=4, names=("model-1.safetensors",))
    verdict = worst(checks_model.model(asked(environments=inside(model=model))))
    remedy = "On two: sudo chmod -R a+rX ~/.cache/huggingface/hub/models--Qwen--Qwen3"
    expect(verdict, Grade.BLOCKED, ("two",), "4 may not be read", remedy)


def test_a_model_that_lies_elsewhere_is_unknown() -> None:
    away = replace(ENVIRONMENT, model=ModelFacts("url", False, False))
    verdict = worst(checks_model.model(asked(profile=profile(DOCKER, "s3://b/m"), environments={"one": away})))
    assert (verdict.grade, verdict.observed) == (
        Grade.UNKNOWN,
        "s3://b/m lies elsewhere and was not looked at.",
    )
