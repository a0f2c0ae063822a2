"""A checker for vector environments: what Gymnasium's rules demand, each demand with its own message.

Gymnasium has `check_env` for single environments and nothing for vector environments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class VectorEnvError(AssertionError):
    """A vector environment breaks a rule; the message says which."""


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise VectorEnvError(message)


def check_vector_env(
    make: Callable[[AutoresetMode], VectorEnv], steps: int = 300, seed: int = 0, attribute: str | None = None
) -> None:
    """Checks vector environments in all three autoreset modes, and raises a `VectorEnvError` at the first broken rule.

    `make` makes an environment of the mode it is given. Episodes must end now and then within `steps` random steps.
    `attribute` is a number that each environment may have its own value of, such as a physical constant.

    >>> import phalanx
    >>> check_vector_env(lambda mode: phalanx.make_vec("CartPole-v1", 4, autoreset_mode=mode), attribute="gravity")
    """
    for mode in AutoresetMode:
        env = make(mode)
        try:
            _check_shape(env, mode)
            _raises(ResetNeeded, lambda: env.step(env.action_space.sample()), "B8: stepping before the first reset")
            _check_attributes(env)
            if attribute is not None:
                _check_set_attr(env, attribute)
            _check_reset(env, seed)
            _check_actions(make, mode, seed)
            _check_steps(env, mode, steps, seed)
            _check_determinism(make, mode, seed)
            if mode == AutoresetMode.DISABLED:
                _check_masks(env, steps, seed)
        finally:
            env.close()
        _check_closed(env)
    _check_lengths(make, seed)


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
    _raises(ResetNeeded, lambda: env.step(_sample(env, info)), "C3: stepping an environment whose episode has ended")


def _check_closed(env: VectorEnv) -> None:
    env.close()
    _require(env.closed, "A4: closed is not set after close")
    for name, call in (("stepping", lambda: env.step(env.action_space.sample())), ("resetting", env.reset)):
        _raises(ClosedEnvironmentError, call, f"A4: {name} a closed environment")


def _raises(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], what: str) -> str:
    """What a call says that must raise an exception of a kind."""
    names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
    try:
        call()
    except kind as error:
        return str(error)
    except Exception as other:
        raise VectorEnvError(f"{what} raises {type(other).__name__}, not {names}") from other
    raise VectorEnvError(f"{what} does not raise {names}")


def _check_attributes(env: VectorEnv) -> None:
    found = env.get_attr("render_mode") if hasattr(env, "get_attr") else None
    _require(isinstance(found, tuple) and len(found) == env.num_envs, "A6: get_attr gives no tuple, one for each")
    called = env.call("render_mode") if hasattr(env, "call") else None
    _require(called == found, "A6: call of an attribute does not give what get_attr gives")


def _check_set_attr(env: VectorEnv, name: str) -> None:
    before = env.get_attr(name)  # type: ignore[attr-defined]
    values = [value * (1 + number / 8) for number, value in enumerate(before)]
    env.set_attr(name, values)  # type: ignore[attr-defined]
    found = env.get_attr(name)  # type: ignore[attr-defined]
    _require(np.allclose(found, values), f"A6: set_attr of {name} does not set one value for each environment")
    for wrong in (values[1:], [*values, values[0]]):
        what = f"A6: set_attr of {len(wrong)} values of {name}"
        _raises(ValueError, lambda: env.set_attr(name, wrong), what)  # type: ignore[attr-defined]
    env.set_attr(name, before[0])  # type: ignore[attr-defined]
    found = env.get_attr(name)  # type: ignore[attr-defined]
    _require(np.allclose(found, before[0]), f"A6: set_attr of {name} does not take one value for all")
    env.set_attr(name, list(before))  # type: ignore[attr-defined]


def _check_actions(make: Callable[[AutoresetMode], VectorEnv], mode: AutoresetMode, seed: int) -> None:
    """Wrong actions are told and change nothing: the next step is that of a twin, which never saw them."""
    env, twin = make(mode), make(mode)
    try:
        if not isinstance(env.single_action_space, Discrete):
            return
        info = env.reset(seed=seed)[1]
        twin.reset(seed=seed)
        good = np.asarray(_sample(env, info))
        place = env.num_envs - 1
        beyond = good.copy()
        beyond[place] = env.single_action_space.start + env.single_action_space.n
        told = _raises((ValueError, IndexError), lambda: env.step(beyond), "B4: an action out of range")
        _require(str(place) in told, f"B4: the error does not tell the place {place} of the wrong action: {told}")
        _raises((TypeError, ValueError), lambda: env.step(good.astype(np.float64)), "B4: an action that is a float")
        ours, theirs = env.step(good), twin.step(good)
        _require(np.array_equal(ours[0], theirs[0]), "B4: an action that was refused has changed something")
        for form in (good.astype(np.uint8), good.tolist(), np.repeat(good, 2)[::2]):
            env.reset(seed=seed)
            _require(np.array_equal(env.step(form)[0], theirs[0]), "B4: equal actions of another type differ")
    finally:
        env.close()
        twin.close()


def _check_lengths(make: Callable[[AutoresetMode], VectorEnv], seed: int) -> None:
    """Episodes have the same lengths in all modes: a call that begins one is no step of it."""
    known: list[list[int]] | None = None
    for mode in AutoresetMode:
        env = make(mode)
        try:
            lengths = _episode_lengths(env, mode, seed)
        finally:
            env.close()
        for ours, theirs in zip(lengths, known or lengths):
            both = min(len(ours), len(theirs))
            _require(ours[:both] == theirs[:both], f"D4: in {mode.value} episodes have other lengths than in NextStep")
        known = known or lengths


def _episode_lengths(env: VectorEnv, mode: AutoresetMode, seed: int) -> list[list[int]]:
    """Those of the first episodes of each environment, under actions that depend on its own steps only."""
    spaces = [copy.deepcopy(env.single_action_space) for _ in range(env.num_envs)]
    for number, space in enumerate(spaces):
        space.seed(seed + number)
    _, info = env.reset(seed=seed)
    lengths: list[list[int]] = [[] for _ in spaces]
    steps, ended = np.zeros(env.num_envs, int), np.zeros(env.num_envs, np.bool_)
    idle = env.single_action_space.sample()
    for _ in range(0 if "action_mask" in info else 300):
        if mode == AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended.copy()})
        begins = ended if mode == AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        actions = [idle if begin else space.sample() for begin, space in zip(begins, spaces)]
        _, _, terminations, truncations, _ = env.step(np.stack(actions))
        steps += ~begins
        ended = terminations | truncations
        for number in np.flatnonzero(ended).tolist():
            lengths[number].append(int(steps[number]))
            steps[number] = 0
    return lengths


def _sample(env: VectorEnv, info: dict[str, Any]) -> Any:
    """Random actions, legal ones where there are masks."""
    masks = info.get("action_mask")
    if masks is None:
        return env.action_space.sample()
    unwrapped = getattr(env.unwrapped, "action_masks", None)
    masks = unwrapped() if unwrapped is not None else masks
    return env.action_space.sample(mask=tuple(np.where(m.any(), m, 1).astype(np.int8) for m in masks))
