"""Where profiles are found, in which order, and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.bringup.profiles import ProfileNotFound, find, listing, shipped_folder
from cockpit.model.profile import DockerRuntime
from cockpit.model.profile_error import ProfileError

SMALL = """\
name: {name}
description: {description}
hosts: [{{name: a, address: 10.0.0.1, role: head}}]
runtime: {{kind: native, venv: /opt/vllm}}
serve: {{model: /models/tiny}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "config/spark-cockpit/profiles").mkdir(parents=True)
    return tmp_path


def user(home: Path, file: str, name: str, description: str = "mine") -> Path:
    path = home / "config/spark-cockpit/profiles" / file
    path.write_text(SMALL.format(name=name, description=description))
    return path


def lab(home: Path, folder: str, name: str) -> Path:
    path = home / "data/spark-cockpit/labs" / folder / "profile.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SMALL.format(name=name, description="the lab's"))
    return path


def test_the_order_is_user_shipped_lab(home: Path) -> None:
    lab(home, "default", "lab")
    user(home, "zebra.yml", "zebra")
    (home / "config/spark-cockpit/profiles/notes.txt").write_text("no profile")
    entries = listing()
    assert [entry.source for entry in entries] == ["user", "shipped", "shipped", "shipped", "lab"]
    assert entries[0].to_json() == {
        "name": "zebra",
        "path": str(home / "config/spark-cockpit/profiles/zebra.yml"),
        "source": "user",
        "description": "mine",
    }
    assert entries[-1].name == "lab"
    assert find("lab").file.endswith("labs/default/profile.yaml")


def test_the_users_profile_goes_before_the_shipped_one(home: Path) -> None:
    assert find("single-spark").file == str(shipped_folder() / "single-spark.yaml")
    path = user(home, "mine.yaml", "single-spark")
    assert find("single-spark").file == str(path)


def test_a_path_is_read_from_anywhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "here.yaml").write_text(SMALL.format(name="here", description="x"))
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    for path in ("here.yaml", "./here.yaml", str(home / "here.yaml"), "~/here.yaml"):
        assert find(path).name == "here"
    with pytest.raises(ProfileNotFound, match="No such file or directory"):
        find("./single-spark")
    with pytest.raises(ProfileNotFound, match="Is a directory"):
        find(f"{home}/config")


def test_an_unknown_name_gets_the_nearest_one(home: Path) -> None:
    lab(home, "default", "lab")
    with pytest.raises(ProfileNotFound) as caught:
        find("qwen3.5-122b-fp")
    assert "no profile called qwen3.5-122b-fp" in caught.value.message
    assert caught.value.remedy.startswith("Did you mean qwen3.5-122b-fp8?")
    assert "lab" in caught.value.remedy and str(home / "config") in caught.value.remedy


def test_a_wrong_file_is_listed_with_its_mistakes_and_told_when_asked_for(home: Path) -> None:
    user(home, "good.yaml", "good")
    path = user(home, "broken.yaml", "Broken Name")
    by_name = {entry.name: entry for entry in listing()}
    assert f"{path}:1:7: name: expected a name" in by_name["broken"].error
    assert by_name["good"].error == ""
    with pytest.raises(ProfileError):
        find("broken")
    assert find("good").name == "good"


def test_a_file_that_cannot_be_read_is_listed(home: Path) -> None:
    (home / "config/spark-cockpit/profiles/gone.yaml").symlink_to(home / "nowhere.yaml")
    assert "No such file or directory" in listing()[0].error


def test_the_shipped_profiles_are_usable_and_explained() -> None:
    files = sorted(shipped_folder().glob("*.yaml"))
    assert [path.stem for path in files] == ["llama-3.3-70b", "qwen3.5-122b-fp8", "single-spark"]
    for path in files:
        profile = find(str(path))
        assert profile.name == path.stem and profile.description
        assert isinstance(profile.runtime, DockerRuntime)
        assert "# CHANGE" in path.read_text()
    pair = find(str(shipped_folder() / "qwen3.5-122b-fp8.yaml"))
    assert [host.cluster_address for host in pair.hosts] == ["192.168.100.10", "192.168.100.11"]
    assert pair.serve.flags["distributed-executor-backend"] == "ray"
    assert pair.serve.flags["tensor-parallel-size"] == 2
    assert all(host.env["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1" for host in pair.hosts)
    assert len(find(str(shipped_folder() / "single-spark.yaml")).hosts) == 1


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ProfileNotFound, match="not an ordinary file"):
        find(str(tmp_path / "pipe.yaml"))


@pytest.mark.parametrize("size", [131_073, 3 * 1024 * 1024])
def test_a_file_that_is_too_large_is_told_with_its_size_and_the_limit(home: Path, size: int) -> None:
    path = home / "large.yaml"
    path.write_bytes(b"# " + b"a" * (size - 2))
    with pytest.raises(ProfileError) as caught:
        find(str(path))
    assert f"at most 131,072 bytes; this has {size:,}." in str(caught.value)


def test_of_very_many_mistakes_the_first_are_told_and_the_rest_counted(home: Path) -> None:
    hosts = "".join(f"  - {{name: a{number}, address: 10.0.0.1, role: wrker}}\n" for number in range(200))
    path = user(home, "many.yaml", "many")
    path.write_text(f"name: many\nhosts:\n{hosts}runtime: {{kind: native, venv: /v}}\nserve: {{model: /m}}\n")
    with pytest.raises(ProfileError) as caught:
        find("many")
    lines = str(caught.value).splitlines()
    count = len(caught.value.mistakes)
    assert count > 200
    assert lines[0].endswith(f"it has {count} mistakes:")
    assert lines[1:41] == [f"  {mistake}" for mistake in caught.value.mistakes[:40]]
    assert lines[41:] == [f"  … and {count - 40} more: mend these first, and the rest are told then."]
    (entry,) = [one for one in listing() if one.name == "many"]
    assert "\n" not in entry.fault
    assert entry.fault.startswith(f"{count} mistakes, the first: line 3: ")


def test_a_profile_is_named_on_a_command_line_as_it_was_found(home: Path) -> None:
    (home / "a b.yaml").write_text(SMALL.format(name="here", description="x"))
    assert find(str(home / "a b.yaml")).word == f"'{home}/a b.yaml'"
    assert find("single-spark").word == "single-spark"
    assert find("single-spark") == find(str(shipped_folder() / "single-spark.yaml"))
