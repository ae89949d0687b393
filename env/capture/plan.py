"""Which compilations a capture makes besides the default one, and why.

Options change only what memory space assignment decides; those that also change the program or its cycles (the size of
fast memory is one: it is what is left over by scoped memory, which fusions are tiled for) are not among them.
"""

import itertools
import random

DEFAULT = "default"
BANDWIDTH = "xla_tpu_async_copy_bandwidth_scaling_factor"
LOOP_OPTIMISER = "xla_tpu_memory_bound_loop_optimizer_options"
CROSS_PROGRAM = "xla_msa_max_cross_program_prefetches"
ORDER = "xla_tpu_msa_sort_order_overrides"
OUTSTANDING = "xla_msa_max_outstanding_prefetches"

Options = dict[str, str]

# Everything in HBM: the row of the cycle table that every other one is measured from.
IN_HBM: Options = {"xla_msa_enable": "DISABLED"}


def grid() -> dict[str, Options]:
    """Returns the options of the grid by a short name, the default first."""
    choices: tuple[tuple[tuple[str, Options], ...], ...] = (
        (("", {}), ("bandwidth-0.5", {BANDWIDTH: "0.5"})),
        (("", {}), ("no-loop-optimiser", {LOOP_OPTIMISER: "enabled: false"})),
        (("", {}), ("no-cross-program", {CROSS_PROGRAM: "0"})),
    )
    found = {}
    for chosen in itertools.product(*choices):
        name = "+".join(part for part, _ in chosen if part) or DEFAULT
        found[name] = {key: value for _, options in chosen for key, value in options.items()}
    return found


def shuffled(seed: int) -> Options:
    """Returns options that place buffers in a random order, and, beyond the first seed, with fewer or dearer copies.

    Buffers are told apart by the last digit of their instruction's number, so that the layers of a model, alike but for
    that number, are placed differently.
    """
    values = list(range(-5, 5))
    random.Random(seed).shuffle(values)
    overrides = [
        f'overrides {{ hlo_position_matcher {{ instruction_name_regex: ".*{digit}" }} '
        f"override_options {{ assign_value: {value} }} }}"
        for digit, value in enumerate(values)
    ]
    also: tuple[Options, ...] = ({}, {BANDWIDTH: "0.25"}, {OUTSTANDING: "2"})
    return {ORDER: " ".join(overrides), **also[seed % len(also)]}
