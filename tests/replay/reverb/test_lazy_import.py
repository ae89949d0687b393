"""What importing Reverb loads, in a process of its own."""

import importlib.util
import subprocess
import sys

import pytest

_PROGRAM = """
import importlib.util
import sys

from mallocmuzero.replay.reverb.lazy_import import import_reverb

import_reverb()
print("keras" in sys.modules, importlib.util.find_spec("keras") is not None)
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("reverb", "keras")), reason="needs mallocmuzero[cluster]"
)
def test_keras_is_not_loaded_and_stays_there_to_be_loaded() -> None:
    said = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True"], said.stderr
