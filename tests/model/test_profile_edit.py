"""Changes keep everything they do not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.bringup.profile_edit import apply_changes, preview
from cockpit.bringup.profiles import shipped_folder
from cockpit.model.finding import Fix
from cockpit.model.profile_edit import ChangeError, changed
from cockpit.model.profile_error import ProfileError
from cockpit.model.profile_yaml import parse

BEFORE = b"""\
# Two Sparks.
name: two
hosts:
  - name: spark-1   # the head
    address: spark-1
    role: head
    fabric: {address: 192.168.100.10}
  - name: spark-2
    address: spark-2
    role: worker
    fabric: {address: 192.168.100.11}
runtime:
  kind: native
  venv: /opt/vllm
serve:
  model: /models/tiny
  flags:
    # Both GPUs.
    tensor-parallel-size: 2
    "max-model-len": 512
"""


def test_a_flag_is_added_and_nothing_else_changes() -> None:
    after = changed(BEFORE, "two.yaml", [{"set": {"serve.flags.distributed-executor-backend": "ray"}}])
    assert after.decode().splitlines() == [
        *BEFORE.decode().splitlines(),
        "    distributed-executor-backend: ray",
    ]


def test_a_flag_is_changed_and_another_taken_out() -> None:
    after = changed(
        BEFORE,
        "two.yaml",
        [{"set": {"serve.flags.tensor-parallel-size": 1}, "unset": ["serve.flags.max-model-len"]}],
    )
    profile = parse(after, "two.yaml")
    assert dict(profile.serve.flags) == {"tensor-parallel-size": 1}
    assert b"# Both GPUs." in after
    assert b"# the head" in after


def test_a_section_that_is_not_there_is_made() -> None:
    after = changed(BEFORE, "two.yaml", [{"set": {"serve.env.NCCL_DEBUG": "WARN"}}])
    assert dict(parse(after, "two.yaml").serve.env) == {"NCCL_DEBUG": "WARN"}


def test_a_dotted_flag_is_one_name() -> None:
    after = changed(BEFORE, "two.yaml", [{"set": {"serve.flags.compilation-config.mode": 3}}])
    assert parse(after, "two.yaml").serve.flags["compilation-config.mode"] == 3


@pytest.mark.parametrize("path", ["serve.flags.nothing", "serve.env.NOTHING", "nothing.at.all"])
def test_what_is_not_there_can_not_be_taken_out(path: str) -> None:
    with pytest.raises(ChangeError, match=path):
        changed(BEFORE, "two.yaml", [{"unset": [path]}])


def test_a_change_that_makes_no_profile_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_bytes(BEFORE)
    with pytest.raises(ProfileError):
        apply_changes(file, [Fix("", {"set": {"serve.model": 7}})])
    assert file.read_bytes() == BEFORE
    assert [path.name for path in tmp_path.iterdir()] == ["two.yaml"]


def test_the_preview_is_what_is_made(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_bytes(BEFORE)
    file.chmod(0o640)
    fixes = [Fix("", {"set": {"serve.flags.distributed-executor-backend": "ray"}}), Fix("in words only")]
    shown = preview(file, fixes)
    assert "+    distributed-executor-backend: ray" in shown
    assert apply_changes(file, fixes) == shown
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("path", sorted(shipped_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_profiles_keep_their_text(path: Path) -> None:
    before = path.read_bytes()
    after = changed(before, path.name, [{"set": {"serve.flags.max-num-seqs": 3}}])
    gone = set(before.decode().splitlines()) - set(after.decode().splitlines())
    assert all("max-num-seqs" in line for line in gone), gone
