"""How much of a mapping, and of the gain that it promised, came true."""

from collections import Counter
from typing import Any

from ..env.physics.objective import latencies
from ..env.program.mapping import COPY_FIELDS, Mapping
from ..env.program.program import Program


def realised(program: Program, wanted: Mapping, found: Mapping) -> dict[str, float]:
    """Returns how much of a mapping another one has: shares from 0 to 1.

    `bytes` and `uses`: accesses served from the same memory, by their bytes (times trips) and by number. `copies`:
    those of the same buffer in the same direction, done before the same instruction, of all that either has; the slices
    of a prefetch count as one.
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
    """Returns, by cost model, the gain over the default that was promised and confirmed, in percent of the default, and
    the share of the promise that came true; None where a figure is not known or nothing was promised."""
    found: dict[str, Any] = {}
    for model, before in default.items():
        hoped, real = promised[model], confirmed[model]
        if before is None or hoped is None or real is None:
            found[model] = {"promised_percent": None, "confirmed_percent": None, "share": None}
            continue
        gain = before - hoped
        found[model] = {
            "promised_percent": 100.0 * gain / before,
            "confirmed_percent": 100.0 * (before - real) / before,
            "share": (before - real) / gain if gain > 0 else None,
        }
    return found


def in_us(program: Program, mapping: Mapping) -> dict[str, float | None]:
    """Returns the steady latency of a mapping in microseconds by cost model; None where one cannot price it."""
    return {model: None if s is None else s * 1e6 for model, s in latencies(program, mapping).items()}
