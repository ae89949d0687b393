"""The compiler's answers on the candidates of a tuning, from the file that `tune --json` or `impose --json` wrote."""

from pathlib import Path
from typing import Any

from ...env.errors import FormatError
from ...env.physics.cost import MODELS
from ..terminal.confirmation_report import sized_row

_STEPS = (
    ("default_us", "XLA's default"),
    ("flags_us", "XLA, best of its flags"),
    ("promised_us", "the mapping that was wanted"),
    ("decoded_us", "foreseen of the options that were kept"),
    ("confirmed_us", "confirmed by the compiler"),
)


def is_tuning(document: Any) -> bool:
    """Returns whether a JSON document is what `tune --json` or `impose --json` writes."""
    return isinstance(document, dict) and {"candidates", "confirmed_us", "default_us", "program"} <= set(document)


def tuning_view(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Returns the page's data on a tuning: `steps`, `candidates`, `options` and figures of the whole.

    Raises:
      FormatError: a field is damaged.
    """
    try:
        default = document["default_us"]
        missing = document.get("production_missing")
        # With flags alone, only what is foreseen was wanted.
        left_out = {"promised_us"} if document.get("flags_only") else set()
        steps = [
            {"name": "XLA's algorithm" if missing and key == "default_us" else name, "us": _known(document[key])}
            for key, name in _STEPS
            if key not in left_out and document.get(key) is not None
        ]
        steps[1:1] = [{"name": name, "us": _known(us)} for name, us in sized_row(document).items()]
        return {
            "objective": document.get("objective"),
            "models": [model for model in MODELS if default.get(model) is not None],
            "verdict": document["verdict"],
            "missing": missing,
            "steps": steps,
            "kept": document["kept"],
            "candidates": [
                {
                    "kind": candidate["kind"],
                    "kept": candidate["kept"],
                    "foreseen_us": _known(candidate["foreseen_us"]),
                    "confirmed_us": _known(candidate["confirmed_us"]),
                    "error": candidate["error"],
                    "options": candidate["options"],
                }
                for candidate in document["candidates"]
            ],
            "options": document["options"],
            "realised": document.get("realised"),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{path}: field {error} is missing or damaged; write the file again with `mallocmuzero tune --json`"
        ) from error


def _known(latencies: dict[str, float | None] | None) -> dict[str, float]:
    return {} if latencies is None else {model: us for model, us in latencies.items() if us is not None}
