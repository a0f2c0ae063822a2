"""A checker for vector environments: what Gymnasium's rules demand, each demand with its own message.

Gymnasium has `check_env` for single environments and nothing for vector environments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class VectorEnvError(AssertionError):
    """A vector environment breaks a rule; the message says which."""


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise VectorEnvError(message)


def check_vector_env(make: Callable[[AutoresetMode], VectorEnv], steps: int = 300, seed: int = 0) -> None:
    """Checks vector environments in all three autoreset modes, and raises a `VectorEnvError` at the first broken rule.

    `make` makes an environment of the mode it is given. Episodes must end now and then within `steps` random steps.

    >>> import phalanx
    >>> check_vector_env(lambda mode: phalanx.make_vec("CartPole-v1", 4, autoreset_mode=mode))
    """
    for mode in AutoresetMode:
        env = make(mode)
        try:
            _check_shape(env, mode)
            _check_reset(env, seed)
            _check_steps(env, mode, steps, seed)
            _check_determinism(make, mode, seed)
            if mode == AutoresetMode.DISABLED:
                _check_masks(env, steps, seed)
        finally:
            env.close()
        _check_closed(env)


def _check_shape(env: VectorEnv, mode: AutoresetMode) -> None:
    _require(isinstance(env, VectorEnv), "A: it is no gymnasium.vector.VectorEnv")
    for name in ("num_envs", "single_observation_space", "single_action_space", "observation_space", "action_space"):
        _require(hasattr(env, name), f"A1: the attribute {name} is missing")
    _require(
        env.observation_space == batch_space(env.single_observation_space, env.num_envs),
        "A1: observation_space is not the batch of single_observation_space",
    )
    _require(
        env.action_space == batch_space(env.single_action_space, env.num_envs),
        "A1: action_space is not the batch of single_action_space",
    )
    _require(isinstance(env.metadata.get("render_modes", []), list), "A3: metadata['render_modes'] is no list")
    found = env.metadata.get("autoreset_mode")
    _require(isinstance(found, AutoresetMode), "A3: metadata['autoreset_mode'] is no member of AutoresetMode")
    _require(found == mode, f"A3: metadata['autoreset_mode'] is {found}, but the environment was made for {mode}")
    copy.deepcopy(env.metadata)


def _check_reset(env: VectorEnv, seed: int) -> None:
    result = env.reset(seed=seed)
    _require(isinstance(result, tuple) and len(result) == 2, "B1: reset does not return (observations, info)")
    obs, info = result
    _check_observations(env, obs)
    _check_info(env, info)
    _require(env.np_random_seed == seed, "E3: np_random_seed is not the seed of the last reset")
    options = {"zzz": 1}
    env.reset(options=options)
    _require(options == {"zzz": 1}, "B7: reset has changed the caller's options")
    again, _ = env.reset(seed=seed)
    _require(np.array_equal(obs, again), "E1: the same seed gives other first observations")
    other, _ = env.reset(seed=seed + 1)
    _require(not np.array_equal(obs, other), "E1: another seed gives the same first observations")
    _require(
        env.num_envs == 1 or np.array_equal(obs[1:], other[:-1]),
        "E1: environment i with seed s + 1 does not begin like environment i + 1 with seed s",
    )


def _check_observations(env: VectorEnv, obs: Any) -> None:
    _require(isinstance(obs, np.ndarray), "B2: observations are no NumPy array")
    _require(obs.dtype == env.observation_space.dtype, f"B2: observations have dtype {obs.dtype}, not the space's")
    _require(obs.shape == env.observation_space.shape, f"B2: observations have shape {obs.shape}, not the space's")
    _require(obs.flags.c_contiguous, "B2: observations are not contiguous")
    _require(obs.flags.writeable, "H2: observations are not writable")
    _require(obs in env.observation_space, "B2: observations are outside of the space")


def _check_info(env: VectorEnv, info: Any) -> None:
    _require(isinstance(info, dict), "D1: info is no dictionary")
    for key, value in info.items():
        if key.startswith("_"):
            _require(key[1:] in info, f"D1: the mask {key} has no values")
            continue
        mask = info.get(f"_{key}")
        _require(
            isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (env.num_envs,),
            f"D1: {key} has no boolean mask _{key} of length num_envs",
        )
        if not isinstance(value, dict):
            _require(len(value) == env.num_envs, f"D2: {key} has {len(value)} values, not one for each environment")


def _check_steps(env: VectorEnv, mode: AutoresetMode, steps: int, seed: int) -> None:
    env.action_space.seed(seed)
    obs, info = env.reset(seed=seed)
    ended = np.zeros(env.num_envs, np.bool_)
    seen_end = False
    for _ in range(steps):
        if mode == AutoresetMode.DISABLED and ended.any():
            obs, info = env.reset(options={"reset_mask": ended.copy()})
            _check_info(env, info)
            ended[:] = False
        before = obs.copy()
        result = env.step(_sample(env, info))
        _require(isinstance(result, tuple) and len(result) == 5, "B2: step does not return five values")
        _require(np.array_equal(before, obs), "N1: a step has changed an array that was returned earlier")
        obs, rewards, terminations, truncations, info = result
        _check_observations(env, obs)
        _check_info(env, info)
        _require(rewards.shape == (env.num_envs,) and rewards.dtype.kind == "f", "B2: rewards are no reals, one for each")
        for name, flags in (("terminations", terminations), ("truncations", truncations)):
            _require(flags.shape == (env.num_envs,) and flags.dtype == np.bool_, f"B2: {name} are no bools, one for each")
        _require("episode" not in info, "D3: info['episode'] is there without being asked for")
        done = terminations | truncations
        if mode == AutoresetMode.NEXT_STEP:
            _require(not done[ended].any(), "C1: a call that begins an episode sets flags")
            _require(not rewards[ended].any(), "C1: a call that begins an episode pays a reward")
        _check_finals(env, mode, done, obs, info)
        seen_end |= bool(done.any())
        ended = done if mode != AutoresetMode.SAME_STEP else np.zeros_like(done)
    _require(seen_end, f"no episode has ended in {steps} steps: nothing was learnt of ends")


def _check_finals(env: VectorEnv, mode: AutoresetMode, done: Any, obs: Any, info: dict[str, Any]) -> None:
    if mode != AutoresetMode.SAME_STEP or not done.any():
        for key in ("final_obs", "final_info"):
            _require(key not in info, f"C2: {key} is there though no new episode has begun in this step")
        return
    finals: Any = info.get("final_obs")
    _require(isinstance(finals, np.ndarray) and finals.dtype == object, "C2: final_obs is no array of objects")
    _require(isinstance(info.get("final_info"), dict), "C2: final_info is no dictionary")
    _require(np.array_equal(info["_final_obs"], done), "C2: the mask of final_obs does not say where episodes ended")
    for env_number, final in enumerate(finals):
        if not done[env_number]:
            _require(final is None, "C2: final_obs has an observation where no episode ended")
            continue
        _require(np.shape(final) == env.single_observation_space.shape, "C2: a final observation has another shape")
        _require(not np.array_equal(final, obs[env_number]), "C2: the observation is the last one, not the new episode's")


def _check_determinism(make: Callable[[AutoresetMode], VectorEnv], mode: AutoresetMode, seed: int) -> None:
    first, second = make(mode), make(mode)
    try:
        infos = [env.reset(seed=seed)[1] for env in (first, second)]
        first.action_space.seed(seed)
        starts: list[bytes] = []
        ended = np.zeros(first.num_envs, np.bool_)
        for _ in range(200):
            if mode == AutoresetMode.DISABLED and ended.any():
                mask = ended.copy()
                one, two = (env.reset(options={"reset_mask": mask.copy()}) for env in (first, second))
                _require(np.array_equal(one[0], two[0]), "E2: equal seeds lead apart at a reset")
                infos = [one[1], two[1]]
                starts.extend(row.tobytes() for row in one[0][mask])
            actions = _sample(first, infos[0])
            a: tuple[Any, ...] = first.step(actions)
            b: tuple[Any, ...] = second.step(actions)
            for part, name in enumerate(("observations", "rewards", "terminations", "truncations")):
                _require(np.array_equal(a[part], b[part]), f"E2: equal seeds lead to other {name}")
            infos = [a[4], b[4]]
            done = a[2] | a[3]
            fresh = ended if mode == AutoresetMode.NEXT_STEP else done
            if mode != AutoresetMode.DISABLED:
                starts.extend(row.tobytes() for row in a[0][fresh])
            ended = done
        # Some environments have few first states, which come again by themselves.
        drawn = np.concatenate([first.reset(seed=seed + 1000 * i)[0] for i in range(20)])
        if len(np.unique(drawn.reshape(len(drawn), -1), axis=0)) == len(drawn):
            _require(len(set(starts)) == len(starts), "E2: an episode begins like an earlier one: the stream is replayed")
    finally:
        first.close()
        second.close()


def _check_masks(env: VectorEnv, steps: int, seed: int) -> None:
    obs, _ = env.reset(seed=seed)
    wrong: list[tuple[Any, type[Exception]]] = [
        ([True] * env.num_envs, TypeError),
        (np.ones(env.num_envs + 1, np.bool_), ValueError),
        (np.ones(env.num_envs, np.int8), TypeError),
        (np.zeros(env.num_envs, np.bool_), ValueError),
    ]
    for mask, error in wrong:
        try:
            env.reset(options={"reset_mask": mask})
        except error:
            continue
        except Exception as other:
            raise VectorEnvError(f"C3: a wrong reset mask raises {type(other).__name__}, not {error.__name__}") from other
        raise VectorEnvError(f"C3: a wrong reset mask is taken ({mask!r})")
    mask = np.zeros(env.num_envs, np.bool_)
    mask[0] = True
    options = {"reset_mask": mask}
    after, info = env.reset(options=options)
    _require("reset_mask" in options, "B7: reset has changed the caller's options")
    _require(np.array_equal(after[1:], obs[1:]), "C3: a partial reset has changed an environment outside of the mask")
    _require(not np.array_equal(after[0], obs[0]) or not obs[0].any(), "C3: a partial reset has not reset")
    for key, value in info.items():
        if key.startswith("_"):
            _require(not value[1:].any(), f"C3: the info {key} speaks of environments outside of the mask")
    obs, info = env.reset(seed=seed)
    for _ in range(steps):
        _, _, terminations, truncations, info = env.step(_sample(env, info))
        if (terminations | truncations).any():
            break
    try:
        env.step(_sample(env, info))
    except Exception:
        return
    raise VectorEnvError("C3: stepping an environment whose episode has ended does not raise")


def _check_closed(env: VectorEnv) -> None:
    env.close()
    _require(env.closed, "A4: closed is not set after close")
    try:
        env.step(env.action_space.sample())
    except Exception:
        return
    raise VectorEnvError("A4: stepping a closed environment does not raise")


def _sample(env: VectorEnv, info: dict[str, Any]) -> Any:
    """Random actions, legal ones where there are masks."""
    masks = info.get("action_mask")
    if masks is None:
        return env.action_space.sample()
    unwrapped = getattr(env.unwrapped, "action_masks", None)
    masks = unwrapped() if unwrapped is not None else masks
    return env.action_space.sample(mask=tuple(np.where(m.any(), m, 1).astype(np.int8) for m in masks))
