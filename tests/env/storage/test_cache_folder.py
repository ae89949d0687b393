"""Where the cache lies, and what is said where it can lie nowhere."""

import os
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.storage.cache import cache_folder


def test_a_relative_folder_is_of_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "mine")
    assert cache_folder() == tmp_path / "mine" / "mallocmuzero"


def test_a_user_without_a_home_is_told_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 9)
    with pytest.raises(UserError, match="no home folder for a cache; set XDG_CACHE_HOME to a folder"):
        cache_folder()
