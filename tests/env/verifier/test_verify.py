"""The verifier as a whole: what it takes, what it raises, and that every kind of violation has a case."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from programs import TARGET, make_mapping, programs
from verifier_cases import CHAIN, STATE, X_FAST, X_THERE

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.verifier.verify import check, verify
from mallocmuzero.env.verifier.violation import Kind, VerificationError


def test_every_kind_has_a_case() -> None:
    """The kinds left out have tests of their own: `test_well_formed.py`, and below."""
    files = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    found = [case.kind for path in files for case in runpy.run_path(str(path)).get("CASES", [])]
    assert {*found, Kind.SHAPE, Kind.PROGRAM} == set(Kind)


def test_mapping_of_another_program() -> None:
    (violation,) = verify(CHAIN, TARGET, all_hbm(STATE))
    assert violation.kind == Kind.PROGRAM


def test_target_is_the_one_given() -> None:
    """A mapping made for a larger fast memory does not fit a smaller one."""
    mapping = make_mapping(CHAIN, X_FAST, X_THERE)
    assert verify(CHAIN, TARGET, mapping) == []
    assert [v.kind for v in verify(CHAIN, replace(TARGET, fast_bytes=48), mapping)] == [Kind.CAPACITY]


def test_check_names_the_first_violations() -> None:
    check(CHAIN, TARGET, all_hbm(CHAIN))
    fast: Mapping = replace(all_hbm(CHAIN), access_fast=np.ones(CHAIN.num_accesses, bool))
    with pytest.raises(VerificationError, match=r"Instruction 0 \(a\)") as caught:
        check(CHAIN, TARGET, fast)
    assert isinstance(caught.value, UserError)
    assert "\n" not in str(caught.value)
    # Every operand and result finds no residency, and no output was lost: what is reported once counts as mended.
    assert len(caught.value.violations) == CHAIN.num_accesses
    assert "and 11 more" in str(caught.value)


@given(programs())
def test_all_in_hbm_is_legal(program: Program) -> None:
    assert verify(program, program.target, all_hbm(program)) == []
