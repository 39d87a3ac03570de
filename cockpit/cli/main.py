"""The verbs of ``spark-cockpit``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cockpit.cli import exits
from cockpit.logs.sanitise import clean

F = TypeVar("F", bound=Callable[..., Any])


class DefaultGroup(click.Group):
    """A group whose first word may be a profile instead of a verb: then the cockpit opens."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``open`` before anything that is neither a verb nor the group's own option."""
        if len(args) > 1 and args[0] not in self.commands and args[0][:1] != "-" != args[1][:1]:
            self._refuse_unknown(args[0])
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h", "--version")):
            args = ["open", *args]
        return super().parse_args(ctx, args)

    def _refuse_unknown(self, word: str) -> None:
        """A profile's name alone opens the cockpit; before a second word stands a verb."""
        from cockpit.model.profile_error import nearest

        near = nearest(word, [name for name, command in self.commands.items() if not command.hidden])
        hint = f" Did you mean '{near}'?" if near else " `spark-cockpit --help` lists them."
        raise click.UsageError(f"No verb is called '{clean(word)}'.{hint}")


def complete_profile(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of the profiles there are."""
    from cockpit.bringup.profiles import listing

    return [entry.name for entry in listing() if entry.name.startswith(incomplete)]


def complete_step(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The steps' names."""
    from cockpit.bringup.names import StepName

    return [step.value for step in StepName if step.value.startswith(incomplete)]


def profile_argument(function: F) -> F:
    """The PROFILE argument: a name, or the path of a YAML file."""
    return click.argument("profile", shell_complete=complete_profile)(function)


def json_option(function: F) -> F:
    """``--json``: the answer as JSON on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")(function)


def _fingerprints(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """What can be no fingerprint would be like none without a word; ssh-keygen prints 32 bytes in base64."""
    for word in given:
        if not re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", word):
            raise click.BadParameter(
                f"'{clean(word)}' is no SHA256 fingerprint. `ssh-keygen -lf KEY.pub` on the host prints it: SHA256: "
                "and 43 characters."
            )
    return given


def trust_option(function: F) -> F:
    """``--trust-host-key``: the fingerprint of a host key to accept without a question."""
    return click.option(
        "--trust-host-key",
        "trust",
        multiple=True,
        metavar="FINGERPRINT",
        callback=_fingerprints,
        help="Accept the unknown host key with this SHA256 fingerprint, and remember it.",
    )(function)


@click.group(cls=DefaultGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-cockpit", message="%(version)s")
def cockpit() -> None:
    """Bring vLLM up on two DGX Sparks, and see why when it does not come up.

    Without a verb, `spark-cockpit [PROFILE]` opens the cockpit.
    """


@cockpit.command("open", hidden=True)
@click.argument("profile", required=False, shell_complete=complete_profile)
@click.option("--read-only", is_flag=True, help="Show everything, start nothing.")
def open_cockpit(profile: str | None, read_only: bool) -> None:
    """Open the cockpit."""
    from cockpit.cli.screen import open_screen

    open_screen(profile, read_only=read_only)


@cockpit.command()
@json_option
def profiles(as_json: bool) -> None:
    """List the profiles: yours, the shipped ones, the lab's."""
    from cockpit.cli.verbs import profiles as verb

    verb(as_json=as_json)


@cockpit.command()
@profile_argument
@click.option(
    "--step", default=None, metavar="STEP", shell_complete=complete_step, help="Only this step, whole."
)
@click.option("--full", is_flag=True, help="Every byte of every script; else a line each.")
@json_option
def plan(profile: str, step: str | None, full: bool, as_json: bool) -> None:
    """Print every command, as it would run. Touches nothing.

    Long scripts are named by their length and their sum; --full, --step and --json have them whole.
    """
    from cockpit.cli.verbs import plan as verb

    verb(profile, step=step, full=full, as_json=as_json)


@cockpit.command()
@profile_argument
@click.option("--measure", is_flag=True, help="Measure the fabric's throughput too, with seconds of traffic.")
@json_option
@trust_option
def check(profile: str, measure: bool, as_json: bool, trust: tuple[str, ...]) -> None:
    """Preflight: what stands in the way, on which host. Read-only."""
    from cockpit.cli.verbs import check as verb

    exits.leave(exits.run(verb(profile, measure=measure, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.option(
    "--only",
    type=click.Choice(["folders", "leftovers", "image", "model", "cache"]),
    help="Prepare only this.",
)
@click.option("--plan", is_flag=True, help="Show what would be done, with its commands, and do nothing.")
@click.option("--yes", is_flag=True, help="Do everything that is shown, without a question.")
@json_option
@trust_option
def prepare(
    profile: str, only: str | None, plan: bool, yes: bool, as_json: bool, trust: tuple[str, ...]
) -> None:
    """Make so what preflight found missing: folders, image, model, page cache, leftovers.

    Each task is shown with its exact commands, and asked about. Ctrl+C ends a copy; it goes on where it was the
    next time.
    """
    from cockpit.cli.prepare import prepare as verb

    exits.leave(exits.run(verb(profile, only=only, yes=yes, plan=plan, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.option("--deep", is_flag=True, help="Let vLLM build its engine configuration too.")
@click.option("--fix", is_flag=True, help="Make the changes that mend errors and warnings, in the profile.")
@click.option(
    "--list",
    "word",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[WORD]",
    help="List the flags there are.",
)
@json_option
@trust_option
def flags(profile: str, deep: bool, fix: bool, word: str | None, as_json: bool, trust: tuple[str, ...]) -> None:
    """Judge the profile's flags by the vLLM that will run; mend them, or list those there are."""
    from cockpit.cli.flags import flags as verb

    if word is not None and (deep or fix):
        raise click.UsageError("--list only lists the flags there are: --deep and --fix judge the profile's.")
    exits.leave(exits.run(verb(profile, deep=deep, fix=fix, word=word, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.option(
    "--through", default="prompt", metavar="STEP", shell_complete=complete_step, help="Stop after this step."
)
@click.option("--force", is_flag=True, help="Launch against the verdict of the flag checks.")
@click.option("-v", "--verbose", is_flag=True, help="Show each command as it runs.")
@json_option
@trust_option
def up(profile: str, through: str, force: bool, verbose: bool, as_json: bool, trust: tuple[str, ...]) -> None:
    """Take the steps in order, to an answered prompt. Ctrl+C detaches; everything goes on."""
    from cockpit.cli.verbs import up as verb

    exits.leave(
        exits.run(verb(profile, through=through, force=force, verbose=verbose, as_json=as_json, trust=trust))
    )


@cockpit.command()
@profile_argument
@json_option
@trust_option
def status(profile: str, as_json: bool, trust: tuple[str, ...]) -> None:
    """One look at both hosts, the steps and the run."""
    from cockpit.cli.verbs import status as verb

    exits.leave(exits.run(verb(profile, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.argument("text", required=False)
@json_option
@trust_option
def prompt(profile: str, text: str | None, as_json: bool, trust: tuple[str, ...]) -> None:
    """Send TEXT, or the profile's test prompt, and stream the answer."""
    from cockpit.cli.verbs import prompt as verb

    exits.leave(exits.run(verb(profile, text, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.option("--host", default=None, help="Only this host's log.")
@click.option("--source", default=None, help="Which log: serve (the head's), or one of --list.")
@click.option("--list", "listing", is_flag=True, help="List the host's logs.")
@click.option(
    "--since",
    default=None,
    help="Only from this time on: 15:04, 2026-11-30T15:04:05, yesterday, or 10m: before the log's end.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("--raw", is_flag=True, help="The exact bytes, control characters included.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the exact bytes to FILE.")
@trust_option
def logs(profile: str, trust: tuple[str, ...], **options: Any) -> None:
    """The logs of the run, whole."""
    from cockpit.cli.logs import logs as verb

    exits.leave(exits.run(verb(profile, trust=trust, **options)))


@cockpit.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
def view(files: tuple[Path, ...]) -> None:
    """Open the log view on local files, compressed ones too; - is what is piped to standard input."""
    from cockpit.cli.screen import open_view

    open_view(files)


@cockpit.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH... | PROFILE")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write a report for others to FILE."
)
@click.option("--stacks", is_flag=True, help="Take the Python stacks of every rank first (py-spy; reads only).")
@json_option
@trust_option
def explain(
    paths: tuple[str, ...], report: Path | None, stacks: bool, as_json: bool, trust: tuple[str, ...]
) -> None:
    """Name the cause: of log files, of a folder of logs, or of a profile's last run."""
    from cockpit.cli.explain import explain as verb

    exits.leave(exits.run(verb(paths, report=report, stacks=stacks, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
@click.option("--keep-ray", is_flag=True, help="End the run only; Ray and the containers stay.")
@click.option("-v", "--verbose", is_flag=True, help="Show each command as it runs.")
@json_option
@trust_option
def down(profile: str, keep_ray: bool, verbose: bool, as_json: bool, trust: tuple[str, ...]) -> None:
    """Undo the steps in reverse, and verify that nothing is left."""
    from cockpit.cli.verbs import down as verb

    exits.leave(exits.run(verb(profile, keep_ray=keep_ray, verbose=verbose, as_json=as_json, trust=trust)))


@cockpit.command()
@profile_argument
def runbook(profile: str) -> None:
    """A shell script that does the same without the cockpit."""
    from cockpit.cli.verbs import runbook as verb

    verb(profile)


@cockpit.command()
@click.argument("action", required=False, type=click.Choice(["up", "down", "status"]))
@json_option
def lab(action: str | None, as_json: bool) -> None:
    """The lab: two hosts on this machine, with real SSH, Ray and vLLM on the CPU.

    Without an action it is brought up, and the cockpit opens on it.
    """
    from cockpit.cli.lab import lab as verb
    from cockpit.cli.lab import open_lab

    if action is None:
        open_lab()
    else:
        verb(action, as_json=as_json)


@cockpit.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell completion script for SHELL."""
    from click.shell_completion import get_completion_class

    from cockpit.cli.output import script

    found = get_completion_class(shell)
    if found is not None:
        script(found(cockpit, {}, "spark-cockpit", "_SPARK_COCKPIT_COMPLETE").source() + "\n")


def main() -> None:
    """Run the command line; errors leave in words and with the contract's exit status."""
    # Asked of the words themselves: an error may come before they are understood.
    with exits.leaving(as_json="--json" in sys.argv[1:]):
        cockpit.main(prog_name="spark-cockpit", standalone_mode=False)
