"""M. Recorded episodes as Minari datasets."""

import warnings

import gymnasium
import numpy as np
import pytest

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

import phalanx  # noqa: E402
from phalanx.minari import EpisodeRecorder, episodes_of, export, record  # noqa: E402


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def lean(observations):
    """A policy of the pole's angle alone."""
    return (observations[:, 2] > 0).astype(int)


def equal(ours, theirs):
    return all(
        np.array_equal(getattr(ours, field), getattr(theirs, field))
        for field in ("observations", "actions", "rewards", "terminations", "truncations")
    )


def test_m1_both_modes_give_the_same_episodes():
    recorded = {}
    for mode in ("NextStep", "SameStep"):
        env = phalanx.make_vec("CartPole-v1", 3, autoreset_mode=mode, max_episode_steps=30)
        episodes = record(env, lean, 400, seed=4)
        recorded[mode] = sorted(episodes, key=lambda episode: episode.observations[0].tobytes())
        for episode in episodes:
            steps = len(episode.rewards)
            assert len(episode.observations) == steps + 1 and len(episode.actions) == steps
            assert (episode.terminations[-1] or episode.truncations[-1]) and not any(episode.terminations[:-1])
    common = {episode.observations[0].tobytes() for episode in recorded["NextStep"]}
    pairs = [episode for episode in recorded["SameStep"] if episode.observations[0].tobytes() in common]
    assert len(pairs) == len(recorded["NextStep"]) > 20
    assert all(equal(a, b) for a, b in zip(recorded["NextStep"], pairs))


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_m2_m4_a_dataset_comes_back_as_it_was(data_format):
    if data_format == "arrow":
        pytest.importorskip("pyarrow")
    result = phalanx.rollout("CartPole-v1", 200, num_envs=4, record=True, seed=2)
    episodes = episodes_of(result)
    assert len(episodes) == result.episodes > 20
    export("phalanx/cartpole-random-v0", "CartPole-v1", episodes, data_format=data_format, author="nobody")
    dataset = minari.load_dataset("phalanx/cartpole-random-v0")
    assert dataset.total_episodes == len(episodes)
    for ours, theirs in zip(episodes, dataset.iterate_episodes()):
        assert equal(ours, theirs) and theirs.observations.dtype == np.float32
    env = dataset.recover_environment()
    assert env.spec.id == "phalanx/CartPole-v1" and isinstance(env.unwrapped, phalanx.PhalanxEnv)
    score = minari.get_normalized_score(dataset, np.array([sum(e.rewards) for e in episodes])).mean()
    assert abs(score) < 0.02


def test_m3_grids_are_stored_without_loss(rng):
    from gymnasium.spaces import Box, Discrete
    from minari.data_collector import EpisodeBuffer

    grids = rng.integers(0, 256, (4, 64, 64, 3)).astype(np.uint8)
    buffer = [
        EpisodeBuffer(
            id=0,
            observations=grids,
            actions=np.zeros(3, np.int64),
            rewards=[0.0] * 3,
            terminations=[False, False, True],
            truncations=[False] * 3,
        )
    ]
    dataset = export(
        "phalanx/grid-random-v0", "CartPole-v1", buffer,
        observation_space=Box(0, 255, (64, 64, 3), np.uint8), action_space=Discrete(2),
    )
    assert np.array_equal(next(iter(dataset.iterate_episodes())).observations, grids)


def test_statistics_alone_cannot_be_exported():
    with pytest.raises(ValueError, match="record=True"):
        episodes_of(phalanx.rollout("CartPole-v1", 10))
    recorder = EpisodeRecorder(2, "SameStep")
    assert recorder.finished == []


def test_m4_the_environment_is_the_one_that_was_recorded():
    kwargs = {"gravity": 3.0, "max_episode_steps": 25}
    result = phalanx.rollout("CartPole-v1", 100, num_envs=2, record=True, **kwargs)
    for number, name in enumerate(("CartPole-v1", "phalanx/CartPole-v1", "cartpole")):
        dataset = export(f"phalanx/light-random-v{number}", name, result, env_kwargs=kwargs)
        env = dataset.recover_environment()
        assert env.spec.id == "phalanx/CartPole-v1" and env.spec.max_episode_steps == 25
        assert env.unwrapped.get_param("gravity").item() == 3.0


def test_modes_that_cannot_be_recorded():
    with pytest.raises(ValueError, match="Disabled"):
        EpisodeRecorder(2, "Disabled")
    with pytest.raises(ValueError, match="final_obs_dense"):
        record(phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep", final_obs_dense=True), lean, 10)
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep", final_obs_dense=True)
    recorder = EpisodeRecorder(2, "SameStep")
    recorder.reset(env.reset(seed=0)[0])
    with pytest.raises(ValueError, match="final_obs_dense"):
        for _ in range(100):
            actions = np.ones(2, int)
            recorder.step(actions, *env.step(actions))


def test_what_cannot_be_exported_leaves_nothing_behind():
    recorded = phalanx.rollout("CartPole-v1", 100, num_envs=2, record=True)
    refusals = [
        ("phalanx/c-random", "CartPole-v1", recorded, {}, ValueError),
        ("phalanx/refused-random-v0", "CartPole-v1", None, {}, TypeError),
        ("phalanx/refused-random-v0", "CartPole-v1", [], {}, ValueError),
        ("phalanx/refused-random-v0", "Acrobot-v1", recorded, {}, ValueError),
        ("phalanx/refused-random-v0", "CartPole-v1", recorded, {"data_format": "none"}, ValueError),
    ]
    for name, env, episodes, keywords, kind in refusals:
        with pytest.raises(kind):
            export(name, env, episodes, **keywords)
        assert name not in minari.list_local_datasets()
    export("phalanx/refused-random-v0", "CartPole-v1", recorded)
    minari.delete_dataset("phalanx/refused-random-v0")


def test_a_recorder_wants_a_beginning_and_all_actions():
    recorder = EpisodeRecorder(2, "NextStep")
    step = ([0.0, 0.0], [1.0, 1.0], [False, False], [False, False], {})
    with pytest.raises(RuntimeError, match="call reset first"):
        recorder.step([0, 1], *step)
    recorder.reset([0.0, 0.0], seed=3)
    with pytest.raises(ValueError, match="1 actions, but 2 environments"):
        recorder.step([0], *step)
    recorder.step([0, 1], *step)


def test_an_environment_of_another_namespace_is_exported():
    """As those of a user's own crate are; nothing is left open."""
    gymnasium.register(
        id="elsewhere/Pole-v0",
        entry_point="phalanx.single:PhalanxEnv",
        vector_entry_point="phalanx.vector:PhalanxVectorEnv",
        max_episode_steps=40,
        reward_threshold=30.0,
        kwargs={"env_id": "CartPole-v1"},
    )
    closed, close = [], phalanx.PhalanxEnv.close
    try:
        phalanx.PhalanxEnv.close = lambda env: closed.append(env) or close(env)
        recorded = phalanx.rollout("CartPole-v1", 100, num_envs=2, record=True, max_episode_steps=40)
        dataset = export("elsewhere/pole-random-v0", "elsewhere/Pole-v0", recorded)
    finally:
        phalanx.PhalanxEnv.close = close
        del gymnasium.registry["elsewhere/Pole-v0"]
    scores = dataset.storage.metadata
    assert dataset.env_spec.id == "elsewhere/Pole-v0" and 15 < scores["ref_min_score"] < scores["ref_max_score"] == 30
    assert len(closed) == 1


def test_m4_scores():
    """Minari stores both scores or none: none without a threshold from which a task is solved."""
    recorded = phalanx.rollout("Pendulum-v1", 200, num_envs=2, record=True)
    metadata = export("phalanx/pendulum-random-v0", "Pendulum-v1", recorded).storage.metadata
    assert metadata["dataset_id"] == "phalanx/pendulum-random-v0"
    assert not {"ref_min_score", "ref_max_score"} & set(metadata)
    given = export("phalanx/pendulum-random-v1", "Pendulum-v1", recorded, ref_min_score=-1.0, ref_max_score=0.0)
    assert (given.storage.metadata["ref_min_score"], given.storage.metadata["ref_max_score"]) == (-1.0, 0.0)


@pytest.mark.parametrize("name", ["pole-expert-v0", "pole/medium-v2", "pole_mixed-v0", "pole-on-mars-random-v0"])
def test_m4_ids_tell_the_quality(name):
    recorded = phalanx.rollout("CartPole-v1", 100, num_envs=2, record=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*quality")
        export(name, "CartPole-v1", recorded, ref_min_score=0.0)


@pytest.mark.parametrize("name", ["phalanx/pole-v0", "phalanx/pole-randomised-v0"])
def test_m4_ids_without_a_quality_are_warned_of(name):
    recorded = phalanx.rollout("CartPole-v1", 100, num_envs=2, record=True)
    with pytest.warns(UserWarning, match=f"'{name}' tells no quality, .* one of expert, medium, mixed, random"):
        export(name, "CartPole-v1", recorded, ref_min_score=0.0)
    assert name in minari.list_local_datasets()
