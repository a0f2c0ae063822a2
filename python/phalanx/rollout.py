"""Whole roll-outs in one call, without Python in the loop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from phalanx.native import setting_text, to_seed
from phalanx.vector import PhalanxVectorEnv


@dataclass(frozen=True)
class RolloutResult:
    """What came of a roll-out. Means and spreads are over episodes that ended, `None` if none did.

    Arrays are there if `record=True`. `observations` has one row of environments more than there are steps:
    `observations[t]` is what the action `actions[t]` was chosen on. Where an episode ended in step `t`,
    `observations[t + 1]` already belongs to the next one; the last observations are in `final_observations`, and each
    row of `final_places` says of which step and which environment.
    """

    num_envs: int
    steps: int
    scan_chunk_size: int
    wall_seconds: float
    steps_per_second: float
    episodes: int
    return_mean: float | None
    return_std: float | None
    length_mean: float | None
    length_std: float | None
    cost_mean: float | None = None
    cost_std: float | None = None
    violations: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    scores: dict[str, float | None] = field(default_factory=dict)
    checksum: str | None = None
    observations: npt.NDArray[Any] | None = field(default=None, repr=False)
    actions: npt.NDArray[Any] | None = field(default=None, repr=False)
    rewards: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    terminations: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    truncations: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    costs: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    final_observations: npt.NDArray[Any] | None = field(default=None, repr=False)
    final_places: npt.NDArray[np.int64] | None = field(default=None, repr=False)


def argument_text(value: object) -> str:
    """An argument of a policy as the command line writes it: a list is `0:1:1`."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return ":".join(setting_text(one) for one in value)
    return setting_text(value)


def rollout(
    env: str | PhalanxVectorEnv,
    steps: int,
    *,
    num_envs: int = 1,
    policy: str = "random",
    policy_args: Mapping[str, Any] | None = None,
    actions: npt.ArrayLike | None = None,
    record: bool = False,
    scan_chunk_size: int | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> RolloutResult:
    """Steps environments `steps` times under a built-in policy, or with an array of actions (steps x environments).

    `env` is an id, for fresh environments with the keywords of `make_vec`, the same as those of the command line for the
    same seed; or a vector environment, which goes on from where it is. `record=True` returns all arrays, otherwise there
    are statistics only, which is much faster under a policy. Ctrl-C is heard every `scan_chunk_size` steps.

    >>> result = rollout("CartPole-v1", 100, num_envs=64, seed=1)
    >>> result.episodes > 200, result.return_mean == result.length_mean
    (True, True)
    >>> rollout("Pendulum-v1", 10, num_envs=2, record=True).observations.shape
    (11, 2, 3)
    """
    arguments = [(name, argument_text(value)) for name, value in (policy_args or {}).items()]
    choices: dict[str, Any] = dict(
        chunk=scan_chunk_size, policy=policy, arguments=arguments, actions=actions, record=record
    )
    if isinstance(env, str):
        # A chunk of steps is worth all cores, where a single step would not be.
        kwargs = {"autoreset_mode": "SameStep", "threads": os.cpu_count(), **kwargs}
        fresh = PhalanxVectorEnv(env, num_envs, _seed=to_seed(seed), **kwargs)
        try:
            return RolloutResult(**fresh._engine.rollout(steps, **choices))
        finally:
            fresh.close()
    if kwargs:
        raise TypeError(f"{', '.join(kwargs)}: these keywords are for environments that are made here, from an id")
    engine = env.unwrapped._engine
    if engine.needs_seed:
        raise ResetNeeded("call reset before the first roll-out")
    return RolloutResult(**engine.rollout(steps, **choices))
