"""How fast environments step through Python, beside Gymnasium in the same process.

    python tests/python/speed.py            measure and print
    python tests/python/speed.py --check    exit with 1 if a bar is missed

Every number is the best of several rounds in which all contestants take turns: what the machine can do, with the least
disturbance by others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

import gymnasium
import numpy as np

import phalanx

ROUNDS = 5
SECONDS = 0.3

Contestant = Callable[[int], None]


def steps_per_second(run: Contestant, envs: int) -> float:
    """Calls `run` for a while and answers how many environment steps a second that was."""
    calls = 16
    while True:
        start = time.perf_counter()
        run(calls)
        elapsed = time.perf_counter() - start
        if elapsed > SECONDS / 2:
            return calls * envs / elapsed
        calls = max(calls * 2, int(calls * SECONDS / max(elapsed, 1e-6)))


def stepper(env: gymnasium.vector.VectorEnv, num_envs: int) -> Contestant:
    """Steps with actions from an array that is there already, and takes the observations."""
    actions = np.random.default_rng(0).integers(2, size=(64, num_envs))
    env.reset(seed=0)

    def run(calls: int) -> None:
        step = env.step
        for i in range(calls):
            step(actions[i & 63])

    return run


def single_stepper(env: gymnasium.Env) -> Contestant:
    actions = np.random.default_rng(0).integers(2, size=1024).tolist()
    env.reset(seed=0)

    def run(calls: int) -> None:
        step, reset = env.step, env.reset
        for i in range(calls):
            _, _, terminated, truncated, _ = step(actions[i & 1023])
            if terminated or truncated:
                reset()

    return run


def command_line(num_envs: int, steps: int) -> float | None:
    """The roll-out of the command line, if it is built."""
    program = shutil.which("phalanx") or shutil.which("target/release/phalanx", path=".")
    if program is None:
        return None
    command = [program, "rollout", "--env", "CartPole-v1", "--num-envs", str(num_envs), "--steps", str(steps), "--json"]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["steps_per_second"])


def measure() -> dict[str, float]:
    contestants: dict[str, tuple[int, Contestant]] = {}
    for num_envs in (4096, 65536):
        for name, make in (
            ("phalanx", lambda n: phalanx.make_vec("CartPole-v1", n)),
            ("phalanx copy=False", lambda n: phalanx.make_vec("CartPole-v1", n, copy=False)),
            ("gymnasium", lambda n: gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")),
        ):
            contestants[f"{name}, {num_envs} environments"] = (num_envs, stepper(make(num_envs), num_envs))
    contestants["phalanx.make, one environment"] = (1, single_stepper(phalanx.make("CartPole-v1")))
    contestants["phalanx.make_vec copy=False, one environment"] = (
        1, stepper(phalanx.make_vec("CartPole-v1", 1, copy=False), 1)
    )
    contestants["gymnasium.make phalanx/CartPole-v1"] = (1, single_stepper(gymnasium.make("phalanx/CartPole-v1")))
    contestants["gymnasium.make CartPole-v1"] = (1, single_stepper(gymnasium.make("CartPole-v1")))
    best = dict.fromkeys(contestants, 0.0)
    for _ in range(ROUNDS):
        for name, (envs, run) in contestants.items():
            best[name] = max(best[name], steps_per_second(run, envs))
    num_envs, steps = 65536, 2000
    for _ in range(ROUNDS):
        ours = phalanx.rollout("CartPole-v1", steps, num_envs=num_envs).steps_per_second
        best["phalanx.rollout"] = max(best.get("phalanx.rollout", 0.0), ours)
        theirs = command_line(num_envs, steps)
        if theirs is not None:
            best["phalanx rollout (command line)"] = max(best.get("phalanx rollout (command line)", 0.0), theirs)
    return best


def bars(best: dict[str, float]) -> list[tuple[str, float, float]]:
    """What is asked, what must be reached, what was."""
    wanted = [
        ("4096 environments", 100e6, best["phalanx, 4096 environments"]),
        ("65536 environments", 150e6, best["phalanx, 65536 environments"]),
        ("one environment", 1e6, best["phalanx.make, one environment"]),
        (
            "gymnasium.make: times Gymnasium's own",
            3.0,
            best["gymnasium.make phalanx/CartPole-v1"] / best["gymnasium.make CartPole-v1"],
        ),
    ]
    cli = best.get("phalanx rollout (command line)")
    if cli is not None:
        wanted.append(("phalanx.rollout: times the command line", 0.9, best["phalanx.rollout"] / cli))
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    check = parser.parse_args().check
    best = measure()
    for name, rate in best.items():
        print(f"{name:48} {rate / 1e6:10.2f} M steps/s")
    missed = 0
    for name, bar, value in bars(best):
        reached = value >= bar
        missed += not reached
        shown = (f"{number / 1e6:.1f} M" if bar > 1e3 else f"{number:.2f}" for number in (value, bar))
        print("{}: {:48} {:>10} of {:>8}".format("reached" if reached else "MISSED ", name, *shown))
    return int(check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
