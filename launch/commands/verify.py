"""`mallocmuzero verify`: checks that a mapping is legal, and prints its latency."""

import argparse

from ..terminal.json_output import add_json_option, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "verify",
        help="check a mapping against its program",
        description="Checks that a mapping is legal, and prints its latency. Exit status 1 if it is not.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument("mapping", metavar="MAPPING", help="mapping file, or `production` for XLA's own")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns 0 if the mapping verifies, else 1."""
    from ...env import workloads
    from ...env.physics.cost import CYCLES, MODELS, exact
    from ...env.physics.objective import latencies
    from ...env.verifier.verify import verify
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.mappings import read_any_mapping

    program = workloads.load(arguments.program)
    compile_kernels(needs.PHYSICS)
    mapping = read_any_mapping(arguments.mapping, program)
    violations = verify(program, program.target, mapping)
    verified = not violations
    latency_us: dict[str, float | None] = dict.fromkeys(MODELS)
    of_production: dict[str, float | None] = dict.fromkeys(MODELS)
    exact_share = None
    if verified:
        latency_us = {m: None if s is None else s * 1e6 for m, s in latencies(program, mapping).items()}
        if program.production is not None:
            by_model = latencies(program, program.production)
            production_us = {m: None if s is None else s * 1e6 for m, s in by_model.items()}
            of_production = {
                m: us / p if us is not None and (p := production_us[m]) else None for m, us in latency_us.items()
            }
        if latency_us[CYCLES] is not None:
            exact_share = exact(program, mapping)
    if arguments.json is not None:
        entries = [
            {
                "kind": str(violation.kind),
                "instruction": violation.instruction,
                "instruction_name": violation.instruction_name,
                "buffer": violation.buffer,
                "buffer_name": violation.buffer_name,
                "message": violation.message,
            }
            for violation in violations
        ]
        write_json(
            {
                "program": program.name,
                "verified": verified,
                "latency_us": latency_us,
                "of_production": of_production,
                "exact": exact_share,
                "violations": entries,
            },
            arguments.json,
        )
    if arguments.json != "-":
        for violation in violations:
            print(violation)
        if verified:
            print(f"verified: {_figures(latency_us, of_production, exact_share)}")
        else:
            print(f"not verified: {len(violations)} violation{'s' * (len(violations) > 1)}")
    return 0 if verified else 1


def _figures(
    latency_us: dict[str, float | None], of_production: dict[str, float | None], exact_share: float | None
) -> str:
    parts = []
    for model, value in latency_us.items():
        if value is None:
            parts.append(f"{model} cannot price it: no cycle table")
            continue
        ratio = of_production[model]
        notes = [model, *([] if ratio is None else [f"{100 * ratio:.2f} % of production"])]
        if model == "cycles" and exact_share is not None:
            notes.append(f"{100 * exact_share:.1f} % looked up")
        parts.append(f"{value:.3f} us ({', '.join(notes)})")
    return ", ".join(parts)
