"""Buffers that are used alike have one number, others have others."""

import numpy as np
from programs import make_program

from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.alike import alike_buffers


def test_layers_are_alike_and_nothing_else_is() -> None:
    """Two layers `x -> h -> y` with weights of their own; the second one's hidden value is larger."""
    program = make_program(
        [
            *(("a.1", 1.0, ["x0", "w0"], ["h0"]), ("b.1", 2.0, ["h0"], ["x1"])),
            *(("a.2", 1.0, ["x1", "w1"], ["h1"]), ("b.2", 2.0, ["h1"], ["x2"])),
        ],
        {
            "x0": {"size": 8, "input": True},
            "w0": {"size": 24, "input": True},
            "w1": {"size": 24, "input": True},
            "h0": 16,
            "h1": 32,
            "x1": 8,
            "x2": {"size": 8, "output": True},
        },
    )
    by_size: dict[int, list[int]] = {int(size): [] for size in program.size}
    for size, kind in zip(program.size.tolist(), alike_buffers(program).tolist(), strict=True):
        by_size[size].append(kind)
    assert len(set(by_size[24])) == 1, "weights of both layers"
    assert len(set(by_size[8])) == 3, "an input, what goes from layer to layer, and an output are used otherwise"
    assert by_size[16] != by_size[32]


def test_a_model_of_many_layers_has_few_kinds() -> None:
    program = load("bert-train-b8")
    kinds = alike_buffers(program)
    assert kinds.shape == (program.num_buffers,)
    assert len(np.unique(kinds)) < 0.4 * program.num_buffers
    for kind in np.unique(kinds):
        assert len(np.unique(program.size[kinds == kind])) == 1
