"""The process of a worker of `translate_workers.py`: translates a mapping, and writes what it has found to files.

python -m mallocmuzero.roundtrip.translate_worker FOLDER NUMBER
"""

import json
import signal
import sys
import time
from pathlib import Path

from ..env.compiled.cache import keep_compiled_code_by_source
from ..env.physics.objective import make_judge
from ..env.program.mapping_file import read_mapping, write_mapping
from ..env.program.program_file import read_program
from ..solvers.common.exchange import Exchange
from .translate import translate

# Names of the files in FOLDER.
REQUEST, PROGRAM, MAPPING = "request.json", "program.json.gz", "mapping.json.gz"


def result_file(folder: Path, number: int) -> Path:
    """Returns the file in which worker `number` lists its translations."""
    return folder / f"result-{number}.json"


def found_file(folder: Path, number: int, place: int) -> Path:
    """Returns the file with the mapping of the translation at `place` in the list of worker `number`."""
    return folder / f"found-{number}-{place}.json.gz"


def run(folder: Path, number: int) -> None:
    """Translates the mapping as worker `number`, until the time given in the request."""
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    program = read_program(folder / PROGRAM)
    judge = make_judge(program, request["objective"])
    mapping = read_mapping(folder / MAPPING, program)
    seeds, exchange = request["seeds"], Exchange(folder, number, len(request["seeds"]))
    found = translate(judge, mapping, request["until"] - time.time(), seed=seeds[number], exchange=exchange)
    listed = []
    for place, one in enumerate(found):
        write_mapping(one.mapping, program, found_file(folder, number, place))
        fields = ("kind", "options", "judged_s", "score_s", "decodes")
        listed.append({name: getattr(one, name) for name in fields})
    result_file(folder, number).write_text(json.dumps(listed), encoding="utf-8")


def main() -> int:
    """Runs the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    keep_compiled_code_by_source()
    run(Path(sys.argv[1]), int(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
