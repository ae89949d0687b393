"""Every option of every command is given by a test, and not only to see it refused."""

import argparse
from pathlib import Path

from option_reader import options_given

from mallocmuzero.launch.cli import COMMANDS, make_parser

TESTS = Path(__file__).parents[1]
# Made by one function for all commands; tested in `test_command_line.py`.
OF_ALL = {"--help", "--quiet"}


def options_offered() -> set[tuple[str, str]]:
    """Returns every command with the long name of each of its options."""
    (commands,) = (action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {
        (name, action.option_strings[-1])
        for name, parser in commands.choices.items()
        for action in parser._actions
        if action.option_strings and action.option_strings[-1] not in OF_ALL
    }


def test_every_option_of_every_command_is_given_by_a_test() -> None:
    offered = options_offered()
    assert {name for name, _ in offered} == set(COMMANDS) - {"completion"}
    given = {(name, {"-o": "--output"}.get(option, option)) for name, option in options_given(sources(), COMMANDS)}
    assert sorted(offered - given) == []


def sources() -> list[Path]:
    """Returns the modules of the tests of commands, and of their helpers."""
    return sorted(path for folder in ("launch", "cases") for path in (TESTS / folder).rglob("*.py"))


def test_a_refused_option_and_one_of_another_command_do_not_count(tmp_path: Path) -> None:
    module = tmp_path / "test_it.py"
    module.write_text(
        """
COMMON = ("--seed", "1")
def shown(*options):
    return call("show", "tiny", *options)
def test_one():
    solve = ["solve", "tiny", *COMMON]
    assert call(*solve)[0] == 0
    assert shown("--model", "cycles")
    assert "no" in error_of("solve", "--seconds", "-1")
    for options in (("--json", "-"),):
        call("verify", *options)
""",
        encoding="utf-8",
    )
    found = options_given([module], ["solve", "show", "verify"])
    assert found == {("solve", "--seed"), ("show", "--model"), ("verify", "--json"), ("verify", "-")}
