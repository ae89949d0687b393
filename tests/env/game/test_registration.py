"""Gymnasium knows the game by its name; a missing library names its extra."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.registration import NAME, make_game
from mallocmuzero.env.workloads import load


def run(code: str, folder: Path) -> str:
    """Runs code in a new interpreter that finds `folder` first."""
    lines = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{code}"
    result = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_it_is_registered_with_the_package_or_by_the_name_of_the_module(tmp_path: Path) -> None:
    play = "game = gymnasium.make({name!r}, program='tiny')\nprint(game.reset(seed=0)[0].shape, game.spec.id)"
    with_package = "import gymnasium\nimport mallocmuzero\n" + play.format(name=NAME)
    module = f"mallocmuzero.env.game.registration:{NAME}"
    by_module = "import mallocmuzero\nassert 'gymnasium' not in sys.modules\nimport gymnasium\n" + play.format(
        name=module
    )
    assert run(with_package, tmp_path).split()[-1] == NAME
    assert run(by_module, tmp_path).split()[-1] == NAME


def test_a_game_is_played_to_its_end() -> None:
    for program in ("tiny", load("tiny")):
        game = gymnasium.make(NAME, program=program, objective="msa")
        _, info = game.reset(seed=0)
        done = False
        while not done:
            _, _, done, _, info = game.step(np.int64(np.flatnonzero(info["action_mask"])[0]))
        assert info["latency_s"] > 0


def test_a_program_is_needed() -> None:
    with pytest.raises(UserError, match="program is missing"):
        make_game()
    with pytest.raises(UserError, match="did you mean tiny"):
        make_game("tinyy")


def test_a_missing_library_names_its_extra(tmp_path: Path) -> None:
    code = (
        "sys.modules['gymnasium'] = None\n"
        "try:\n    import mallocmuzero.env.game.adapters\n"
        "except ImportError as error:\n    print(error)"
    )
    assert run(code, tmp_path) == "gymnasium is missing; `pip install 'mallocmuzero[gym]'` brings it\n"
