"""What the tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import phalanx

MODES = list(AutoresetMode)

#: Environments whose episodes end often under random actions, or by a limit that a test can set.
SHORT = [("CartPole-v1", {}), ("Pendulum-v1", {"max_episode_steps": 7}), ("MountainCar-v0", {"max_episode_steps": 5})]


def single(env_id: str, **kwargs: Any) -> gymnasium.Env:
    """One environment that truncates by itself, as the slot of a vector environment does."""
    return phalanx.make(env_id, **kwargs)


def sync(env_id: str, num_envs: int, mode: AutoresetMode, **kwargs: Any) -> SyncVectorEnv:
    """Gymnasium's own vector environment over single environments of ours."""
    return SyncVectorEnv([lambda: single(env_id, **kwargs) for _ in range(num_envs)], autoreset_mode=mode)


def within_a_second(seconds_of: Callable[[int], float]) -> None:
    """Ctrl-C is heard within a second: the best of three counts, so that a machine which is busy for a while is no failure.

    `seconds_of` is called with 0, 1 and 2, until the promise is kept.
    """
    taken: list[float] = []
    while len(taken) < 3:
        taken.append(seconds_of(len(taken)))
        if taken[-1] < 1.0:
            return
    pytest.fail(f"promised is a second, but it took {taken}")


def same(ours: Any, theirs: Any) -> bool:
    """Equality of infos: dictionaries of arrays, with arrays of objects among them."""
    if isinstance(ours, dict):
        return set(ours) == set(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, np.ndarray) and ours.dtype == object:
        pairs = list(zip(ours, theirs, strict=True))
        return all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in pairs)
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


def actions_for(env: Any, rng: np.random.Generator) -> np.ndarray:
    """Random actions that do not touch the environment's own generator."""
    space = env.single_action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(space.n, size=env.num_envs)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return rng.integers(space.nvec, size=(env.num_envs, len(space.nvec)))
    # Wrappers may have no bounds, or wider ones than the environment.
    low, high = np.maximum(space.low, -3.0), np.minimum(space.high, 3.0)
    return rng.uniform(low, high, (env.num_envs, *space.shape)).astype(np.float32)


def legal_actions(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random legal action for each row; 0 where there is none."""
    return np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in masks])
