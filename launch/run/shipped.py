"""The policy that the package comes with."""

from pathlib import Path

SHIPPED = Path(__file__).parents[1] / "policies" / "default.policy"
