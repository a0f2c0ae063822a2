"""I. Stable-Baselines3 on our `VecEnv`."""

import warnings

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC  # noqa: E402
from stable_baselines3.common.vec_env import (  # noqa: E402
    VecCheckNan,
    VecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import phalanx  # noqa: E402
from phalanx.sb3 import PhalanxVecEnv, check_sb3_vecenv  # noqa: E402


def make(env_id="CartPole-v1", num_envs=4, **kwargs):
    return phalanx.to_sb3(env_id, num_envs, **kwargs)


def test_i1_it_is_a_vecenv_with_single_spaces():
    env = make()
    assert isinstance(env, VecEnv) and env.num_envs == 4
    assert env.observation_space.shape == (4,) and env.action_space == gymnasium.spaces.Discrete(2)


def test_i1_an_environment_in_another_mode_is_made_anew():
    given = phalanx.make_vec("CartPole-v1", 2, gravity=[5.0, 6.0], max_episode_steps=9)
    given.set_attr("length", [0.4, 0.6])
    env = phalanx.to_sb3(given)
    assert env.env is not given and env.get_attr("gravity") == [5.0, 6.0]
    assert env.get_attr("length") == pytest.approx([0.4, 0.6])
    assert given.metadata["autoreset_mode"].value == "NextStep"
    check_sb3_vecenv(env)


@pytest.mark.parametrize(("kwargs", "words"), [({"copy": False}, "copy=True"), ({"final_obs_dense": True}, "final_obs")])
def test_i1_environments_that_would_mislead_are_refused(kwargs, words):
    with pytest.raises(ValueError, match=words):
        make(**kwargs)
    with pytest.raises(ValueError, match=words):
        phalanx.to_sb3(phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep", **kwargs))


@pytest.mark.parametrize(
    ("env_id", "attribute", "method", "kwargs"),
    [
        ("CartPole-v1", "gravity", "state", {"render_mode": "rgb_array"}),
        ("TicTacToe-v0", None, "action_masks", {}),
        ("Pendulum-v1", "g", "state", {"max_episode_steps": 9}),
    ],
)
def test_i2_to_i7_our_checker(env_id, attribute, method, kwargs):
    check_sb3_vecenv(make(env_id, **kwargs), attribute=attribute, method=method)


def test_i2_to_i7_our_checker_passes_theirs():
    """What Stable-Baselines3 makes itself is no less sound."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array") for _ in range(3)])
    check_sb3_vecenv(env, method="render")


def test_i3_truncation_bootstraps():
    env = make("Pendulum-v1", 2, max_episode_steps=5)
    env.reset()
    for step in range(1, 6):
        _, _, dones, infos = env.step(np.zeros((2, 1)))
        assert [info["TimeLimit.truncated"] for info in infos] == [step == 5] * 2 and dones.all() == (step == 5)
    assert all(info["terminal_observation"].shape == (3,) for info in infos)


def test_i3_the_value_target_includes_the_value_of_the_last_state():
    """On a task that only time ends, the stored reward of a last step is the reward plus gamma times V(last state)."""
    env = make("Pendulum-v1", 2, max_episode_steps=5)
    rewards, lasts = [], []
    original = env.step_wait

    def recorded():
        result = original()
        rewards.append(result[1].copy())
        lasts.append([info.get("terminal_observation") for info in result[3]])
        return result

    env.step_wait = recorded
    model = PPO("MlpPolicy", env, n_steps=10, batch_size=10, n_epochs=1, gamma=0.9, device="cpu", seed=0)
    # The values are those of the policy that collected, so it must not learn in between.
    model.train = lambda: None
    model.learn(20)
    stored = model.rollout_buffer.rewards
    assert stored.shape == (10, 2)
    for step in range(10):
        expected = rewards[step].copy()
        if step % 5 == 4:
            observations, _ = model.policy.obs_to_tensor(np.stack(lasts[step]))
            expected += 0.9 * model.policy.predict_values(observations).detach().numpy()[:, 0]
            assert not np.allclose(stored[step], rewards[step])
        np.testing.assert_allclose(stored[step], expected, rtol=1e-5)


def test_i4_the_rollout_buffer_holds_the_trajectory():
    env = make("CartPole-v1", 4)
    seen = []
    original = env.step_wait

    def recorded():
        result = original()
        seen.append((result[0].copy(), result[1].copy()))
        return result

    env.step_wait = recorded
    env.seed(0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(2 * 32 * 4)
    buffer = model.rollout_buffer.observations.reshape(4, 32, 4) if model.rollout_buffer.generator_ready else None
    assert buffer is not None
    observations = np.stack([obs for obs, _ in seen[31:63]], axis=1)
    np.testing.assert_array_equal(buffer, observations)


def test_i5_attributes_and_methods():
    env = make("CartPole-v1", 3)
    assert env.get_attr("gravity") == pytest.approx([9.8] * 3)
    env.set_attr("gravity", 5.0, indices=[0, 2])
    assert env.get_attr("gravity") == pytest.approx([5.0, 9.8, 5.0])
    assert env.get_attr("gravity", indices=1) == pytest.approx([9.8])
    assert not env.has_attr("action_masks") and not env.has_attr("nothing")
    with pytest.raises(AttributeError):
        env.get_attr("nothing")
    pictures = make("CartPole-v1", 2, render_mode="rgb_array")
    pictures.reset()
    assert len(pictures.get_images()) == 2


def test_i5_indices():
    """None, a number and a list mean the same for every call that takes them, and the order is the caller's."""
    env = make("CartPole-v1", 4, gravity=[1.0, 2.0, 3.0, 4.0])
    env.reset()
    for indices, expected in ((None, [1, 2, 3, 4]), (2, [3]), ([3, 0], [4, 1]), (range(1, 3), [2, 3]), ([], [])):
        assert env.get_attr("gravity", indices) == expected
        states = [env.env.state()[int(gravity) - 1].tolist() for gravity in expected]
        assert [state.tolist() for state in env.env_method("state", indices=indices)] == states
        assert env.env_is_wrapped(object, indices) == [False] * len(expected)
    env.set_attr("gravity", 9.0, indices=1)
    env.set_attr("gravity", 7.0, indices=[3])
    assert env.get_attr("gravity") == [1.0, 9.0, 3.0, 7.0]
    env.set_attr("gravity", 5.0)
    assert env.get_attr("gravity") == [5.0] * 4
    board = make("TicTacToe-v0", 3)
    board.reset()
    masks = board.env_method("action_masks", indices=[2, 0])
    assert len(masks) == 2 and all(mask.shape == (9,) for mask in masks)
    assert np.array_equal(board.get_attr("action_masks", 1)[0](), board.env.action_masks()[1])


def test_i6_seeds_apply_once():
    env = make()
    env.seed(7)
    first = env.reset()
    second = env.reset()
    env.seed(7)
    assert np.array_equal(env.reset(), first) and not np.array_equal(first, second)


def test_i6_options_apply_once(monkeypatch):
    env, seen = make(), []
    reset = env.env.reset
    monkeypatch.setattr(env.env, "reset", lambda **keywords: seen.append(keywords["options"]) or reset(**keywords))
    env.set_options({"zzz": 1})
    for _ in range(2):
        env.reset()
    env.set_options([{"zzz": 2}] * 4)
    env.reset()
    assert [told or None for told in seen] == [{"zzz": 1}, None, {"zzz": 2}]


class Misleading(PhalanxVecEnv):
    """One of ours with one thing turned wrong by a subclass."""

    def __init__(self):
        super().__init__(phalanx.make_vec("CartPole-v1", 3, autoreset_mode="SameStep", render_mode="rgb_array"))


class SeedsForEver(Misleading):
    def _reset_seeds(self):
        pass


class IgnoresSeeds(Misleading):
    def reset(self):
        self._reset_seeds()
        return super().reset()


class OneSeedForAll(Misleading):
    def seed(self, seed=None):
        super().seed(seed)
        return [seed] * self.num_envs


class OptionsForEver(Misleading):
    def _reset_options(self):
        pass


class OneInfoForAll(Misleading):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        return obs, rewards, dones, [infos[0]] * 3


class SameInfosInEachStep(Misleading):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        self.kept = getattr(self, "kept", [{} for _ in infos])
        for old, new in zip(self.kept, infos):
            old.clear()
            old.update(new)
        return obs, rewards, dones, self.kept


class NoLastObservation(Misleading):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        for info in infos:
            info.pop("terminal_observation", None)
        return obs, rewards, dones, infos


class NoTimeLimit(Misleading):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        for info in infos:
            info.pop("TimeLimit.truncated")
        return obs, rewards, dones, infos


class OneBuffer(Misleading):
    def step_wait(self):
        obs, *rest = super().step_wait()
        self.buffer = getattr(self, "buffer", obs)
        self.buffer[:] = obs
        return self.buffer, *rest


class OneBufferOfRewards(Misleading):
    def step_wait(self):
        obs, rewards, *rest = super().step_wait()
        self.buffer = getattr(self, "buffer", rewards)
        self.buffer[:] = rewards
        return obs, self.buffer, *rest


class TimeLimitWithoutEnd(Misleading):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        for info in infos:
            info["TimeLimit.truncated"] = True
        return obs, rewards, dones, infos


class HasEveryMethod(Misleading):
    def env_method(self, method_name, *args, indices=None, **kwargs):
        if not hasattr(self.env, method_name):
            return [None] * self.num_envs
        return super().env_method(method_name, *args, indices=indices, **kwargs)


class MethodsOfAll(Misleading):
    def env_method(self, method_name, *args, indices=None, **kwargs):
        return super().env_method(method_name, *args, **kwargs)


class MethodsInOrder(Misleading):
    def env_method(self, method_name, *args, indices=None, **kwargs):
        indices = sorted(indices) if isinstance(indices, list) else indices
        return super().env_method(method_name, *args, indices=indices, **kwargs)


class AttributesOfAll(Misleading):
    def get_attr(self, attr_name, indices=None):
        return super().get_attr(attr_name)


class SetsAll(Misleading):
    def set_attr(self, attr_name, value, indices=None):
        super().set_attr(attr_name, value)


class SetsTheFirstOfThem(Misleading):
    def set_attr(self, attr_name, value, indices=None):
        super().set_attr(attr_name, value, indices[:1] if isinstance(indices, list) else indices)


class WrappedAll(Misleading):
    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs


class OnePicture(Misleading):
    def get_images(self):
        return super().get_images()[:1]


class RewardsInDouble(Misleading):
    def step_wait(self):
        obs, rewards, *rest = super().step_wait()
        return obs, rewards.astype(np.float64), *rest


class HasEverything(Misleading):
    def get_attr(self, attr_name, indices=None):
        return [None] * self.num_envs


MISLEADING = {
    SeedsForEver: "only the next reset may use it", IgnoresSeeds: "the next reset must use it",
    OneSeedForAll: r"s \+ i", OptionsForEver: "set_options", OneInfoForAll: "distinct dicts",
    SameInfosInEachStep: "in each step anew", NoLastObservation: "terminal_observation", NoTimeLimit: "TimeLimit",
    OneBuffer: "must survive", RewardsInDouble: "rewards", HasEverything: "AttributeError",
    OneBufferOfRewards: "an array of its own", TimeLimitWithoutEnd: "no episode has ended",
    HasEveryMethod: "a missing method", MethodsOfAll: "env_method: indices", MethodsInOrder: "env_method: indices",
    AttributesOfAll: "get_attr: indices", SetsAll: "set_attr: indices=number",
    SetsTheFirstOfThem: "set_attr: indices=.first", WrappedAll: "env_is_wrapped: indices", OnePicture: "get_images",
}  # fmt: skip


@pytest.mark.parametrize("kind", MISLEADING, ids=lambda kind: kind.__name__)
def test_i9_our_checker_catches_what_would_mislead(kind):
    with pytest.raises(AssertionError, match=MISLEADING[kind]):
        check_sb3_vecenv(kind(), attribute="gravity", method="state")


def test_i9_what_the_misleading_are_made_of_is_sound():
    check_sb3_vecenv(Misleading(), attribute="gravity", method="state")


def test_i9_what_is_no_vecenv_is_caught():
    with pytest.raises(AssertionError, match="it is no VecEnv"):
        check_sb3_vecenv(phalanx.make_vec("CartPole-v1", 2))


@pytest.mark.parametrize(
    "wrap", [VecMonitor, VecNormalize, lambda env: VecFrameStack(env, 3), VecCheckNan], ids=["Monitor", "Normalize", "Stack", "Nan"]
)
def test_i8_wrappers(wrap):
    env = wrap(make())
    env.reset()
    for _ in range(100):
        env.step(np.ones(4, int))


def test_i8_agents_learn_without_warnings():
    """Whoever they come from: a foreign one that cannot be helped is to be named here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO("MlpPolicy", make(), n_steps=128, device="cpu").learn(5_000)
        for num_envs in (1, 4):
            DQN("MlpPolicy", make(num_envs=num_envs), learning_starts=200, device="cpu").learn(5_000)
        SAC("MlpPolicy", make("Pendulum-v1", 4), learning_starts=200, train_freq=8, device="cpu").learn(5_000)


def test_i8_the_return_on_cartpole_rises():
    env = VecMonitor(make(num_envs=8))
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=256, device="cpu", seed=1)
    model.learn(2_048)
    before = np.mean([episode["r"] for episode in model.ep_info_buffer])
    model.learn(40_000)
    after = np.mean([episode["r"] for episode in model.ep_info_buffer])
    assert after > 2 * before


def test_i8_the_return_of_dqn_rises():
    env = VecMonitor(make(num_envs=4))
    model = DQN(
        "MlpPolicy", env, learning_rate=2.3e-3, batch_size=64, buffer_size=20_000, learning_starts=500, gamma=0.99,
        target_update_interval=10, train_freq=64, gradient_steps=64, exploration_fraction=0.16,
        exploration_final_eps=0.04, policy_kwargs={"net_arch": [64, 64]}, device="cpu", seed=1,
    )
    model.learn(2_000)
    before = np.mean([episode["r"] for episode in model.ep_info_buffer])
    model.learn(18_000, reset_num_timesteps=False)
    after = np.mean([episode["r"] for episode in model.ep_info_buffer])
    assert after > 2 * before


def test_i9_their_checker_if_there_is_one():
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    if not hasattr(checker, "check_vecenv"):
        pytest.skip("no vector checker is released")
    checker.check_vecenv(make())


def test_i10_maskable_ppo_plays_legally():
    contrib = pytest.importorskip("sb3_contrib")
    env = make("TicTacToe-v0", 8)
    assert env.has_attr("action_masks")
    # An illegal move would raise.
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=128, device="cpu")
    model.learn(10_000)


@pytest.mark.parametrize(("seed", "kind"), [("a", TypeError), (-1, ValueError)])
def test_i6_seeds_are_whole_numbers(seed, kind):
    env = make(num_envs=2)
    assert list(env.seed(np.int64(7))) == [7, 8] and len(env.seed()) == 2
    with pytest.raises(kind, match=f"the seed is {seed!r}, but must be a whole number"):
        env.seed(seed)
