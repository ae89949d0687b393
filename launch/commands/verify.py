"""`mallocmuzero verify`: whether a mapping is legal, and its latency."""

import argparse

from ..json_output import add_json_option, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "verify",
        help="check a mapping against its program",
        description="Checks that a mapping obeys the physics, and prints its latency. Exit status 1 if it does not.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument("mapping", metavar="MAPPING", help="mapping file, or `production` for XLA's own")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns 0 if the mapping verifies, else 1."""
    from ...env import workloads
    from ...env.cost import MODELS
    from ...env.simulate import simulate
    from ...env.verify import verify
    from ..mappings import read_any_mapping

    program = workloads.load(arguments.program)
    mapping = read_any_mapping(arguments.mapping, program)
    violations = verify(program, program.target, mapping)
    verified = not violations
    latency_us: dict[str, float | None] = dict.fromkeys(MODELS)
    if verified:
        latency_us = {m: simulate(program, program.target, mapping, m).latency_s * 1e6 for m in MODELS}
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
            {"program": program.name, "verified": verified, "latency_us": latency_us, "violations": entries},
            arguments.json,
        )
    if arguments.json != "-":
        for violation in violations:
            print(violation)
        if verified:
            figures = ", ".join(f"{value:.3f} us ({model})" for model, value in latency_us.items())
            print(f"verified: {figures}")
        else:
            print(f"not verified: {len(violations)} violation{'s' * (len(violations) > 1)}")
    return 0 if verified else 1
