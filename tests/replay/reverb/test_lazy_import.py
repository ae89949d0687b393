"""What importing Reverb loads and leaves behind, in a process of its own."""

import subprocess
import sys

import pytest
from installed import REVERB

_PROGRAM = """
import gc
import importlib.util
import sys

from mallocmuzero.replay.reverb.lazy_import import import_reverb

looks = []
gc.callbacks.append(lambda phase, about: looks.append(phase))
import_reverb()
looked = len(looks)
gc.callbacks.clear()
print("keras" in sys.modules, importlib.util.find_spec("keras") is not None)
print(looked < 100, gc.isenabled())
"""


@pytest.mark.skipif(not REVERB, reason="needs mallocmuzero[cluster]")
def test_keras_is_not_loaded_but_there_and_garbage_waits_meanwhile() -> None:
    said = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["False True", "True True"], said.stderr
