"""Recorded episodes as Minari datasets. Importing this module imports Minari."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from phalanx.infos import check_sparse
from phalanx.native import Spec
from phalanx.rollout import RolloutResult, rollout
from phalanx.settings import demand, missing, own_name, to_mode
from phalanx.vector import PhalanxVectorEnv

try:
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.storage.datasets_root_dir import get_dataset_path
except ModuleNotFoundError as error:
    raise missing("phalanx.minari", "Minari", "minari", error) from error


#: What Minari calls the policies that data may come from. Other words are no fault, but nobody can sort by them.
QUALITIES = {"expert", "medium", "mixed", "random"}


class EpisodeRecorder:
    """Cuts the stream of a vector environment into episodes, each with one observation more than actions.

    Call `reset` with the first observations, and with the seed if there is one, and `step` with the actions and what the
    environment's step returned. Episodes must begin by themselves, in the next step or in the same one.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        self.mode = to_mode(autoreset_mode)
        if self.mode == AutoresetMode.DISABLED:
            raise ValueError("autoreset_mode is Disabled, but must be NextStep or SameStep to record episodes")
        self.finished: list[EpisodeBuffer] = []
        self._open: list[EpisodeBuffer] = [EpisodeBuffer(observations=[], actions=[]) for _ in range(num_envs)]

    def reset(self, observations: Any, seed: int | None = None) -> None:
        for env, observation in enumerate(observations):
            self._begin(env, observation, None if seed is None else seed + env)

    def _begin(self, env: int, observation: Any, seed: int | None = None) -> None:
        self._open[env] = EpisodeBuffer(seed=seed, observations=[np.array(observation)], actions=[])

    def step(
        self, actions: Any, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: dict[str, Any]
    ) -> None:
        if "final_obs_dense" in infos:
            raise ValueError("recording needs info['final_obs'], which an environment with final_obs_dense=True has not")
        if not all(episode.observations for episode in self._open):
            raise RuntimeError("no episode has begun: call reset first")
        if len(actions) != len(self._open):
            raise ValueError(f"there are {len(actions)} actions, but {len(self._open)} environments")
        for env, episode in enumerate(self._open):
            if episode.terminations and (episode.terminations[-1] or episode.truncations[-1]):
                # This call began an episode and made no step.
                self._begin(env, observations[env])
                continue
            done = bool(terminations[env] or truncations[env])
            last = infos["final_obs"][env] if done and self.mode == AutoresetMode.SAME_STEP else observations[env]
            episode.observations.append(np.array(last))
            episode.actions.append(np.array(actions[env]))
            episode.rewards.append(float(rewards[env]))
            episode.terminations.append(bool(terminations[env]))
            episode.truncations.append(bool(truncations[env]))
            if done:
                self.finished.append(_packed(episode, len(self.finished)))
                if self.mode == AutoresetMode.SAME_STEP:
                    self._begin(env, observations[env])


def _packed(episode: EpisodeBuffer, number: int) -> EpisodeBuffer:
    """The episode with its number."""
    return EpisodeBuffer(
        id=number,
        seed=episode.seed,
        observations=np.stack(episode.observations),
        actions=np.stack(episode.actions),
        rewards=list(episode.rewards),
        terminations=list(episode.terminations),
        truncations=list(episode.truncations),
    )


def episodes_of(result: RolloutResult) -> list[EpisodeBuffer]:
    """The finished episodes of a recorded roll-out, environment by environment."""
    if result.observations is None or result.final_places is None or result.final_observations is None:
        raise ValueError("the roll-out has no arrays: make it with record=True")
    assert result.actions is not None and result.rewards is not None
    assert result.terminations is not None and result.truncations is not None
    last = {(int(step), int(env)): row for (step, env), row in zip(result.final_places, result.final_observations)}
    episodes: list[EpisodeBuffer] = []
    done = result.terminations | result.truncations
    for env in range(result.num_envs):
        start = 0
        for step in np.flatnonzero(done[:, env]).tolist():
            span = slice(start, step + 1)
            observations = np.concatenate([result.observations[span, env], last[step, env][None]])
            episodes.append(
                EpisodeBuffer(
                    id=len(episodes),
                    observations=observations,
                    actions=result.actions[span, env],
                    rewards=result.rewards[span, env].astype(float).tolist(),
                    terminations=result.terminations[span, env].tolist(),
                    truncations=result.truncations[span, env].tolist(),
                )
            )
            start = step + 1
    return episodes


def export(
    dataset_id: str,
    env_id: str,
    episodes: list[EpisodeBuffer] | RolloutResult,
    *,
    ref_min_score: float | None = None,
    ref_max_score: float | None = None,
    data_format: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Any:
    """Writes episodes as a Minari dataset, losslessly, with the environment in it.

    `env_id` is any name of the environment, or of one of your own crate as Gymnasium knows it (`namespace/Name-v0`);
    `env_kwargs` are the keywords that it was made with.

    `dataset_id` tells the quality (`expert`, `medium`, `mixed` or `random`; without one there is a warning) and ends
    in a version, such as `phalanx/cartpole-random-v0`. Without `ref_min_score` the mean return of a random policy is
    taken, so that a random policy's normalised score is near 0; without `ref_max_score` the threshold from which the task counts as solved. If
    it has none, Minari stores neither.

    >>> recorded = rollout("CartPole-v1", 100, num_envs=2, record=True)
    >>> dataset = export("phalanx/cartpole-random-v0", "CartPole-v1", recorded)
    >>> dataset.total_episodes == recorded.episodes
    True
    """
    demand("dataset_id", dataset_id, str, "a name such as 'phalanx/cartpole-random-v0'")
    demand("env_id", env_id, str, "the name of an environment, such as 'CartPole-v1'")
    if not re.search(r"-v\d+$", dataset_id):
        raise ValueError(f"the dataset id is {dataset_id!r}, but must end in a version, such as -v0")
    if not QUALITIES & set(re.split(r"[/_-]", dataset_id)):
        known = ", ".join(sorted(QUALITIES))
        warnings.warn(f"the dataset id {dataset_id!r} tells no quality, which should be one of {known}", stacklevel=2)
    if isinstance(episodes, RolloutResult):
        episodes = episodes_of(episodes)
    if not isinstance(episodes, list) or not all(isinstance(episode, EpisodeBuffer) for episode in episodes):
        raise TypeError("episodes must be a recorded roll-out or a list of EpisodeBuffer")
    if not episodes:
        raise ValueError("there is no finished episode to export")
    is_foreign = "/" in env_id and own_name(env_id) == env_id
    name = env_id if is_foreign else f"phalanx/{Spec.of(own_name(env_id)).id}"
    env_kwargs = dict(env_kwargs or {})
    with closing(gymnasium.make(name, **env_kwargs)) as env:
        _check_shapes(episodes, metadata.get("observation_space", env.observation_space), name)
        if ref_min_score is None:
            ref_min_score = _random_score(name, env_kwargs)
        if ref_max_score is None and env.spec is not None:
            ref_max_score = env.spec.reward_threshold
        return _written(
            dataset_id,
            buffer=episodes,
            env=env,
            ref_min_score=ref_min_score,
            ref_max_score=ref_max_score,
            data_format=data_format,
            **{"algorithm_name": "unknown", "code_permalink": "", "author": "", "author_email": "", **metadata},
        )


def _check_shapes(episodes: list[EpisodeBuffer], space: gymnasium.Space[Any], name: str) -> None:
    for episode in episodes:
        found = np.shape(episode.observations[0])
        if space.shape is not None and found != space.shape:
            raise ValueError(f"the observations have shape {found}, but those of {name} have {space.shape}")


def _random_score(name: str, env_kwargs: dict[str, Any]) -> float | None:
    """The mean return of a random policy."""
    with closing(gymnasium.make_vec(name, num_envs=64, autoreset_mode="SameStep", **env_kwargs)) as envs:
        envs.reset(seed=0)
        # Which roll-outs take, or refuse: Gymnasium promises any vector environment.
        inner: Any = envs.unwrapped
        return rollout(inner, 2_000).return_mean


def _written(dataset_id: str, **contents: Any) -> Any:
    """Writes a dataset, or nothing."""
    path = Path(get_dataset_path(dataset_id))
    is_new = not path.exists()
    try:
        return minari.create_dataset_from_buffers(dataset_id=dataset_id, jpeg_encoding=False, **contents)
    except BaseException:
        # Minari makes the folder first, which would be in the way of another try.
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        raise


def record(env: PhalanxVectorEnv, policy: Any, steps: int, seed: int = 0) -> list[EpisodeBuffer]:
    """The episodes that a Python function from observations to actions makes in `steps` calls."""
    check_sparse(env, "recording")
    recorder = EpisodeRecorder(env.num_envs, env.metadata["autoreset_mode"])
    observations, _ = env.reset(seed=seed)
    recorder.reset(observations, seed)
    for _ in range(steps):
        actions = policy(observations)
        observations, rewards, terminations, truncations, infos = env.step(actions)
        recorder.step(actions, observations, rewards, terminations, truncations, infos)
    return recorder.finished
