"""Phalanx: a million reinforcement-learning environments in lockstep.

>>> import phalanx
>>> env = phalanx.make_vec("CartPole-v1", 1024)
>>> observations, info = env.reset(seed=0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx import autotune, lab
from phalanx._phalanx import __version__, env_ids
from phalanx.autotune import suggest_scan_chunk_size
from phalanx.registration import register_all
from phalanx.results import AgentState, Config, EvaluationResults, TrainingResults, load_run
from phalanx.rollout import RolloutResult, rollout
from phalanx.single import PhalanxEnv, make
from phalanx.training import (
    TrainingInterrupted,
    create_config,
    create_eval_config,
    evaluate,
    resume,
    train_and_evaluate,
)
from phalanx.vector import PhalanxVectorEnv, make_vec

__all__ = [
    "AgentState",
    "Config",
    "EvaluationResults",
    "PhalanxEnv",
    "PhalanxVectorEnv",
    "RolloutResult",
    "TrainingInterrupted",
    "TrainingResults",
    "__version__",
    "autotune",
    "create_config",
    "create_eval_config",
    "env_ids",
    "evaluate",
    "lab",
    "load_run",
    "make",
    "make_vec",
    "resume",
    "rollout",
    "suggest_scan_chunk_size",
    "to_sb3",
    "train_and_evaluate",
]

if TYPE_CHECKING:
    from phalanx.sb3 import PhalanxVecEnv

register_all()


def to_sb3(env: PhalanxVectorEnv | str, num_envs: int = 1, **kwargs: Any) -> PhalanxVecEnv:
    """A Stable-Baselines3 `VecEnv`; see `phalanx.sb3`, which is imported here, because it needs Stable-Baselines3."""
    from phalanx import sb3

    return sb3.to_sb3(env, num_envs, **kwargs)
