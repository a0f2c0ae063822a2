"""A checker for vector environments: what Gymnasium's rules demand, each demand with its own message.

Gymnasium has `check_env` for single environments and nothing for vector environments.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class VectorEnvError(AssertionError):
    """A vector environment breaks a rule; the message says which."""


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise VectorEnvError(message)


def check_vector_env(
    make: Callable[[AutoresetMode], VectorEnv],
    steps: int = 300,
    seed: int = 0,
    attribute: str | None = None,
    counter: str | None = None,
) -> None:
    """Checks vector environments in all three autoreset modes, and raises a `VectorEnvError` at the first broken rule.

    `make` makes an environment of the mode it is given. Episodes must end now and then within `steps` random steps.
    `attribute` is a number that each environment may have its own value of, such as a physical constant; `counter` is an
    attribute of the vector environment that counts the steps of all environments.

    Checked are: spaces, metadata, closing, attributes (A1, A3, A4, A6; of A5 that `unwrapped` is a vector environment);
    arguments, results, actions that are wrong, options, stepping before a reset (B1, B2, B4 to B8; of B3 that some
    episode is terminated or truncated alone); the modes, what begins an episode, partial resets (C1 to C3), and what
    `counter` counts (C6); infos and their masks, lengths of episodes (D1 to D4); seeds, streams, the space's own random
    numbers (E1, E2, E3, E5; of E4 that an environment does not depend on its place or its neighbours). Arrays must be
    writable and a step's own (H2, N1). First observations may be fixed; another seed must then show in what follows,
    unless nothing is drawn at all.

    Not checked, since no call from outside shows it or `make` has no say in it: type stubs (A7), a step with both flags
    set (B3), what clips (B5), the wrappers of others (C4: they look at the metadata of A3), last observations in one array
    and older layouts of infos (C5, D5: matters of Phalanx), other numbers of environments and threads (E4).

    >>> import phalanx
    >>> make = lambda mode: phalanx.make_vec("CartPole-v1", 4, autoreset_mode=mode)
    >>> check_vector_env(make, attribute="gravity", counter="num_steps")
    """
    if not callable(make):
        raise TypeError(f"make is a {type(make).__name__}, but must be a function from an autoreset mode")
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
            _check_steps(env, mode, steps, seed, counter)
            _check_other_seed(env, mode, seed)
            _check_determinism(make, mode, seed)
            if mode == AutoresetMode.DISABLED:
                _check_masks(env, steps, seed)
            _check_neighbours(make, mode, seed)
            if mode == AutoresetMode.NEXT_STEP:
                _check_idle_actions(make, seed)
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
    _require(isinstance(env.unwrapped, VectorEnv), "A5: unwrapped is no vector environment")


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
    _require(
        env.num_envs == 1 or np.array_equal(obs[1:], other[:-1]),
        "E1: environment i with seed s + 1 does not begin like environment i + 1 with seed s",
    )
    seeds = [seed + number for number in range(env.num_envs)]
    listed, _ = env.reset(seed=seeds)  # type: ignore[arg-type]
    _require(np.array_equal(obs, listed), "E1: the seeds s, s + 1, ... in a list give others than s")
    what = "E1: a list with a seed too many"
    _raises(ValueError, lambda: env.reset(seed=[*seeds, 0]), what)  # type: ignore[arg-type]
    _raises(Exception, lambda: env.reset(seed=-1), "E1: a negative seed")


def _check_other_seed(env: VectorEnv, mode: AutoresetMode, seed: int) -> None:
    """Another seed shows in the first observations, or in what follows where these are fixed."""
    ours = _trajectory(env, mode, seed)
    if ours != _trajectory(env, mode, seed + env.num_envs):
        return
    # Where nothing is drawn there is nothing to seed.
    obs, _ = env.reset(seed=seed)
    draws = not np.array_equal(obs, obs[:1].repeat(len(obs), 0)) or ours != _trajectory(env, mode, None)
    _require(not draws, "E1: another seed gives the same first observations, and the same steps after them")


def _trajectory(env: VectorEnv, mode: AutoresetMode, seed: int | None, steps: int = 20) -> list[bytes]:
    """Observations and rewards of random steps, with the same actions each time."""
    _seed_spaces(env, 0)
    obs, info = env.reset(seed=seed)
    seen = [obs.tobytes()]
    for _ in range(steps):
        obs, rewards, terminations, truncations, info = env.step(_sample(env, info))
        seen += [obs.tobytes(), rewards.tobytes()]
        done = terminations | truncations
        if mode == AutoresetMode.DISABLED and done.any():
            break
    return seen


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
        if isinstance(value, dict):
            _check_info(env, value)
        else:
            _require(len(value) == env.num_envs, f"D2: {key} has {len(value)} values, not one for each environment")


def _check_steps(env: VectorEnv, mode: AutoresetMode, steps: int, seed: int, counter: str | None) -> None:
    # With another seed than the reset's, so that a reset shows that seeds the space.
    _seed_spaces(env, seed + 1)
    drawn = _drawn_next(env)
    obs, info = env.reset(seed=seed)
    _require(_drawn_next(env) == drawn, "E5: a reset touches the random numbers of the action space")
    ended = np.zeros(env.num_envs, np.bool_)
    seen_end = seen_one = False
    counted = 0 if counter is None else getattr(env, counter)
    for _ in range(steps):
        if mode == AutoresetMode.DISABLED and ended.any():
            obs, info = env.reset(options={"reset_mask": ended.copy()})
            _check_info(env, info)
            ended[:] = False
        before, actions = obs.copy(), _sample(env, info)
        drawn = _drawn_next(env)
        result = env.step(actions)
        _require(_drawn_next(env) == drawn, "E5: a step touches the random numbers of the action space")
        _require(isinstance(result, tuple) and len(result) == 5, "B2: step does not return five values")
        _require(np.array_equal(before, obs), "N1: a step has changed an array that was returned earlier")
        obs, rewards, terminations, truncations, info = result
        _require("episode" not in info, "D3: info['episode'] is there without being asked for")
        _check_observations(env, obs)
        _check_info(env, info)
        _require(rewards.shape == (env.num_envs,) and rewards.dtype.kind == "f", "B2: rewards are no reals, one for each")
        for name, flags in (("terminations", terminations), ("truncations", truncations)):
            _require(flags.shape == (env.num_envs,) and flags.dtype == np.bool_, f"B2: {name} are no bools, one for each")
        done = terminations | truncations
        if mode == AutoresetMode.NEXT_STEP:
            _require(not done[ended].any(), "C1: a call that begins an episode sets flags")
            _require(not rewards[ended].any(), "C1: a call that begins an episode pays a reward")
        _check_finals(env, mode, done, info)
        seen_end |= bool(done.any())
        seen_one |= bool((terminations != truncations).any())
        if counter is not None:
            counted += env.num_envs - (int(ended.sum()) if mode == AutoresetMode.NEXT_STEP else 0)
            _require(getattr(env, counter) == counted, f"C6: {counter} is not the number of steps that were made")
        ended = done if mode != AutoresetMode.SAME_STEP else np.zeros_like(done)
    _require(seen_end, f"no episode has ended in {steps} steps: nothing was learnt of ends")
    _require(seen_one, "B3: every episode is both terminated and truncated, as if these were one thing")


def _check_finals(env: VectorEnv, mode: AutoresetMode, done: Any, info: dict[str, Any]) -> None:
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


def _check_determinism(make: Callable[[AutoresetMode], VectorEnv], mode: AutoresetMode, seed: int) -> None:
    first, second = make(mode), make(mode)
    try:
        infos = [env.reset(seed=seed)[1] for env in (first, second)]
        _seed_spaces(first, seed)
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


def _check_neighbours(make: Callable[[AutoresetMode], VectorEnv], mode: AutoresetMode, seed: int) -> None:
    """With a seed more, everybody does what the next one did: through ends, and whatever the one at the end does."""
    first, second = make(mode), make(mode)
    try:
        if first.num_envs == 1:
            return
        for number, env in enumerate((first, second)):
            _seed_spaces(env, seed + number)
        infos = [env.reset(seed=seed + number)[1] for number, env in enumerate((first, second))]
        for _ in range(200):
            actions, shifted = np.asarray(_sample(first, infos[0])), np.asarray(_sample(second, infos[1]))
            shifted[:-1] = actions[1:]
            a: tuple[Any, ...] = first.step(actions)
            b: tuple[Any, ...] = second.step(shifted)
            for part, name in enumerate(("observations", "rewards", "terminations", "truncations")):
                same = np.array_equal(a[part][1:], b[part][:-1])
                _require(same, f"E4: {name} of an environment depend on its place or on its neighbours")
            infos = [a[4], b[4]]
            for number, (env, result) in enumerate(((first, a), (second, b))):
                done = result[2] | result[3]
                if mode == AutoresetMode.DISABLED and done.any():
                    infos[number] = env.reset(options={"reset_mask": done})[1]
    finally:
        first.close()
        second.close()


def _check_idle_actions(make: Callable[[AutoresetMode], VectorEnv], seed: int) -> None:
    """A twin, which gets other actions where a call begins an episode, sees the same."""
    first, second = make(AutoresetMode.NEXT_STEP), make(AutoresetMode.NEXT_STEP)
    try:
        infos = [env.reset(seed=seed)[1] for env in (first, second)]
        for number, env in enumerate((first, second)):
            _seed_spaces(env, seed + number)
        ended = np.zeros(first.num_envs, np.bool_)
        for _ in range(200):
            actions, others = np.asarray(_sample(first, infos[0])), np.asarray(_sample(second, infos[1]))
            others[~ended] = actions[~ended]
            a: tuple[Any, ...] = first.step(actions)
            b: tuple[Any, ...] = second.step(others)
            same = all(np.array_equal(a[part], b[part]) for part in range(4))
            _require(same, "C1: a call that begins an episode does not ignore the action")
            infos, ended = [a[4], b[4]], a[2] | a[3]
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
    # One that always begins alike shows that it begins anew only after steps that have led elsewhere.
    is_fixed = np.array_equal(env.reset()[0][0], obs[0])
    obs = _elsewhere(env, steps, seed) if is_fixed else env.reset(seed=seed)[0]
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
            what = "C3: stepping an environment whose episode has ended"
            _raises(ResetNeeded, lambda: env.step(_sample(env, info)), what)
            break


def _elsewhere(env: VectorEnv, steps: int, seed: int) -> Any:
    """Observations of which the first is another than that of a beginning, unless that is not to be had."""
    begun, info = env.reset(seed=seed)
    obs = begun
    for _ in range(steps):
        obs, _, terminations, truncations, info = env.step(_sample(env, info))
        if (terminations | truncations).any():
            obs, info = env.reset()
        if not np.array_equal(obs[0], begun[0]):
            break
    return obs


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
        space = env.single_action_space
        is_real = isinstance(space, Box) and space.dtype.kind == "f"
        if not is_real and not isinstance(space, (Discrete, MultiDiscrete)):
            return
        rule = "B5" if is_real else "B4"
        info = env.reset(seed=seed)[1]
        twin.reset(seed=seed)
        good = np.asarray(_sample(env, info))
        place = env.num_envs - 1
        wrong = good.copy()
        if isinstance(space, (Discrete, MultiDiscrete)):
            wrong[place] = space.start + (space.n if isinstance(space, Discrete) else space.nvec)
            told = _raises((ValueError, IndexError), lambda: env.step(wrong), "B4: an action out of range")
            _require(str(place) in told, f"B4: the error does not tell the place {place} of the wrong action: {told}")
            _raises((TypeError, ValueError), lambda: env.step(good.astype(np.float64)), "B4: an action that is a float")
            forms = [good.astype(np.uint8), good.tolist(), np.repeat(good, 2, axis=0)[::2]]
        else:
            wrong[place] = np.nan
            _raises(ValueError, lambda: env.step(wrong), "B5: an action that is no number")
            forms = [good.astype(np.float32), good.astype(np.float64), good.tolist()]
        ours, theirs = env.step(good), twin.step(good)
        _require(np.array_equal(ours[0], theirs[0]), f"{rule}: an action that was refused has changed something")
        for form in forms:
            env.reset(seed=seed)
            # Reals of another type may be rounded in another way.
            near = 1e-5 if is_real else 0.0
            alike = np.allclose(env.step(form)[0], theirs[0], rtol=near, atol=near)
            _require(alike, f"{rule}: equal actions of another type differ")
    finally:
        env.close()
        twin.close()


def _check_lengths(make: Callable[[AutoresetMode], VectorEnv], seed: int) -> None:
    """Episodes have the same lengths in all modes, since a call that begins one is no step of it, and begin alike, with
    what a reset gives in DISABLED."""
    found = {}
    for mode in AutoresetMode:
        env = make(mode)
        try:
            found[mode] = _episodes(env, mode, seed)
        finally:
            env.close()
    lengths, starts = found[AutoresetMode.DISABLED]
    for mode, rule in ((AutoresetMode.NEXT_STEP, "C1"), (AutoresetMode.SAME_STEP, "C2")):
        for ours, theirs in zip(found[mode][0], lengths):
            both = min(len(ours), len(theirs))
            _require(ours[:both] == theirs[:both], f"D4: in {mode.value} episodes have other lengths than in Disabled")
        for begun, reset in zip(found[mode][1], starts):
            alike = all(np.array_equal(a, b) for a, b in zip(begun, reset))
            _require(alike, f"{rule}: in {mode.value} an episode begins with another observation than after a reset")


def _episodes(env: VectorEnv, mode: AutoresetMode, seed: int) -> tuple[list[list[int]], list[list[Any]]]:
    """Lengths and first observations of the first episodes of each environment, under actions that depend on its own
    steps only."""
    spaces = [copy.deepcopy(env.single_action_space) for _ in range(env.num_envs)]
    for number, space in enumerate(spaces):
        space.seed(seed + number)
    first, info = env.reset(seed=seed)
    masks = info.get("action_mask")
    lengths: list[list[int]] = [[] for _ in spaces]
    starts: list[list[Any]] = [[row.copy()] for row in first]
    steps, ended = np.zeros(env.num_envs, int), np.zeros(env.num_envs, np.bool_)
    idle = env.single_action_space.sample()
    for _ in range(300):
        if mode == AutoresetMode.DISABLED and ended.any():
            obs, info = env.reset(options={"reset_mask": ended.copy()})
            masks = None if masks is None else np.where(ended[:, None], info["action_mask"], masks)
            _keep(starts, obs, ended)
        begins = ended if mode == AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        actions = [
            idle if begins[number] else _choose(space, None if masks is None else masks[number])
            for number, space in enumerate(spaces)
        ]
        obs, _, terminations, truncations, info = env.step(np.stack(actions))
        masks = info.get("action_mask")
        steps += ~begins
        _keep(starts, obs, begins)
        ended = terminations | truncations
        if mode == AutoresetMode.SAME_STEP:
            _keep(starts, obs, ended)
        for number in np.flatnonzero(ended).tolist():
            lengths[number].append(int(steps[number]))
            steps[number] = 0
    return lengths, starts


def _keep(starts: list[list[Any]], obs: Any, where: Any) -> None:
    for number in np.flatnonzero(where).tolist():
        starts[number].append(obs[number].copy())


def _seed_spaces(env: VectorEnv, seed: int) -> None:
    env.action_space.seed(seed)
    env.single_action_space.seed(seed)


def _drawn_next(env: VectorEnv) -> bytes:
    """What the action space would draw next, without drawing it."""
    return pickle.dumps(copy.deepcopy(env.action_space).sample())


def _sample(env: VectorEnv, info: dict[str, Any]) -> Any:
    """Random actions, legal ones where there are masks."""
    masks = info.get("action_mask")
    if masks is None:
        return env.action_space.sample()
    unwrapped = getattr(env.unwrapped, "action_masks", None)
    masks = unwrapped() if unwrapped is not None else masks
    if isinstance(env.single_action_space, MultiDiscrete):
        return np.stack([_choose(env.single_action_space, mask) for mask in masks])
    return env.action_space.sample(mask=tuple(np.where(m.any(), m, 1).astype(np.int8) for m in masks))


def _choose(space: Any, mask: Any) -> Any:
    """A random action of one environment, a legal one where there is a mask."""
    if mask is None:
        return space.sample()
    flags = np.where(mask.any(), mask, 1).astype(np.int8)
    if isinstance(space, MultiDiscrete):
        return space.sample(mask=tuple(np.split(flags, np.cumsum(space.nvec)[:-1])))
    return space.sample(mask=flags)
