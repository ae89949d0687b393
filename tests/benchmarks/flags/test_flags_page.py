"""The page of flags alone beside its results."""

from benchmarks.flags.page import PAGE, grid, recorded, render, summary, worse


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = recorded()
    assert render(page, *found) == page
    for runs, _ in found:
        for run in runs:
            assert not any("regex" in value for value in run["options"].values())  # flags name nothing
            for model, us in run["confirmed_us"].items():
                assert us is None or us <= run["default_us"][model] * (1 + 1e-9), (run["program"], model)


def test_gains_are_by_the_worse_model() -> None:
    def run(name: str, msa: float, cycles: float | None, flags: float | None = None) -> dict[str, object]:
        return {
            "program": name,
            "default_us": {"msa": 100.0, "cycles": None if cycles is None else 100.0},
            "confirmed_us": {"msa": msa, "cycles": cycles},
            "flags_us": None if flags is None else {"msa": flags, "cycles": flags},
            "decoded_as_foreseen": {"bytes": 1.0},
        }

    assert worse(run("a", 80.0, 90.0)) == 10.0
    assert worse(run("a", 80.0, None)) == 20.0
    assert grid(run("a", 80.0, 90.0)) is None
    assert grid(run("a", 80.0, 90.0, 101.0)) == 0.0
    alone = [run("a", 80.0, 90.0, 95.0), run("b", 100.0, 100.0, 100.0), run("c", 70.0, None)]
    named = [run("a", 70.0, 70.0), run("b", 90.0, 90.0), run("c", 60.0, None), run("d", 1.0, 1.0)]
    *_, grids, others = summary("x", (alone, named), lambda run: run["program"])
    assert grids == "| x, with a flag grid | 2 | 1 | 5.00 | 2.50 | 20.00 | 2 of 2 |"
    assert others == "| x, without | 1 | 1 | 30.00 | - | 40.00 | 1 of 1 |"
