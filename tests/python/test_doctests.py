"""The examples of the docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import phalanx

MODULES = ["phalanx", *(f"phalanx.{module.name}" for module in pkgutil.iter_modules(phalanx.__path__))]
#: Modules for a library that need not be there; all others are imported with the package.
LIBRARIES = {"phalanx.minari": "minari", "phalanx.pettingzoo": "pettingzoo", "phalanx.sb3": "stable_baselines3"}
#: Has no text of its own, and nothing that users call.
WITHOUT = {"phalanx._phalanx", "phalanx.registration"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - WITHOUT - {"phalanx.sb3"}))
def test_examples_run(name, tmp_path, monkeypatch):
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    # What examples remember and store is not the user's.
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0
