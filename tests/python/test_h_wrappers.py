"""H. Gymnasium's vector wrappers, unmodified, with the results they have over Gymnasium's own vector environment."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers
from helpers import MODES, actions_for, sync

import phalanx

WRAPPERS = {
    "RecordEpisodeStatistics": (wrappers.RecordEpisodeStatistics, "CartPole-v1", MODES[:2]),
    "NormalizeObservation": (wrappers.NormalizeObservation, "CartPole-v1", [AutoresetMode.NEXT_STEP]),
    "NormalizeReward": (wrappers.NormalizeReward, "CartPole-v1", [AutoresetMode.NEXT_STEP]),
    "ClipReward": (lambda env: wrappers.ClipReward(env, 0.0, 0.5), "CartPole-v1", MODES[:2]),
    "ClipAction": (wrappers.ClipAction, "Pendulum-v1", MODES[:2]),
    "RescaleAction": (lambda env: wrappers.RescaleAction(env, -1.0, 1.0), "Pendulum-v1", MODES[:2]),
    "RescaleObservation": (
        lambda env: wrappers.RescaleObservation(env, 0.0, 1.0), "Pendulum-v1", [AutoresetMode.NEXT_STEP]
    ),
    "TransformReward": (lambda env: wrappers.TransformReward(env, lambda r: 2 * r), "CartPole-v1", MODES[:2]),
    "TransformAction": (lambda env: wrappers.TransformAction(env, lambda a: 1 - a), "CartPole-v1", MODES[:2]),
    "TransformObservation": (
        lambda env: wrappers.TransformObservation(env, lambda obs: obs * 2), "CartPole-v1", [AutoresetMode.NEXT_STEP]
    ),
    "FlattenObservation": (wrappers.FlattenObservation, "CartPole-v1", [AutoresetMode.NEXT_STEP]),
    "DtypeObservation": (
        lambda env: wrappers.DtypeObservation(env, np.float64), "CartPole-v1", [AutoresetMode.NEXT_STEP]
    ),
    "DictInfoToList": (wrappers.DictInfoToList, "CartPole-v1", MODES[:2]),
}

MATRIX = [(name, mode) for name, (_, _, modes) in WRAPPERS.items() for mode in modes]


@pytest.mark.parametrize(("name", "mode"), MATRIX)
def test_h1_results_are_those_over_sync_vector_env(name, mode, rng):
    wrap, env_id, _ = WRAPPERS[name]
    limit = {"max_episode_steps": 30}
    ours = wrap(phalanx.make_vec(env_id, 3, autoreset_mode=mode, **limit))
    theirs = wrap(sync(env_id, 3, mode, **limit))
    np.testing.assert_allclose(ours.reset(seed=0)[0], theirs.reset(seed=0)[0], rtol=1e-6)
    for _ in range(200):
        actions = actions_for(ours, rng)
        a, b = ours.step(actions), theirs.step(actions)
        for part in range(4):
            np.testing.assert_allclose(a[part], b[part], rtol=1e-6, atol=1e-6)
        assert type(a[4]) is type(b[4]) and len(a[4]) == len(b[4])


def test_h2_wrappers_may_write_into_what_was_returned(rng):
    plain = phalanx.make_vec("CartPole-v1", 3)
    copied = phalanx.make_vec("CartPole-v1", 3)
    view = phalanx.make_vec("CartPole-v1", 3, copy=False)
    plain.reset(seed=0), copied.reset(seed=0), view.reset(seed=0)
    for _ in range(100):
        actions = rng.integers(2, size=3)
        expected = plain.step(actions)[0]
        for env in (copied, view):
            obs, rewards, terminations, truncations, _ = env.step(actions)
            assert np.array_equal(obs, expected)
            for array in (obs, rewards, terminations, truncations):
                array[:] = 1


def test_h2_vectorize_transform_observation(rng):
    from gymnasium.wrappers import TransformObservation

    plain = phalanx.make_vec("CartPole-v1", 3)
    space = plain.single_observation_space
    wrapped = wrappers.VectorizeTransformObservation(
        phalanx.make_vec("CartPole-v1", 3), TransformObservation, func=lambda obs: -obs, observation_space=space
    )
    assert np.array_equal(wrapped.reset(seed=0)[0], -plain.reset(seed=0)[0])
    for _ in range(100):
        actions = rng.integers(2, size=3)
        assert np.array_equal(wrapped.step(actions)[0], -plain.step(actions)[0])


@pytest.mark.parametrize("env_id", phalanx.env_ids())
def test_h3_render_returns_a_sequence_of_frames(env_id):
    env = phalanx.make_vec(env_id, 2, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert isinstance(frames, tuple) and len(frames) == 2
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 for frame in frames)
    assert env.call("render")[0].shape == frames[0].shape


def test_h3_no_pictures_without_a_render_mode():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="render_mode"):
        env.render()
    with pytest.raises(ValueError, match="human"):
        phalanx.make_vec("CartPole-v1", 2, render_mode="human")


def test_record_video(tmp_path):
    pytest.importorskip("moviepy")
    env = phalanx.make_vec("CartPole-v1", 2, render_mode="rgb_array")
    env = wrappers.RecordVideo(env, str(tmp_path), video_length=5, episode_trigger=lambda episode: episode == 0)
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.zeros(2, int))
    env.close()
    assert list(tmp_path.glob("*.mp4"))


def test_human_rendering():
    pytest.importorskip("pygame")
    env = wrappers.HumanRendering(phalanx.make_vec("CartPole-v1", 2, render_mode="rgb_array"))
    assert env.render_mode == "human"
