"""Whole roll-outs in one call."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import phalanx


@pytest.mark.parametrize(
    ("env_id", "policy", "arguments"),
    [
        ("CartPole-v1", "random", None),
        ("Pendulum-v1", "random", None),
        ("TicTacToe-v0", "random", None),
        ("CartPole-v1", "bangbang", {"obs_field": "theta"}),
        ("CartPole-v1", "open_loop", {"schedule": [0, 1, 1]}),
        ("ChemicalReactor-v0", "constant", {"action": 0.5}),
        ("ARC-v0", "random", None),
        ("ccasr-gfp-control", "random", None),
    ],
)
def test_recorded_and_unrecorded_rollouts_agree(env_id, policy, arguments):
    kwargs = {"num_envs": 40, "policy": policy, "policy_args": arguments, "seed": 3}
    fast = phalanx.rollout(env_id, 60, **kwargs)
    slow = phalanx.rollout(env_id, 60, record=True, **kwargs)
    given = phalanx.rollout(env_id, 60, num_envs=40, seed=3, actions=slow.actions)
    told = ("episodes", "return_mean", "return_std", "length_mean", "length_std", "cost_mean", "cost_std", "violations")
    for name in (*told, "counters", "scores"):
        assert getattr(fast, name) == getattr(slow, name) == getattr(given, name), name
    assert fast.observations is None and fast.checksum is not None
    steps, envs = 60, 40
    assert slow.observations.shape[:2] == (steps + 1, envs)
    assert slow.actions.shape[:2] == slow.rewards.shape == slow.terminations.shape == (steps, envs)
    ends = np.argwhere(slow.terminations | slow.truncations)
    assert np.array_equal(slow.final_places, ends)
    assert len(slow.final_observations) == len(ends) == slow.episodes


def test_recorded_actions_lead_to_what_was_recorded():
    recorded = phalanx.rollout("CartPole-v1", 100, num_envs=16, record=True, seed=5)
    again = phalanx.rollout("CartPole-v1", 100, num_envs=16, record=True, seed=5, actions=recorded.actions)
    for name in ("observations", "rewards", "terminations", "truncations", "final_observations", "actions"):
        assert np.array_equal(getattr(recorded, name), getattr(again, name)), name
    told = phalanx.rollout("CartPole-v1", 100, num_envs=16, seed=5, actions=recorded.actions)
    assert told.observations is None and told.return_mean == recorded.return_mean


def test_a_vector_environment_goes_on(rng):
    actions = rng.integers(2, size=(50, 8))
    env, twin = (phalanx.make_vec("CartPole-v1", 8, autoreset_mode="SameStep") for _ in range(2))
    first, _ = env.reset(seed=1)
    twin.reset(seed=1)
    result = phalanx.rollout(env, 50, actions=actions, record=True)
    assert np.array_equal(result.observations[0], first)
    for step in range(50):
        obs, rewards, terminations, truncations, _ = twin.step(actions[step])
        assert np.array_equal(result.observations[step + 1], obs)
        assert np.array_equal(result.rewards[step], rewards)
    assert env.num_steps == twin.num_steps == 400
    assert np.array_equal(env.step(actions[0])[0], twin.step(actions[0])[0])


def test_the_same_policy_goes_on_with_its_random_numbers():
    env = phalanx.make_vec("Pendulum-v1", 4, autoreset_mode="SameStep")
    env.reset(seed=0)
    parts = [phalanx.rollout(env, 20, record=True).actions for _ in range(2)]
    assert not np.array_equal(*parts)
    env.reset(seed=0)
    assert np.array_equal(phalanx.rollout(env, 40, record=True).actions, np.concatenate(parts))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_statistics_in_any_mode(mode):
    env = phalanx.make_vec("CartPole-v1", 8, autoreset_mode=mode)
    env.reset(seed=0)
    assert phalanx.rollout(env, 500).episodes > 50
    env.step(np.zeros(8, int))
    if mode != AutoresetMode.SAME_STEP:
        with pytest.raises(ValueError, match="SameStep"):
            phalanx.rollout(env, 5, record=True)


def test_chunks_and_threads_do_not_matter():
    results = [
        phalanx.rollout("CartPole-v1", 300, num_envs=3000, seed=9, scan_chunk_size=chunk, threads=threads)
        for chunk, threads in ((1, 1), (7, 2), (300, 3))
    ]
    assert len({result.checksum for result in results}) == 1
    assert len({(result.episodes, result.return_mean) for result in results}) == 1


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"policy": "clever"}, ValueError, "unknown policy 'clever'"),
        ({"policy": "constant", "policy_args": {"action": 7}}, ValueError, "from 0 to 1"),
        ({"policy": "constant", "policy_args": {"akshun": 1}}, ValueError, "akshun"),
        ({"actions": np.zeros((5, 4), int)}, ValueError, r"\(5, 4\), but \(10, 4\)"),
        ({"actions": np.full((10, 4), 2)}, ValueError, "from 0 to 1"),
        ({"actions": np.zeros((10, 4), int), "policy": "random"}, TypeError, "both given"),
        ({"actions": np.zeros((10, 4), int), "policy_args": {}}, TypeError, "both given"),
        ({"scan_chunk_size": 0}, ValueError, "scan_chunk_size is 0"),
        ({"scan_chunk_size": -5}, ValueError, "scan_chunk_size is -5"),
        ({"threads": -5}, ValueError, "threads is -5"),
        ({"seed": -1}, ValueError, "seed"),
        ({"gravitas": 1.0}, TypeError, "gravitas"),
    ],
)
def test_wrong_arguments(kwargs, error, words):
    with pytest.raises(error, match=words):
        phalanx.rollout("CartPole-v1", 10, num_envs=4, **kwargs)
    for steps in (0, -1):
        with pytest.raises(ValueError, match=f"steps is {steps}"):
            phalanx.rollout("CartPole-v1", steps)


def test_an_environment_must_have_been_reset():
    with pytest.raises(ResetNeeded):
        phalanx.rollout(phalanx.make_vec("CartPole-v1", 2), 10)


def test_keywords_for_an_environment_that_is_there():
    for clash in ({"gravity": 3.0}, {"seed": 0}, {"num_envs": 2}):
        with pytest.raises(TypeError, match=next(iter(clash))):
            phalanx.rollout(phalanx.make_vec("CartPole-v1", 2), 10, **clash)


def test_the_order_of_memory_does_not_matter(rng):
    actions = rng.integers(2, size=(60, 8))
    expected = phalanx.rollout("CartPole-v1", 60, num_envs=8, actions=actions, record=True)
    assert np.array_equal(expected.actions, actions)
    for given in (np.asfortranarray(actions), np.ascontiguousarray(actions.T).T, actions.astype("i4").copy("F")):
        assert not given.flags.c_contiguous
        found = phalanx.rollout("CartPole-v1", 60, num_envs=8, actions=given, record=True)
        assert np.array_equal(found.actions, actions) and np.array_equal(found.observations, expected.observations)


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "TicTacToe-v0"])
def test_a_bad_action_at_the_end_changes_nothing(env_id, record):
    env = phalanx.make_vec(env_id, 3, autoreset_mode="SameStep")
    env.reset(seed=0)
    before, steps = env.snapshot(), env.num_steps
    actions = {
        "CartPole-v1": np.zeros((40, 3), int),
        "Pendulum-v1": np.zeros((40, 3, 1), np.float32),
        # Legal for the first moves: the board itself says when they are not.
        "TicTacToe-v0": np.zeros((40, 3), int),
    }[env_id]
    if env_id != "TicTacToe-v0":
        actions[39, 2] = np.nan if env_id == "Pendulum-v1" else 7
    with pytest.raises(ValueError, match="in step" if env_id != "TicTacToe-v0" else "environment"):
        phalanx.rollout(env, 40, actions=actions, record=record, scan_chunk_size=1)
    assert env.snapshot() == before and env.num_steps == steps
    env.step(actions[0])


def test_a_recording_beyond_memory_is_refused():
    with pytest.raises(MemoryError, match=r"1000000000 steps x 10000 environments needs \d+ bytes"):
        phalanx.rollout("CartPole-v1", 10**9, num_envs=10_000, record=True)
    with pytest.raises(MemoryError, match="bytes"):
        phalanx.rollout("CartPole-v1", 2**62, num_envs=10_000, record=True)


def test_counters_and_scores_are_those_of_the_roll_out_alone():
    """Of recorded ones too, and neither with what went before nor with what a refused roll-out had counted."""
    env = phalanx.make_vec("ccasr-gfp-control", 4, autoreset_mode="SameStep", max_reactions_per_step=10)
    env.reset(seed=0)
    parts = [phalanx.rollout(env, 50, record=record).counters for record in (True, True, False)]
    env.reset(seed=0)
    whole = phalanx.rollout(env, 150).counters
    assert whole == {name: sum(part[name] for part in parts) for name in whole} and whole["capped_steps"] > 0
    solved = phalanx.rollout("ARC-v0", 300, num_envs=40, record=True).scores
    assert all(score is not None for score in solved.values()), solved


FOREIGN = gymnasium.vector.SyncVectorEnv([lambda: phalanx.make("CartPole-v1")])


@pytest.mark.parametrize("env", [None, 3, object(), FOREIGN])
def test_what_is_no_environment_of_ours_is_refused(env):
    with pytest.raises(TypeError, match="rollout needs an id or what phalanx.make_vec makes, not "):
        phalanx.rollout(env, 10)


def chosen(env, **kwargs):
    return phalanx.rollout(env, 50, record=True, **kwargs).actions


def test_random_actions_go_on_after_resets_and_other_policies():
    """Only a seed for all begins them anew: else every roll-out after a reset would be the same one."""
    env = phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep")
    env.reset(seed=0)
    found = [chosen(env)]
    env.reset()
    found.append(chosen(env))
    env.reset(options={"reset_mask": np.array([True, False, False, True])})
    found.append(chosen(env))
    env.reset(seed=[5, None, None, None])
    found.append(chosen(env))
    chosen(env, policy="constant", policy_args={"action": 1})
    found.append(chosen(env))
    env.restore(env.snapshot(), mask=np.array([True, False, False, False]))
    found.append(chosen(env))
    assert len({actions.tobytes() for actions in found}) == len(found)
    for seed in (0, [0, 1, 2, 3]):
        env.reset(seed=seed)
        assert np.array_equal(chosen(env), found[0])


def test_snapshots_know_how_far_random_actions_have_come():
    """Also between two roll-outs, and neither a reset nor another policy has them come twice."""
    env = phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep")
    env.reset(seed=0)
    before = env.snapshot()
    first = chosen(env)
    env.reset()
    between = env.snapshot()
    second = chosen(env)
    other = phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep")
    other.restore(between)
    assert np.array_equal(chosen(other), second) and not np.array_equal(first, second)
    assert other.snapshot() == env.snapshot()
    env.restore(between)
    results = [phalanx.rollout(env, 30) for _ in range(2)]
    env.restore(between)
    assert [phalanx.rollout(env, 30).checksum for _ in range(2)] == [result.checksum for result in results]
    env.restore(before)
    assert np.array_equal(chosen(env), first)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "ARC-v0"])
def test_a_checksum_begins_with_the_first_observations_wherever_it_begins(env_id):
    """Of two roll-outs that begin at the same moment of their policy, with other states."""

    def checksum(seed):
        env = phalanx.make_vec(env_id, 2, autoreset_mode="SameStep")
        env.reset(seed=0)
        phalanx.rollout(env, 5)
        env.reset(seed=[seed, None])
        before = env.snapshot()
        parts = [phalanx.rollout(env, steps).checksum for steps in (1, 1)]
        env.restore(before)
        assert phalanx.rollout(env, 2).checksum == parts[1]
        return parts[0]

    assert checksum(1) != checksum(2)


REFUSED = [
    ("TicTacToe-v0", {"policy": "constant", "policy_args": {"action": 1}}),
    ("CartPole-v1", {"policy": "bangbang", "policy_args": {"obs_field": "none"}}),
    ("CartPole-v1", {"policy": "clever"}),
    ("CartPole-v1", {"tile": 100}),
    ("CartPole-v1", {"policy": "constant", "policy_args": {"action": 1}, "tile": 100}),
    ("TicTacToe-v0", {"policy": "bangbang", "record": True}),
]


@pytest.mark.parametrize(("env_id", "kwargs"), REFUSED)
def test_a_refused_roll_out_leaves_the_one_in_progress(env_id, kwargs):
    env = phalanx.make_vec(env_id, 4, autoreset_mode="SameStep")
    env.reset(seed=0)
    phalanx.rollout(env, 20)
    before = env.snapshot()
    with pytest.raises(ValueError):
        phalanx.rollout(env, 20, **kwargs)
    assert env.snapshot() == before


def test_keywords_of_an_environment_that_is_there_are_refused_even_as_none():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="gravity: these keywords"):
        phalanx.rollout(env, 5, gravity=None)
