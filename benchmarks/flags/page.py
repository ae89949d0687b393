"""Renders docs/results/flags-alone.md from runs with `--solver flags-only` of `benchmarks.round_trip.measure`
and `benchmarks.untuned.measure`.

python -m benchmarks.flags.page
"""

from collections.abc import Callable, Sequence
from statistics import mean

from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.roundtrip.options import FLAG_NAMES

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from ..round_trip.functions import key_of as untuned_key_of
from ..round_trip.page import MODELS, gain
from ..round_trip.records import RESULTS, kind_of, read
from ..untuned.measure import RESULTS as UNTUNED

FLAGS_ALONE = ROOT / "docs" / "results" / "flags-alone.jsonl"
UNTUNED_FLAGS = ROOT / "docs" / "results" / "flags-alone-untuned.jsonl"
PAGE = ROOT / "docs" / "results" / "flags-alone.md"
MAKER = "benchmarks/flags/page.py"
# Smaller gains, in per cent, count as none.
_LEAST = 0.01
# Bytes served from another memory than foreseen, as a share; less is rounding.
_EXACT = 1e-6

Named = Callable[[Record], str]


def worse(run: Record, what: str = "confirmed_us") -> float:
    """Returns the gain in per cent by the worse of the cost models that price the program."""
    return min(gain(run, "default_us", model, what) for model in MODELS if run["default_us"][model] is not None)


def grid(run: Record) -> float | None:
    """Returns the gain of the best of the flag grid by the worse cost model; None where the grid was not compiled."""
    return None if run["flags_us"] is None else max(0.0, worse(run, "flags_us"))


def of_program(run: Record) -> str:
    """Returns the name of a run of the benchmark."""
    return str(run["program"])


def of_function(run: Record) -> str:
    """Returns the name of a run of a function that nobody had tuned for."""
    return f"{run['function']} {run['target']}"


def kind_of_function(run: Record) -> str:
    """Returns what sets a function apart from functions without loops."""
    return "loops" if run["loops"] else ""


def render(
    page: str,
    programs: tuple[Sequence[Record], Sequence[Record]],
    functions: tuple[Sequence[Record], Sequence[Record]],
) -> str:
    """Returns the page with its tables replaced.

    Args:
      page: the text of the page.
      programs: of the benchmark, runs of flags alone and runs of all options; at most one of each for a program.
      functions: the same of the functions that nobody had tuned for.

    Raises:
      SystemExit: the page has no place for a table.
    """
    kind: Named = lambda run: kind_of(run["program"])  # noqa: E731
    made = (
        ("summary", [*summary("benchmark", programs, of_program), *summary("functions", functions, of_function)[2:]]),
        ("programs", table(programs, of_program, kind)),
        ("functions", table(functions, of_function, kind_of_function)),
    )
    return fill_marks(page, made, MAKER, PAGE)


def summary(name: str, runs: tuple[Sequence[Record], Sequence[Record]], named: Named) -> list[str]:
    """Returns a table of counts and means, over programs whose flag grid was compiled and over the others.

    Programs that were not run with all options are left out.
    """
    lines = [
        "| programs | number | gain by flags alone | mean gain, % | of the flag grid | of all options "
        "| foreseen to the byte |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    of_all = {named(run): run for run in runs[1]}
    both = [run for run in runs[0] if named(run) in of_all]
    for what, chosen in (
        (f"{name}, with a flag grid", [run for run in both if run["flags_us"] is not None]),
        (f"{name}, without", [run for run in both if run["flags_us"] is None]),
    ):
        if not chosen:
            continue
        alike = [run["decoded_as_foreseen"]["bytes"] for run in chosen if run["decoded_as_foreseen"] is not None]
        grids = [value for run in chosen if (value := grid(run)) is not None]
        cells = [what, str(len(chosen)), str(sum(worse(run) > _LEAST for run in chosen))]
        cells.append(f"{mean(worse(run) for run in chosen):.2f}")
        cells.append(f"{mean(grids):.2f}" if grids else "-")
        cells.append(f"{mean(worse(of_all[named(run)]) for run in chosen):.2f}")
        cells.append(f"{sum(share > 1.0 - _EXACT for share in alike)} of {len(alike)}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def table(runs: tuple[Sequence[Record], Sequence[Record]], named: Named, kind: Named) -> list[str]:
    """Returns the table of programs, the largest gains first."""
    lines = [
        "| program | kind | flag grid | flags alone: `msa` | `cycles` | all options: `msa` | `cycles` "
        "| as foreseen, % | flags |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    of_all = {named(run): run for run in runs[1]}
    for run in sorted(runs[0], key=worse, reverse=True):
        found = grid(run)
        cells = [f"`{named(run)}`", kind(run), "-" if found is None else f"{found:.2f}"]
        for one in (run, of_all.get(named(run))):
            cells += ["-" if one is None or one["default_us"][m] is None else _gain(one, m) for m in MODELS]
        alike = run["decoded_as_foreseen"]
        cells.append("" if alike is None else f"{100 * alike['bytes']:.2f}")
        values = {FLAG_NAMES[flag]: value.removeprefix("enabled: ") for flag, value in run["options"].items()}
        cells.append(", ".join(f"{flag} {value}" for flag, value in values.items()) or "default")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _gain(run: Record, model: str) -> str:
    return f"{gain(run, 'default_us', model):.2f}"


def recorded() -> tuple[tuple[list[Record], list[Record]], tuple[list[Record], list[Record]]]:
    """Returns the records of the page; of several runs of a program the last."""
    programs = [
        list({of_program(run): run for run in read([path]).values()}.values()) for path in (FLAGS_ALONE, RESULTS)
    ]
    functions = [
        list({of_function(run): run for run in dict(read_runs([path], untuned_key_of)).values()}.values())
        for path in (UNTUNED_FLAGS, UNTUNED)
    ]
    return (programs[0], programs[1]), (functions[0], functions[1])


def main() -> None:
    """Writes the page."""
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), *recorded()).encode())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
