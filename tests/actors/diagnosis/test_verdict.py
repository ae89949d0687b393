"""The verdict on an agent that knows nothing, and on one that does."""

from dataclasses import replace

import pytest
from diagnosis_cases import agent

from mallocmuzero.actors.diagnosis.changes import Tally
from mallocmuzero.actors.diagnosis.diagnose import Diagnosis, diagnose
from mallocmuzero.actors.diagnosis.verdict import verdict
from mallocmuzero.env.workloads import load


@pytest.fixture(scope="module")
def scrambled() -> Diagnosis:
    return diagnose(agent(), load("tiny"), horizon=4)


def changed(diagnosis: Diagnosis, agent_helps: int, random_helps: int, moves: int = 1000) -> Diagnosis:
    assert diagnosis.changes is not None

    def tally(helps: int) -> Tally:
        return replace(diagnosis.changes.agent, moves=moves, helps=helps, helps_share=helps / moves)

    return replace(diagnosis, changes=replace(diagnosis.changes, agent=tally(agent_helps), random=tally(random_helps)))


def test_an_agent_without_training_is_told_what_to_mend(scrambled: Diagnosis) -> None:
    sentences = verdict(scrambled)
    assert len(sentences) >= 3
    assert sentences[-1].startswith("First to mend: the ")
    assert all(sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize(("agent_helps", "knows"), [(300, True), (110, False), (100, False), (20, False)])
def test_an_agent_knows_xlas_mistakes_if_chance_does_not_explain_it(
    scrambled: Diagnosis, agent_helps: int, knows: bool
) -> None:
    first = verdict(changed(scrambled, agent_helps, 100))[0]
    assert first.startswith("It knows something" if knows else "It knows no more")
    assert f"{agent_helps / 1000:.1%} of its 1,000 changes" in first
    assert "10.0% of random ones" in first


def test_without_a_mapping_of_xlas_nothing_is_said_of_changes(scrambled: Diagnosis) -> None:
    assert not any("XLA's mistakes" in sentence for sentence in verdict(replace(scrambled, changes=None)))
