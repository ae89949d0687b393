"""Names that do not exist bring the nearest ones that do."""

import pytest

from mallocmuzero.env.suggestion import nearest, unknown

MANY = [f"model-{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("name", "names", "listing", "message"),
    [
        ("aneal", ("anneal", "milp"), "", "no solver is called 'aneal'; did you mean anneal?"),
        ("xyz", ("anneal", "milp"), "", "no solver is called 'xyz'; the solvers are anneal, milp"),
        ("xyz", MANY, "list", "no solver is called 'xyz'; `list` lists all 40"),
        ("model-39", MANY[:39], "list", "did you mean model-"),
    ],
)
def test_the_message(name: str, names: tuple[str, ...], listing: str, message: str) -> None:
    found = unknown("solver", name, names, listing)
    assert message in found
    assert found.count("model-") <= 4


def test_names_that_begin_so_come_first() -> None:
    assert nearest("resnet50", ["resnet5x", "resnet50-b128", "alexnet"])[0] == "resnet50-b128"
    assert nearest("", ["a"]) == []
