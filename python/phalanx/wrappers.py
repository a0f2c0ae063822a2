"""Wrappers for tools that expect another Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from phalanx.infos import check_finals, row


class LegacyFinalInfo(VectorWrapper):
    """`final_info` and `final_observation` as Gymnasium 0.29 had them, for scripts such as CleanRL's.

    There `infos["final_info"]` is a sequence with a dictionary, or `None`, for each environment. The wrapped environment
    must start new episodes in the same step; put the statistics on it with `episode_stats=True` or below this wrapper.

    >>> import phalanx
    >>> envs = LegacyFinalInfo(phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep", episode_stats=True))
    >>> _ = envs.reset(seed=0)
    >>> while "final_info" not in (infos := envs.step(np.ones(2, int))[4]):
    ...     pass
    >>> [info["episode"]["l"].item() for info in infos["final_info"] if info is not None][0] > 5
    True
    """

    def __init__(self, env: VectorEnv) -> None:
        check_finals(env, "LegacyFinalInfo")
        super().__init__(env)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        done = np.logical_or(terminations, truncations)
        if done.any():
            last = infos.pop("final_info", {})
            infos.pop("_final_obs", None)
            infos["final_observation"] = infos.pop("final_obs")
            infos["_final_observation"] = done
            episode = infos.pop("episode", None)
            infos.pop("_episode", None)
            finals = np.full(self.num_envs, None, dtype=object)
            for env in np.flatnonzero(done).tolist():
                finals[env] = row(last, env)
                if episode is not None:
                    finals[env]["episode"] = {name: values[env : env + 1] for name, values in episode.items()}
            infos["final_info"], infos["_final_info"] = finals, done
        return obs, rewards, terminations, truncations, infos
