"""The examples of the docstrings."""

import doctest
import importlib

import pytest

MODULES = ["phalanx", "phalanx.native", "phalanx.vector", "phalanx.single", "phalanx.rollout", "phalanx.wrappers",
           "phalanx.safety", "phalanx.testing", "phalanx.pettingzoo", "phalanx.results", "phalanx.training", "phalanx.lab"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = pytest.importorskip(name) if name == "phalanx.pettingzoo" else importlib.import_module(name)
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0
