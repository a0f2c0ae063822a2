"""P. Snapshots, pickles and copies."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
from helpers import MODES, actions_for, legal_actions

import phalanx

ENVS = [
    ("CartPole-v1", {}),
    ("Pendulum-v1", {"max_episode_steps": 9}),
    ("ChemicalReactor-v0", {"safety": "monitor", "max_episode_steps": 20}),
    ("TicTacToe-v0", {"opponent": "self_play"}),
    ("ARC-v0", {"operations": "raw", "invalid_operation": "penalize", "max_episode_steps": 9}),
]


def absorb(total, value):
    """Takes names, types and values into a digest: of infos, which are nested and have objects among them."""
    if isinstance(value, dict):
        for key in sorted(value):
            total.update(key.encode())
            absorb(total, value[key])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        total.update(f"{value.dtype}{value.shape}".encode())
        total.update(value.tobytes())
    elif isinstance(value, np.ndarray):
        for one in value:
            absorb(total, one)
    else:
        assert value is None, value
        total.update(b"None")


def random_actions(env, rng):
    if env._spec.has_action_mask and not env.single_action_space.shape:
        return legal_actions(env.action_masks(), rng)
    return actions_for(env, rng)


def run(env, steps, seed):
    """A digest of everything that `steps` steps give."""
    rng = np.random.default_rng(seed)
    total = hashlib.sha256()
    ended = None
    for _ in range(steps):
        if ended is not None and env.metadata["autoreset_mode"].value == "Disabled" and ended.any():
            env.reset(options={"reset_mask": ended})
        obs, rewards, terminations, truncations, info = env.step(random_actions(env, rng))
        ended = terminations | truncations
        for part in (obs, rewards, terminations, truncations, info):
            absorb(total, part)
    return total.hexdigest()


def test_the_digest_hears_of_infos():
    """Otherwise a restore that forgot costs would pass: these differ in nothing but where a cost begins, and so in the
    values of an info, at the top and in those of ends."""

    def digest(bound, change=lambda info: None):
        env = phalanx.make_vec(
            "Pendulum-v1", 5, autoreset_mode="SameStep", max_episode_steps=9, constraints=[f"theta_dot<={bound}:soft"]
        )
        env.reset(seed=0)
        step = env.step

        def changed(actions):
            result = step(actions)
            change(result[4])
            return result

        env.step = changed
        return run(env, 60, 1)

    def forget_finals(info):
        if "final_info" in info:
            info["final_info"]["cost"][:] = 0

    def forget_last(info):
        for last in info.get("final_obs", []):
            last[:] = 0

    assert digest(0.25) == digest(0.25) != digest(0.5)
    assert len({digest(0.25), digest(0.25, forget_finals), digest(0.25, forget_last)}) == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("env_id", "kwargs"), ENVS)
def test_p_going_back_gives_the_same_again(env_id, kwargs, mode):
    env = phalanx.make_vec(env_id, 20, autoreset_mode=mode, **kwargs)
    env.reset(seed=0)
    run(env, 100, 1)
    if mode.value == "Disabled":
        env.reset()
    snapshot, steps = env.snapshot(), env.num_steps
    assert isinstance(snapshot, bytes)
    first = run(env, 200, 2)
    if mode.value == "Disabled":
        env.reset()
    env.restore(snapshot)
    assert env.num_steps == steps
    assert run(env, 200, 2) == first
    other = phalanx.make_vec(env_id, 20, autoreset_mode=mode, threads=2, **kwargs)
    other.restore(snapshot)
    assert run(other, 200, 2) == first


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("taken", "restored"), [(1, 2), (2, 1), (2, 5), (5, 3)])
def test_p_the_number_of_threads_is_no_part_of_a_snapshot(mode, taken, restored):
    """With as many environments as give each thread work."""
    env, other = (
        phalanx.make_vec("CartPole-v1", 3000, autoreset_mode=mode, threads=threads) for threads in (taken, restored)
    )
    assert (env._engine.threads, other._engine.threads) == (taken, restored)
    env.reset(seed=0)
    run(env, 30, 1)
    if mode.value == "Disabled":
        env.reset()
    snapshot = env.snapshot()
    other.restore(snapshot)
    assert other.snapshot() == snapshot
    assert run(other, 60, 2) == run(env, 60, 2)
    assert other.snapshot() == env.snapshot()


@pytest.mark.parametrize(("env_id", "kwargs"), ENVS)
def test_p_some_environments_go_back(env_id, kwargs):
    env, twin = (phalanx.make_vec(env_id, 20, autoreset_mode="SameStep", **kwargs) for _ in range(2))
    env.reset(seed=0), twin.reset(seed=0)
    run(env, 30, 1), run(twin, 30, 1)
    snapshot = env.snapshot()
    run(env, 50, 2), run(twin, 50, 2)
    mask = np.arange(20) % 3 == 0
    env.restore(snapshot, mask)
    old = phalanx.make_vec(env_id, 20, autoreset_mode="SameStep", **kwargs)
    old.restore(snapshot)
    binding = env_id == "TicTacToe-v0"
    rng = np.random.default_rng(5)
    for _ in range(100):
        actions = random_actions(env, rng)
        if binding:
            # Each must make a legal move; those that are not compared may make another.
            actions_twin = np.where(mask, legal_actions(twin.action_masks(), rng), actions)
            actions_old = np.where(mask, actions, legal_actions(old.action_masks(), rng))
        else:
            actions_twin = actions_old = actions
        a, b, c = env.step(actions), twin.step(actions_twin), old.step(actions_old)
        for part in range(4):
            assert np.array_equal(a[part][~mask], b[part][~mask]) and np.array_equal(a[part][mask], c[part][mask])
        # What has to do with ends is there only where some environment's episode ended.
        for key in {*a[4]} & {*b[4]} & {*c[4]} - {"final_obs", "_final_obs", "final_info", "_final_info"}:
            assert np.array_equal(a[4][key][~mask], b[4][key][~mask]), key
            assert np.array_equal(a[4][key][mask], c[4][key][mask]), key
    with pytest.raises(ValueError, match="mask"):
        env.restore(snapshot, [True])


def test_p_parameters_come_along():
    env = phalanx.make_vec("CartPole-v1", 3, gravity=[1.0, 2.0, 3.0])
    env.reset(seed=0)
    snapshot = env.snapshot()
    env.set_param("gravity", 9.0)
    env.restore(snapshot)
    assert env.get_attr("gravity") == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: phalanx.make_vec("CartPole-v1", 5), ["4", "5"]),
        (lambda: phalanx.make_vec("MountainCar-v0", 4), ["CartPole-v1", "MountainCar-v0"]),
        (lambda: phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep"), ["NextStep", "SameStep"]),
        (lambda: phalanx.make_vec("CartPole-v1", 4, max_episode_steps=9), ["500", "9"]),
    ],
)
def test_p_a_foreign_snapshot_is_refused_with_both_values(make, words):
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    other = make()
    other.reset(seed=1)
    before = other.snapshot()
    with pytest.raises(ValueError) as caught:
        other.restore(env.snapshot())
    assert all(word in str(caught.value) for word in words)
    assert other.snapshot() == before


def test_p_damaged_snapshots_raise(rng):
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    snapshot = env.snapshot()
    for i in range(1000):
        damaged = bytearray(snapshot)
        if i % 2:
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        else:
            del damaged[rng.integers(len(damaged)) :]
        with pytest.raises(ValueError, match="snapshot"):
            env.restore(bytes(damaged))
    assert env.snapshot() == snapshot


def test_p_the_format_has_not_changed():
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    for _ in range(10):
        env.step([0, 1, 0, 1])
    snapshot = env.snapshot()
    assert (len(snapshot), hashlib.sha256(snapshot).hexdigest()[:16]) == GOLDEN


#: Size and digest: the size tells a change of the format from one of the values.
GOLDEN = (1334, "282a753144452ebe")


@pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("copy_", [True, False])
def test_p_pickle_and_deepcopy(clone, copy_):
    env = phalanx.make_vec("CartPole-v1", 6, copy=copy_, gravity=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    env.reset(seed=0)
    run(env, 50, 1)
    twin = clone(env)
    assert twin.metadata == env.metadata and twin.observation_space == env.observation_space
    assert twin.get_attr("gravity") == env.get_attr("gravity")
    assert twin.np_random_seed == 0
    assert run(twin, 100, 2) == run(env, 100, 2)
    twin.step(np.zeros(6, int))
    assert twin.snapshot() != env.snapshot()
    single = phalanx.make("Pendulum-v1")
    single.reset(seed=0)
    assert np.array_equal(clone(single).step([0.5])[0], single.step([0.5])[0])


def test_state_and_set_state():
    env = phalanx.make_vec("CartPole-v1", 3)
    env.reset(seed=0)
    states = env.state()
    assert states.shape == (3, 4) and states.dtype == np.float64
    moved = states + 0.01
    env.set_state(moved, [True, False, True])
    now = env.state()
    np.testing.assert_allclose(now[[0, 2]], moved[[0, 2]], atol=1e-7)
    assert np.array_equal(now[1], states[1])
    before = env.snapshot()
    for wrong in (states[:2], states[:, :3]):
        with pytest.raises(ValueError):
            env.set_state(wrong)
    bad = states.copy()
    bad[2, 0] = np.nan
    with pytest.raises(ValueError):
        env.set_state(bad)
    with pytest.raises(ValueError, match="mask"):
        env.set_state(states, [True])
    assert env.snapshot() == before


@pytest.mark.parametrize("mask", [np.array([0, 1]), [0.5, 0.0], ["a", ""], np.ones((2, 1), bool), True])
def test_a_mask_is_a_row_of_bool(mask):
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    kept, states = env.snapshot(), env.state()
    for refused in (lambda: env.restore(kept, mask=mask), lambda: env.set_state(states, mask=mask)):
        with pytest.raises(TypeError, match="row of bool"):
            refused()
    env.restore(kept, mask=[True, False])
    assert len(env.state_names) == states.shape[1]


def test_parameters_can_be_set_to_what_they_are():
    env = phalanx.make_vec("VanDeVusse-v0", 2)
    for name in ("setpoint_low", "setpoint_high", "feed_min"):
        env.set_attr(name, list(env.get_attr(name)))
    phalanx.make_vec("VanDeVusse-v0", 2, setpoint_low=[0.6, 0.5], setpoint_high=[0.6, 0.7])


def test_ranges_of_parameters_are_drawn_by_a_seed_of_their_own():
    def drawn(**seed):
        return phalanx.make_vec("CartPole-v1", 4, gravity="5..15", **seed)

    first = drawn(param_seed=3)
    assert first.get_attr("gravity") == drawn(param_seed=3).get_attr("gravity") != drawn(param_seed=4).get_attr("gravity")
    assert drawn().get_attr("gravity") == drawn(param_seed=0).get_attr("gravity")
    before = first.get_attr("gravity")
    first.reset(seed=9)
    assert first.get_attr("gravity") == before
    with pytest.raises(TypeError, match="param_seed is for make_vec"):
        phalanx.rollout("CartPole-v1", 10, param_seed=3)


PID = {"obs_field": "theta", "kp": 1.0, "ki": 0.5, "control_low": -1, "control_high": 1}


@pytest.mark.parametrize(("policy", "arguments"), [("random", {}), ("pid", PID)])
def test_p_a_roll_out_goes_on_after_a_snapshot(policy, arguments):
    """With its policy's random numbers and its policy's memory, in a pickle and a copy as well."""
    env = phalanx.make_vec("CartPole-v1", 20, autoreset_mode="SameStep")
    env.reset(seed=0)
    play = {"policy": policy, "policy_args": arguments}
    phalanx.rollout(env, 100, **play)
    snapshot, others = env.snapshot(), [pickle.loads(pickle.dumps(env)), copy.deepcopy(env), env]
    first = phalanx.rollout(env, 50, record=True, **play)
    env.restore(snapshot)
    for other in others:
        again = phalanx.rollout(other, 50, record=True, **play)
        assert np.array_equal(first.actions, again.actions) and np.array_equal(first.observations, again.observations)
    env.restore(snapshot)
    first = phalanx.rollout(env, 200, **play)
    env.restore(snapshot)
    again = phalanx.rollout(env, 200, **play)
    assert (first.checksum, first.return_mean) == (again.checksum, again.return_mean)


def test_p_a_snapshot_with_a_roll_out_is_taken_as_a_whole_or_not_at_all(rng):
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    phalanx.rollout(env, 10, policy="bangbang", policy_args={"obs_field": "theta"})
    snapshot = env.snapshot()
    for other in (phalanx.make_vec("MountainCar-v0", 4), phalanx.make_vec("CartPole-v1", 5)):
        before = other.snapshot()
        with pytest.raises(ValueError, match="MountainCar-v0|num_envs 4"):
            other.restore(snapshot)
        assert other.snapshot() == before
    for _ in range(300):
        damaged = bytearray(snapshot)
        damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        with pytest.raises(ValueError, match="snapshot"):
            env.restore(bytes(damaged))
    assert env.snapshot() == snapshot


def test_p_another_version_of_the_format_is_refused_with_both():
    env = phalanx.make_vec("CartPole-v1", 4)
    snapshot = bytearray(env.snapshot())
    version = int.from_bytes(snapshot[8:12], "little")
    snapshot[8:12] = (version + 1).to_bytes(4, "little")
    with pytest.raises(ValueError, match=f"format version {version + 1}, but this program reads version {version}"):
        env.restore(bytes(snapshot))
