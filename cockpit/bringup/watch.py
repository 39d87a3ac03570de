"""Watches a run load, until it is ready, has ended, will not come further, or the time is up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress

from cockpit.bringup.api import api_healthy
from cockpit.bringup.errors import StepError, StepFailed, StepStalled, StepTimeout
from cockpit.bringup.events import LoadProgress, StepChanged, StepName, StepState
from cockpit.bringup.evidence import explain_run
from cockpit.bringup.follow import serve_log
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.step import Report
from cockpit.bringup.steps.membership import ask_membership
from cockpit.bringup.steps.ray import needs_ray
from cockpit.hosts.errors import HostError
from cockpit.hosts.quoting import join
from cockpit.model.facts import Membership, Sample
from cockpit.model.finding import Finding
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.progress import Phase, Progress
from cockpit.probes.sample import SampleError, parse_sample, sample_command
from cockpit.runtime.detached import ProcessState
from cockpit.serving.arguments import serve_argv, world_size
from cockpit.serving.launch import Run
from cockpit.serving.load import Judgement, LoadKind, LoadWatch, judge

POLL = 2.0
"""Seconds between two looks at the run."""

SAMPLE = 10.0
"""Seconds between two samples of the hosts' memory, GPU and disks."""

SAMPLES = 180
"""Samples of a host that are kept: half an hour."""

LOST_PATIENCE = 120.0
"""Seconds the head may be out of reach before the step ends as unknown."""


class Watch:
    """Watches one run load."""

    def __init__(self, session: Session, run: Run) -> None:
        self.session = session
        self.run = run
        self.read = 0
        self.began = time.monotonic()
        self.load = LoadWatch(self.began)
        self._lost_since: float | None = None
        self.samples: dict[str, deque[Sample]] = {
            spec.name: deque(maxlen=SAMPLES) for spec in session.profile.hosts
        }

    async def until_settled(self) -> Report:
        """See ``Load.run``."""
        chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=64)
        follower = asyncio.create_task(self._follow(chunks))
        measuring = asyncio.create_task(self._measure())
        try:
            polled = 0.0
            while True:
                await self._take(chunks, 0.5)
                if time.monotonic() - polled < POLL:
                    continue
                report = await self._poll(chunks)
                polled = time.monotonic()
                if report is not None:
                    return report
        finally:
            follower.cancel()
            measuring.cancel()
            for task in (follower, measuring):
                with suppress(asyncio.CancelledError):
                    await task

    async def _measure(self) -> None:
        """Keep what the hosts' memory, GPUs and disks were like, for the explanation of an end or a stall."""
        while True:
            await asyncio.gather(*map(self._sample, self.session.profile.hosts))
            await asyncio.sleep(SAMPLE)

    async def _sample(self, spec: HostSpec) -> None:
        try:
            completed = await self.session.ask(sample_command(spec))
            self.samples[spec.name].append(parse_sample(completed.stdout))
        except (StepError, SampleError):
            # A host that is away, or tells nothing, leaves a gap in its samples; the poll says what is wrong.
            return

    async def _follow(self, chunks: asyncio.Queue[bytes]) -> None:
        """Put the serve log's bytes in the queue, across lost links."""
        offset = 0
        while True:
            command = serve_log(self.session.profile, self.run.id, offset)
            try:
                await self.session.head.connect()
                async with self.session.head.open(command) as stream:
                    while data := await stream.read():
                        offset += len(data)
                        await chunks.put(data)
            except HostError:
                # The poll notices the same, tells of it and keeps its patience; here it is tried again.
                pass
            await asyncio.sleep(1)

    async def _take(self, chunks: asyncio.Queue[bytes], wait: float) -> None:
        """Read what came, at most for ``wait`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while True:
                    self._feed(await chunks.get())

    def _feed(self, data: bytes) -> None:
        self.read += len(data)
        for step in self.load.feed(data, time.monotonic()):
            self.session.emit(self._event(step))

    def _event(self, step: Progress) -> LoadProgress:
        host = host_of(self.session.profile, step)
        return LoadProgress(host, step.rank, step.phase, step.done, step.total, step.unit, None, step.detail)

    async def _poll(self, chunks: asyncio.Queue[bytes]) -> Report | None:
        """Look at the run itself; None while it is still on its way."""
        try:
            await self.session.head.connect()
            run = await last_run(self.session)
            ready_line = self.load.state.phase is Phase.READY
            healthy = ready_line and await api_healthy(self.session)
            membership = await self._membership()
        except (HostError, StepError) as error:
            self._lost(error)
            return None
        self._found()
        if run is None or run.id != self.run.id:
            raise StepFailed(
                StepName.LOAD,
                f"{self.session.profile.head.name}: another run took the place of {self.run.id}.",
            )
        if healthy:
            return Report(StepState.DONE, "ready")
        if run.process.state is not ProcessState.RUNNING:
            await self._drain(chunks, run)
        verdict = self._judge(run, membership)
        if verdict.kind in (LoadKind.DEAD, LoadKind.STALLED, LoadKind.TIMEOUT):
            raise await self._error(verdict)
        return None

    async def _membership(self) -> Membership | None:
        """Ray's members, asked only where the log says that vLLM waits for them."""
        waits = any(sign.kind == "waiting" for sign in self.load.state.signs)
        if not waits or not needs_ray(self.session.profile):
            return None
        return await ask_membership(self.session)

    def _judge(self, run: Run, membership: Membership | None) -> Judgement:
        return judge(
            self.load.state,
            run.process,
            time.monotonic(),
            ready_within=self.session.profile.serve.ready_within,
            ranks=world_size(self.session.profile.serve.flags),
            membership=membership,
        )

    async def _error(self, verdict: Judgement) -> StepError:
        """The step's end, with the cause from the complete logs of every host."""
        found = await explain_run(self.session, self.run.id, self.samples)
        profile, findings = self.session.profile, found.findings
        line = _line_of(findings) or "; ".join(f"line {sign.line}: {sign.text}" for sign in verdict.evidence)
        match verdict.kind:
            case LoadKind.STALLED:
                kind: type[StepError] = StepStalled
                remedy = f"It goes on waiting. End it with `spark-cockpit down {profile.word}`."
            case LoadKind.TIMEOUT:
                kind = StepTimeout
                remedy = "It goes on on the hosts. `serve.ready_within` in the profile is the time it is given."
            case _:
                kind = StepFailed
                remedy = "\n".join(found.next)
        return kind(
            StepName.LOAD,
            f"Run {self.run.id}: {verdict.reason}",
            host=_host_of_findings(findings) or profile.head.name,
            command=join(serve_argv(profile)),
            line=line,
            remedy=remedy,
            findings=findings,
        )

    async def _drain(self, chunks: asyncio.Queue[bytes], run: Run) -> None:
        """Read the log's last bytes, which can come after the end of the process is known."""
        for _ in range(20):
            if self.read >= run.log_size:
                return
            await self._take(chunks, 0.5)

    def _lost(self, error: HostError | StepError) -> None:
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            reason = f"{error.message} Trying again; the run goes on."
            self.session.emit(StepChanged(StepName.LOAD, StepState.UNKNOWN, reason, self.session.head.name))
        if now - self._lost_since > LOST_PATIENCE:
            if isinstance(error, StepError):
                raise error
            raise self.session.failure(
                error, serve_log(self.session.profile, self.run.id, self.read)
            ) from error

    def _found(self) -> None:
        if self._lost_since is not None:
            away = time.monotonic() - self._lost_since
            self._lost_since = None
            self.session.emit(
                StepChanged(StepName.LOAD, StepState.RUNNING, f"reached again after {away:.0f} s")
            )


def _host_of_findings(findings: tuple[Finding, ...]) -> str:
    return next((finding.host for finding in findings if finding.host), "")


def _line_of(findings: tuple[Finding, ...]) -> str:
    for finding in findings:
        for evidence in finding.evidence:
            return f"{evidence.file}:{evidence.line}: {evidence.text}"
    return ""


def host_of(profile: Profile, step: Progress) -> str:
    """The host a step of progress speaks of: by its address on the fabric, else the head."""
    for host in profile.hosts:
        if step.ip and step.ip == host.cluster_address:
            return host.name
    return profile.head.name if not step.ip else step.ip
