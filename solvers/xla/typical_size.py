"""The typical size of a program, fitted to the compiler's own mapping.

XLA picks the starts of all copies by the seconds that a buffer of one typical size takes (`module_facts.py`). Its log
names that size; program files of earlier captures do not. With the right size our copy of the algorithm makes the
copies that the compiler made.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.target import Target
from .decoder import Decoder
from .module_facts import logged_typical_bytes, typical_bytes
from .options import KEPT, production

# Sizes that are tried, at most: those of accesses, evenly by their number. Smaller ones are never typical.
_TRIED, _SMALLEST = 24, 0.3


@lru_cache(maxsize=KEPT)
def fitted_typical_bytes(program: Program, target: Target) -> int:
    """Returns the logged typical size; else the one that explains most of the compiler's mapping; else a guess.

    What counts is the share of the copies that both have, plus the share of the bytes that both serve from the same
    memory. It decodes the program some twenty times.
    """
    guess = typical_bytes(program)
    known = logged_typical_bytes(program) is not None
    if known or program.production is None or not len(program.production.copies):
        return guess
    sizes = program.access_bytes[program.fast_allowed[program.access_buffer]]
    tried = np.unique(np.quantile(sizes, np.linspace(_SMALLEST, 1.0, _TRIED), method="nearest").astype(np.int64))
    made, moved = _copies(program.production), program.access_bytes
    best, best_score = guess, -1.0
    for size in (guess, *tried[tried > 0].tolist()):
        options = replace(production(target), typical_bytes=size)
        mapping = Decoder(program, target, options).decode_roughly()
        found = _copies(mapping)
        alike = mapping.access_fast == program.production.access_fast
        score = len(found & made) / max(1, len(found | made)) + moved[alike].sum() / moved.sum()
        if score > best_score:
            best, best_score = int(size), float(score)
    return best


def _copies(mapping: Mapping) -> set[tuple[int, ...]]:
    """Returns buffer, direction, start and end of each copy."""
    return set(map(tuple, mapping.copies[:, :4].tolist()))
