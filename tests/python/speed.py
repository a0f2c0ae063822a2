"""How fast environments step through Python, beside Gymnasium and EnvPool in the same process.

    python tests/python/speed.py            measure and print
    python tests/python/speed.py --check    exit with 1 if a bar is missed or cannot be judged
    cargo xtask python-speed                --check in an environment with all libraries and the wheel of this checkout

Contestants take turns, round by round, and the median of the rounds is judged. Steps of Phalanx are those it counts
itself: to begin an episode in a step of its own is none. Of the others every slot of every call counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import phalanx
from phalanx import lab

ROUNDS = 7
SECONDS = 0.3
ROLLOUT_ENVS, ROLLOUT_STEPS = 65_536, 2_000

# Makes some calls and answers how many steps environments have made.
Contestant = Callable[[int], int]
# Measures once and answers steps per second.
Measurement = Callable[[], float]


def timed(run: Contestant) -> Measurement:
    """Runs for a while each time; how many calls that takes is found out in the first round."""
    calls = [16]

    def measure() -> float:
        while True:
            start = time.perf_counter()
            steps = run(calls[0])
            elapsed = time.perf_counter() - start
            if elapsed > SECONDS / 2:
                return steps / elapsed
            calls[0] = max(calls[0] * 2, int(calls[0] * SECONDS / max(elapsed, 1e-6)))

    return measure


def stepper(env: Any, num_envs: int, dtype: str = "i8") -> Contestant:
    """Steps with actions from an array that is there already, and takes the observations."""
    actions = np.random.default_rng(0).integers(2, size=(64, num_envs)).astype(dtype)
    env.reset()

    def run(calls: int) -> int:
        step, before = env.step, getattr(env, "num_steps", None)
        for i in range(calls):
            step(actions[i & 63])
        return calls * num_envs if before is None else env.num_steps - before

    return run


def single_stepper(env: gymnasium.Env) -> Contestant:
    actions = np.random.default_rng(0).integers(2, size=1024).tolist()
    env.reset(seed=0)

    def run(calls: int) -> int:
        step, reset = env.step, env.reset
        for i in range(calls):
            _, _, terminated, truncated, _ = step(actions[i & 1023])
            if terminated or truncated:
                reset()
        return calls

    return run


def command_line(program: Path) -> float:
    """The roll-out of the command line."""
    size = ["--num-envs", str(ROLLOUT_ENVS), "--steps", str(ROLLOUT_STEPS)]
    command = [str(program), "rollout", "--env", "CartPole-v1", *size, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["steps_per_second"])


def contestants() -> dict[str, Measurement]:
    found: dict[str, Measurement] = {}
    try:
        import envpool
    except ImportError as error:
        envpool = None
        print(f"NOT MEASURED: EnvPool ({error})")
    for num_envs in (4096, 65536):
        makers: dict[str, Callable[[int], Any]] = {
            "phalanx": lambda n: phalanx.make_vec("CartPole-v1", n),
            "phalanx copy=False": lambda n: phalanx.make_vec("CartPole-v1", n, copy=False),
            "gymnasium": lambda n: gymnasium.make_vec(
                "CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point"
            ),
        }
        if envpool is not None:
            makers["envpool"] = lambda n: envpool.make_gymnasium("CartPole-v1", num_envs=n, num_threads=0, seed=0)
        for name, make in makers.items():
            dtype = "i4" if name == "envpool" else "i8"
            found[f"{name}, {num_envs} environments"] = timed(stepper(make(num_envs), num_envs, dtype))
    found["phalanx.make, one environment"] = timed(single_stepper(phalanx.make("CartPole-v1")))
    one = phalanx.make_vec("CartPole-v1", 1, copy=False)
    found["phalanx.make_vec copy=False, one environment"] = timed(stepper(one, 1))
    found["gymnasium.make phalanx/CartPole-v1"] = timed(single_stepper(gymnasium.make("phalanx/CartPole-v1")))
    found["gymnasium.make CartPole-v1"] = timed(single_stepper(gymnasium.make("CartPole-v1")))
    found["phalanx.rollout"] = lambda: phalanx.rollout(
        "CartPole-v1", ROLLOUT_STEPS, num_envs=ROLLOUT_ENVS
    ).steps_per_second
    try:
        program = lab.command()
        found["phalanx rollout (command line)"] = lambda: command_line(program)
    except FileNotFoundError as error:
        print(f"NOT MEASURED: the command line ({error})")
    return found


def measure(rounds: int) -> dict[str, list[float]]:
    """Steps per second of each, round by round."""
    measurements = contestants()
    rates: dict[str, list[float]] = {name: [] for name in measurements}
    for _ in range(rounds):
        for name, take in measurements.items():
            rates[name].append(take())
    return rates


def bars(rate: dict[str, float]) -> list[tuple[str, float, float | None]]:
    """What is asked, what must be reached, what was."""
    cli = rate.get("phalanx rollout (command line)")
    return [
        ("4096 environments", 100e6, rate["phalanx, 4096 environments"]),
        ("65536 environments", 150e6, rate["phalanx, 65536 environments"]),
        ("one environment", 1e6, rate["phalanx.make, one environment"]),
        (
            "gymnasium.make: times Gymnasium's own",
            3.0,
            rate["gymnasium.make phalanx/CartPole-v1"] / rate["gymnasium.make CartPole-v1"],
        ),
        ("phalanx.rollout: times the command line", 0.9, None if cli is None else rate["phalanx.rollout"] / cli),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed or cannot be judged")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    rates = measure(arguments.rounds)
    print(f"median and range of {arguments.rounds} rounds, million steps a second")
    for name, each in rates.items():
        low, middle, high = (f"{rate / 1e6:.2f}" for rate in (min(each), statistics.median(each), max(each)))
        print(f"{name:48} {middle:>10}   {low:>8} to {high:>8}")
    missed = 0
    for name, bar, value in bars({name: statistics.median(each) for name, each in rates.items()}):
        verdict = "UNKNOWN" if value is None else "reached" if value >= bar else "MISSED "
        missed += verdict != "reached"
        shown = ("?" if n is None else f"{n / 1e6:.1f} M" if bar > 1e3 else f"{n:.2f}" for n in (value, bar))
        print("{}: {:48} {:>10} of {:>8}".format(verdict, name, *shown))
    return int(arguments.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
