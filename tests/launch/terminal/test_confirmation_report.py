"""The text of a confirmation."""

from mallocmuzero.launch.terminal.confirmation_report import verdict


def test_no_gain_is_told_without_the_other_models_word() -> None:
    before = {"msa": 100.0, "cycles": 100.0}
    assert verdict(before, {"msa": 90.0, "cycles": 110.0}) == "msa calls it 10.00% better; cycles calls it 10.00% WORSE"
    assert verdict(before, {"msa": 100.0, "cycles": None}) == ("msa sees no change; cycles are not known")
