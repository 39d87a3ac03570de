"""The last run, as the head has it."""

from __future__ import annotations

from cockpit.bringup.session import Session
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.serving.launch import Run, parse_run_state, run_state_command, run_state_text


async def last_run(session: Session) -> Run | None:
    """The last run as the head has it; None where there never was one.

    Where its environment is gone, the files it left on the host tell: its exit status, or that it left none.
    """
    completed = await session.ask(run_state_command(session.profile, session.runtime))
    if completed.status == NO_ENVIRONMENT:
        question = session.runtime.host_script(
            session.profile.head, run_state_text(), "see what the last run left", limit=15
        )
        completed = await session.ask(question)
    if completed.status != 0:
        raise session.failed(completed)
    return parse_run_state(completed.stdout)
