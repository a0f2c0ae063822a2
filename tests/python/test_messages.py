"""What is said of a wrong argument: one sentence, which names it and what is allowed."""

import importlib
import re
import sys

import numpy as np
import pytest

import phalanx
from phalanx.safety import SafetyVectorEnv
from phalanx.wrappers import LegacyFinalInfo

CARTPOLE = "CartPole-v1"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: phalanx.make_vec(CARTPOLE, 2, copi=False), "'copi' for CartPole-v1; did you mean 'copy'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, copi=[1.0, 2.0]), "did you mean 'copy'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, autoreset="SameStep"), "did you mean 'autoreset_mode'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, num_threads=2), "did you mean 'threads'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, max_episode_stps=3), "did you mean 'max_episode_steps'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, gravit=3), "did you mean 'gravity'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, gravit=[3, 3]), "did you mean 'gravity'"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, kinematics_integratr="euler"), "did you mean 'kinematics_integrator'"),
        (lambda: phalanx.rollout(CARTPOLE, 20, num_env=3), "did you mean 'num_envs'"),
        (lambda: phalanx.rollout(CARTPOLE, 20, recrd=True), "did you mean 'record'"),
        (lambda: phalanx.rollout(CARTPOLE, 20, autoreset="SameStep"), "did you mean 'autoreset_mode'"),
        (lambda: phalanx.make(CARTPOLE, num_envs=3), "num_envs is a keyword of make_vec"),
        (lambda: phalanx.make(CARTPOLE, rendr_mode="rgb_array"), "did you mean 'render_mode'"),
    ],
)
def test_a_mistyped_keyword_is_told_with_the_nearest(call, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "random", time_bugdet=3), "did you mean 'time_budget'"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "ppo", time_bugdet=3), "did you mean 'time_budget'"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "ppo", gravity=3), "give it by params={'gravity': ...}"),
        (lambda: phalanx.create_config(CARTPOLE, "ppo", gravity=3), "a setting of CartPole-v1: give it as env__gravit"),
        (lambda: phalanx.create_config(CARTPOLE, "ppo", wandb_enable=True), "did you mean 'wandb_enabled'"),
        (lambda: phalanx.create_eval_config(CARTPOLE, "random", gravity=3), "give it as env__gravity"),
    ],
)
def test_a_setting_that_is_not_the_agents_is_told_where_it_belongs(call, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        call()


def test_a_mistyped_attribute_is_told_with_the_nearest():
    env = phalanx.make_vec(CARTPOLE, 2)
    for call in (lambda: env.get_attr("gravit"), lambda: env.set_attr("gravit", 3.0), lambda: env.get_param("gravit")):
        with pytest.raises(AttributeError, match="'gravit'.*did you mean 'gravity'"):
            call()


def stepped(env_id, actions):
    env = phalanx.make_vec(env_id, 2)
    env.reset(seed=0)
    env.step(actions)


def made():
    return phalanx.make_vec(CARTPOLE, 2)


def benchmark(**options):
    phalanx.lab.benchmark_function(lambda: None, "nothing", "custom", **{"iterations": 2, "warmup": 0, **options})


RAGGED = [[1], [1, 2]]
CONFIG = phalanx.create_config(CARTPOLE, "random", total_timesteps=8)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: phalanx.make_vec(CARTPOLE, autoreset_mode="samestep"), ValueError, "autoreset_mode is 'samestep', bu"),
        (lambda: phalanx.make_vec(CARTPOLE, autoreset_mode="samestep"), ValueError, "did you mean 'SameStep'"),
        (lambda: phalanx.make_vec(CARTPOLE, autoreset_mode=3), TypeError, "autoreset_mode is 3, but must be one of 'N"),
        (lambda: phalanx.make_vec(CARTPOLE, autoreset_mode=None), TypeError, "autoreset_mode is None, but must be one"),
        (lambda: phalanx.make_vec(None), TypeError, "env_id is None, but must be the name of an environment"),
        (lambda: phalanx.make_vec(5), TypeError, "env_id is 5, but must be the name of an environment"),
        (lambda: phalanx.make(5), TypeError, "env_id is 5, but must be the name of an environment"),
        (lambda: phalanx.create_config(5, "ppo"), TypeError, "env is 5, but must be the name of an environment"),
        (lambda: phalanx.create_config(CARTPOLE, None), TypeError, "agent is None, but must be the name of an agent"),
        (lambda: phalanx.create_eval_config(None, "random"), TypeError, "env is None, but must be the name"),
        (lambda: phalanx.suggest_scan_chunk_size(4, None, "random"), TypeError, "env is None, but must be the name"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, 5), TypeError, "agent is 5, but must be the name"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "random", time_budget=-1.0), ValueError, "time_budget is -1.0, bu"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "random", time_budget="1"), TypeError, "time_budget is '1', but m"),
        (lambda: phalanx.autotune.tune(4, CARTPOLE, "random", params=5), TypeError, "params is 5, but must be a dict"),
        (lambda: phalanx.make_vec(CARTPOLE, max_episode_steps=2.5), TypeError, "max_episode_steps is 2.5, but must be"),
        (lambda: phalanx.make(CARTPOLE, max_episode_steps=2.5), TypeError, "max_episode_steps is 2.5, but must be a w"),
        (lambda: phalanx.make_vec(CARTPOLE, safety=True), TypeError, "safety is True, but must be 'enforce', 'penaliz"),
        (lambda: phalanx.make_vec(CARTPOLE, constraints=5), TypeError, "constraints is 5, but must be a list of texts"),
        (lambda: phalanx.make_vec(CARTPOLE, constraints=None), TypeError, "constraints is None, but must be a list"),
        (lambda: phalanx.make_vec(CARTPOLE, constraints=[5]), TypeError, "constraints is [5], but must be a list of t"),
        (lambda: phalanx.make_vec(CARTPOLE, 2, gravity=["a", "b"]), ValueError, "gravity is ['a', 'b'], but must be a"),
        (lambda: made().set_attr("gravity", ["a", "b"]), ValueError, "gravity is ['a', 'b'], but must be a number"),
        (lambda: made().set_state("abc"), ValueError, "states is 'abc', but must be a number or an array of numbers"),
        (lambda: made().restore("abc"), TypeError, "the snapshot is 'abc', but must be bytes-like"),
        (lambda: made().reset(options=3), TypeError, "options is 3, but must be a dict or None"),
        (lambda: made().reset(options="reset_mask"), TypeError, "options is 'reset_mask', but must be a dict or None"),
        (lambda: phalanx.make(CARTPOLE).reset(options=3), TypeError, "options is 3, but must be a dict or None"),
        (lambda: stepped(CARTPOLE, RAGGED), ValueError, "the actions of CartPole-v1 are lists of different lengths, b"),
        (lambda: stepped("Pendulum-v1", RAGGED), ValueError, "the actions of Pendulum-v1 are lists of different lengt"),
        (lambda: phalanx.rollout(CARTPOLE, 2, num_envs=2, actions=RAGGED), ValueError, "are lists of different length"),
        (lambda: phalanx.rollout(CARTPOLE, 2, policy=5), TypeError, "policy is 5, but must be the name of a policy"),
        (lambda: phalanx.rollout(CARTPOLE, 2, policy_args=5), TypeError, "policy_args is 5, but must be a dict"),
        (lambda: phalanx.rollout(CARTPOLE, 2, record="x"), TypeError, "record is 'x', but must be True or False"),
        (lambda: phalanx.rollout(CARTPOLE, 2, auto_tune=1), TypeError, "auto_tune is 1, but must be True or False"),
        (lambda: phalanx.make_vec(CARTPOLE, copy=None), TypeError, "copy is None, but must be True or False"),
        (lambda: phalanx.make_vec(CARTPOLE, copy="False"), TypeError, "copy is 'False', but must be True or False"),
        (lambda: phalanx.make_vec(CARTPOLE, episode_stats=1), TypeError, "episode_stats is 1, but must be True or Fal"),
        (lambda: phalanx.make_vec(CARTPOLE, final_obs_dense=1), TypeError, "final_obs_dense is 1, but must be True or"),
        (lambda: phalanx.create_config(CARTPOLE, "ppo", auto_tune="no"), TypeError, "auto_tune is 'no', but must be T"),
        (lambda: phalanx.train_and_evaluate(CONFIG, root=5), TypeError, "root is 5, but must be a path"),
        (lambda: phalanx.train_and_evaluate(CONFIG, run_dir=5), TypeError, "run_dir is 5, but must be a path"),
        (lambda: phalanx.train_and_evaluate(CONFIG, root=None, progress=5), TypeError, "progress is 5, but must be Tr"),
        (lambda: phalanx.train_and_evaluate(CONFIG, resume_from=5), TypeError, "path is 5, but must be a path"),
        (lambda: phalanx.resume(5), TypeError, "run is 5, but must be a path"),
        (lambda: phalanx.load_run(None), TypeError, "path is None, but must be a path"),
        (lambda: phalanx.evaluate(CONFIG, checkpoint=5), TypeError, "checkpoint is 5, but must be a path"),
        (lambda: benchmark(iterations="a"), TypeError, "iterations is 'a', but must be a whole number"),
        (lambda: benchmark(iterations=0), ValueError, "iterations is 0, but must be a whole number from 1"),
        (lambda: benchmark(warmup=-1), ValueError, "warmup is -1, but must be a whole number from 0"),
        (lambda: benchmark(x=float("nan")), ValueError, "the metadata x is nan, but must be what JSON can store"),
        (lambda: SafetyVectorEnv(5), TypeError, "the environment of SafetyVectorEnv is 5, but must be a vector enviro"),
        (lambda: LegacyFinalInfo(5), TypeError, "the environment of LegacyFinalInfo is 5, but must be a vector env"),
    ],
)
def test_a_wrong_argument_is_named_and_told_what_is_allowed(call, kind, said):
    with pytest.raises(kind, match=re.escape(said)) as raised:
        call()
    assert type(raised.value) is kind and "\n" not in str(raised.value)


def test_bools_of_numpy_are_bools():
    assert phalanx.make_vec(CARTPOLE, copy=np.bool_(False), episode_stats=np.True_)._build["copy"] is False


@pytest.mark.parametrize("text", ["no JSON", "{}", "[]", '{"results": [], "system_info": null}'])
def test_a_broken_baseline_is_named(text, tmp_path):
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"{file} is damaged, or no baseline")):
        phalanx.lab.BenchmarkSuite().compare_baseline(file)


@pytest.mark.parametrize("verbose", [False, True])
def test_what_the_suite_refuses_is_in_the_exception(verbose, tmp_path):
    try:
        phalanx.lab.command()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with pytest.raises(ValueError, match="unknown category 'environmnt'; did you mean 'environment'"):
        phalanx.lab.run_suite(["environmnt"], output_dir=tmp_path, verbose=verbose)


@pytest.mark.parametrize(
    ("arguments", "said"), [((5, CARTPOLE, []), "dataset_id is 5, but"), (("a/random-v0", 5, []), "env_id is 5, but")]
)
def test_names_of_datasets_are_texts(arguments, said):
    minari = pytest.importorskip("minari") and importlib.import_module("phalanx.minari")
    with pytest.raises(TypeError, match=said):
        minari.export(*arguments)


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("sb3", "stable_baselines3", "sb3"), ("pettingzoo", "pettingzoo", "pettingzoo"), ("minari", "minari", "minari")],
)
def test_an_optional_library_that_is_missing_is_told_how_to_install(module, library, extra, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    # Which makes an import of it fail.
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"phalanx.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f'pip install ".[{extra}]"')):
        importlib.import_module(f"phalanx.{module}")
