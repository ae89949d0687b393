"""Compares mappings: how much of a mapping, and of the gain that it promised, came true; latencies in microseconds."""

from collections import Counter
from typing import Any

from ..env.physics.cost import CYCLES, MODELS, exact
from ..env.physics.objective import latencies, make_judge
from ..env.program.mapping import COPY_FIELDS, Mapping
from ..env.program.program import Program


def realised(program: Program, wanted: Mapping, found: Mapping) -> dict[str, float]:
    """Returns how much of mapping `wanted` is in mapping `found`, as shares from 0 to 1.

    Returns:
      `bytes`, `uses`: the accesses that both serve from the same memory, by bytes (times trips) and by number.
      `copies`: the copies that both have, among all that either has. Copies are the same if they move the same buffer
      in the same direction and are done before the same instruction; the slices of a prefetch count as one.
    """
    alike = wanted.access_fast == found.access_fast
    moved = program.access_bytes * program.weight[program.access_instruction]
    ours, theirs = _copies(wanted), _copies(found)
    either = (ours | theirs).total()
    return {
        "bytes": float(moved[alike].sum() / moved.sum()) if moved.sum() > 0 else 1.0,
        "uses": float(alike.mean()) if len(alike) else 1.0,
        "copies": (ours & theirs).total() / either if either else 1.0,
    }


def _copies(mapping: Mapping) -> "Counter[tuple[int, int, int]]":
    columns = [COPY_FIELDS.index(name) for name in ("buffer", "direction", "end")]
    return Counter({(buffer, direction, end) for buffer, direction, end in mapping.copies[:, columns].tolist()})


def gains(default: dict[str, Any], promised: dict[str, Any], confirmed: dict[str, Any]) -> dict[str, Any]:
    """Compares the gain that a mapping promised with the gain that the compiler confirmed.

    Args:
      default, promised, confirmed: latencies by cost model, in any unit; None if a model cannot price the mapping.

    Returns:
      By cost model: `promised_percent` and `confirmed_percent`, the gains in percent of the default, and `share`, the
      part of the promise that came true. A value is None if it needs a latency that is None; `share` is also None if no
      gain was promised.
    """
    found: dict[str, Any] = {}
    for model, before in default.items():
        hoped, real = promised[model], confirmed[model]
        gain = None if before is None or hoped is None else before - hoped
        came = None if before is None or real is None else before - real
        found[model] = {
            "promised_percent": None if gain is None else 100.0 * gain / before,
            "confirmed_percent": None if came is None else 100.0 * came / before,
            "share": came / gain if came is not None and gain is not None and gain > 0 else None,
        }
    return found


def cycles_are_told(program: Program, mapping: Mapping) -> bool:
    """Returns whether compilations have reported all cycles of a mapping.

    Raises:
      UserError: the program has no cycle table.
    """
    return exact(program, mapping) == 1.0


def in_us(program: Program, mapping: Mapping, told_only: bool = False) -> dict[str, float | None]:
    """Returns the steady latency of a mapping in microseconds by cost model; None if a model cannot price it.

    Args:
      program: the program.
      mapping: the mapping.
      told_only: cycles count as unknown unless compilations have reported all of them.
    """
    found = {model: None if s is None else s * 1e6 for model, s in latencies(program, mapping).items()}
    if told_only and found[CYCLES] is not None and not cycles_are_told(program, mapping):
        found[CYCLES] = None
    return found


def flags_us(program: Program, objective: str | None = None) -> dict[str, float | None] | None:
    """Returns the latency of the best of the flag grid in microseconds by cost model; None if it was not captured."""
    best = make_judge(program, objective).tuned_variant()
    if best is None:
        return None
    return {model: None if (s := best.latency_s[model]) is None else s * 1e6 for model in MODELS}
