"""Reports a confirmation: as the JSON object of docs/json.md, and as text."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from ...env.program.mapping import Mapping as ProgramMapping
    from ...env.program.program import Program
    from ...roundtrip.confirm import Confirmation
    from ...roundtrip.scoped_memory import Sizes

# Words for the steps of `tune`.
_STEPS = {
    "sizes": "sizes of scoped memory",
    "capture": "capture",
    "solve": "solver",
    "translate": "translation",
    "scout": "the best of a first search",
    "candidates": "candidates until memory is assigned",
    "to_the_end": "the best one to the end",
}


def report(
    confirmation: "Confirmation",
    wanted: "ProgramMapping",
    missing: str | None = None,
    told_only: bool = False,
    sizes: "Sizes | None" = None,
) -> dict[str, Any]:
    """Returns the report as a JSON object. Latencies are in microseconds, by cost model.

    Args:
      confirmation: the compiler's answers.
      wanted: the mapping that the options should produce.
      missing: why the default's mapping could not be read back, so that the default of the confirmation is the mapping
        of XLA's algorithm; None if it was read.
      told_only: see `in_us`.
      sizes: the sizes of scoped memory that were tried, the confirmation being of the best; None for none. Gains are
        relative to the compiler's default size.
    """
    from ...env.program.mapping_file import mapping_fields
    from ...roundtrip.comparison import gains, in_us, realised

    program, kept = confirmation.program, confirmation.kept
    default, promised, confirmed = (
        in_us(program, mapping, told_only) for mapping in (confirmation.default, wanted, confirmation.mapping)
    )
    tried = None if sizes is None else _sizes_report(sizes, default)
    if sizes is not None and sizes.options:
        default = sizes.default.record["us"]
    foreseen = None if kept is None else kept.candidate.foreseen
    estimate_s = program.compiler.get("estimate_with_copies_s")
    printed_s = None if kept is None or kept.compiled is None else kept.compiled.printed_s
    answers = [attempt.compiled for attempt in confirmation.attempts if attempt.compiled is not None]
    return {
        "program": program.name,
        "program_sha256": program.sha256,
        "production_missing": missing,
        "default_us": default,
        "promised_us": promised,
        "decoded_us": None if foreseen is None else in_us(program, foreseen, told_only),
        "confirmed_us": confirmed,
        "verdict": verdict(default, confirmed),
        "cycles_are": exactness(confirmation),
        "gain": gains(default, promised, confirmed),
        "realised": realised(program, wanted, confirmation.mapping),
        "realised_by_default": realised(program, wanted, confirmation.default),
        "across": {
            name: _prefetched_across(program, mapping)
            for name, mapping in (("default", confirmation.default), ("confirmed", confirmation.mapping))
        },
        "decoded_as_foreseen": None if foreseen is None else realised(program, foreseen, confirmation.mapping),
        "kept": None if kept is None else kept.candidate.kind,
        "untold": None if confirmation.untold is None else confirmation.untold.candidate.kind,
        "candidates": attempts(confirmation, told_only),
        "printed_us": {
            "default": None if estimate_s is None else estimate_s * 1e6,
            "confirmed": None if printed_s is None else printed_s * 1e6,
        },
        "new_pairs": sum(answer.new_pairs for answer in answers),
        "inexpressible": {} if kept is None or kept.compiled is None else kept.compiled.inexpressible,
        "compiler_s": sum(answer.cpu_s for answer in answers),
        "mapping": mapping_fields(confirmation.mapping),
        "scoped_memory": tried,
    }


def _sizes_report(sizes: "Sizes", default_us: Mapping[str, float | None]) -> dict[str, Any]:
    """Returns the report of the sizes of scoped memory; `default_us` is XLA's own mapping in the best one."""
    return {
        "default_kib": sizes.default.kib,
        "kib": sizes.best.kib,
        "scavenges": sizes.best.scavenges,
        "default_us": dict(default_us),
        "sizes": [size.record for size in (sizes.default, *sizes.tried)],
    }


def attempts(confirmation: "Confirmation", told_only: bool = False) -> list[dict[str, Any]]:
    """Returns the report of each candidate. Latencies are in microseconds, by cost model; `told_only`: see `in_us`."""
    from ...roundtrip.comparison import in_us, realised

    program, found = confirmation.program, []
    for attempt in confirmation.attempts:
        foreseen, compiled = attempt.candidate.foreseen, attempt.compiled
        alike = None if foreseen is None or compiled is None else realised(program, foreseen, compiled.mapping)
        found.append(
            {
                "kind": attempt.candidate.kind,
                "kept": attempt is confirmation.kept,
                "foreseen_us": None if foreseen is None else in_us(program, foreseen, told_only),
                "confirmed_us": None if compiled is None else in_us(program, compiled.mapping, told_only),
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
            said.append(f"{model} are not known")
        elif now == was:
            said.append(f"{model} sees no change")
        else:
            said.append(f"{model} calls it {abs(1 - now / was):.2%} {'better' if now < was else 'WORSE'}")
    return "; ".join(said)


def show(result: dict[str, Any]) -> None:
    """Prints the report that `report` returned, completed by the command."""
    from .console import show_line, show_table

    first = missing_line(result)
    if first is not None:
        show_line(first)
    show_table(latencies_of(result))
    for line in lines_of(result):
        show_line(line)


def _prefetched_across(program: "Program", mapping: "ProgramMapping") -> list[str]:
    """Returns the names of the inputs that a mapping has prefetched across programs."""
    from ...env.program.mapping import CROSS_PROGRAM

    return [program.buffer_names[row[0]] for row in mapping.copies.tolist() if row[1] == CROSS_PROGRAM]


def missing_line(result: dict[str, Any]) -> str | None:
    """Returns the line that names the mapping to compare with where XLA's own is missing; else None."""
    missing = result["production_missing"]
    return None if missing is None else f"{missing}. It is compared with {default_name(missing)} (solver xla) instead"


def latencies_of(result: dict[str, Any]) -> "Table":
    """Returns the table of a report: latencies by cost model, and the gain that was confirmed."""
    from rich.table import Table

    models = [model for model, latency in result["default_us"].items() if latency is not None]
    table = Table(title=f"{result['program']}: simulated latency, steady")
    table.add_column("mapping", no_wrap=True)
    for model in models:
        table.add_column(f"{model} us", justify="right", no_wrap=True)
    flags_only = result.get("flags_only", False)
    rows = {
        default_name(result["production_missing"]): result["default_us"],
        **sized_row(result),
        "XLA's best flags": result.get("flags_us"),
        **({} if flags_only else {"promised by the mapping": result["promised_us"]}),
        "foreseen of the options": result["decoded_us"],
        "confirmed by the compiler": result["confirmed_us"],
    }
    for name, latency in rows.items():
        if latency is not None:
            figures = (latency[model] for model in models)
            table.add_row(name, *("-" if figure is None else f"{figure:,.2f}" for figure in figures))
    table.add_section()
    confirmed = [result["gain"][model]["confirmed_percent"] for model in models]
    table.add_row("gain confirmed", *("-" if percent is None else f"{percent:+.2f} %" for percent in confirmed))
    if not flags_only:
        shares = [result["gain"][model]["share"] for model in models]
        table.add_row("of the gain promised", *("-" if share is None else f"{100 * share:.0f} %" for share in shares))
    return table


def sized_row(result: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """Returns the latency of XLA's own mapping in the best size, under its name; nothing if that is the compiler's."""
    if not _has_size(result):
        return {}
    sizes = result["scoped_memory"]
    return {f"XLA, {_setting_of(sizes)}": sizes["default_us"]}


def _has_size(result: dict[str, Any]) -> bool:
    """Returns whether the options of a report set the scoped memory, after a search."""
    sizes = result.get("scoped_memory")
    return sizes is not None and (sizes["scavenges"] or sizes["kib"] != sizes["default_kib"])


def _setting_of(size: dict[str, Any]) -> str:
    """Returns a setting of scoped memory in words."""
    return f"{size['kib'] / 1024:g} MiB of scoped memory{' with scavenging' if size['scavenges'] else ''}"


def _size_lines(result: dict[str, Any]) -> Iterator[str]:
    """Yields a line for every size of scoped memory that was tried beside the compiler's."""
    from ...env.physics.cost import CYCLES
    from ...env.physics.objective import ROBUST

    sizes = result.get("scoped_memory")
    if sizes is None:
        if result.get("objective") in (CYCLES, ROBUST) and "minutes" in result:
            yield "other sizes of scoped memory are tried with --scoped-memory"
        return
    for size in sizes["sizes"][1:]:
        said = size["error"] or verdict(sizes["sizes"][0]["us"], size["us"])
        yield f"{_setting_of(size)}, not {sizes['default_kib'] / 1024:g}: {said}"


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """Yields the lines below the table: what was realised, what was tried, and the verdict."""
    from ...roundtrip.confirm import NO_TIME

    compared = default_name(result["production_missing"])
    realised, default = result["realised"], result["realised_by_default"]
    if not result.get("flags_only", False):
        yield f"of the mapping realised (by {compared}): " + ", ".join(
            f"{what} {100 * realised[what]:.1f} % ({100 * default[what]:.1f} %)" for what in realised
        )
    yield from _size_lines(result)
    for tried in result["candidates"]:
        if tried["error"] == NO_TIME:
            continue
        said = tried["error"] or verdict(result["default_us"], tried["confirmed_us"])
        yield f"{'kept' if tried['kept'] else 'tried'}: {tried['kind']}: {said}"
    left_out = [tried["kind"] for tried in result["candidates"] if tried["error"] == NO_TIME]
    if left_out:
        yield f"not tried, {NO_TIME}: {', '.join(left_out)}"
    if "seconds" in result:
        yield "time: " + ", ".join(
            f"{what} {result['seconds'][step]:.0f} s"
            for step, what in _STEPS.items()
            if result["seconds"].get(step) is not None
        )
    if result.get("versions"):
        yield f"compiled with {versions_of(result)}, for which the options hold; --jax VERSION makes them for others"
    printed = result["printed_us"]
    if printed["confirmed"] is not None:
        before = "unknown" if printed["default"] is None else f"{printed['default']:,.2f}"
        yield (
            f"the compiler prints an estimate too, {before} -> {printed['confirmed']:,.2f} us; it prices operands left "
            "in HBM as fast, so it is no judge (docs/physics-of-extraction.md)"
        )
    if result["untold"] is not None:
        more = f"--minutes {math.ceil(2 * result['minutes'])}" if "minutes" in result else "more time"
        yield (
            f"not kept: {result['untold']}, which seemed best: there was no time to learn its cycles. Give {more}, or "
            "--objective msa, which lets msa decide alone"
        )
    if result["kept"] is None:
        why = (
            "nothing that was tried is better" if result["untold"] is None else "the compiler confirmed nothing better"
        )
        if _has_size(result):
            yield f"XLA's own mapping stays in this size: {why}, and the options say the size alone"
        else:
            yield f"XLA's default stays: {why}, and the options say nothing"
    if result["kept"] is not None or _has_size(result):
        yield f"against {compared}: {result['verdict']}"
    if result["kept"] is not None:
        across = result["across"]
        chosen = [name for name in across["confirmed"] if name not in across["default"]]
        if chosen:
            yield (
                f"the previous execution prefetches {', '.join(chosen)}. The cost models count that as free; it is, if "
                "the input is in HBM before that execution ends (docs/round-trip.md#across-programs)"
            )
    if result.get("flags_us") is not None:
        yield f"against XLA's best flags: {verdict(result['flags_us'], result['confirmed_us'])}"


def versions_of(result: dict[str, Any]) -> str:
    """Returns the versions of jax and libtpu that compiled, in words."""
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def default_name(missing: str | None) -> str:
    """Returns the name of the mapping that gains are relative to."""
    return "XLA's default" if missing is None else "XLA's algorithm"
