"""G5. Our own checker passes our environments and catches broken ones, each with the message of its rule."""

import copy
from contextlib import closing

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

import phalanx
from phalanx.testing import VectorEnvError, _check_other_seed, check_vector_env


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {"max_episode_steps": 9}),
        ("TicTacToe-v0", {}),
        ("ChemicalReactor-v0", {"max_episode_steps": 9}),
        ("ChemicalReactor-v0", {"max_episode_steps": 9, "safety": "monitor"}),
        ("ARC-v0", {"max_episode_steps": 9, "operations": "raw"}),
    ],
)
def test_g5_ours_pass(env_id, kwargs):
    attribute = {"CartPole-v1": "gravity", "Pendulum-v1": "g"}.get(env_id)

    def make(mode):
        return phalanx.make_vec(env_id, 3, autoreset_mode=mode, **kwargs)

    check_vector_env(make, attribute=attribute, counter="num_steps")


@pytest.mark.parametrize("env_id", phalanx.env_ids())
def test_every_registered_environment_passes(env_id):
    check_vector_env(lambda mode: phalanx.make_vec(env_id, 3, autoreset_mode=mode, max_episode_steps=20))


class Deaf(VectorWrapper):
    """Any seed is 0 to it."""

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=None if seed is None else 0, options=options)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "ccasr-gfp-control", "ccasr-gfp-sysid", "opto-hill-1d-sysid"])
def test_a_seed_that_is_ignored_is_found_whatever_begins_alike(env_id):
    with closing(Deaf(phalanx.make_vec(env_id, 3))) as env:
        with pytest.raises(VectorEnvError, match="E1: another seed"):
            _check_other_seed(env, AutoresetMode.NEXT_STEP, 0)
        _check_other_seed(env.env, AutoresetMode.NEXT_STEP, 0)


def test_an_environment_is_no_function_that_makes_one():
    with pytest.raises(TypeError, match="make is a PhalanxVectorEnv, but must be a function from an autoreset mode"):
        check_vector_env(phalanx.make_vec("CartPole-v1", 3))


class Broken(VectorEnv):
    """A sound environment with one thing turned wrong by a subclass."""

    kind, attribute = "CartPole-v1", "gravity"

    def __init__(self, mode):
        self.inner = phalanx.make_vec(self.kind, 3, autoreset_mode=mode, max_episode_steps=100)
        self.mode = mode
        for name in (
            "num_envs", "single_observation_space", "single_action_space", "observation_space", "action_space", "metadata"
        ):
            setattr(self, name, getattr(self.inner, name))

    @property
    def num_steps(self):
        return self.inner.num_steps

    def seed_np_random(self, seed):
        """What Gymnasium's class does for a seed, and not for a list of seeds."""
        if not isinstance(seed, list):
            VectorEnv.reset(self, seed=seed)

    def reset(self, *, seed=None, options=None):
        self.seed_np_random(seed)
        return self.inner.reset(seed=seed, options=options)

    def step(self, actions):
        return self.inner.step(actions)

    def close_extras(self, **kwargs):
        self.inner.close()

    def get_attr(self, name):
        return self.inner.get_attr(name)

    def call(self, name, *args):
        return self.inner.call(name, *args)

    def set_attr(self, name, values):
        self.inner.set_attr(name, values)


class StepsBeforeTheFirstReset(Broken):
    def __init__(self, mode):
        super().__init__(mode)
        self.inner.reset(seed=0)


class RaisesAnything(Broken):
    """Of another kind than the one that tools expect."""

    when = ()

    def step(self, actions):
        try:
            return super().step(actions)
        except self.when as error:
            raise RuntimeError(str(error)) from None


class AnythingBeforeTheFirstReset(RaisesAnything):
    def step(self, actions):
        self.when = () if hasattr(self, "begun") else ResetNeeded
        return super().step(actions)

    def reset(self, **keywords):
        self.begun = True
        return super().reset(**keywords)


class AnythingWhenEnded(AnythingBeforeTheFirstReset):
    def step(self, actions):
        self.when = ResetNeeded if hasattr(self, "begun") else ()
        return RaisesAnything.step(self, actions)


class AnythingWhenClosed(RaisesAnything):
    when = ClosedEnvironmentError


class OneAttributeForAll(Broken):
    def get_attr(self, name):
        return super().get_attr(name)[0]


class AttributesAsList(Broken):
    def get_attr(self, name):
        return list(super().get_attr(name))


class TakesAnyNumberOfValues(Broken):
    def set_attr(self, name, values):
        super().set_attr(name, np.resize(values, 3).tolist())


class OneValueForAll(Broken):
    def set_attr(self, name, values):
        super().set_attr(name, values if np.ndim(values) == 0 or len(values) != 3 else values[0])


class TakesFloats(Broken):
    def step(self, actions):
        return super().step(np.asarray(actions).astype(int))


class ClipsActions(Broken):
    def step(self, actions):
        return super().step(np.clip(actions, 0, 1))


class StepsBeforeItRefuses(Broken):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError:
            super().step(np.clip(actions, 0, 1))
            raise


class DoesNotSayWhichAction(Broken):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError:
            raise ValueError("an action is wrong") from None


class CountsTheBeginning(Broken):
    """As one whose first observation counts as a step in one of the modes."""

    def __init__(self, mode):
        super().__init__(mode)
        limit = 9 if mode == AutoresetMode.NEXT_STEP else 10
        self.inner = phalanx.make_vec("CartPole-v1", 3, autoreset_mode=mode, max_episode_steps=limit)


class WrongBatchSpace(Broken):
    def __init__(self, mode):
        super().__init__(mode)
        self.observation_space = Box(-1, 1, (3, 4))


class ModeAsText(Broken):
    def __init__(self, mode):
        super().__init__(mode)
        self.metadata = {**self.metadata, "autoreset_mode": mode.value}


class RenderModesAsTuple(Broken):
    def __init__(self, mode):
        super().__init__(mode)
        self.metadata = {**self.metadata, "render_modes": ("rgb_array",)}


class ObservationsInDouble(Broken):
    def step(self, actions):
        obs, *rest = super().step(actions)
        return obs.astype(np.float64), *rest


class ReadOnlyObservations(Broken):
    def step(self, actions):
        obs, *rest = super().step(actions)
        obs.flags.writeable = False
        return obs, *rest


class FourValues(Broken):
    def step(self, actions):
        return super().step(actions)[:4]


class FlagsAsNumbers(Broken):
    def step(self, actions):
        obs, rewards, terminations, *rest = super().step(actions)
        return obs, rewards, terminations.astype(np.int8), *rest


class EpisodesUnasked(Broken):
    def step(self, actions):
        *rest, info = super().step(actions)
        return *rest, {"episode": {"r": np.zeros(3)}, "_episode": np.ones(3, bool), **info}


class InfoWithoutMask(Broken):
    def step(self, actions):
        *rest, info = super().step(actions)
        return *rest, {"speed": np.zeros(3), **info}


class ShortInfo(Broken):
    def step(self, actions):
        *rest, info = super().step(actions)
        return *rest, {"speed": np.zeros(2), "_speed": np.ones(3, bool), **info}


class OneBuffer(Broken):
    def step(self, actions):
        obs, *rest = super().step(actions)
        self.buffer = getattr(self, "buffer", obs)
        self.buffer[:] = obs
        return self.buffer, *rest


class IgnoresSeeds(Broken):
    def reset(self, *, seed=None, options=None):
        self.seed_np_random(seed)
        return self.inner.reset(options=options)


class SameSeedForAll(Broken):
    def reset(self, *, seed=None, options=None):
        self.seed_np_random(seed)
        return self.inner.reset(seed=None if seed is None else [seed * 1000 + i for i in range(3)], options=options)


class ForgetsNpRandom(Broken):
    def reset(self, *, seed=None, options=None):
        return self.inner.reset(seed=seed, options=options)


class EatsOptions(Broken):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        if options:
            options.clear()
        return result


class LastObservationStays(Broken):
    """In SAME_STEP it returns the last observation instead of the new episode's first."""

    def step(self, actions):
        obs, *rest, info = super().step(actions)
        for slot, final in enumerate(info.get("final_obs", [])):
            if final is not None:
                obs[slot] = final
        return obs, *rest, info


class RewardOnReset(Broken):
    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        rewards[:] = 1.0
        return obs, rewards, *rest


class ReplaysTheFirstEpisode(Broken):
    """Every new episode begins like the first one."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        if not options:
            self.first = result[0].copy()
        return result

    def step(self, actions):
        obs, rewards, terminations, truncations, info = super().step(actions)
        fresh = getattr(self, "ended", np.zeros(3, bool)) if self.mode == AutoresetMode.NEXT_STEP else terminations
        if self.mode != AutoresetMode.DISABLED:
            obs[fresh] = self.first[fresh]
        self.ended = terminations | truncations
        return obs, rewards, terminations, truncations, info


class TakesAnyMask(Broken):
    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            mask = np.resize(np.asarray(options["reset_mask"], bool), 3)
            options = {"reset_mask": mask if mask.any() else np.ones(3, bool)}
        return super().reset(seed=seed, options=options)


class ResetsAllInsteadOfSome(Broken):
    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            super().reset(options=options)
            return self.inner.reset()
        return super().reset(seed=seed, options=options)


class StepsOnWhenEnded(Broken):
    """DISABLED, but it resets by itself."""

    def step(self, actions):
        if self.mode == AutoresetMode.DISABLED and self.inner._engine is not None:
            ended = getattr(self, "ended", np.zeros(3, bool))
            if ended.any():
                self.inner.reset(options={"reset_mask": ended})
        obs, rewards, terminations, truncations, info = self.inner.step(actions)
        self.ended = terminations | truncations
        return obs, rewards, terminations, truncations, info

    def reset(self, *, seed=None, options=None):
        self.ended = np.zeros(3, bool)
        return super().reset(seed=seed, options=options)


class LivesOnWhenClosed(Broken):
    def close_extras(self, **kwargs):
        pass


class UnwrapsTheEngine(Broken):
    @property
    def unwrapped(self):
        return self.inner._engine


class OneFlagForBoth(Broken):
    def step(self, actions):
        obs, rewards, terminations, truncations, info = super().step(actions)
        return obs, rewards, terminations | truncations, terminations | truncations, info


class BrokenPendulum(Broken):
    """One whose actions are real."""

    kind, attribute = "Pendulum-v1", "g"


class TakesNan(BrokenPendulum):
    def step(self, actions):
        return super().step(np.nan_to_num(actions))


class StepsBeforeItRefusesNan(BrokenPendulum):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError:
            super().step(np.nan_to_num(actions))
            raise


class TakesSinglesOnly(BrokenPendulum):
    def step(self, actions):
        return super().step(actions if getattr(actions, "dtype", None) == np.float32 else np.zeros((3, 1)))


class TakesAnyNumberOfSeeds(Broken):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed[:3] if isinstance(seed, list) else seed, options=options)


class OneSeedOfTheList(Broken):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed[:1] * len(seed) if isinstance(seed, list) else seed, options=options)


class TakesNegativeSeeds(Broken):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if seed is None or isinstance(seed, list) else abs(seed), options=options)


class Begins(Broken):
    """One that may change what a step returns where it begins an episode (`begun`), or has ended one (`ended`)."""

    ended = np.zeros(3, bool)

    def reset(self, *, seed=None, options=None):
        self.obs, info = super().reset(seed=seed, options=options)
        self.ended = np.zeros(3, bool)
        return self.obs, info

    def step(self, actions):
        obs, rewards, terminations, truncations, info = super().step(actions)
        begun, self.ended = self.ended, terminations | truncations
        if self.mode == AutoresetMode.NEXT_STEP:
            self.change(obs, begun, actions)
        elif self.mode == AutoresetMode.SAME_STEP:
            self.change(obs, self.ended, actions)
        self.obs = obs.copy()
        return obs, rewards, terminations, truncations, info


class UsesTheActionAtABeginning(Begins):
    def change(self, obs, begun, actions):
        if self.mode == AutoresetMode.NEXT_STEP:
            obs[begun, 0] += 0.001 * np.asarray(actions)[begun]


class BeginsWithAStep(Begins):
    """It returns what the first step gives, in place of the first observation."""

    def change(self, obs, begun, actions):
        if self.mode == AutoresetMode.NEXT_STEP:
            obs[begun, 0] += 0.02 * obs[begun, 1]


class BeginsElsewhereInTheSameStep(Begins):
    def change(self, obs, begun, actions):
        if self.mode == AutoresetMode.SAME_STEP:
            obs[begun] *= 0.5


class OneGeneratorForAll(Begins):
    """First observations come from one stream, so that who ends first draws first."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def change(self, obs, begun, actions):
        obs[begun] = self.generator.uniform(-0.05, 0.05, (begun.sum(), 4))


class RewardsByPlace(Broken):
    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        return obs, np.where(rewards > 0, rewards + np.arange(3, dtype=np.float32), rewards), *rest


class CountsCalls(Broken):
    calls = 0
    num_steps = property(lambda self: self.calls)

    def step(self, actions):
        result = super().step(actions)
        self.calls += 3
        return result


class NestedInfoWithoutMask(Broken):
    def step(self, actions):
        *rest, info = super().step(actions)
        return *rest, {"body": {"speed": np.zeros(3)}, "_body": np.ones(3, bool), **info}


class SamplesForItself(Broken):
    def step(self, actions):
        self.action_space.sample()
        return super().step(actions)


class SeedsTheActionSpace(Broken):
    def reset(self, *, seed=None, options=None):
        self.action_space.seed(None if isinstance(seed, list) else seed)
        return super().reset(seed=seed, options=options)


MUTANTS = {
    WrongBatchSpace: "A1",
    ModeAsText: "A3",
    RenderModesAsTuple: "A3",
    ObservationsInDouble: "B2",
    ReadOnlyObservations: "H2",
    FourValues: "B2",
    FlagsAsNumbers: "B2",
    EpisodesUnasked: "D3",
    InfoWithoutMask: "D1",
    ShortInfo: "D2",
    OneBuffer: "N1",
    IgnoresSeeds: "E1",
    SameSeedForAll: "E1",
    ForgetsNpRandom: "E3",
    EatsOptions: "B7",
    LastObservationStays: "C2",
    RewardOnReset: "C1",
    ReplaysTheFirstEpisode: "E2",
    TakesAnyMask: "C3",
    ResetsAllInsteadOfSome: "C3",
    StepsOnWhenEnded: "C3",
    LivesOnWhenClosed: "A4",
    StepsBeforeTheFirstReset: "B8",
    AnythingBeforeTheFirstReset: "B8",
    AnythingWhenEnded: "C3",
    AnythingWhenClosed: "A4",
    OneAttributeForAll: "A6",
    AttributesAsList: "A6",
    TakesAnyNumberOfValues: "A6",
    OneValueForAll: "A6",
    TakesFloats: "B4",
    ClipsActions: "B4",
    StepsBeforeItRefuses: "B4",
    DoesNotSayWhichAction: "B4",
    CountsTheBeginning: "D4",
    UnwrapsTheEngine: "A5",
    OneFlagForBoth: "B3",
    TakesNan: "B5",
    StepsBeforeItRefusesNan: "B5",
    TakesSinglesOnly: "B5",
    TakesAnyNumberOfSeeds: "E1",
    OneSeedOfTheList: "E1",
    TakesNegativeSeeds: "E1",
    UsesTheActionAtABeginning: "C1",
    BeginsWithAStep: "C1",
    BeginsElsewhereInTheSameStep: "C2",
    OneGeneratorForAll: "E4",
    RewardsByPlace: "E4",
    CountsCalls: "C6",
    NestedInfoWithoutMask: "D1",
    SamplesForItself: "E5",
    SeedsTheActionSpace: "E5",
}


def check(kind):
    check_vector_env(kind, attribute=kind.attribute, counter="num_steps")


@pytest.mark.parametrize("base", [Broken, BrokenPendulum])
def test_the_bases_of_the_mutants_are_sound(base):
    check(base)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_g5_mutants_are_caught(mutant):
    with pytest.raises(VectorEnvError) as caught:
        check(mutant)
    assert str(caught.value).startswith(f"{MUTANTS[mutant]}:"), caught.value


def test_metadata_can_be_copied():
    copy.deepcopy(Broken(AutoresetMode.NEXT_STEP).metadata)
