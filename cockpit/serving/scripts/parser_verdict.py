"""Asks vLLM's own parser about a command line. Prints a marker and one line of JSON on standard output.

Runs where vLLM lives, with the environment's python. Argument: JSON with ``lines`` (each an argv that begins
with ``vllm``, ``serve``) and ``deep`` (build the engine's configuration too; no engine is started). Answer:
``version``, ``names`` (every option), ``seconds``, and ``verdicts``, one a line: ``stage`` ("" when all is
well, else ``parse``, ``validate`` or ``config``), ``message`` and ``type`` (the exception's name). vLLM logs
to standard output: what stands before the marker is its log.
"""

import contextlib
import importlib
import io
import json
import re
import sys
import time
from typing import Any

MARKER = "SPARK-COCKPIT-VERDICT "


def whole_parser() -> Any:
    """The parser of ``vllm``, the one of ``vllm serve`` below it, and vLLM's object behind ``serve``.

    ``cmd_init`` stands in vllm/entrypoints/cli/serve.py from 0.11.2 to 0.32.0; the parser's class has moved
    from vllm.utils to vllm.utils.argparse_utils.
    """
    try:
        utils = importlib.import_module("vllm.utils.argparse_utils")
    except ImportError:
        utils = importlib.import_module("vllm.utils")
    serve = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()[0]
    parser = utils.FlexibleArgumentParser(prog="vllm")
    subparsers = parser.add_subparsers(required=False, dest="subparser")
    return parser, serve.subparser_init(subparsers), serve


def option_names(parser: Any) -> list[str]:
    """Every option the parser knows."""
    return sorted({name for action in parser._actions for name in action.option_strings})


def said(error: BaseException) -> str:
    """An exception as vLLM's user reads it."""
    return str(error) or type(error).__name__


def parsed(parser: Any, argv: list[str]) -> Any:
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


def verdict(parser: Any, serve: Any, argv: list[str], deep: bool) -> dict[str, str]:
    """What vLLM says to one command line."""
    # vLLM looks at sys.argv itself here and there.
    sys.argv = list(argv)
    stage = "parse"
    try:
        namespace = parsed(parser, argv[1:])
        if getattr(namespace, "model_tag", None) is not None:
            namespace.model = namespace.model_tag
        stage = "validate"
        serve.validate(namespace)
        if deep:
            stage = "config"
            build_config(namespace)
    except Exception as error:  # noqa: BLE001 - whatever vLLM raises is its verdict
        return {"stage": stage, "message": said(error), "type": type(error).__name__}
    return {"stage": "", "message": "", "type": ""}


def build_config(namespace: Any) -> None:
    """vLLM's own engine configuration, as ``vllm serve`` builds it."""
    arguments = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(namespace)
    usage = importlib.import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    arguments.create_engine_config(usage_context=usage)


def main() -> None:
    asked = json.loads(sys.argv[1])
    # At its import vLLM looks for --help here.
    sys.argv = ["vllm", "serve"]
    began = time.monotonic()
    parser, serve_parser, serve = whole_parser()
    answer = {
        "version": importlib.import_module("vllm").__version__,
        "names": option_names(serve_parser),
        "verdicts": [verdict(parser, serve, argv, asked["deep"]) for argv in asked["lines"]],
        "seconds": round(time.monotonic() - began, 2),
    }
    sys.stdout.flush()
    print("\n" + MARKER + json.dumps(answer), flush=True)


main()
