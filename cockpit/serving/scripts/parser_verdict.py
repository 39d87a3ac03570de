"""Asks vLLM itself about command lines: its parser, its checks, its engine configuration, and its flags.

Runs where vLLM lives, with the environment's python; starts no engine. Argument: JSON with ``lines`` (each an
argv that begins with ``vllm``, ``serve``), ``pieces`` (one more command line in parts: its head, then a part a
flag), ``deep`` (build the engine's configuration too), ``schema`` (list the flags, see ``flag_schema.py``,
whose text, and those of ``identity.py``, ``part_checks.py`` and ``late_checks.py``, stand in front of this one).

Prints a marker and one line of JSON: ``version``, ``platform`` (cuda, cpu, ...), ``identity``, ``names``
(every option), ``parsers``, ``seconds``, ``schema``, and ``verdicts``, one a line: ``stage`` ("" when all is
well, else ``parse``, ``validate``, ``server`` or ``config``), ``message``, ``type`` (the exception's name) and
``bind`` (why the API's address can't be listened on, "" where it can). The line in pieces comes first;
``alone`` has the parser's message to each of its flags by itself, and ``rest`` the verdict without those that
were refused so. vLLM logs to standard output: what stands before the marker is its log.
"""

import contextlib
import importlib
import io
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cockpit.serving.scripts.flag_schema import harvest
    from cockpit.serving.scripts.identity import identity
    from cockpit.serving.scripts.late_checks import (
        check_late,
        check_names,
        check_ssl,
        check_threads,
        first_of,
        said,
        unbindable,
    )
    from cockpit.serving.scripts.part_checks import check_containers, check_server_parts

MARKER = "SPARK-COCKPIT-VERDICT "

FILES = ("log_config_file",)
TOKENIZER = ("tokenizer", "tokenizer_mode", "tokenizer_revision")
BALANCING = (
    ("data_parallel_multi_port_external_lb",),
    ("data_parallel_external_lb", "data_parallel_rank"),
    ("data_parallel_hybrid_lb", "data_parallel_start_rank"),
)


def whole_parser() -> Any:
    """The parser of ``vllm``, the one of ``vllm serve`` below it, and vLLM's object behind ``serve``.

    ``cmd_init`` stands in vllm/entrypoints/cli/serve.py from 0.11.2 to 0.32.0; the parser's class has moved
    from vllm.utils to vllm.utils.argparse_utils.
    """
    utils = first_of("vllm.utils.argparse_utils", "vllm.utils")
    serve = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()[0]
    parser = utils.FlexibleArgumentParser(prog="vllm")
    subparsers = parser.add_subparsers(required=False, dest="subparser")
    return parser, serve.subparser_init(subparsers), serve


def option_names(parser: Any) -> "list[str]":
    """Every option the parser knows."""
    return sorted({name for action in parser._actions for name in action.option_strings})


def registered(kind: str) -> "list[str]":
    """The names of the tool-call or reasoning parsers that vLLM has (moved after 0.11.2)."""
    if kind == "tool":
        module = first_of("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers")
        manager = getattr(module, "ToolParserManager", None)
    else:
        manager = getattr(first_of("vllm.reasoning"), "ReasoningParserManager", None)
    if manager is None:
        return []
    if hasattr(manager, "list_registered"):
        return sorted(manager.list_registered())
    return sorted(getattr(manager, f"{kind}_parsers", {}))


def parsed(parser: Any, argv: "list[str]") -> Any:
    """The namespace, or a ``ValueError`` with what the parser wrote when it gave up."""
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written), contextlib.redirect_stdout(written):
            return parser.parse_args(argv)
    except SystemExit as end:
        if end.code in (0, None):
            raise ValueError("the command line only asks for help and starts nothing") from end
        last = re.split(r"(?m)^\S.*?: error: ", written.getvalue())[-1]
        raise ValueError(last.strip() or f"exit status {end.code}") from end


def verdict(parser: Any, serve: Any, argv: "list[str]", deep: bool) -> "dict[str, str]":
    """What vLLM says to one command line."""
    # vLLM looks at sys.argv itself here and there.
    sys.argv = list(argv)
    stage, bind = "parse", ""
    try:
        namespace = parsed(parser, argv[1:])
        if getattr(namespace, "model_tag", None) is not None:
            namespace.model = namespace.model_tag
        stage = "validate"
        serve.validate(namespace)
        bind = unbindable(namespace)
        if deep:
            stage = "server"
            check_server(namespace)
            stage = "config"
            build_config(namespace)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever vLLM raises is its verdict
        return {"stage": stage, "message": said(error), "type": type(error).__name__, "bind": bind}
    return {"stage": "", "message": "", "type": "", "bind": bind}


def check_server(namespace: Any) -> None:
    """What ``vllm serve`` finds out between its parser and its engine, or only when the engine has started:
    its own check of the parsers' names, and whether the files that the API server reads can be read."""
    get = vars(namespace).get
    if get("headless") and (get("api_server_count") or 0) > 0:
        raise ValueError(
            f"--api-server-count={get('api_server_count')} cannot be used with --headless "
            "(no API servers are started in headless mode)."
        )
    if sum(any(get(name) not in (None, False) for name in names) for names in BALANCING) > 1:
        raise ValueError("Cannot use more than one data parallel load balancing mode.")
    for plugin, kind, manager in (
        (
            "tool_parser_plugin",
            "tool_parser",
            getattr(first_of("vllm.tool_parsers"), "ToolParserManager", None),
        ),
        (
            "reasoning_parser_plugin",
            "reasoning_parser",
            vars(first_of("vllm.reasoning")).get("ReasoningParserManager"),
        ),
    ):
        if get(plugin) and len(get(plugin)) > 3 and manager is not None:
            getattr(manager, f"import_{kind}")(get(plugin))
    launcher = first_of(
        "vllm.entrypoints.launchers.launcher",
        "vllm.entrypoints.openai.server_utils",
        "vllm.entrypoints.openai.api_server",
    )
    check = getattr(launcher, "validate_api_server_args", None)
    if check is not None:
        check(namespace)
    check_names(vars(namespace))
    check_ssl(vars(namespace))
    check_threads(vars(namespace))
    check_containers(vars(namespace))
    check_server_parts(vars(namespace))
    for name in FILES:
        if get(name) and not Path(get(name)).is_file():
            raise ValueError(f"--{name.replace('_', '-')}: there is no file {get(name)}")
    if get("chat_template"):
        check_template(get("chat_template"))


def check_template(template: str) -> None:
    """Compile the chat template; vLLM does so for the first time when the engine has started."""
    module = first_of("vllm.renderers.chat_utils", "vllm.entrypoints.chat_utils")
    # Without its cache where it has one: the file may change while this process stays.
    load = getattr(module, "_load_chat_template", None) or getattr(module, "load_chat_template", None)
    text = (load(template) if load is not None else None) or template
    compiler = getattr(first_of("transformers.utils.chat_template_utils"), "_compile_jinja_template", None)
    if compiler is not None:
        compiler(text)


def build_config(namespace: Any) -> None:
    """vLLM's own engine configuration, as ``vllm serve`` builds it, and what the engine's client makes of it
    before any process is started: the executor's class, and the tokenizer where a flag speaks of it."""
    arguments = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(namespace)
    usage = importlib.import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    config = arguments.create_engine_config(usage_context=usage)
    executor = getattr(first_of("vllm.v1.executor.abstract", "vllm.v1.executor"), "Executor", None)
    if executor is not None:
        executor.get_class(config)
    check_late(namespace, config)
    given = vars(namespace).get
    if any(given(name) not in (None, "auto") for name in TOKENIZER):
        load = getattr(first_of("vllm.tokenizers"), "cached_tokenizer_from_config", None)
        if load is not None:
            load(config.model_config)


class Judge:
    """vLLM's parser, built once."""

    def __init__(self, helped: bool) -> None:
        # At its import vLLM looks for --help here: without it the flags have no help texts.
        sys.argv = ["vllm", "serve", *(["--help=all"] if helped else [])]
        began = time.monotonic()
        self.parser, self.serve_parser, self.serve = whole_parser()
        self.version = str(importlib.import_module("vllm").__version__)
        self.seconds = round(time.monotonic() - began, 2)

    def alone(self, head: "list[str]", piece: "list[str]") -> str:
        """The parser's message to one flag by itself, "" where it takes it."""
        sys.argv = [*head, *piece]
        try:
            parsed(self.parser, sys.argv[1:])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever vLLM raises is its verdict
            return said(error)
        return ""

    def judged(self, argv: "list[str]", deep: bool) -> "dict[str, str]":
        """The verdict on one line."""
        return verdict(self.parser, self.serve, argv, deep)

    def apart(self, argv: "list[str]", deep: bool) -> "dict[str, str]":
        """The same in a fork: vLLM changes the parser's own defaults, which the next line would find."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                with os.fdopen(writing, "w", encoding="utf-8") as file:
                    json.dump(self.judged(argv, deep), file)
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as file:
            told: dict[str, str] = json.load(file)
        os.waitpid(child, 0)
        return told

    def in_pieces(self, pieces: "list[list[str]]", deep: bool) -> "dict[str, Any]":
        """A line's flags one by one, and the verdict on what is left without those the parser refuses."""
        head, *rest = pieces
        alone = [self.alone(head, piece) for piece in rest]
        left = [word for piece, message in zip(rest, alone, strict=True) if not message for word in piece]
        return {"alone": alone, "rest": self.judged([*head, *left], deep)}

    def answer(self, asked: "dict[str, Any]") -> "dict[str, Any]":
        """The answer to one question."""
        began = time.monotonic()
        pieces, deep = asked.get("pieces") or [], asked["deep"]
        whole = [[word for piece in pieces for word in piece]] if pieces else []
        lines = [*whole, *asked["lines"]]
        if len(lines) > 1:
            # What vLLM imports on the way is there for every fork then.
            self.judged(lines[0][:3], deep)
        judge = self.apart if len(lines) > 1 else self.judged
        verdicts = [judge(argv, deep) for argv in lines]
        told: dict[str, Any] = {
            "version": self.version,
            "platform": str(
                getattr(importlib.import_module("vllm.platforms").current_platform, "device_type", "")
            ),
            "identity": identity(),
            "names": option_names(self.serve_parser),
            "parsers": {"tool": registered("tool"), "reasoning": registered("reasoning")},
            "verdicts": verdicts,
        }
        if pieces and verdicts[0]["stage"] == "parse":
            told.update(self.in_pieces(pieces, deep))
        if asked.get("schema"):
            told["schema"] = harvest(self.serve_parser)
        told["seconds"] = {"import": self.seconds, "answer": round(time.monotonic() - began, 3)}
        return told


if __name__ == "__main__":
    question = json.loads(sys.argv[1])
    answer = Judge(bool(question.get("schema"))).answer(question)
    sys.stdout.flush()
    print("\n" + MARKER + json.dumps(answer), flush=True)
