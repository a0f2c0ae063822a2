"""Wrappers of vector environments: infos as an older Gymnasium had them, and infos with the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

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


class StateInfo(VectorWrapper):
    """Puts the state into the infos: what an environment hides from agents, but not from whoever looks at it.

    `names` are those of states; all if not given. Environments that simulate reactions also tell `ssa_truncated`: where
    a step has reached `max_reactions_per_step`, so that what was left was put off to the next one, or a count 2^24, the
    most that can be told apart. It takes a copy of
    all states in each step, and so is no part of the environment. In SameStep the states of an end are gone when the
    step returns, so that mode is refused.

    >>> import phalanx
    >>> envs = StateInfo(phalanx.make_vec("ccasr-gfp-control", 2), ["F", "H", "U", "F_target"])
    >>> _, info = envs.reset(seed=0)
    >>> info["F_target"], info["_F_target"], info["ssa_truncated"]
    (array([25., 25.]), array([ True,  True]), array([False, False]))
    """

    def __init__(self, env: VectorEnv, names: Iterable[str] | None = None) -> None:
        super().__init__(env)
        inner: Any = env.unwrapped
        if not hasattr(inner, "_spec"):
            raise TypeError(f"StateInfo needs a vector environment of Phalanx, not {type(inner).__name__}")
        known: tuple[str, ...] = inner._spec.state_names
        chosen = known if names is None else tuple(names)
        for name in chosen:
            if name not in known:
                raise ValueError(f"{inner._spec.id} has no state {name!r}; it has {', '.join(known[:20])}")
        if inner.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP:
            raise ValueError("autoreset_mode is SameStep, where the states of an end are gone when a step returns")
        self._states = inner.state
        self._places = {name: known.index(name) for name in chosen}
        self._capped = known.index("capped") if "capped" in known else None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As that of the environment, with the states of those that it resets in the info."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, self._with_state(infos, (options or {}).get("reset_mask"))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As that of the environment, with the states that the step has led to in the info."""
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        return obs, rewards, terminations, truncations, self._with_state(infos)

    def _with_state(self, infos: dict[str, Any], mask: Any = None) -> dict[str, Any]:
        states = self._states()
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else mask
        told = {name: states[:, place] for name, place in self._places.items()}
        if self._capped is not None:
            told["ssa_truncated"] = states[:, self._capped] > 0
        for name, values in told.items():
            # Zeros where nothing is said, as in Gymnasium, and masks that can be written to one by one.
            infos[name], infos[f"_{name}"] = np.where(chosen, values, values.dtype.type(0)), chosen.copy()
        return infos
