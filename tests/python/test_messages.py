"""What is said of a wrong argument: one sentence, which names it and what is allowed."""

import re

import pytest

import phalanx

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
        (lambda: phalanx.create_config(CARTPOLE, "ppo", gravity=3), "a setting of CartPole-v1: give it as env__gravity"),
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
