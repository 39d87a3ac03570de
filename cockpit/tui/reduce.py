"""What facts do to the state: the one place where what the screen shows changes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cockpit.bringup.events import (
    Answered,
    CommandEnded,
    CommandStarted,
    Ended,
    Event,
    FlagsJudged,
    Found,
    LoadProgress,
    StepChanged,
    StepName,
    StepState,
    Surveyed,
)
from cockpit.model.finding import Explanation
from cockpit.model.progress import ORDER, Phase
from cockpit.tui import facts as f
from cockpit.tui import reduce_hosts as hosts
from cockpit.tui import reduce_steps as steps
from cockpit.tui.state import (
    HISTORY,
    RUN,
    Activity,
    Exchange,
    FlagsView,
    HostView,
    MetricsPoint,
    RunView,
    State,
    Trouble,
)

MOST_EXCHANGES = 100
CALM = (
    f.GuardTold,
    f.Ticked,
    f.Pinged,
    f.SampleTaken,
    f.MetricsTaken,
    f.MembershipSeen,
    f.RunSeen,
    f.StepsSeen,
    f.LogGrew,
)
"""What comes all the time: it is seen with the next second."""


def reduce(state: State, fact: f.Fact) -> State:
    """``state`` after ``fact``; ``state.now`` is when it was learnt."""
    match fact:
        case f.Ticked():
            return state
        case f.ProfileLoaded():
            return _profile(state, fact)
        case f.ProfileFailed(error):
            # What was shown was of the profile as it was, and nobody asks its hosts any more.
            return State(
                state.name,
                state.now,
                state.epoch,
                state.read_only,
                profile_error=error,
                steps=steps.fresh_steps(state.steps),
            )
        case f.EarlierRead(loads):
            return replace(state, earlier=loads)
        case f.GuardTold():
            calm = _calm(state, f"the memory guard of {fact.host}")
            return _on_host(calm, fact.host, lambda host: replace(host, guard=fact.guard))
        case f.LinkChanged() | f.Pinged() | f.SampleTaken() | f.ProbeFailed() | f.SourcesSeen():
            return _host(state, fact)
        case f.MembershipSeen() | f.RunSeen() | f.StepsSeen() | f.LookFailed():
            return _look(state, fact)
        case f.WorkBegan(verb, undoing):
            return replace(state, activity=Activity(verb, True, undoing, state.now))
        case f.WorkEnded():
            return _work_ended(state, fact)
        case f.Happened(event):
            return _event(state, event)
        case f.LoadTold() | f.LogGrew():
            return _load(state, fact)
        case f.MetricsTaken() | f.MetricsFailed():
            return _metrics(state, fact)
        case f.PromptAsked() | f.PromptPiece() | f.PromptEnded():
            return _prompt(state, fact)
        case f.Explained(run, explanation):
            return replace(state, explanation=explanation, explained_run=run)
        case f.FlagsJudged(flags):
            return replace(state, flags=flags)


def _profile(state: State, fact: f.ProfileLoaded) -> State:
    profile = fact.profile
    if state.profile is not None and state.profile.digest != profile.digest:
        # What was judged and explained was about the profile as it was.
        state = replace(
            state,
            flags=FlagsView(),
            verdicts=(),
            cabling="",
            explanation=None,
            steps=steps.forget_failures(state.steps),
        )
    same = state.profile is not None and [h.spec for h in state.hosts] == [
        h.spec for h in hosts.hosts_of(profile, state.now)
    ]
    views = state.hosts if same else hosts.hosts_of(profile, state.now)
    return replace(state, name=profile.name, profile=profile, profile_error="", hosts=views)


def _host(
    state: State, fact: f.LinkChanged | f.Pinged | f.SampleTaken | f.ProbeFailed | f.SourcesSeen
) -> State:
    def changed(host: HostView) -> HostView:
        match fact:
            case f.LinkChanged():
                return replace(host, link=fact.link)
            case f.Pinged():
                return replace(host, link=replace(host.link, rtt=fact.rtt))
            case f.SampleTaken():
                return hosts.with_sample(host, fact.sample, state.now)
            case f.ProbeFailed():
                return replace(host, probe_error=fact.error)
            case f.SourcesSeen():
                return replace(host, sources=fact.sources)

    return _on_host(state, fact.host, changed)


def _on_host(state: State, name: str, change: Callable[[HostView], HostView]) -> State:
    return replace(state, hosts=tuple(change(host) if host.name == name else host for host in state.hosts))


def _look(state: State, fact: f.MembershipSeen | f.RunSeen | f.StepsSeen | f.LookFailed) -> State:
    match fact:
        case f.MembershipSeen(membership):
            state = replace(
                _calm(state, "Ray"),
                hosts=hosts.with_membership(state.hosts, membership),
                ray_error="" if membership is None or membership.reachable else membership.error,
                ray_version=(membership.ray_version if membership else "") or state.ray_version,
            )
        case f.RunSeen():
            state = _run(_calm(state, RUN), fact)
        case f.StepsSeen(seen):
            running = state.run is not None and state.run.running
            found = steps.see_steps(state.steps, seen, running=running, busy=state.activity.busy)
            state = replace(_calm(state, "the steps"), steps=found)
        case f.LookFailed(what, reason):
            return replace(state, troubles=_troubled(state, what, reason))
    return replace(state, looked_at=state.now)


def _troubled(state: State, what: str, reason: str) -> tuple[Trouble, ...]:
    """The troubles with ``what`` among them: one that is known keeps its place and its time."""
    if any(one.what == what for one in state.troubles):
        return tuple(replace(one, reason=reason) if one.what == what else one for one in state.troubles)
    return (*state.troubles, Trouble(what, reason, state.now))


def _calm(state: State, what: str) -> State:
    return replace(state, troubles=tuple(one for one in state.troubles if one.what != what))


def _run(state: State, fact: f.RunSeen) -> State:
    if fact.id is None:
        return replace(state, run=None, hosts=hosts.without_ranks(state.hosts))
    old = state.run if state.run is not None and state.run.id == fact.id else None
    if old is None:
        state = replace(state, hosts=hosts.without_ranks(state.hosts), metrics=(), metrics_error="")
        if state.explained_run != fact.id:
            state = replace(state, explanation=None, explained_run="")
        old = RunView(fact.id, fact.running, fact.ready, phase_since=state.now, silent_since=state.now)
    run = replace(
        _phase(old, Phase.READY, state.now) if fact.ready else old,
        running=fact.running,
        ready=fact.ready,
        exit_status=fact.exit_status,
        began=fact.began or old.began,
        seen_at=state.now,
    )
    return replace(state, run=run, vllm_version=fact.vllm or state.vllm_version)


def _phase(run: RunView, phase: Phase, now: float) -> RunView:
    """``run`` in ``phase``, since when it was first seen there."""
    if phase is run.phase and run.phases:
        return run
    since = run.phase_since if phase is run.phase else now
    return replace(run, phase=phase, phase_since=since, phases=(*run.phases, (phase, now)))


def _work_ended(state: State, fact: f.WorkEnded) -> State:
    """What was still running when the runner ended is unknown."""
    left = tuple(
        replace(step, state=StepState.UNKNOWN, reason="nobody here watches it any more", began=None)
        if step.state is StepState.RUNNING
        else step
        for step in state.steps
    )
    activity = replace(state.activity, busy=False, outcome=fact.outcome)
    return replace(state, steps=left, activity=activity)


def _event(state: State, event: Event) -> State:
    match event:
        case StepChanged():
            state = replace(state, steps=steps.change_step(state.steps, event, state.now, state.activity))
            if event.step is StepName.PROMPT:
                state = _prompt_step(state, event)
            begun = event.state is StepState.RUNNING and event.step in (StepName.LAUNCH, StepName.LOAD)
            return replace(state, explanation=None, explained_run="") if begun else state
        case CommandStarted():
            return replace(state, steps=steps.start_command(state.steps, event))
        case CommandEnded():
            return replace(state, steps=steps.end_command(state.steps, event))
        case Found(finding):
            known = state.explanation or Explanation("failed")
            if finding in known.findings:
                return state
            run = state.run.id if state.run else ""
            return replace(
                state, explanation=replace(known, findings=(*known.findings, finding)), explained_run=run
            )
        case Answered(text, reasoning):
            return _prompt(state, f.PromptPiece(text, reasoning))
        case Surveyed(verdicts, cabling):
            return replace(state, verdicts=verdicts, cabling=cabling)
        case FlagsJudged(vllm, problems):
            return replace(state, flags=FlagsView(vllm, problems), vllm_version=vllm or state.vllm_version)
        case LoadProgress() | Ended():
            # The serve log itself is followed: it tells the same, of any run and with more.
            return state


def _prompt_step(state: State, event: StepChanged) -> State:
    """The runner asks the profile's own prompt, or has its answer."""
    last = state.exchanges[-1] if state.exchanges else None
    if event.state is StepState.RUNNING:
        if last is not None and last.open:
            return state
        return _prompt(state, f.PromptAsked(state.profile.prompt.text if state.profile else ""))
    if last is None or not last.open or state.activity.undoing:
        return state
    done = event.state is StepState.DONE
    ended = (
        replace(last, note=event.reason or "done") if done else replace(last, error=event.reason or "no answer")
    )
    return replace(state, exchanges=(*state.exchanges[:-1], ended))


def _load(state: State, fact: f.LoadTold | f.LogGrew) -> State:
    run = state.run
    if run is None or run.id != fact.run:
        return state
    if isinstance(fact, f.LogGrew):
        version = fact.vllm or state.vllm_version
        return replace(state, vllm_version=version, run=replace(run, silent_since=state.now))
    progress = fact.progress
    if not run.ready and (ORDER[progress.phase] > ORDER[run.phase] or not run.phases):
        run = _phase(run, progress.phase, state.now)
    state = replace(state, run=replace(run, silent_since=state.now))
    return _on_host(state, fact.host, lambda host: hosts.with_progress(host, progress, state.now))


def _metrics(state: State, fact: f.MetricsTaken | f.MetricsFailed) -> State:
    if isinstance(fact, f.MetricsFailed):
        return replace(state, metrics_error=fact.error)
    from cockpit.serving.metrics import rates

    last = state.metrics[-1] if state.metrics else None
    found = rates(last.metrics, fact.metrics, state.now - last.at) if last else None
    kept = tuple(point for point in state.metrics if point.at >= state.now - HISTORY)
    return replace(state, metrics=(*kept, MetricsPoint(state.now, fact.metrics, found)), metrics_error="")


def _prompt(state: State, fact: f.PromptAsked | f.PromptPiece | f.PromptEnded) -> State:
    if isinstance(fact, f.PromptAsked):
        exchange = Exchange(fact.text, began=state.now)
        return replace(state, exchanges=(*state.exchanges, exchange)[-MOST_EXCHANGES:])
    if not state.exchanges:
        return state
    last = state.exchanges[-1]
    if isinstance(fact, f.PromptPiece):
        last = replace(
            last,
            answer=last.answer + fact.text,
            reasoning=last.reasoning + fact.reasoning,
            first=last.first if last.first is not None else state.now,
        )
    else:
        last = replace(last, result=fact.result, error=fact.error)
    return replace(state, exchanges=(*state.exchanges[:-1], last))
