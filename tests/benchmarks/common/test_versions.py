"""Versions of the code behind results: all subjects have one, and no record claims one that is yet to come."""

import pytest

from benchmarks.ablations import records as ablation_records
from benchmarks.agent import guidance_table
from benchmarks.agent import records as agent_records
from benchmarks.common.json_lines import Key, Record, read_runs
from benchmarks.common.versions import GAME, TRAINING, VERSIONS, count_current, is_current, versions_of
from benchmarks.solvers import records as solver_records
from mallocmuzero.solvers.solve import SOLVERS

FILES = (
    solver_records.RESULTS,
    agent_records.RIVAL_RESULTS,
    agent_records.RESULTS,
    guidance_table.RESULTS,
    ablation_records.RESULTS,
)


@pytest.mark.parametrize("subject", [*SOLVERS, *agent_records.MODES])
def test_whatever_makes_results_has_a_version(subject: str) -> None:
    made_by = agent_records.made_by(subject, None)["versions"]
    assert set(made_by) > {GAME}
    assert all(VERSIONS[name] == number > 0 for name, number in made_by.items())


def test_a_subject_without_a_version_is_refused() -> None:
    with pytest.raises(KeyError, match=r"nobody: has no version; give it one in benchmarks/common/versions\.py"):
        versions_of("nobody")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_record_is_of_a_later_version(path) -> None:  # type: ignore[no-untyped-def]
    def versions(record: Record) -> Key:
        return tuple(record["versions"].items())

    for made_by, _ in read_runs([path], versions):
        assert len(made_by) == 2
        assert all(0 <= number <= VERSIONS[subject] for subject, number in made_by)


def test_records_of_present_versions_are_told_from_earlier_ones() -> None:
    now = {"versions": versions_of(TRAINING)}
    assert is_current(now)
    for subject in now["versions"]:
        assert not is_current({"versions": now["versions"] | {subject: VERSIONS[subject] - 1}})
    assert not is_current({"versions": versions_of("anneal") | {"nobody": 1}})
    assert count_current([now, {"versions": {TRAINING: 0}}]) == "1 by the present version"
    assert count_current([]) == "none by the present version"
