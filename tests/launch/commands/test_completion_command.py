"""The completion script, in a real shell."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launch_cases import call

from mallocmuzero.env.workloads import names

ASK = """
source {script}
COMP_WORDS=({words} "{last}"); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_mallocmuzero; echo "${{COMPREPLY[*]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_names(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    status, script, _ = call("completion", "bash")
    assert status == 0
    path = tmp_path / "completion.sh"
    path.write_text(script, encoding="utf-8")
    for words, last, found in (
        ("mallocmuzero", "so", "solve"),
        ("mallocmuzero solve", "resnet50", " ".join(name for name in names() if name.startswith("resnet50"))),
        ("mallocmuzero solve tiny --solver", "or", "order-search"),
        ("mallocmuzero train --workload", "heldo", "heldout"),
        ("mallocmuzero solve tiny", "--see", "--seed"),
        ("mallocmuzero capture m:f --target", "v6", "v6e"),
    ):
        asked = ASK.format(script=path, words=words, last=last)
        result = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert result.stdout.strip() == found, (words, last)


def test_without_the_library_the_extra_is_named() -> None:
    code = (
        "import sys\nsys.modules['shtab'] = None\nfrom mallocmuzero.launch.cli import main\n"
        "sys.exit(main(['completion', 'bash']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install 'mallocmuzero[completion]'" in result.stderr
