"""Phalanx against GillesPy2: the same circuit, the same distributions.

    python check.py --phalanx PATH [--trajectories N]

GillesPy2's NumPySSASolver simulates the ccasr circuit with its own random numbers from its own description
of the reactions; `phalanx trace` plays as many episodes under a constant light. The counts of both species
at several times must pass a two-sample Kolmogorov-Smirnov test with p > 0.001 (for counts, which have ties,
the test is conservative: it accepts too much rather than too little, so the sample is large).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import gillespy2
import numpy as np
from scipy.stats import ks_2samp

LEVEL = 1e-3
MINUTES_PER_STEP = 5
# The defaults, on the way up, and a faster cell that is through its switch within the same time.
DEFAULTS = {"nu": 0.01, "Kh": 90.0, "nh": 3.6, "Kf": 30.0, "nf": 3.6, "eta": 1.0, "a": 1.0}
FAST = {"nu": 0.05, "Kh": 15.0, "nh": 3.6, "Kf": 8.0, "nf": 2.0, "eta": 1.0, "a": 1.5}


@dataclass(frozen=True)
class Case:
    name: str
    parameters: dict[str, float]
    # Steps after which counts are compared.
    times: tuple[int, ...]


CASES = (Case("defaults", DEFAULTS, (1, 12)), Case("fast cell", FAST, (4, 12)))


def model(parameters: dict[str, float], steps: int) -> gillespy2.Model:
    """The circuit under a light that is on, sampled at the end of every step."""
    circuit = gillespy2.Model(name="ccasr")
    circuit.add_species([gillespy2.Species(name=name, initial_value=0, mode="discrete") for name in ("H", "F")])
    circuit.add_parameter([gillespy2.Parameter(name=name, expression=value) for name, value in parameters.items()])
    reactions = [
        ("light_makes_h", {}, {"H": 1}, "eta"),
        ("h_lost", {"H": 1}, {}, "nu * H"),
        ("h_makes_f", {}, {"F": 1}, "0.5 * a * H**nh / (Kh**nh + H**nh)"),
        ("f_makes_f", {}, {"F": 1}, "0.5 * F**nf / (Kf**nf + F**nf)"),
        ("f_lost", {"F": 1}, {}, "nu * F"),
    ]
    for name, reactants, products, propensity in reactions:
        circuit.add_reaction(
            gillespy2.Reaction(name=name, reactants=reactants, products=products, propensity_function=propensity)
        )
    circuit.timespan(gillespy2.TimeSpan.linspace(t=steps * MINUTES_PER_STEP, num_points=steps + 1))
    return circuit


def of_gillespy2(case: Case, trajectories: int, seed: int) -> np.ndarray:
    """Counts of H and F: [trajectory, time, species]."""
    results = model(case.parameters, case.times[-1]).run(
        solver=gillespy2.NumPySSASolver, number_of_trajectories=trajectories, seed=seed
    )
    return np.array([[[run["H"][t], run["F"][t]] for t in case.times] for run in results])


def of_phalanx(phalanx: str, case: Case, trajectories: int, seed: int) -> np.ndarray:
    """The same of one environment in as many episodes."""
    steps = case.times[-1]
    descriptor, actions = tempfile.mkstemp(suffix=".csv", text=True)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write("1\n" * (steps * trajectories))
        command = [phalanx, "trace", "--env", "ccasr-gfp-control", "--actions", actions, "--autoreset"]
        for name, value in (case.parameters | {"max_steps": steps}).items():
            command += ["--param", f"{name}={value}"]
        command += ["--seed", str(seed), "--format", "json"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    finally:
        os.unlink(actions)
    if process.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed: {process.stderr.strip()}")
    document = json.loads(process.stdout)
    species = [document["state_names"].index(name) for name in ("H", "F")]
    rows = [[row["state"][i] for i in species] for row in document["steps"]]
    # Every episode begins with the row of its reset; that of an episode after the last may follow.
    episodes = np.array(rows[: trajectories * (steps + 1)]).reshape(trajectories, steps + 1, 2)
    if episodes[:, 0].any():
        sys.exit("an episode of phalanx does not begin with an empty cell")
    return episodes[:, list(case.times)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phalanx", required=True)
    parser.add_argument("--trajectories", type=int, default=2_000)
    arguments = parser.parse_args()
    failures = 0
    for case in CASES:
        start = time.monotonic()
        theirs = of_gillespy2(case, arguments.trajectories, seed=1)
        ours = of_phalanx(arguments.phalanx, case, arguments.trajectories, seed=2)
        print(f"{case.name}: {arguments.trajectories} trajectories in {time.monotonic() - start:.1f} s")
        for i, steps in enumerate(case.times):
            for j, name in enumerate("HF"):
                a, b = theirs[:, i, j], ours[:, i, j]
                p = ks_2samp(a, b).pvalue
                failures += p <= LEVEL
                print(
                    f"  {name} after {steps * MINUTES_PER_STEP:>3} min: GillesPy2 {a.mean():7.3f} ± {a.std():6.3f}, "
                    f"Phalanx {b.mean():7.3f} ± {b.std():6.3f}, KS p = {p:.3f}{' FAILED' if p <= LEVEL else ''}"
                )
    print("FAILED" if failures else "the distributions agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
