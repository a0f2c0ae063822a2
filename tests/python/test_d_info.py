"""D. info."""

import time

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from helpers import MODES, actions_for, legal_actions, same, sync

import phalanx
from phalanx.safety import SafetyVectorEnv
from phalanx.wrappers import LegacyFinalInfo, StateInfo

REACTOR = {"safety": "monitor", "max_episode_steps": 9}
# Masks of which some flags are not set, so that a mask of nothing or of everything shows.
ARC = {"operations": "raw", "invalid_operation": "penalize", "max_episode_steps": 9}

#: Environments that emit integers, bools, reals and rows, nested where an episode ends.
EMITTING = pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("TicTacToe-v0", {}),
        ("TicTacToe-v0", {"opponent": "self_play"}),
        ("ChemicalReactor-v0", REACTOR),
        ("ARC-v0", ARC),
    ],
    ids=["tic-tac-toe", "self-play", "reactor", "arc"],
)
#: What a beginning has, too. All else belongs to a transition, and Gymnasium's reset has nothing of it.
OF_STATES = {"action_mask", "to_move"}


def test_d1_infos_are_those_of_sync_vector_env(rng):
    """The reactor emits numbers and bools, in NEXT_STEP exactly as Gymnasium would put them together."""
    ours = phalanx.make_vec("ChemicalReactor-v0", 4, **REACTOR)
    theirs = sync("ChemicalReactor-v0", 4, AutoresetMode.NEXT_STEP, **REACTOR)
    assert same(ours.reset(seed=0)[1], theirs.reset(seed=0)[1])
    for _ in range(60):
        actions = rng.uniform(-1, 1, (4, *ours.single_action_space.shape)).astype(np.float32)
        a, b = ours.step(actions), theirs.step(actions)
        assert same(a[4], b[4])


def random_actions(env, rng):
    return actions_for(env, rng) if env.single_action_space.shape else legal_actions(env.unwrapped.action_masks(), rng)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@EMITTING
def test_d1_infos_with_ends_are_those_of_sync_vector_env(env_id, kwargs, mode, rng):
    """Tic-tac-toe emits arrays and integers, the reactor costs. Where an episode has ended in SAME_STEP, Gymnasium has
    the reset's info at the top; we keep what belongs to the transition there, too."""
    ours = phalanx.make_vec(env_id, 4, autoreset_mode=mode, **kwargs)
    theirs = sync(env_id, 4, mode, **kwargs)
    assert same(ours.reset(seed=0)[1], theirs.reset(seed=0)[1])
    ends = 0
    for _ in range(200):
        actions = random_actions(ours, rng)
        a, b = ours.step(actions), theirs.step(actions)
        assert all(np.array_equal(a[part], b[part]) for part in range(4))
        if "final_info" not in b[4]:
            assert same(a[4], b[4])
            continue
        ends += 1
        for key in ("final_obs", "_final_obs", "final_info", "_final_info"):
            assert same(a[4][key], b[4][key]), key
        for key in (mask + name for name in OF_STATES for mask in ("", "_")):
            assert (key in a[4]) == (key in b[4])
            if key in a[4]:
                assert same(a[4][key], b[4][key]), key
        for key in ("cost", "violation", "rewards_all"):
            if key in a[4]:
                done = a[2] | a[3]
                assert np.array_equal(a[4][key][done], a[4]["final_info"][key][done]) and a[4][f"_{key}"].all()
    assert (ends > 5) == (mode == AutoresetMode.SAME_STEP)


def same_rows(ours, theirs):
    """Equality of a row of `DictInfoToList`, with the types of what is in it."""
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same_rows(ours[key], theirs[key]) for key in theirs)
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


@pytest.mark.parametrize("mode", MODES)
@EMITTING
def test_d2_dict_info_to_list(env_id, kwargs, mode, rng):
    """The whole row of each environment is the one over Gymnasium's own, with the ends of episodes; what belongs to the
    transition stands at the top as well where an episode has ended."""
    ours = DictInfoToList(phalanx.make_vec(env_id, 3, autoreset_mode=mode, **kwargs))
    theirs = DictInfoToList(sync(env_id, 3, mode, **kwargs))
    a, b = ours.reset(seed=0)[1], theirs.reset(seed=0)[1]
    ends, finals = 0, 0
    for _ in range(100):
        assert len(a) == len(b) == 3
        for row, expected in zip(a, b):
            if "final_info" in expected:
                finals += 1
                of_step = {key: value for key, value in expected["final_info"].items() if key not in OF_STATES}
                expected = expected | of_step
            assert same_rows(row, expected), (row, expected)
        actions = random_actions(ours, rng)
        _, _, terminations, truncations, a = ours.step(actions)
        b = theirs.step(actions)[4]
        done = terminations | truncations
        ends += int(done.sum())
        if mode == AutoresetMode.DISABLED and done.any():
            # Each has a dict of its own: Gymnasium's environment takes the mask out of it.
            a, b = (env.reset(options={"reset_mask": done.copy()})[1] for env in (ours, theirs))
    assert ends > 20 and (finals > 20) == (mode == AutoresetMode.SAME_STEP)


def _counted_modes():
    """Modes in which Gymnasium's wrapper counts the steps of Gymnasium's own environments: all but SAME_STEP in 1.2 and
    1.3, which miss one there."""
    counted = []
    for mode in MODES:
        env = RecordEpisodeStatistics(sync("Pendulum-v1", 1, mode, max_episode_steps=3))
        env.reset(seed=0)
        lengths = set()
        for _ in range(10):
            info = env.step(np.zeros((1, 1), np.float32))[4]
            if "episode" in info:
                lengths.update(info["episode"]["l"].tolist())
                if mode == AutoresetMode.DISABLED:
                    env.reset()
        counted += [mode] if lengths == {3} else []
    return counted


COUNTED = _counted_modes()


@pytest.mark.skipif(gymnasium.__version__.startswith(("1.2.", "1.3.")), reason="its wrapper miscounts")
def test_gymnasiums_wrapper_counts_in_every_mode():
    """Otherwise the tests below would leave something out in silence."""
    assert COUNTED == MODES


@pytest.mark.parametrize("mode", COUNTED)
def test_d3_returns_of_reals(mode, rng):
    """The engine sums in single precision, the wrapper in double: 50 rewards to -16.3 differ by 50 roundings of 800."""
    kwargs = {"autoreset_mode": mode, "max_episode_steps": 50}
    wrapped = RecordEpisodeStatistics(phalanx.make_vec("Pendulum-v1", 6, **kwargs))
    native = phalanx.make_vec("Pendulum-v1", 6, episode_stats=True, **kwargs)
    wrapped.reset(seed=0), native.reset(seed=0)
    ends = 0
    for _ in range(1_000):
        actions = rng.uniform(-2, 2, (6, 1))
        a, b = wrapped.step(actions)[4], native.step(actions)[4]
        if "episode" in b:
            np.testing.assert_allclose(b["episode"]["r"], a["episode"]["r"], atol=50 * 800 * 2**-24)
            assert np.array_equal(a["episode"]["l"], b["episode"]["l"])
            ends += int(b["_episode"].sum())
            if mode == AutoresetMode.DISABLED:
                wrapped.reset(), native.reset()
    assert ends > 100


@pytest.mark.parametrize("mode", COUNTED)
def test_d3_native_statistics_are_those_of_the_wrapper(mode, rng):
    plain = phalanx.make_vec("CartPole-v1", 6, autoreset_mode=mode)
    wrapped = RecordEpisodeStatistics(plain)
    native = phalanx.make_vec("CartPole-v1", 6, autoreset_mode=mode, episode_stats=True)
    wrapped.reset(seed=0), native.reset(seed=0)
    ended, ends = np.zeros(6, bool), 0
    for _ in range(10_000):
        if mode == AutoresetMode.DISABLED and ended.any():
            for env in (wrapped, native):
                env.reset(options={"reset_mask": ended.copy()})
        actions = rng.integers(2, size=6)
        a, b = wrapped.step(actions), native.step(actions)
        assert ("episode" in a[4]) == ("episode" in b[4])
        if "episode" in a[4]:
            for key in ("r", "l"):
                assert np.array_equal(a[4]["episode"][key], b[4]["episode"][key]), key
                assert a[4]["episode"][key].dtype == b[4]["episode"][key].dtype
            assert (b[4]["episode"]["t"][b[4]["_episode"]] > 0).all()
            assert np.array_equal(a[4]["_episode"], b[4]["_episode"])
            ends += int(b[4]["_episode"].sum())
        ended = a[2] | a[3]
    assert ends > 500
    with pytest.raises(ValueError):
        twice = RecordEpisodeStatistics(native)
        for _ in range(200):
            twice.step(rng.integers(2, size=6))


@pytest.mark.parametrize("mode", COUNTED)
def test_d4_lengths_are_not_off_by_one(mode):
    env = RecordEpisodeStatistics(phalanx.make_vec("Pendulum-v1", 2, autoreset_mode=mode, max_episode_steps=7))
    env.reset(seed=0)
    found = []
    for _ in range(40):
        info = env.step(np.zeros((2, 1)))[4]
        if "episode" in info:
            found.extend(info["episode"]["l"][info["_episode"]].tolist())
            if mode == AutoresetMode.DISABLED:
                env.reset(options={"reset_mask": info["_episode"]})
    assert len(found) >= 8 and set(found) == {7}


def test_d5_the_loop_of_cleanrl_logs_episodes(rng):
    envs = LegacyFinalInfo(phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep", episode_stats=True))
    envs.reset(seed=1)
    logged = []
    for _ in range(300):
        infos = envs.step(rng.integers(2, size=4))[4]
        if "final_info" in infos:
            for info in infos["final_info"]:
                if info and "episode" in info:
                    logged.append((float(info["episode"]["r"].item()), int(info["episode"]["l"].item())))
    assert len(logged) > 20 and all(r == l for r, l in logged)
    with pytest.raises(ValueError, match="SameStep"):
        LegacyFinalInfo(phalanx.make_vec("CartPole-v1", 4))


@pytest.mark.parametrize("wrap", [LegacyFinalInfo, SafetyVectorEnv])
def test_dense_finals_are_refused_by_who_cannot_read_them(wrap):
    env = phalanx.make_vec("ChemicalReactor-v0", 2, autoreset_mode="SameStep", final_obs_dense=True)
    with pytest.raises(ValueError, match="final_obs_dense"):
        wrap(env)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_state_info_tells_what_is_hidden(mode, rng):
    plain = phalanx.make_vec("ccasr-gfp-control", 5, autoreset_mode=mode)
    env = StateInfo(plain, ["F", "H", "U", "F_target"])
    obs, info = env.reset(seed=0)
    assert set(info) == {f"{mask}{name}" for name in ("F", "H", "U", "F_target", "ssa_truncated") for mask in ("", "_")}
    for _ in range(60):
        obs, rewards, _, _, info = env.step(rng.integers(plain.single_action_space.n, size=5))
        # What is seen is a part of it, and so is what is paid for.
        np.testing.assert_allclose(obs[:, 0] * 80, info["F"], rtol=1e-6)
        np.testing.assert_allclose(rewards, -abs(info["F"] - info["F_target"]), rtol=1e-5)
        assert all(info[f"_{name}"].all() for name in ("F", "H", "U", "ssa_truncated"))
        assert not info["ssa_truncated"].any()
    assert (info["H"] > 0).any() and DictInfoToList(env).step(np.zeros(5, int))[4][0].keys() >= {"F", "H"}


def test_state_info_of_a_partial_reset_tells_of_those_that_were_reset():
    env = StateInfo(phalanx.make_vec("ccasr-gfp-control", 3, autoreset_mode="Disabled"))
    env.reset(seed=0)
    mask = np.array([True, False, True])
    _, info = env.reset(options={"reset_mask": mask})
    masks = {name: value for name, value in info.items() if name.startswith("_")}
    assert all(np.array_equal(value, mask) for value in masks.values()) and "_ssa_truncated" in masks
    assert info["F_target"][0] > 0 and info["F_target"][1] == 0
    # Each is one of its own, and not the caller's either.
    info["_F"][:] = False
    assert np.array_equal(info["_H"], mask) and mask.tolist() == [True, False, True]


def test_state_info_tells_of_steps_that_were_cut():
    env = StateInfo(phalanx.make_vec("ccasr-gfp-control", 4, max_reactions_per_step=10))
    env.reset(seed=0)
    cut = np.array([env.step(np.ones(4, int))[4]["ssa_truncated"] for _ in range(100)])
    assert cut.any() and not cut.all() and cut.dtype == np.bool_
    assert cut.sum() == phalanx_counted(4, 100)


def phalanx_counted(num_envs, steps):
    """The same steps, as a roll-out counts those that were cut."""
    env = phalanx.make_vec("ccasr-gfp-control", num_envs, max_reactions_per_step=10)
    env.reset(seed=0)
    return phalanx.rollout(env, steps, policy="constant", policy_args={"action": 1}).counters["capped_steps"]


def test_state_info_refuses_what_it_cannot_tell():
    with pytest.raises(ValueError, match="no state 'G'; it has H, F"):
        StateInfo(phalanx.make_vec("ccasr-gfp-control", 2), ["G"])
    with pytest.raises(ValueError, match="SameStep"):
        StateInfo(phalanx.make_vec("ccasr-gfp-control", 2, autoreset_mode="SameStep"))


def test_the_seconds_of_an_episode_begin_where_it_begins():
    """Also where a state is set, or a roll-out has made steps: not when the environments were made."""
    env = phalanx.make_vec("Pendulum-v1", 2, max_episode_steps=1, episode_stats=True, autoreset_mode="SameStep")
    env.reset(seed=0)
    for begin in (lambda: env.set_state(env.state()), lambda: phalanx.rollout(env, 3)):
        time.sleep(0.2)
        begin()
        seconds = env.step(np.zeros((2, 1)))[4]["episode"]["t"]
        assert (seconds < 0.1).all(), seconds
