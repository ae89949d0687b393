"""The text of compiler options, and a check that the compiler took them."""

from pathlib import Path

import numpy as np
import pytest
from compiler_cases import TAKEN, small_program

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.assignment_facts import LoopOperand
from mallocmuzero.env.program.compiler_flags import CROSS_PROGRAM, KEEPS, LOOP_OPTIMISER, ORDER, PREFETCHES
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.roundtrip.options import (
    check_taken,
    flag_options,
    keep_option,
    order_option,
    prefetch_option,
)
from mallocmuzero.solvers.order.flags import Flags

ENVIRONMENT = """
# xla_tpu_msa_sort_order_overrides in the current tpu_comp_env has a non-default value. Default flag value:
xla_tpu_msa_sort_order_overrides {
  overrides {
    hlo_position_matcher {
      instruction_name_regex: "a[.]1"
    }
    override_options {
      assign_value: -5
    }
  }
}
xla_msa_max_cross_program_prefetches: 0
"""


def test_an_order_names_every_value_of_a_buffer() -> None:
    program = small_program()
    text = order_option(program, [2, 1])[ORDER]
    values = [('"z"', "", 32), ('"b"', "", 32), ('"y"', "index: 1 ", 24), ('"a[.]1"', "", 24)]
    places = [
        text.index(f"instruction_name_regex: {name} tuple_index {{ {index}}} size_gte: {size} size_lte: {size} }}")
        for name, index, size in values
    ]
    assert places == sorted(places)
    assert text.count("assign_value: -2") == text.count("assign_value: -1") == 2
    assert order_option(program, []) == {}


def test_inputs_to_prefetch_across_programs_come_first() -> None:
    program = small_program()
    overrides = order_option(program, [2, 1, 0], [0])[ORDER].split("overrides {")[1:]
    across = ["apply_to_cross_program_prefetches: true" in override for override in overrides]
    assert across == [True] + [False] * (len(overrides) - 1)
    assert "assign_value: -3" in overrides[0]
    assert order_option(program, [2, 1])[ORDER].split("overrides {")[1:] == overrides[1:]  # it is named once


def test_a_start_names_the_use_and_no_other_instruction() -> None:
    program = small_program()
    wanted = np.full(program.num_accesses, -1.0)
    wanted[(program.access_instruction == 2) & (program.access_buffer == 0)] = 1.0 / 3.0
    assert prefetch_option(program, wanted) == {
        PREFETCHES: 'overrides { hlo_operand_filter { instruction_name_regex: "c[.]2" operand_number: 1 '
        "size_gte: 16 size_lte: 16 } "
        "override_options { prefetch_eagerness: 0.333333 } }"
    }
    assert prefetch_option(program, np.full(program.num_accesses, -1.0)) == {}


def test_a_start_for_a_loop_names_the_parts_of_its_operand() -> None:
    program = small_program()
    operands = [[], [LoopOperand(0, 0, "while.3", "{8}"), LoopOperand(0, 0, "while.3", "{2,1}")]]
    wanted = np.append(np.full(program.num_accesses, -1.0), [-1.0, 0.25])
    text = prefetch_option(program, wanted, operands)[PREFETCHES]
    use = 'instruction_name_regex: "while[.]3" operand_number: 0 size_gte: 16 size_lte: 16 tuple_index'
    assert text == " ".join(
        f"overrides {{ hlo_operand_filter {{ {use} {{ {path} }} }} override_options {{ prefetch_eagerness: 0.25 }} }}"
        for path in ("index: 8", "index: 2 index: 1")
    )


def test_what_stays_in_hbm_is_named_by_value_or_by_use() -> None:
    program = small_program()
    (read,) = np.flatnonzero((program.access_instruction == 2) & (program.access_buffer == 0)).tolist()
    assert keep_option(program, [3], [read]) == {
        KEEPS: 'overrides { hlo_position_matcher { instruction_name_regex: "out" tuple_index { } size_gte: 8 '
        "size_lte: 8 } keep_in_default_memory { } } "
        'overrides { hlo_position_matcher { instruction_name_regex: "c[.]2" tuple_index { } size_gte: 8 size_lte: 8 } '
        "keep_in_default_memory { } } "
        'overrides { hlo_operand_filter { instruction_name_regex: "c[.]2" operand_number: 1 size_gte: 16 '
        "size_lte: 16 tuple_index { } } keep_in_default_memory { } }"
    }
    assert keep_option(program, [], []) == {}
    assert keep_option(program, [], [], {3: 1}) == {
        KEEPS: 'overrides { hlo_position_matcher { instruction_name_regex: "out" tuple_index { } size_gte: 8 '
        "size_lte: 8 } keep_in_default_memory { } }"
    }


def test_flags() -> None:
    assert flag_options(Flags(), GENERATIONS["v5e"]) == {}
    options = flag_options(
        Flags(0.5, loop_optimiser=False, cross_program=False, slices=False, overlap=2.0), GENERATIONS["v5e"]
    )
    assert options[LOOP_OPTIMISER] == "enabled: false"
    assert sorted(options.values()) == ["0", "0.5", "1", "4", "enabled: false"]
    options = flag_options(Flags(least=1.5, served=4.0, idle=0.5, trips=4.0, repacks=2.5), GENERATIONS["v5e"])
    assert options == {
        "xla_msa_min_overlap_to_async_copy_ratio": "1.5",
        "xla_msa_max_repacks": "10",
        "xla_tpu_msa_inefficient_use_to_copy_ratio": "2",
        "xla_msa_max_overlap_to_mem_size_async_copy_ratio": "4",
        "xla_tpu_memory_space_assignment_while_execution_count": "20",
    }
    # Told how many slices to make where it makes none, the compiler dies.
    assert flag_options(Flags(slices=False), GENERATIONS["v5p"]) == {}


def test_options_that_were_dropped_are_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="which options the compiler took"):
        check_taken(tmp_path, {})
    (tmp_path / "m.tpu_comp_env.txt").write_text(ENVIRONMENT, encoding="utf-8")
    check_taken(tmp_path, {ORDER: TAKEN, CROSS_PROGRAM: "0"})
    for flag, value in (
        (ORDER, TAKEN + " " + TAKEN),
        (ORDER, TAKEN.replace("-5", "-6")),
        (CROSS_PROGRAM, "1"),
        (LOOP_OPTIMISER, "enabled: false"),
    ):
        with pytest.raises(UserError, match=f"dropped the option {flag}"):
            check_taken(tmp_path, {flag: value})
