"""The page of versions, beside its results."""

from benchmarks.common.json_lines import read_runs
from benchmarks.versions.measure import RESULTS, key_of
from benchmarks.versions.page import PAGE, is_read_back, render, table


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    runs = dict(read_runs([RESULTS], key_of))
    assert render(page, list(runs.values())) == page


def test_versions_are_ordered_by_number_and_errors_are_counted() -> None:
    read = {"error": None, "bytes_alike": 0.99, "inexpressible": {}, "estimates_off": {"a": 1e-6}, "refused": []}
    older = {"jax": "0.9.2", "libtpu": "0.0.37", **read, "refused": ["xla_tpu_msa_tensor_overrides"]}
    confirmed = {
        "jax": "0.10.0",
        "libtpu": "0.0.40",
        **read,
        "bytes_alike": 1.0,
        "default_us": {"msa": 100.0, "cycles": 100.0},
        "confirmed_us": {"msa": 80.0, "cycles": 90.0},
        "kept": "order",
    }
    failed = {"jax": "0.10.0", "libtpu": "0.0.40", "error": "refused"}
    assert table([confirmed, failed, older])[2:] == [
        "| 0.9.2 | 0.0.37 | 1 of 1 | 99.00 % | yes | yes |  | yes |  |  |  |",
        "| 0.10.0 | 0.0.40 | 1 of 2 | 100.00 % | yes | yes | yes | yes | +20.0 % | +10.0 % | order |",
    ]
    for changed in ({"estimates_off": {"a": None}}, {"inexpressible": {"x": 1}}, {"bytes_alike": None}, {"error": "e"}):
        assert is_read_back(older)
        assert not is_read_back({**older, **changed})
