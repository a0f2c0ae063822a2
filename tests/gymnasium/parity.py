"""Phalanx against Gymnasium: same start states, same actions, same episodes.

    python parity.py --phalanx PATH [--episodes N] [--jobs N]

Gymnasium plays an episode; `phalanx trace` replays its actions from its start state, in f32 and in f64;
what it prints is compared in two ways.

`episode`: the two run freely from the start state to the end of the episode; `agree` counts the episodes
    that stay within the tolerance to their end. In f64 all must, the states included. In f32 not all can:
    Pendulum and Acrobot are chaotic and a pole is unstable, so rounding grows exponentially. Gymnasium
    measures how it grows in this very episode (`reference.sensitivity`); an episode in f32 may leave the
    tolerance only where that explains it, and is followed no further.
`step`: before each step Gymnasium is given the state that Phalanx printed, so that every step of every
    episode is compared, none of them excused, and with a much smaller tolerance.

A flag that differs in f32 while the deciding quantity is within 1e-5 of its threshold is counted (`flags`),
not failed. At most one compared episode in a thousand may be of this kind.

`balance` is the comparison by step for poles that are balanced until the time limit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product

import numpy as np
from golden import GOLDEN, check_golden, check_pendulum_control
from phalanx_trace import TraceError, trace
from reference import ENVIRONMENTS, Reference, balance, replay, run, sensitivity, start_state

EPISODES = 250
BALANCE_EPISODES = 20

PRECISIONS = ("f32", "f64")
F32_ROUNDOFF = 2.0**-24
# A step makes several roundings, and they need not be as lucky as those of the measurement.
ROUNDING_MARGIN = 8.0
# (absolute, relative), as in numpy.allclose. The first is the promise of the project.
EPISODE_TOLERANCE = (1e-5, 1e-4)
STEP_TOLERANCE = {
    # The f32 angle of a pendulum that has turned several times is known to 2e-6.
    "f32": (5e-6, 1e-6),
    # Gymnasium's observation is f32.
    "f64": (1e-7, 1e-7),
}
# In f64 the state itself is compared too, over whole episodes.
STATE_TOLERANCE = 1e-12
F32_THRESHOLD_MARGIN = 1e-5


@dataclass
class Tally:
    """What one check has seen, over all its episodes."""

    episodes: int = 0
    agree: int = 0
    steps: int = 0
    near_threshold: int = 0
    # Largest errors. Those beyond the tolerance that rounding explains are left out.
    obs: float = 0.0
    reward: float = 0.0
    state: float = 0.0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Tally):
        for name in ("episodes", "agree", "steps", "near_threshold", "faults"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("obs", "reward", "state"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


def first_beyond(error, allowed) -> int | None:
    """The first row with an error beyond what is allowed; a NaN is beyond everything."""
    rows = np.flatnonzero(~(error <= allowed).all(axis=1))
    return int(rows[0]) if len(rows) else None


def is_explained(error, allowed, rounding) -> bool:
    """Rounding explains any error up to its size, but not that of a whole number."""
    return bool((error <= np.where(allowed > 0.0, rounding, 0.0)).all())


def outputs(trajectory, steps) -> np.ndarray:
    """Observation and reward, one row per step; the reset has no reward."""
    rewards = np.concatenate(([0.0], trajectory.rewards[:steps]))
    return np.column_stack((trajectory.obs[: steps + 1], rewards))


def compare(environment, printed, reference, precision, tolerance, rounding) -> Tally:
    """Compare what Phalanx printed with what Gymnasium did.

    `rounding()`, unless None, is the error at each row that rounding alone explains.
    """
    tally = Tally(episodes=1)
    steps = min(len(printed), len(reference))
    differs = printed.terminated[:steps] != reference.terminated[:steps]
    differs |= printed.truncated[:steps] != reference.truncated[:steps]
    flag_step = int(np.argmax(differs)) if differs.any() else None
    if flag_step is not None:
        # The reward of that step differs for the same reason as the flag, so only those before count.
        steps = flag_step

    ours, theirs = outputs(printed, steps), outputs(reference, steps)
    error = np.abs(ours - theirs)
    absolute, relative = tolerance
    allowed = absolute + relative * np.abs(theirs)
    if not environment.is_continuous:
        # Whole numbers must be equal. The other rewards are computed from the state and may be printed
        # as f32, so they cannot agree better than the observations do.
        allowed[:, -1] = 0.0
    row = first_beyond(error, allowed)
    if row is not None and rounding is not None and is_explained(error[row], allowed[row], rounding()[row]):
        # From here on the two are different episodes.
        steps = row - 1
    elif row is not None:
        values = f"{ours[row].tolist()} instead of {theirs[row].tolist()}"
        tally.faults.append(f"observation and reward of step {row} are {values}")
    elif flag_step is not None:
        same_truncation = printed.truncated[flag_step] == reference.truncated[flag_step]
        is_near = reference.threshold_distance[flag_step] <= F32_THRESHOLD_MARGIN
        if precision == "f32" and same_truncation and is_near:
            tally.near_threshold = 1
        else:
            flags = bool(printed.terminated[flag_step]), bool(printed.truncated[flag_step])
            tally.faults.append(f"(terminated, truncated) of step {flag_step + 1} should not be {flags}")
    elif len(printed) != len(reference):
        tally.faults.append(f"{len(printed)} steps instead of {len(reference)}")
    else:
        tally.agree = 1
    tally.steps = steps
    tally.obs = float(error[: steps + 1, :-1].max())
    tally.reward = float(error[: steps + 1, -1].max())
    if precision == "f64":
        compare_states(environment, printed, reference, tally)
    return tally


def compare_states(environment, printed, reference, tally):
    """Compare the states as well, as far as `tally` went, and add the result to it."""
    rows = slice(0, tally.steps + 1)
    error = environment.state_error(printed.states[rows], reference.states[rows])
    row = first_beyond(error, STATE_TOLERANCE)
    if row is not None:
        tally.faults.append(f"state {row} is {error[row].max():.2g} off")
    tally.state = float(error.max())


def shadow(environment, parameters, printed, actions) -> Reference:
    """Gymnasium repeats each printed step from the state that was printed before it."""

    def inject(t, state):
        # Keep the precision in which Gymnasium holds its state at this moment.
        return printed.states[t].astype(np.asarray(state).dtype)

    taken = actions[: len(printed)]
    return replay(environment, parameters, printed.states[0], taken, inject)


def compare_steps(environment, parameters, printed, actions, precision) -> Tally:
    reference = shadow(environment, parameters, printed, actions)
    return compare(environment, printed, reference, precision, STEP_TOLERANCE[precision], rounding=None)


def compare_episode(environment, printed, reference, precision, growth) -> Tally:
    def rounding():
        return ROUNDING_MARGIN * F32_ROUNDOFF * growth()

    excuse = rounding if precision == "f32" else None
    return compare(environment, printed, reference, precision, EPISODE_TOLERANCE, excuse)


def play(phalanx, task) -> dict[tuple, Tally]:
    """One episode of one environment, in both precisions and both ways of comparing."""
    index, episode = task
    environment = ENVIRONMENTS[index]
    generator = np.random.default_rng((index, episode))
    # Every fourth episode changes parameters; the policies take turns in fours, so all meet all.
    parameters = environment.draw_parameters(generator) if episode % 4 == 3 else {}
    policy = environment.policies[episode // 4 % len(environment.policies)]
    start = start_state(environment, seed=episode)

    def choose(_t, plant, state):
        return policy(plant, state, generator)

    reference = run(environment, parameters, start, choose)
    actions = reference.actions
    # Costs several episodes of Gymnasium, and most episodes do not need it.
    growth = cache(partial(sensitivity, environment, parameters, reference))
    tallies = {}
    for precision in PRECISIONS:
        try:
            printed = trace(phalanx, environment.name, start, actions, parameters, precision)
            results = {
                "episode": compare_episode(environment, printed, reference, precision, growth),
                "step": compare_steps(environment, parameters, printed, actions, precision),
            }
        except TraceError as error:
            results = {"episode": Tally(episodes=1, faults=[str(error)])}
        name = f"episode {episode} ({policy.__name__}, {parameters or 'default parameters'})"
        for kind, tally in results.items():
            tally.faults = [f"{name}: {fault}" for fault in tally.faults]
            tallies[environment.name, kind, precision] = tally
    return tallies


def balance_to_the_limit(phalanx, task) -> dict[tuple, Tally]:
    """A pole balanced until the time limit.

    Actions recorded from Gymnasium would let Phalanx's pole fall long before step 500, and the other way
    round: the plant is unstable. So the list of actions grows in short stretches, each chosen by feedback
    from the state in which Phalanx's trace has ended so far.
    """
    episode, precision = task
    environment = ENVIRONMENTS[0]
    start = state = start_state(environment, seed=episode)
    limit, stretch = 500, 50

    def choose(t, plant, state):
        return balance(plant, state, None) if t < stretch else None

    actions = []
    try:
        while True:
            actions += run(environment, {}, state, choose).actions
            printed = trace(phalanx, environment.name, start, actions, precision=precision)
            if printed.terminated[-1] or printed.truncated[-1] or len(actions) > limit:
                break
            state = printed.states[-1]
        tally = compare_steps(environment, {}, printed, actions, precision)
        if len(printed) != limit or not printed.truncated[-1]:
            tally.faults.append(f"ended after {len(printed)} steps instead of a truncation at {limit}")
    except TraceError as error:
        tally = Tally(episodes=1, faults=[str(error)])
    tally.faults = [f"episode {episode}: {fault}" for fault in tally.faults]
    return {(environment.name, "balance", precision): tally}


def collect(results) -> dict[tuple, Tally]:
    """Add up the tallies of many episodes."""
    tallies = {}
    for result in results:
        for key, tally in result.items():
            tallies.setdefault(key, Tally()).add(tally)
    return tallies


class Report:
    """Prints one line per check and counts them."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def line(self, text, faults):
        print(f"{text}  {'FAILED' if faults else 'ok'}")
        for fault in faults[:3]:
            print(f"    {fault}")
        if len(faults) > 3:
            print(f"    and {len(faults) - 3} more")
        if faults:
            self.failed += 1
        else:
            self.passed += 1

    def heading(self):
        print(
            f"{'environment':25}{'by':9}{'real':5}{'episodes':>9}{'agree':>7}{'steps':>8}"
            f"{'obs error':>11}{'reward':>9}{'state':>9}{'flags':>6}"
        )

    def rows(self, tallies):
        for (env, kind, precision), tally in sorted(tallies.items()):
            state = f"{tally.state:9.1e}" if precision == "f64" else f"{'':9}"
            self.line(
                f"{env:25}{kind:9}{precision:5}{tally.episodes:9}{tally.agree:7}{tally.steps:8}"
                f"{tally.obs:11.1e}{tally.reward:9.1e}{state}{tally.near_threshold:6}",
                tally.faults,
            )

    def near_thresholds(self, tallies):
        episodes = sum(tally.episodes for tally in tallies.values())
        near = sum(tally.near_threshold for tally in tallies.values())
        excess = [f"at most {episodes // 1000} may"] if near > episodes // 1000 else []
        self.line(f"flags differ at a threshold in {near} of {episodes} compared episodes", excess)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phalanx", required=True, help="the phalanx binary")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes per environment")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    phalanx = shutil.which(arguments.phalanx)
    if phalanx is None:
        print(f"no program {arguments.phalanx}; `cargo build --release` makes it", file=sys.stderr)
        return 2

    sys.stdout.reconfigure(line_buffering=True)
    began = time.monotonic()
    report = Report()
    for golden in GOLDEN:
        fault = check_golden(phalanx, golden)
        report.line(f"golden {golden.env} from {golden.start}", [fault] if fault else [])
    fault = check_pendulum_control(phalanx)
    report.line("pendulum-control is Pendulum-v1 with g = 9.8, turned by pi", [fault] if fault else [])

    tallies = {}
    report.heading()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for index, _ in enumerate(ENVIRONMENTS):
            tasks = [(index, episode) for episode in range(arguments.episodes)]
            results = collect(pool.map(partial(play, phalanx), tasks, chunksize=5))
            report.rows(results)
            tallies |= results
        tasks = list(product(range(BALANCE_EPISODES), PRECISIONS))
        results = collect(pool.map(partial(balance_to_the_limit, phalanx), tasks))
        report.rows(results)
        tallies |= results
    report.near_thresholds(tallies)
    print(f"took {time.monotonic() - began:.0f} s")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
