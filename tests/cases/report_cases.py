"""Reports to test: a mapping of a small program, a run directory without training, and the data of a page."""

import json
import re
from pathlib import Path
from typing import Any

from mallocmuzero.env import workloads
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.run.directory import RunDirectory

NAME = "resnet50-b32-v4"


def data_of(page: Path) -> Any:
    """The data inside a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    return json.loads(text)


def mapping_file(folder: Path, program: Program | None = None) -> Path:
    """Writes the best mapping of XLA's flags, which is not its default one."""
    program = workloads.load(NAME) if program is None else program
    mapping = next(variant.mapping for variant in program.variants if variant.mapping is not None)
    path = folder / "other.mapping.json.gz"
    write_mapping(mapping, program, path)
    return path


def run_directory(folder: Path, points: int = 30) -> Path:
    """Makes a run that has figures and a best mapping of one of its two programs."""
    overrides = Overrides()
    overrides.add({"workloads": [NAME, "tiny"], "actor": {"objective": "msa"}}, "test")
    run = RunDirectory(folder / "run")
    program = workloads.load(NAME)
    run.create(overrides.resolve(), [program, workloads.load("tiny")])
    run.best.mkdir()
    mapping = next(variant.mapping for variant in program.variants if variant.mapping is not None)
    write_mapping(mapping, program, run.best / f"{NAME}.mapping.json.gz")
    with run.metrics_file.open("w", encoding="utf-8") as file:
        for point in range(points):
            line = {
                "minutes": point / 10,
                "step": point,
                "play/moves": 100 * point,
                "learner/loss": 2.0 / (1 + point),
                f"best/{NAME}/of_production": 1.0 - point / 1000,
                "play/moves_per_s": None,
            }
            file.write(json.dumps(line) + "\n")
        file.write('{"minutes": 3.0, "learner/lo')  # a line that is being written
    return run.path
