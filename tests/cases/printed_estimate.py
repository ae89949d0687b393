"""Prints the table of docs/physics-of-extraction.md: the compiler's printed estimates, and the emulated ones."""

from mallocmuzero.env.capture.printed_estimate import with_copies, without_copies
from mallocmuzero.env.workloads import load, names

__all__ = ["with_copies", "without_copies"]


def main() -> None:
    """Prints the table."""
    print("| program | without copies, printed | emulated | with copies, printed | emulated |\n|---|---|---|---|---|")
    for name in names():
        program = load(name)
        assert program.production is not None
        figures = (
            program.compiler["estimate_without_copies_s"],
            without_copies(program, program.production),
            program.compiler["estimate_with_copies_s"],
            with_copies(program, program.production),
        )
        print(f"| {name} |", " | ".join(f"{seconds * 1e6:.2f}" for seconds in figures), "|")


if __name__ == "__main__":
    main()
