"""Stable-Baselines3: a `VecEnv` over the engine. Importing this module imports Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from phalanx.infos import check_finals, row
from phalanx.native import to_seed
from phalanx.settings import missing
from phalanx.vector import PhalanxVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise missing("to_sb3", "Stable-Baselines3", "sb3", error) from error


class PhalanxVecEnv(VecEnv):  # type: ignore[misc]
    """A Phalanx vector environment as Stable-Baselines3 wants it: new episodes in the same step, a dict for each info."""

    def __init__(self, env: PhalanxVectorEnv) -> None:
        check_finals(env, "to_sb3")
        if not env._build["copy"]:
            raise ValueError("to_sb3 needs an environment with copy=True: Stable-Baselines3 keeps the arrays of a step")
        # Before the base class, which asks for attributes.
        self.env = env
        self._actions: Any = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Environment `i` gets the seed `s + i` at the next reset."""
        seeds: Sequence[int | None] = super().seed(None if seed is None else to_seed(seed))
        return seeds

    def reset(self) -> Any:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        options = self._options[0] if self._options else None
        # Also if they are refused, so that the next reset is not.
        self._reset_seeds()
        self._reset_options()
        obs, infos = self.env.reset(seed=seeds, options=options)
        self.reset_infos = _split(infos, self.num_envs)
        return obs

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        obs, rewards, terminations, truncations, infos = self.env.step(self._actions)
        dones = terminations | truncations
        finals, last = infos.pop("final_obs", None), infos.pop("final_info", None)
        infos.pop("_final_obs", None)
        infos.pop("_final_info", None)
        rows = _split(infos, self.num_envs)
        limited = truncations & ~terminations
        for env, told in enumerate(rows):
            told["TimeLimit.truncated"] = bool(limited[env])
        for env in np.flatnonzero(dones).tolist():
            rows[env].update(row(last, env))
            rows[env]["terminal_observation"] = finals[env]
        return obs, rewards, dones, rows

    def close(self) -> None:
        self.env.close()

    def get_images(self) -> Sequence[Any]:
        return self.env.render()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "action_masks" and not self.env._spec.has_action_mask:
            raise AttributeError(f"{self.env._spec.id} has no action masks")
        if attr_name == "action_masks":
            return [self._mask_of(env) for env in self._get_indices(indices)]
        values = self.env.get_attr(attr_name)
        return [values[env] for env in self._get_indices(indices)]

    def _mask_of(self, env: int) -> Any:
        return lambda: self.env.action_masks()[env]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        values = list(self.env.get_attr(attr_name))
        for env in self._get_indices(indices):
            values[env] = value
        self.env.set_attr(attr_name, values)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        if method_name == "action_masks" and not self.env._spec.has_action_mask:
            raise AttributeError(f"{self.env._spec.id} has no action masks")
        values = self.env.call(method_name, *method_args, **method_kwargs)
        return [values[env] for env in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def _get_indices(self, indices: None | int | Iterable[int]) -> Iterable[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else indices


def _split(infos: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """A dictionary of its own for each environment."""
    if not infos:
        return [{} for _ in range(num_envs)]
    return [row(infos, env) for env in range(num_envs)]


def to_sb3(env: PhalanxVectorEnv | str, num_envs: int = 1, **kwargs: Any) -> PhalanxVecEnv:
    """A Stable-Baselines3 `VecEnv` of a vector environment, or of an id with the keywords of `phalanx.make_vec`.

    Stable-Baselines3 expects new episodes in the same step. Of an environment in another mode than SameStep a new one
    with the same settings and parameters is made, which knows nothing of its state.

    >>> env = to_sb3("CartPole-v1", 4)
    >>> env.reset().shape
    (4, 4)
    >>> observations, rewards, dones, infos = env.step([0, 1, 0, 1])
    >>> infos[0]
    {'TimeLimit.truncated': False}
    """
    if isinstance(env, str):
        env = PhalanxVectorEnv(env, num_envs, **{"autoreset_mode": "SameStep", **kwargs})
    elif kwargs or num_envs != 1:
        raise TypeError("num_envs and keywords are for environments that are made here, from an id")
    elif not isinstance(env, PhalanxVectorEnv):
        raise TypeError(f"to_sb3 needs an id or what phalanx.make_vec makes, not {type(env).__name__}")
    if env.metadata["autoreset_mode"] != AutoresetMode.SAME_STEP:
        env = env._like(AutoresetMode.SAME_STEP)
    return PhalanxVecEnv(env)


def _check_seeds(env: VecEnv) -> None:
    """Seeds and options apply to the next reset and to no other."""
    assert list(env.seed(7)) == [7 + number for number in range(env.num_envs)], "seed: s + i for each"
    before = env.reset()
    after = env.reset()
    env.seed(7)
    again = env.reset()
    assert np.array_equal(before, again), "seed: the next reset must use it"
    # Some environments always begin alike.
    env.seed(8)
    if not np.array_equal(before, env.reset()):
        assert not np.array_equal(before, after), "seed: only the next reset may use it"
    env.set_options({"zzz": 1})
    env.reset()
    assert not any(env._options), "set_options: only the next reset may use them"


class _NoWrapper:
    """What no environment is wrapped in."""


def _check_indices(env: VecEnv, call: Callable[[Any], Sequence[Any]], name: str) -> None:
    """Nothing, a number and a list choose environments, in the order of the list."""
    last = env.num_envs - 1
    whole = list(call(None))
    assert len(whole) == env.num_envs, f"{name}: one for each environment"
    for indices, expected in ((last, [whole[last]]), ([last, 0], [whole[last], whole[0]]), ([], [])):
        found = list(call(indices))
        alike = len(found) == len(expected) and all(np.array_equal(a, b) for a, b in zip(found, expected))
        assert alike, f"{name}: indices={indices}"


def _check_calls(env: VecEnv, attribute: str | None, method: str | None) -> None:
    """What reaches single environments, and pictures where there are any."""
    assert not env.has_attr("no_such_attribute"), "a missing attribute must raise AttributeError"
    try:
        env.env_method("no_such_method")
    except AttributeError:
        pass
    else:
        raise AssertionError("env_method: a missing method must raise AttributeError")
    assert env.env_is_wrapped(_NoWrapper) == [False] * env.num_envs, "env_is_wrapped"
    _check_indices(env, lambda indices: env.env_is_wrapped(_NoWrapper, indices=indices), "env_is_wrapped")
    _check_indices(env, lambda indices: env.get_attr("render_mode", indices=indices), "get_attr")
    if method is not None:
        _check_indices(env, lambda indices: env.env_method(method, indices=indices), "env_method")
    if attribute is not None:
        before = env.get_attr(attribute)
        for number, value in enumerate(before):
            # Each has a value of its own then, so that one for another shows.
            env.set_attr(attribute, value * (1 + number / 8), indices=number)
        values = np.array(before) * (1 + np.arange(env.num_envs) / 8)
        assert np.allclose(env.get_attr(attribute), values), "set_attr: indices=number"
        _check_indices(env, lambda indices: env.get_attr(attribute, indices=indices), "get_attr")
        env.set_attr(attribute, before[0], indices=[0, env.num_envs - 1])
        values[[0, -1]] = before[0]
        assert np.allclose(env.get_attr(attribute), values), "set_attr: indices=[first, last]"
        env.set_attr(attribute, before[0])
        assert np.allclose(env.get_attr(attribute), before[0]), "set_attr: one value for all"
    if env.render_mode == "rgb_array":
        images = [np.asarray(image) for image in env.get_images()]
        assert len(images) == env.num_envs, "get_images: one for each environment"
        assert all(image.ndim == 3 and image.dtype == np.uint8 for image in images), "get_images: pictures"


def check_sb3_vecenv(env: VecEnv, steps: int = 500, attribute: str | None = None, method: str | None = None) -> None:
    """Steps a `VecEnv` at random and raises an `AssertionError` where Stable-Baselines3 would be misled.

    `attribute` is a number that each environment may have its own value of, `method` the name of a method without
    arguments, such as "state"; what these go through is checked only if they are given, and pictures only of an
    environment with `render_mode="rgb_array"`. That `TimeLimit.truncated` tells truncation from termination cannot be seen
    from here.

    >>> check_sb3_vecenv(to_sb3("CartPole-v1", 4), attribute="gravity", method="state")
    """
    assert isinstance(env, VecEnv), "it is no VecEnv"
    obs = env.reset()
    assert isinstance(obs, np.ndarray) and obs.shape == (env.num_envs, *env.observation_space.shape), "reset: shape"
    assert obs.dtype == env.observation_space.dtype, "reset: dtype"
    assert len(env.reset_infos) == env.num_envs, "reset: infos"
    _check_calls(env, attribute, method)
    _check_seeds(env)
    obs, ends = env.reset(), 0
    paid = np.zeros(env.num_envs, np.float32)
    # Kept, so that no later dict can have the address of an earlier one.
    kept_infos: list[dict[str, Any]] = list(env.reset_infos)
    for _ in range(steps):
        masks = np.stack(env.env_method("action_masks")) if env.has_attr("action_masks") else None
        if masks is None:
            actions = np.stack([env.action_space.sample() for _ in range(env.num_envs)])
        else:
            actions = np.array([np.random.choice(np.flatnonzero(mask)) for mask in masks])
        previous, kept, paid_before = obs, obs.copy(), paid
        obs, paid, dones, infos = env.step(actions)
        assert np.array_equal(previous, kept), "step: the previous observations must survive"
        assert paid.dtype == np.float32 and paid.shape == (env.num_envs,) and paid.flags.writeable, "rewards"
        # The trainer adds to them.
        assert not np.shares_memory(paid, paid_before), "rewards: in each step an array of its own"
        assert dones.dtype == np.bool_ and dones.shape == (env.num_envs,), "dones"
        assert isinstance(infos, list) and len(infos) == env.num_envs, "infos: a list with one for each"
        kept_infos = kept_infos[-env.num_envs :] + infos
        assert len({id(info) for info in kept_infos}) == len(kept_infos), "infos: distinct dicts, in each step anew"
        for info, done in zip(infos, dones):
            assert "TimeLimit.truncated" in info, "infos: TimeLimit.truncated"
            assert done or not info["TimeLimit.truncated"], "infos: TimeLimit.truncated where no episode has ended"
            assert ("terminal_observation" in info) == done, "infos: terminal_observation"
            if done:
                assert info["terminal_observation"].shape == env.observation_space.shape, "terminal_observation: shape"
                ends += 1
    assert ends > 0, f"no episode has ended in {steps} steps: nothing was learnt of ends"
