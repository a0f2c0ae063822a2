"""The examples that need torch run, and learn."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


def returns(name):
    """The first and the last return that an example tells of, in its last line."""
    done = subprocess.run([sys.executable, str(EXAMPLES / name), "--quick"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    return [float(number) for number in re.findall(r"\d+\.\d+", last)[:2]]


def test_ppo_in_one_file_learns():
    first, last = returns("ppo_cleanrl.py")
    assert first < 50 and last > 3 * first


def test_ppo_of_stable_baselines3_learns():
    pytest.importorskip("stable_baselines3")
    first, last = returns("sb3_ppo.py")
    assert first < 50 and last > 2 * first
