"""Costs beside rewards: the interface of Safety-Gymnasium, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from phalanx.infos import check_finals
from phalanx.vector import PhalanxVectorEnv


class SafetyVectorEnv(VectorWrapper):
    """Steps that return `(obs, reward, cost, terminated, truncated, info)`, as in Safety-Gymnasium.

    The wrapped environment must have constraints and start new episodes in the same step; last observations and infos
    are in `info["final_observation"]` and `info["final_info"]`.

    >>> import phalanx
    >>> env = SafetyVectorEnv(phalanx.make_vec("ChemicalReactor-v0", 2, autoreset_mode="SameStep", safety="monitor"))
    >>> _ = env.reset(seed=0)
    >>> obs, reward, cost, terminated, truncated, info = env.step(env.action_space.sample())
    >>> cost.shape, cost.dtype
    ((2,), dtype('float64'))
    """

    def __init__(self, env: VectorEnv) -> None:
        check_finals(env, "SafetyVectorEnv")
        # What lies between may have costs of its own.
        if isinstance(env, PhalanxVectorEnv) and (not env._spec.constraints or env._build["safety"] == "off"):
            raise ValueError("SafetyVectorEnv needs costs, but the environment has no constraints, or safety='off'")
        super().__init__(env)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:  # type: ignore[override]
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        if "cost" not in infos:
            raise KeyError("the info has no 'cost': the environment has no constraints, or safety='off'")
        if "final_obs" in infos:
            infos["final_observation"] = infos.pop("final_obs")
            infos["_final_observation"] = infos.pop("_final_obs")
        return obs, rewards, infos["cost"], terminations, truncations, infos


class CostInInfo(VectorWrapper):
    """The way back: six values become five, with the cost in `info["cost"]`."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result = self.env.step(actions)
        if len(result) != 6:
            raise ValueError(f"a step gave {len(result)} values, but 6 are needed, the third being the cost")
        obs, rewards, cost, terminations, truncations, infos = result
        infos = dict(infos)
        if "final_observation" in infos:
            infos["final_obs"] = infos.pop("final_observation")
            infos["_final_obs"] = infos.pop("_final_observation")
        infos["cost"] = np.asarray(cost, np.float64)
        infos["_cost"] = np.ones(len(infos["cost"]), np.bool_)
        return obs, rewards, terminations, truncations, infos
