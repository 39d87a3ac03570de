"""What facts do to the hosts. Pure."""

from __future__ import annotations

from dataclasses import replace

from cockpit.model.facts import Interface, Membership, Sample
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.progress import ORDER, Phase, Progress
from cockpit.tui.state import HISTORY, Flow, HostView, Link, LinkView, Point, RankView

MOST_POINTS = 400
"""Points of a bar that are kept: enough for a rate over a minute."""


def hosts_of(profile: Profile, now: float) -> tuple[HostView, ...]:
    """The hosts of a profile before anything is known of them, the head first."""
    order = (profile.head, *profile.workers)
    return tuple(
        HostView(
            spec, order.index(spec) if len(order) > 1 or spec is profile.head else None, LinkView(since=now)
        )
        for spec in order
    )


def with_sample(host: HostView, sample: Sample, now: float) -> HostView:
    """``host`` after the probe's next line."""
    memory = sample.memory
    gpu = sum(g.used for g in sample.gpus if g.used is not None) if sample.gpus else None
    point = Point(now, memory.total - memory.available, gpu)
    history = tuple(old for old in host.history if now - HISTORY <= old.at < now)
    fabric, disk = _rates(host, sample)
    link = host.link
    if link.state is not Link.UP:
        link = LinkView(Link.UP, now, link.rtt)
    return replace(
        host,
        link=link,
        sample=sample,
        sampled_at=now,
        probe_error="",
        history=(*history, point),
        fabric=fabric,
        disk_rate=disk,
    )


def _rates(host: HostView, sample: Sample) -> tuple[Flow | None, float | None]:
    before = host.sample
    if before is None or sample.at <= before.at:
        return host.fabric, host.disk_rate
    seconds = sample.at - before.at
    then, now = fabric_of(host.spec, before), fabric_of(host.spec, sample)
    fabric = None
    if then is not None and now is not None and now.received >= then.received and now.sent >= then.sent:
        fabric = Flow((now.received - then.received) / seconds, (now.sent - then.sent) / seconds)
    disk = (sample.disk_read - before.disk_read) / seconds if sample.disk_read >= before.disk_read else None
    return fabric, disk


def fabric_of(spec: HostSpec, sample: Sample) -> Interface | None:
    """The counters of the host's fabric interface; RDMA traffic is not in them where the driver counts apart."""
    wanted = spec.fabric.interface if spec.fabric else ""
    return next((one for one in sample.interfaces if one.name == wanted), None)


def with_membership(hosts: tuple[HostView, ...], membership: Membership | None) -> tuple[HostView, ...]:
    """The hosts after a look at Ray's node table; a Ray that does not answer leaves nobody joined."""
    members = {member.host: member for member in membership.members} if membership else {}
    return tuple(replace(host, member=members.get(host.name)) for host in hosts)


def with_progress(host: HostView, progress: Progress, now: float) -> HostView:
    """``host`` after one of its ranks came further."""
    if progress.rank is None:
        return host
    old = next((view for view in host.ranks if view.rank == progress.rank), None)
    view = _rank(host, old, progress, now)
    others = tuple(rank for rank in host.ranks if rank.rank != progress.rank)
    return replace(host, ranks=tuple(sorted((*others, view), key=lambda rank: rank.rank)))


def _rank(host: HostView, old: RankView | None, progress: Progress, now: float) -> RankView:
    same = old is not None and old.phase is progress.phase and old.unit in ("", progress.unit)
    disk = host.sample.disk_read if host.sample else None
    began, ended = (old.disk_from, old.disk_until) if old else (None, None)
    if began is None and ORDER[progress.phase] >= ORDER[Phase.WORKERS]:
        began = disk
    if began is not None and ended is None and ORDER[progress.phase] > ORDER[Phase.WEIGHTS]:
        ended = disk
    points = old.points if same and old else ()
    if progress.done is not None:
        if points and progress.done < points[-1][1]:
            points = ()
        points = (*points, (now, float(progress.done)))[-MOST_POINTS:]
    return RankView(
        progress.rank or 0,
        progress.phase,
        old.since if same and old else now,
        progress.done,
        progress.total,
        progress.unit,
        progress.detail,
        points,
        began,
        ended,
    )


def without_ranks(hosts: tuple[HostView, ...]) -> tuple[HostView, ...]:
    """The hosts when another run begins, or none runs."""
    return tuple(replace(host, ranks=()) for host in hosts)
