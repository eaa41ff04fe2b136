"""The storm's plan comes from its seed alone and leaves no kind of fault or worker out."""

import pytest

from tests.faults.storm.plan import Fault, Voice, make_plan


def test_a_seed_is_a_storm() -> None:
    """The same seed plans the same storm, another seed another one."""
    assert make_plan(7, jobs=12, events=150, network=True) == make_plan(7, jobs=12, events=150, network=True)
    assert make_plan(7, jobs=12, events=150, network=True) != make_plan(8, jobs=12, events=150, network=True)


@pytest.mark.parametrize("seed", range(20))
def test_even_a_short_storm_has_everything(seed: int) -> None:
    """Each kind of worker and of fault is there, the wipe once, and nothing outside of the run."""
    plan = make_plan(seed, jobs=12, events=150, network=True)
    faults = [strike.fault for strike in plan.strikes]
    assert plan.events == 150
    assert {job.voice for job in plan.jobs} == set(Voice)
    assert set(faults) == set(Fault)
    assert faults.count(Fault.WIPE) == 1
    assert all(0 < strike.after < 150 for strike in plan.strikes)


def test_without_a_second_host_nothing_is_cut() -> None:
    """Who is not root gets a storm without cuts."""
    plan = make_plan(1, jobs=12, events=150, network=False)
    assert Fault.NETWORK not in {strike.fault for strike in plan.strikes}
