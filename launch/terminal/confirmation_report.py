"""Reports a confirmation: as the JSON object of docs/json.md, and as text."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...env.program.mapping import Mapping as ProgramMapping
    from ...roundtrip.confirm import Confirmation

_WIDTHS = (34, 14, 14)


def report(confirmation: "Confirmation", wanted: "ProgramMapping", missing: str | None = None) -> dict[str, Any]:
    """Returns the report as a JSON object. Latencies are in microseconds, by cost model.

    Args:
      confirmation: the compiler's answers.
      wanted: the mapping that the options were to bring about.
      missing: why the default's mapping could not be read back, so that the default of the confirmation is the mapping
        of XLA's algorithm; None if it was read.
    """
    from ...env.program.mapping_file import mapping_fields
    from ...roundtrip.comparison import gains, in_us, realised

    program, kept = confirmation.program, confirmation.kept
    default, confirmed = in_us(program, confirmation.default), in_us(program, confirmation.mapping)
    promised = in_us(program, wanted)
    foreseen = None if kept is None else kept.candidate.foreseen
    estimate_s = program.compiler.get("estimate_with_copies_s")
    answers = [attempt.compiled for attempt in confirmation.attempts if attempt.compiled is not None]
    return {
        "program": program.name,
        "program_sha256": program.sha256,
        "production_missing": missing,
        "default_us": default,
        "promised_us": promised,
        "decoded_us": None if foreseen is None else in_us(program, foreseen),
        "confirmed_us": confirmed,
        "verdict": verdict(default, confirmed),
        "cycles_are": exactness(confirmation),
        "gain": gains(default, promised, confirmed),
        "realised": realised(program, wanted, confirmation.mapping),
        "realised_by_default": realised(program, wanted, confirmation.default),
        "decoded_as_foreseen": None if foreseen is None else realised(program, foreseen, confirmation.mapping),
        "kept": None if kept is None else kept.candidate.kind,
        "candidates": attempts(confirmation),
        "printed_us": {
            "default": None if estimate_s is None else estimate_s * 1e6,
            "confirmed": None if kept is None or kept.compiled is None else kept.compiled.printed_s * 1e6,
        },
        "new_pairs": sum(answer.new_pairs for answer in answers),
        "inexpressible": {} if kept is None or kept.compiled is None else kept.compiled.inexpressible,
        "compiler_s": sum(answer.cpu_s for answer in answers),
        "mapping": mapping_fields(confirmation.mapping),
    }


def attempts(confirmation: "Confirmation") -> list[dict[str, Any]]:
    """Returns the report of each candidate. Latencies are in microseconds, by cost model."""
    from ...roundtrip.comparison import in_us, realised

    program, found = confirmation.program, []
    for attempt in confirmation.attempts:
        foreseen, compiled = attempt.candidate.foreseen, attempt.compiled
        alike = None if foreseen is None or compiled is None else realised(program, foreseen, compiled.mapping)
        found.append(
            {
                "kind": attempt.candidate.kind,
                "kept": attempt is confirmation.kept,
                "foreseen_us": None if foreseen is None else in_us(program, foreseen),
                "confirmed_us": None if compiled is None else in_us(program, compiled.mapping),
                "as_foreseen": alike,
                "error": attempt.error,
                "options": dict(attempt.candidate.options),
            }
        )
    return found


def exactness(confirmation: "Confirmation") -> str | None:
    """Returns the origin of the kept mapping's cycles: `compiled` or `table`; None if the program has no cycles."""
    if confirmation.program.cycles is None:
        return None
    return "compiled" if confirmation.kept is None or confirmation.kept.exact else "table"


def verdict(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> str:
    """Returns a change in words, under every cost model, so that no gain under one hides a loss under the other."""
    said = []
    for model, was in before.items():
        now = after[model]
        if was is None or now is None:
            said.append(f"{model} cannot tell: the program has no cycle table")
        elif now == was:
            said.append(f"{model} sees no change")
        else:
            said.append(f"{model} calls it {abs(1 - now / was):.2%} {'better' if now < was else 'WORSE'}")
    return "; ".join(said)


def show(result: dict[str, Any]) -> None:
    """Prints the report that `report` returned, completed by the command."""
    compared = default_name(result["production_missing"])
    if result["production_missing"] is not None:
        print(f"{result['production_missing']}. It is compared with {compared} (solver xla) instead")
    models = [model for model, latency in result["default_us"].items() if latency is not None]
    print(f"{result['program']}: simulated latency, steady, us")
    _row("", *models)
    for name, key in (
        (compared, "default_us"),
        ("promised by the mapping", "promised_us"),
        ("foreseen of the options", "decoded_us"),
        ("confirmed by the compiler", "confirmed_us"),
    ):
        if result[key] is not None:
            _row(name, *(f"{result[key][model]:,.2f}" for model in models))
    _row("gain confirmed", *(f"{result['gain'][model]['confirmed_percent']:+.2f} %" for model in models))
    shares = [result["gain"][model]["share"] for model in models]
    _row("of the gain promised", *("" if share is None else f"{100 * share:.0f} %" for share in shares))
    realised, default = result["realised"], result["realised_by_default"]
    print(
        f"of the mapping realised (by {compared}): "
        + ", ".join(f"{what} {100 * realised[what]:.1f} % ({100 * default[what]:.1f} %)" for what in realised)
    )
    for tried in result["candidates"]:
        said = tried["error"] or verdict(result["default_us"], tried["confirmed_us"])
        print(f"{'kept' if tried['kept'] else 'tried'}: {tried['kind']}: {said:.160}")
    printed = result["printed_us"]
    if printed["confirmed"] is not None:
        before = "unknown" if printed["default"] is None else f"{printed['default']:,.2f}"
        change = f"{before} -> {printed['confirmed']:,.2f} us"
        print(f"the compiler's own estimate, no referee (docs/physics-of-extraction.md): {change}")
    if result["kept"] is None:
        print("XLA's default stays: nothing that was tried is better, and the options say nothing")
    else:
        print(f"against {compared}: {result['verdict']}")


def default_name(missing: str | None) -> str:
    """Returns the name of the mapping that gains are over."""
    return "XLA's default" if missing is None else "XLA's algorithm"


def _row(name: str, *cells: str) -> None:
    print(name.ljust(_WIDTHS[0]) + "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS[1:], strict=False)))


def say(line: str) -> None:
    """Prints a line on standard error."""
    print(line, file=sys.stderr, flush=True)
