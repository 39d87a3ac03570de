"""Time left, from a rate and from earlier runs."""

from __future__ import annotations

from cockpit.model.progress import Phase
from cockpit.serving.eta import phase_durations, phase_eta, rate_eta


def test_rate() -> None:
    assert rate_eta([(0.0, 0), (10.0, 5)], 20) == 30.0
    assert rate_eta([(0.0, 0), (10.0, 5), (100.0, 10), (110.0, 20)], 40) == 20.0
    assert rate_eta([(0.0, 0)], 20) is None
    assert rate_eta([(0.0, 5), (10.0, 5)], 20) is None
    assert rate_eta([(0.0, 0), (10.0, 25)], 20) == 0.0


def test_earlier_runs() -> None:
    runs = [
        {Phase.WEIGHTS: 60.0, Phase.COMPILE: 40.0, Phase.GRAPHS: 20.0},
        {Phase.WEIGHTS: 80.0, Phase.COMPILE: 10.0, Phase.GRAPHS: 20.0},
        {Phase.WEIGHTS: 70.0, Phase.COMPILE: 10.0, Phase.GRAPHS: 20.0},
    ]
    assert phase_eta(runs, Phase.WEIGHTS, 30.0) == 70.0
    assert phase_eta(runs, Phase.WEIGHTS, 500.0) == 30.0
    assert phase_eta(runs, Phase.GRAPHS, 5.0) == 15.0
    assert phase_eta(runs, Phase.NCCL, 0.0) is None
    assert phase_eta([], Phase.WEIGHTS, 0.0) is None


def test_durations() -> None:
    began = {Phase.STARTING: 0.0, Phase.WEIGHTS: 75.9, Phase.COMPILE: 94.0, Phase.READY: 173.6}
    assert phase_durations(began) == {
        Phase.STARTING: 75.9,
        Phase.WEIGHTS: 94.0 - 75.9,
        Phase.COMPILE: 173.6 - 94.0,
    }
