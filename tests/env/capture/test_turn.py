"""Offsets moved so that reserved bytes begin at 0: turned round, or packed anew."""

from dataclasses import replace

import numpy as np
from programs import TARGET, make_mapping, make_program

from mallocmuzero.env.capture.turn import moved_mappings, turned_mappings
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, Mapping
from mallocmuzero.env.verifier.verify import verify

# `w`, from the previous execution, stays at the bottom; above it every instruction reserves bytes, and above those lies
# `x`, at 40 and at 48.
PROGRAM = make_program(
    [("a", 1.0, ["w"], ["x"]), ("b", 1.0, ["x"], ["y"]), ("c", 1.0, ["y", "w"], ["out"])],
    {"w": {"size": 12, "input": True}, "x": 16, "y": 16, "out": {"size": 16, "output": True}},
    reserved={"a": 24, "b": 32, "c": 24},
)


def with_x_at(offset: int) -> Mapping:
    return make_mapping(
        PROGRAM,
        fast=[("a", "w"), ("c", "w"), ("a", "x"), ("b", "x")],
        residencies=[("w", 0, 2, 0), ("x", 0, 1, offset)],
        copies=[{"buffer": "w", "direction": CROSS_PROGRAM, "start": -1, "end": 0}],
    )


def kinds(mapping: Mapping) -> set[str]:
    return {violation.kind.value for violation in verify(PROGRAM, TARGET, mapping)}


def test_the_buffer_at_the_bottom_comes_to_the_end_and_reserved_bytes_to_the_bottom():
    mapping = with_x_at(48)
    assert kinds(mapping) == {"scoped"}
    (turned,) = turned_mappings(PROGRAM, mapping)
    # 12 bytes, aligned: everything moves down by 16.
    assert turned.residencies[:, 3].tolist() == [TARGET.fast_bytes - 16, 32]
    assert kinds(turned) == set()
    assert np.array_equal(mapping.residencies[:, 3], [0, 48])


def test_what_truly_lies_in_reserved_bytes_still_does_after_turning():
    (turned,) = turned_mappings(PROGRAM, with_x_at(40))
    assert kinds(turned) == {"scoped"}


def test_nothing_is_turned_where_nothing_is_reserved_or_resident():
    nothing = replace(PROGRAM, reserved=np.zeros(3, np.int64))
    assert list(turned_mappings(nothing, with_x_at(48))) == []
    assert list(turned_mappings(PROGRAM, make_mapping(PROGRAM))) == []


def test_what_turning_does_not_mend_is_packed_anew():
    mapping = with_x_at(40)
    turned, packed = moved_mappings(PROGRAM, mapping)
    assert kinds(turned) == {"scoped"}
    assert kinds(packed) == set()
    assert np.array_equal(packed.access_fast, mapping.access_fast)
    assert np.array_equal(packed.copies, mapping.copies)
    others = [column for column in range(mapping.residencies.shape[1]) if column != 3]
    assert np.array_equal(packed.residencies[:, others], mapping.residencies[:, others])


def test_what_does_not_fit_is_not_packed():
    full = replace(PROGRAM, reserved=np.full(3, TARGET.fast_bytes - 16, np.int64))
    assert list(moved_mappings(full, with_x_at(48)))[1:] == []
