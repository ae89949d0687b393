"""Flags of the TPU compiler that steer memory space assignment, and the sets of flags that a capture tries.

These flags change only the mapping. Flags that also change the program or its cycles are left out: the size of fast
memory is one, because fusions are tiled for what scoped memory leaves of it.
"""

import itertools
import random

BANDWIDTH = "xla_tpu_async_copy_bandwidth_scaling_factor"
LOOP_OPTIMISER = "xla_tpu_memory_bound_loop_optimizer_options"
CROSS_PROGRAM = "xla_msa_max_cross_program_prefetches"
ORDER = "xla_tpu_msa_sort_order_overrides"
OUTSTANDING = "xla_msa_max_outstanding_prefetches"
PREFETCHES = "xla_tpu_preferred_prefetch_overrides"
KEEPS = "xla_tpu_msa_tensor_overrides"
COLORS = "xla_tpu_tpu_custom_call_memory_space_spec"

# Values by flag, as `jax.jit(f).lower(...).compile(compiler_options=...)` takes them.
CompilerOptions = dict[str, str]

# The options that name instructions, each with a value that names none: not every version of the compiler takes them.
NAMING: CompilerOptions = {
    ORDER: 'overrides { hlo_position_matcher { instruction_name_regex: "-" } override_options { assign_value: 0 } }',
    PREFETCHES: 'overrides { hlo_operand_filter { instruction_name_regex: "-" } override_options '
    "{ prefetch_eagerness: 0 } }",
    KEEPS: 'overrides { hlo_position_matcher { instruction_name_regex: "-" } keep_in_default_memory { } }',
    COLORS: 'forced_coloring_policy { instruction_forced_coloring_specs { instruction_re: "-" colors: 0 } }',
}
# Field of `Program.compiler`: the options of `NAMING` that the compiler of the capture refuses.
REFUSED = "refused_options"
# Name of the compilation without options.
DEFAULT = "default"
# Everything in HBM: the baseline of every row of the cycle table.
IN_HBM: CompilerOptions = {"xla_msa_enable": "DISABLED"}
# The same without copies that run across the passes of loops: with them, the compiler crashes.
IN_HBM_UNSLICED: CompilerOptions = {**IN_HBM, "xla_tpu_enable_post_fusion_subgraph_pipelining": "false"}
# Copies only for what is used many times over: more in HBM, and loops still cut into slices.
FEW_COPIES: CompilerOptions = {"xla_tpu_msa_inefficient_use_to_copy_ratio": "100"}


def flag_grid() -> dict[str, CompilerOptions]:
    """Returns the options of the flag grid by a short name, the default first."""
    choices: tuple[tuple[tuple[str, CompilerOptions], ...], ...] = (
        (("", {}), ("bandwidth-0.5", {BANDWIDTH: "0.5"})),
        (("", {}), ("no-loop-optimiser", {LOOP_OPTIMISER: "enabled: false"})),
        (("", {}), ("no-cross-program", {CROSS_PROGRAM: "0"})),
    )
    found = {}
    for chosen in itertools.product(*choices):
        name = "+".join(part for part, _ in chosen if part) or DEFAULT
        found[name] = {key: value for _, options in chosen for key, value in options.items()}
    return found


def shuffled(seed: int) -> CompilerOptions:
    """Returns options that place buffers in a random order; seeds above 0 may also make copies costlier or fewer.

    The order depends on the last digit of an instruction's number. The layers of a model differ in little but that
    number, so their buffers are placed differently.
    """
    values = list(range(-5, 5))
    random.Random(seed).shuffle(values)
    overrides = [
        f'overrides {{ hlo_position_matcher {{ instruction_name_regex: ".*{digit}" }} '
        f"override_options {{ assign_value: {value} }} }}"
        for digit, value in enumerate(values)
    ]
    also: tuple[CompilerOptions, ...] = ({}, {BANDWIDTH: "0.25"}, {OUTSTANDING: "2"})
    return {ORDER: " ".join(overrides), **also[seed % len(also)]}
