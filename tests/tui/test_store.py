"""What facts do to the state."""

from __future__ import annotations

from cockpit.bringup.events import (
    Answered,
    CommandEnded,
    CommandStarted,
    FlagsJudged,
    StepChanged,
    StepName,
    StepState,
)
from cockpit.bringup.look import StepSeen
from cockpit.bringup.step import Report
from cockpit.model.command import Command, Completed
from cockpit.model.facts import Membership
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.progress import Phase, Progress
from cockpit.serving.metrics import Metrics
from cockpit.tui import facts as f
from cockpit.tui.state import HISTORY, Link, LinkView
from cockpit.tui.widgets.panes import step_content
from tests.tui.scenes import START, Scene, profile, sample


def test_history_is_bounded() -> None:
    """Samples older than the charts show are dropped."""
    scene = Scene().opened().samples(400, lambda _second: 10.0)
    host = scene.store.state.hosts[0]
    assert host.history[0].at >= scene.clock() - HISTORY
    assert len(host.history) == int(HISTORY) + 1


def test_rates_come_from_the_hosts_own_clock() -> None:
    """Fabric and disk rates are by the time of the samples, not by when they came."""
    scene = Scene().opened()
    scene.tell(f.SampleTaken("spark-1", sample(START + 1, 1.0)))
    scene.clock.now += 30
    scene.tell(f.SampleTaken("spark-1", sample(START + 3, 1.0)))
    host = scene.store.state.hosts[0]
    assert host.fabric is not None
    assert round(host.fabric.received) == 1_000_000_000
    assert round(host.fabric.sent) == 100_000_000


def test_a_counter_that_goes_back_gives_no_rate() -> None:
    """After a reboot there is no rate, rather than a wrong one."""
    scene = Scene().opened()
    scene.tell(f.SampleTaken("spark-1", sample(START + 900, 1.0)))
    scene.tell(f.SampleTaken("spark-1", sample(START + 1254, 1.0)))
    assert scene.store.state.hosts[0].fabric is None


def test_a_dead_host_does_not_touch_the_other() -> None:
    """What is known of one host changes nothing of another."""
    scene = Scene().opened().samples(3, lambda _second: 1.0)
    other = scene.store.state.hosts[0]
    scene.tell(f.LinkChanged("spark-2", LinkView(Link.LOST, scene.clock(), None, "gone")))
    assert scene.store.state.hosts[0] is other
    assert scene.store.state.hosts[1].link.state is Link.LOST
    assert scene.store.state.hosts[1].sample is not None


def test_a_failure_stays_until_it_is_mended() -> None:
    """A look that finds a step ready to run does not wipe out why it failed; one that finds it done does."""
    scene = Scene().opened()
    scene.tell(f.WorkBegan("up"))
    scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.FAILED, "no port"))
    scene.tell(f.WorkEnded())
    scene.tell(f.StepsSeen((StepSeen(StepName.RAY_HEAD, Report(StepState.READY_TO_RUN)),)))
    assert scene.store.state.step(StepName.RAY_HEAD).reason == "no port"
    scene.tell(f.StepsSeen((StepSeen(StepName.RAY_HEAD, Report(StepState.DONE, "running")),)))
    assert scene.store.state.step(StepName.RAY_HEAD).state is StepState.DONE


def test_a_load_that_was_only_seen_is_done_when_it_is() -> None:
    """A look that finds a load under way holds until the next look; how far it is, the log tells."""
    scene = Scene().opened()
    scene.tell(f.StepsSeen((StepSeen(StepName.LOAD, Report(StepState.RUNNING, "loading: starting")),)))
    step = scene.store.state.step(StepName.LOAD)
    assert (step.state, step.reason) == (StepState.RUNNING, "")
    scene.tell(f.StepsSeen((StepSeen(StepName.LOAD, Report(StepState.DONE, "ready")),)))
    assert scene.store.state.step(StepName.LOAD).state is StepState.DONE


def test_a_load_that_is_watched_from_here_is_the_runners_to_tell_of() -> None:
    """While the runner is at work a look that is late changes nothing of the step it runs, whose time begins
    when the runner does."""
    scene = Scene().opened()
    scene.tell(f.StepsSeen((StepSeen(StepName.LOAD, Report(StepState.RUNNING)),))).later(30)
    scene.tell(f.WorkBegan("up"))
    scene.store.happened(StepChanged(StepName.LOAD, StepState.RUNNING))
    scene.later(4).tell(f.StepsSeen((StepSeen(StepName.LOAD, Report(StepState.WAITING)),)))
    step = scene.store.state.step(StepName.LOAD)
    assert step.state is StepState.RUNNING
    assert step.began is not None
    assert scene.store.state.now - step.began == 4


def test_a_command_under_way_is_told_as_running_and_one_that_was_left_as_unknown() -> None:
    """No end was seen of either; while the runner is at work that is no reason to wonder."""
    scene = Scene().opened()
    scene.tell(f.WorkBegan("up"))
    scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.RUNNING))
    scene.store.happened(CommandStarted(StepName.RAY_HEAD, Command("spark-1", ("true",), "start Ray's head")))

    def told() -> str:
        state = scene.store.state
        return step_content(state.step(StepName.RAY_HEAD), state, None, ()).plain

    assert "start Ray's head  ◐ running" in told()
    scene.tell(f.WorkEnded())
    assert "start Ray's head  … no end seen" in told()


def test_unknown_is_not_kept_as_failed() -> None:
    """What is unknown is answered by the next look."""
    scene = Scene().opened()
    scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.UNKNOWN, "link lost"))
    scene.tell(f.StepsSeen((StepSeen(StepName.RAY_HEAD, Report(StepState.READY_TO_RUN)),)))
    assert scene.store.state.step(StepName.RAY_HEAD).state is StepState.READY_TO_RUN


def test_what_a_look_does_not_ask_stays_unknown() -> None:
    """The flags' judgement that was lost is not wiped out by a look that never judges them."""
    scene = Scene().opened()
    scene.store.happened(StepChanged(StepName.FLAGS, StepState.UNKNOWN, "no answer within 120 s"))
    scene.tell(f.StepsSeen((StepSeen(StepName.FLAGS, Report(StepState.READY_TO_RUN)),)))
    step = scene.store.state.step(StepName.FLAGS)
    assert (step.state, step.reason) == (StepState.UNKNOWN, "no answer within 120 s")
    scene.tell(f.StepsSeen((StepSeen(StepName.FLAGS, Report(StepState.DONE)),)))
    assert scene.store.state.step(StepName.FLAGS).state is StepState.DONE


def test_undone_is_not_done() -> None:
    """A step that was undone can run again."""
    scene = Scene().loading()
    scene.tell(f.WorkBegan("down", undoing=True))
    scene.store.happened(StepChanged(StepName.LAUNCH, StepState.DONE, "stopped"))
    step = scene.store.state.step(StepName.LAUNCH)
    assert (step.state, step.reason) == (StepState.READY_TO_RUN, "undone: stopped")


def test_what_still_ran_when_the_runner_ended_is_unknown() -> None:
    """Detaching leaves a step that nobody watches."""
    scene = Scene().opened()
    scene.tell(f.WorkBegan("up"))
    scene.store.happened(StepChanged(StepName.LOAD, StepState.RUNNING))
    scene.tell(f.WorkEnded())
    assert scene.store.state.step(StepName.LOAD).state is StepState.UNKNOWN
    assert not scene.store.state.activity.busy


def test_a_step_keeps_its_commands_and_times() -> None:
    """What a step ran, with its output and how long it took."""
    scene = Scene().opened()
    command = Command("spark-1", ("ray", "start"), "start Ray")
    scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.RUNNING))
    scene.store.happened(CommandStarted(StepName.RAY_HEAD, command))
    assert scene.store.state.step(StepName.RAY_HEAD).commands[0].completed is None
    scene.clock.now += 7
    scene.store.happened(CommandEnded(StepName.RAY_HEAD, Completed(command, 0, b"up", b"", 7.0)))
    scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.DONE, "running"))
    step = scene.store.state.step(StepName.RAY_HEAD)
    assert step.took == 7
    assert step.commands[0].completed is not None


def test_ranks_are_each_their_own() -> None:
    """Rank 1 never gets rank 0's count."""
    scene = Scene().loading()
    head, worker = scene.store.state.hosts
    assert (head.ranks[0].done, head.ranks[0].total) == (18, 39)
    assert worker.ranks[0].done is None
    assert worker.ranks[0].phase is Phase.WEIGHTS


def test_another_run_begins_afresh() -> None:
    """A new run has no ranks, no cause and no metrics yet."""
    scene = Scene().failed()
    assert scene.store.state.explanation is not None
    scene.tell(f.RunSeen("20261130-210000-beef", True))
    state = scene.store.state
    assert state.explanation is None
    assert state.metrics == ()
    assert all(host.ranks == () for host in state.hosts)


def test_progress_of_another_run_is_not_taken() -> None:
    """A log that is still read of an earlier run tells nothing of this one."""
    scene = Scene().loading()
    before = scene.store.state.hosts
    scene.tell(f.LoadTold("other", "spark-1", Progress(Phase.READY, 1, 0)))
    assert scene.store.state.hosts == before


def test_ray_that_does_not_answer_leaves_nobody_joined() -> None:
    """Members of a cluster that is gone are not shown as joined."""
    scene = Scene().opened().joined()
    scene.tell(f.MembershipSeen(Membership(False, error="refused")))
    assert all(host.member is None for host in scene.store.state.hosts)
    assert scene.store.state.ray_error == "refused"


def test_metrics_rates() -> None:
    """Rates are between two looks; a serve that was started anew has none."""
    scene = Scene().ready()
    scene.tell(f.MetricsTaken(Metrics(generation_tokens=0.0)))
    assert scene.store.state.metrics[-1].rates is None
    scene.clock.now += 2
    scene.tell(f.MetricsTaken(Metrics(generation_tokens=50.0)))
    rates = scene.store.state.metrics[-1].rates
    assert rates is not None
    assert rates.generation == 25.0


def test_the_runners_prompt_is_an_exchange() -> None:
    """The test prompt of ``up`` is shown like any other, and is over when its step is."""
    scene = Scene().ready()
    scene.store.happened(StepChanged(StepName.PROMPT, StepState.RUNNING))
    scene.store.happened(Answered("Good ", ""))
    scene.store.happened(Answered("day.", ""))
    assert scene.store.state.exchanges[-1].open
    scene.store.happened(StepChanged(StepName.PROMPT, StepState.DONE, "24 tokens/s"))
    last = scene.store.state.exchanges[-1]
    assert (last.text, last.answer, last.note, last.open) == (
        profile().prompt.text,
        "Good day.",
        "24 tokens/s",
        False,
    )


def test_refused_flags_have_fixes_until_the_profile_changes() -> None:
    """The errors of refused flags can be mended; another profile has not been judged."""
    scene = Scene().opened()
    fix = Fix("Set it.", {"set": {"serve.flags.distributed-executor-backend": "ray"}})
    error = Problem("distributed-executor-backend", Severity.ERROR, "missing", fix=(fix,))
    note = Problem("port", Severity.NOTE, "default", fix=(Fix("no", {"unset": ["x"]}),))
    scene.store.happened(FlagsJudged("0.32.0", (note, error)))
    assert not scene.store.state.fixes
    scene.store.happened(StepChanged(StepName.FLAGS, StepState.REFUSED, "missing"))
    assert list(scene.store.state.fixes) == [fix]
    scene.tell(f.ProfileLoaded(profile(digest="other")))
    assert not scene.store.state.fixes
    assert scene.store.state.step(StepName.FLAGS).state is None


def test_an_estimate_needs_an_earlier_load() -> None:
    """The time left is by earlier loads; without one there is none."""
    scene = Scene().loading()
    assert scene.store.state.left is None
    scene.tell(f.EarlierRead(({Phase.WEIGHTS: 60.0, Phase.PROFILING: 30.0},)))
    state = scene.store.state
    assert state.run is not None
    assert state.left == 90.0 - (state.now - state.run.phase_since)
