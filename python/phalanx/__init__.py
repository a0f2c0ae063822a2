"""Phalanx: a million reinforcement-learning environments in lockstep.

>>> import phalanx
>>> env = phalanx.make_vec("CartPole-v1", 1024)
>>> observations, info = env.reset(seed=0)
"""

from typing import Any

from phalanx._phalanx import __version__, env_ids
from phalanx.registration import register_all
from phalanx.rollout import RolloutResult, rollout
from phalanx.single import PhalanxEnv, make
from phalanx.vector import PhalanxVectorEnv, make_vec

__all__ = [
    "PhalanxEnv",
    "PhalanxVectorEnv",
    "RolloutResult",
    "__version__",
    "env_ids",
    "make",
    "make_vec",
    "rollout",
    "to_sb3",
]

register_all()


def to_sb3(env: PhalanxVectorEnv | str, num_envs: int = 1, **kwargs: Any) -> Any:
    """A Stable-Baselines3 `VecEnv`; see `phalanx.sb3`, which is imported here, because it needs Stable-Baselines3."""
    from phalanx import sb3

    return sb3.to_sb3(env, num_envs, **kwargs)
