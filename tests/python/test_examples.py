"""The examples run, and show what they say they show."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def run(name):
    command = [sys.executable, str(EXAMPLES / name), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_gene_circuit_is_controlled():
    told = {line.split()[0]: line for line in run("gene_circuit_control.py").splitlines()}
    means = {name: float(told[name].split()[1]) for name in ("random", "bang-bang", "PI", "PQN")}
    assert means["random"] < min(means["bang-bang"], means["PI"])


def test_the_comparison_tells_a_rate_of_each():
    told = run("benchmark_comparison.py")
    assert [line[:18].strip() for line in told.splitlines()] == [
        "phalanx, copies", "phalanx, views", "gymnasium, NumPy", "gymnasium, sync",
    ]  # fmt: skip
