"""Stays that serve too few bytes for the bytes copied for them (XLA: `GetInefficientAllocationSites`)."""

from ...env.compiled.kernel import routine
from .problem import AS_ENTERED, Problem
from .state import FAST, State


@routine
def _merge(problem: Problem, state: State, chain: int, into: int, end: int) -> None:
    """Adds one chain of the buffer at hand to another, the stays before `end` being in chains."""
    buffer = problem.buffer[state.now.buffer]
    for value in range(buffer.first_value, buffer.end_value):
        if state.value[value].chain == chain:
            state.value[value].chain = into
    for number in range(state.value[buffer.first_value].first_stay, end):
        if state.linked[number].chain == chain:
            state.linked[number].chain = into
    whole, part = state.linked[into], state.linked[chain]
    whole.copied += part.copied
    whole.served += part.served
    part.copied = part.served = 0


@routine
def rule_out_inefficient(problem: Problem, state: State) -> bool:
    """Marks values and uses of inefficient stays of the buffer at hand; returns whether any is new.

    They must be in HBM from then on. Stays that are linked by an operation in place are judged together.
    """
    ratio = problem.limit.inefficient_ratio
    buffer = problem.buffer[state.now.buffer]
    first, last, size = buffer.first_value, buffer.end_value, buffer.bytes
    if ratio <= 0 or first == last:
        return False
    copies = False
    for number in range(state.value[first].first_stay, state.value[last - 1].end_stay):
        if state.stay[number].is_copied:
            copies = True
    if not copies:
        return False
    chains = 0
    for value in range(first, last):
        state.value[value].chain = -1
    for value in range(first, last):
        held, row = state.value[value], problem.value[value]
        if row.enters and held.end_stay > held.first_stay:
            held.chain = state.linked[state.use[row.within].stay].chain
        for number in range(held.first_stay, held.end_stay):
            stay, linked = state.stay[number], state.linked[number]
            linked.chain = -1
            fast, copied = stay.memory, stay.is_copied
            if not fast and not copied:
                continue
            linked.chain = held.chain if fast != copied else -1  # -1 unless defined in fast memory
            if fast:
                for use in range(row.first_use, row.end_use):
                    if state.use[use].stay == number and problem.use[use].needs == AS_ENTERED:
                        carried = state.linked[state.use[row.within].stay].chain
                        if linked.chain >= 0 and linked.chain != carried:
                            _merge(problem, state, linked.chain, carried, number)
                        linked.chain = carried
            if linked.chain < 0:
                linked.chain = chains
                state.linked[chains].copied = state.linked[chains].served = 0
                chains += 1
            chain = state.linked[linked.chain]
            chain.copied += size * copied
            if fast != copied:
                chain.served += problem.value[value].bytes
            if not fast:
                continue
            for use in range(problem.value[value].first_use, problem.value[value].end_use):
                if state.use[use].stay == number:
                    chain.served += problem.use[use].bytes
                    if problem.use[use].needs == AS_ENTERED:
                        state.value[problem.use[row.within].next_value].chain = linked.chain
                    if problem.use[use].next_value >= 0:
                        state.value[problem.use[use].next_value].chain = linked.chain
    new = False
    for value in range(first, last):
        held, row = state.value[value], problem.value[value]
        for number in range(held.first_stay, held.end_stay):
            at = state.linked[number].chain
            if at < 0:
                continue
            chain = state.linked[at]
            if chain.copied == 0 or ratio * chain.copied <= chain.served:
                continue
            fast, copied = state.stay[number].memory, state.stay[number].is_copied
            if fast and not copied and not row.enters and not held.is_out and held.color != FAST:
                held.is_out = 1
                new = True
            if fast:
                for use in range(row.first_use, row.end_use):
                    if state.use[use].stay != number:
                        continue
                    # What a pass returns to the next one is as the use of the loop.
                    returned = problem.use[use].needs == AS_ENTERED
                    served = state.use[row.within if returned else use]
                    if not served.is_out and served.color != FAST:
                        served.is_out = 1
                        new = True
    return new
