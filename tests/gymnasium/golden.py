"""Single steps worked out beforehand with Gymnasium, and the equivalence of the two pendulums.

The vectors catch a mistake that the random episodes would share with a changed Gymnasium; they need no
oracle. All are for `--precision f64`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from phalanx_trace import TraceError, trace


@dataclass(frozen=True)
class Golden:
    env: str
    start: tuple
    actions: tuple
    # Step -> state after it.
    states: dict[int, tuple]
    tolerance: float
    rewards: dict[int, float] = field(default_factory=dict)
    # The step that terminates the episode, if one does.
    terminated_at: int | None = None


CARTPOLE_STEPS = {
    1: (0.009600000000000001, 0.17467919574755525, 0.0292, -0.3230687179600081),
    2: (0.013093583914951107, 0.36937344399176103, 0.02273862564079984, -0.6064020159998607),
    3: (0.020481052794786327, 0.17394104931769996, 0.010610585320802625, -0.3066446263789625),
    4: (0.023959873781140326, 0.3689102079328361, 0.004477692793223374, -0.5959624480242942),
    5: (0.031338077939797045, 0.17372587880180418, -0.00744155616726251, -0.30187245208590807),
    10: (0.040939284166852885, 0.36990562038101304, -0.026661611227023277, -0.6180202741438212),
}
CARTPOLE_FALL = {
    1: (0.0, 0.1951219512195122, 0.0, -0.2926829268292683),
    9: (0.14065097203306187, 1.7603811257683097, -0.21518604988500967, -2.777886494012814),
}

GOLDEN = tuple(
    golden
    for env in ("CartPole-v1", "cartpole-control")
    for golden in (
        Golden(env, (0.01, -0.02, 0.03, -0.04), (1, 1, 0, 1, 0, 0, 1, 0, 1, 1), CARTPOLE_STEPS, 1e-12),
        Golden(env, (0, 0, 0, 0), (1,) * 12, CARTPOLE_FALL, 1e-12, {9: 1.0}, terminated_at=9),
    )
) + (
    Golden(
        "Pendulum-v1",
        (1.0, 0.5),
        (2.0, -2.0, 0.5, 3.0, 0.0),
        {
            1: (1.071555161930296, 1.4311032386059224),
            2: (1.1610333031404467, 1.7895628242030117),
            3: (1.288657016527316, 2.5524742677373844),
            4: (1.4672980560046727, 3.5728207895471336),
            5: (1.6832384267304503, 4.318807414515552),
        },
        1e-12,
        {
            1: -1.029,
            2: -1.3570361130142985,
            3: -1.6685018411781625,
            4: -2.3161493949912333,
            5: -3.429468424577111,
        },
    ),
    Golden("Pendulum-v1", (3.0, 7.9), (2.0,), {1: (3.4, 8.0)}, 1e-12, {1: -15.245}),
    Golden(
        "MountainCar-v0",
        (-0.5, 0),
        (2, 2, 0, 1, 2),
        {
            1: (-0.49917684300416926, 0.0008231569958307428),
            2: (-0.49753668667935325, 0.0016401563248160246),
            3: (-0.4970917969323474, 0.00044488974700586273),
            4: (-0.49684550006784745, 0.0002462968644999427),
            5: (-0.4957996374204934, 0.0010458626473540712),
        },
        1e-12,
        {step: -1.0 for step in range(1, 6)},
    ),
    Golden("MountainCar-v0", (-1.19, -0.05), (0,), {1: (-1.2, 0.0)}, 1e-12),
    Golden(
        "MountainCar-v0",
        (0.49, 0.03),
        (2, 2),
        {1: (0.5207484356665326, 0.03074843566653267)},
        1e-12,
        {1: -1.0},
        terminated_at=1,
    ),
    Golden(
        "MountainCarContinuous-v0",
        (-0.5, 0),
        (1.0, 0.5, -1.0, 2.0, 0.0),
        {
            1: (-0.4986768364906311, 0.0013231569901108742),
            2: (-0.49679040908813477, 0.0018864166922867298),
            3: (-0.4966048300266266, 0.00018557056318968534),
            4: (-0.49512147903442383, 0.0014833372551947832),
            5: (-0.4938514530658722, 0.0012700172374024987),
        },
        0.0,
        {1: -0.1, 2: -0.025, 3: -0.1, 4: -0.4, 5: 0.0},
    ),
    Golden(
        "MountainCarContinuous-v0",
        (0.44, 0.03),
        (1.0, 1.0),
        {1: (0.47087955474853516, 0.030879560858011246)},
        0.0,
        {1: 99.9},
        terminated_at=1,
    ),
    Golden(
        "Acrobot-v1",
        (0.1, -0.05, 0.02, 0.03),
        (2, 2, 0, 1, 2),
        {
            1: (0.07757165579337588, 0.004515209387585137, -0.23773391900562166, 0.5017548079364877),
            2: (0.010080984821611072, 0.14068891650000936, -0.41876811870253955, 0.8250103566118698),
            3: (-0.05462834060488776, 0.24955684204020578, -0.2128612266548592, 0.23721681473967215),
            4: (-0.0841268858046873, 0.263755446100288, -0.07593241540123527, -0.10159651263987007),
            5: (-0.09699751264073943, 0.24310537921824887, -0.0508266868642884, -0.10332676588288918),
        },
        0.0,
        {step: -1.0 for step in range(1, 6)},
    ),
    Golden(
        "Acrobot-v1",
        (3.0, 0.1, 12.0, -28.0),
        (2,),
        {1: (-1.0072926418473465, 1.0208695309191782, 12.354114698682428, -28.274333882308138)},
        0.0,
    ),
)

# Rewards leave every batch as f32, so a golden reward is compared to f32 roundoff.
REWARD_RELATIVE = 2.0**-23


def check_golden(phalanx, golden) -> str | None:
    """None if the trace passes through the golden states, else what is wrong."""
    try:
        printed = trace(phalanx, golden.env, golden.start, golden.actions, precision="f64")
    except TraceError as error:
        return str(error)
    expected_steps = golden.terminated_at or len(golden.actions)
    if len(printed) != expected_steps:
        return f"{len(printed)} steps instead of {expected_steps}"
    if bool(printed.terminated[-1]) != (golden.terminated_at is not None):
        return f"terminated is {printed.terminated[-1]} on step {expected_steps}"
    for step, state in golden.states.items():
        error = np.abs(printed.states[step] - state).max()
        if not error <= golden.tolerance:
            return f"state {printed.states[step].tolist()} after step {step} is {error:.2g} off"
    for step, reward in golden.rewards.items():
        ours = printed.rewards[step - 1]
        if not abs(ours - reward) <= golden.tolerance + REWARD_RELATIVE * abs(reward):
            return f"reward {ours!r} of step {step} should be {reward!r}"
    return None


def check_pendulum_control(phalanx, episodes=20) -> str | None:
    """`pendulum-control` is Pendulum-v1 with g = 9.8 seen from the hanging position, other reward aside."""
    generator = np.random.default_rng(4)
    for _ in range(episodes):
        theta, theta_dot = generator.uniform((-math.pi, -1), (math.pi, 1))
        # Not rounded to f32: a torque in f32 is multiplied in f32 by Gymnasium, and so by Pendulum-v1.
        actions = generator.uniform(-3, 3, 200).tolist()
        try:
            control = trace(phalanx, "pendulum-control", (theta, theta_dot), actions, precision="f64")
            upright = (theta - math.pi, theta_dot)
            pendulum = trace(phalanx, "Pendulum-v1", upright, actions, {"g": 9.8}, "f64")
        except TraceError as error:
            return str(error)
        if len(control) != 200 or len(pendulum) != 200 or not control.truncated[-1]:
            return f"{len(control)} and {len(pendulum)} steps instead of 200 and a truncation"
        error = np.abs(control.states - pendulum.states - (math.pi, 0)).max()
        if not error <= 1e-9:
            return f"trajectories from {(theta, theta_dot)} are {error:.2g} apart"
        # The reward is that of the state which the step has reached, with the torque as clipped.
        phi = (control.states[1:, 0] - math.pi + math.pi) % (2 * math.pi) - math.pi
        torque = np.clip(actions, -2, 2)
        reward = -(phi**2 + 0.1 * control.states[1:, 1] ** 2 + 0.001 * torque**2)
        if not np.allclose(control.rewards, reward, rtol=REWARD_RELATIVE, atol=1e-9):
            return f"rewards are up to {np.abs(control.rewards - reward).max():.2g} off"
    return None
