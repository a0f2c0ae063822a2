"""The examples run, and show what they say they show."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), "--quick", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_ppo_in_one_file_learns():
    pytest.importorskip("torch")
    last = run("ppo_cleanrl.py").splitlines()[-1]
    _, first, final = numbers(last)[:3]
    assert first < 40 and final > 3 * first, last


def test_ppo_of_stable_baselines3_learns():
    pytest.importorskip("stable_baselines3")
    before, after = numbers(run("sb3_ppo.py"))[:2]
    assert after > 2 * before


def test_the_gene_circuit_is_controlled():
    told = {line.split()[0]: line for line in run("gene_circuit_control.py").splitlines()}
    means = {name: numbers(told[name])[0] for name in ("random", "bang-bang", "PI", "PQN")}
    assert means["random"] < min(means["bang-bang"], means["PI"])


def test_the_comparison_tells_a_rate_of_each():
    told = run("benchmark_comparison.py")
    assert [line[:18].strip() for line in told.splitlines()] == [
        "phalanx, copies", "phalanx, views", "gymnasium, NumPy", "gymnasium, sync",
    ]  # fmt: skip
