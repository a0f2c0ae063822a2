"""The examples of `phalanx.sb3`, which needs torch."""

import doctest

import pytest

pytest.importorskip("stable_baselines3")

import phalanx.sb3  # noqa: E402


def test_examples_run():
    failed, tried = doctest.testmod(phalanx.sb3)
    assert tried > 0 and failed == 0
