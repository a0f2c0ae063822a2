"""Gymnasium's side of the comparison: its environments, their parameters, policies and thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import gymnasium
import numpy as np
from phalanx_trace import Trajectory

# A continuous action is drawn from this multiple of the bounds, so that a third of them is clipped.
OVERSHOOT = 1.5


@dataclass(frozen=True)
class Environment:
    """What the test has to know about one Gymnasium environment."""

    name: str
    # Parameter -> (low, high) of a uniform draw, or the other value of an option.
    parameters: dict[str, tuple[float, float] | str]
    # Sets one parameter on Gymnasium's unwrapped environment.
    set_parameter: Callable[[Any, str, Any], None]
    # Each takes (unwrapped environment, state, generator) and returns an action.
    policies: tuple[Callable[[Any, Any, np.random.Generator], Any], ...]
    # Distance of the quantity that decides `terminated` from its threshold.
    threshold_distance: Callable[[Any, Any], float]
    # The relative rounding with which Gymnasium itself stores the state.
    state_roundoff: float = 2.0**-53

    def state_error(self, ours, theirs) -> np.ndarray:
        """Absolute difference of states; the angles of Acrobot are wrapped, so -pi is pi."""
        error = np.abs(ours - theirs)
        if self.name == "Acrobot-v1":
            error[..., :2] = np.minimum(error[..., :2], np.abs(error[..., :2] - 2 * math.pi))
        return error

    @property
    def is_continuous(self) -> bool:
        return self.name in ("Pendulum-v1", "MountainCarContinuous-v0")

    def draw_parameters(self, generator) -> dict[str, Any]:
        """Change about half of the parameters, at least one of them."""
        changed = generator.random(len(self.parameters)) < 0.5
        changed[generator.integers(len(changed))] = True
        drawn = {}
        for name, choice in (item for item, use in zip(self.parameters.items(), changed) if use):
            is_option = isinstance(choice, str)
            drawn[name] = choice if is_option else float(f"{generator.uniform(*choice):.4g}")
        return drawn

    def make(self, parameters) -> gymnasium.Env:
        """The registered environment with its own time limit; its checker would only cost time."""
        env = gymnasium.make(self.name, disable_env_checker=True)
        for name, value in parameters.items():
            self.set_parameter(env.unwrapped, name, value)
        return env


def start_state(environment, seed) -> np.ndarray:
    """A start from Gymnasium's reset distribution, rounded to f32 so that both sides hold exactly it."""
    env = environment.make({})
    env.reset(seed=seed)
    return np.array(env.unwrapped.state, dtype=np.float32).astype(np.float64)


@dataclass(frozen=True)
class Reference(Trajectory):
    """An episode of Gymnasium, with what is needed to repeat and to judge it."""

    actions: list
    # Per step, see `Environment.threshold_distance`.
    threshold_distance: np.ndarray


def run(environment, parameters, start, choose, override=None) -> Reference:
    """Step Gymnasium from `start` until the episode ends.

    `choose(t, plant, state)` gives the action of step t, or None to stop. `override(t, state)` replaces
    the state before step t: this is how another trajectory is injected, or noise.
    """
    env = environment.make(parameters)
    env.reset(seed=0)
    plant = env.unwrapped
    plant.state = np.array(start)
    states, obs = [np.array(start)], [observe(environment, start).astype(np.float32)]
    actions, rewards, terminated, truncated, distances = [], [], [], [], []
    ended = False
    while not ended:
        t = len(actions)
        if override is not None:
            plant.state = override(t, plant.state)
        action = choose(t, plant, plant.state)
        if action is None:
            break
        is_array = environment.is_continuous
        step = env.step(np.array([action], dtype=np.float32) if is_array else action)
        actions.append(action)
        obs.append(step[0])
        rewards.append(float(step[1]))
        terminated.append(step[2])
        truncated.append(step[3])
        states.append(np.array(plant.state, dtype=np.float64))
        distances.append(environment.threshold_distance(plant, plant.state))
        ended = step[2] or step[3]
    return Reference(
        states=np.array(states),
        obs=np.array(obs, dtype=np.float64),
        rewards=np.array(rewards),
        terminated=np.array(terminated, dtype=bool),
        truncated=np.array(truncated, dtype=bool),
        actions=actions,
        threshold_distance=np.array(distances),
    )


def replay(environment, parameters, start, actions, override=None) -> Reference:
    """`run` with a given list of actions."""

    def choose(t, _plant, _state):
        return actions[t] if t < len(actions) else None

    return run(environment, parameters, start, choose, override)


def sensitivity(environment, parameters, episode, twins=4) -> np.ndarray:
    """How much rounding has grown at each row: the error per unit of relative roundoff.

    Measured, not derived: Gymnasium repeats the episode while every component of its state is disturbed
    before each step by a random sign times a tiny fraction of its size. An implementation that rounds its
    state cannot do better than this times its own roundoff, whatever its arithmetic. The largest of
    several twins, because the disturbances of one may happen to cancel.
    """
    # Well above f64 roundoff, and small enough to stay small while it grows. Where Gymnasium stores f32
    # anything below a unit in the last place would be rounded away.
    noise = max(2.0**-44, 2 * environment.state_roundoff)
    largest = np.zeros(len(episode) + 1)
    for seed in range(twins):
        disturb = Disturbance(noise, np.random.default_rng(seed))
        twin = replay(environment, parameters, episode.states[0], episode.actions, disturb)
        rows = slice(0, min(len(twin), len(episode)) + 1)
        error = environment.state_error(twin.states[rows], episode.states[rows]).max(axis=1)
        if environment.is_continuous:
            # The reward is a steeper function of the state than the observation is.
            steps = slice(0, rows.stop - 1)
            error[1:] = np.maximum(error[1:], np.abs(twin.rewards[steps] - episode.rewards[steps]))
        largest[rows] = np.maximum(largest[rows], error / noise)
        # An episode that the disturbance ends early is unpredictable from there on.
        largest[rows.stop :] = np.inf
    # An error can vanish for a moment; what it has once reached it may reach again.
    return np.maximum.accumulate(largest)


@dataclass
class Disturbance:
    """Adds or subtracts the fraction `noise` of each component of the state."""

    noise: float
    generator: np.random.Generator
    before: Any = 0.0

    def __call__(self, _t, state):
        now = np.asarray(state)
        # A component that crosses zero inherits the rounding of what was added to it.
        size = np.maximum(np.abs(self.before), np.abs(now))
        self.before = now
        return (now + self.noise * size * self.generator.choice((-1.0, 1.0), len(now))).astype(now.dtype)


def observe(environment, state) -> np.ndarray:
    """The observation of a state in f64; Gymnasium gives one only from `reset` and `step`, in f32."""
    if environment.name == "Pendulum-v1":
        theta, theta_dot = state
        return np.array([np.cos(theta), np.sin(theta), theta_dot])
    if environment.name == "Acrobot-v1":
        theta1, theta2, *velocities = state
        angles = [np.cos(theta1), np.sin(theta1), np.cos(theta2), np.sin(theta2)]
        return np.array([*angles, *velocities])
    return np.array(state)


# Policies. Random actions rarely end an episode of MountainCar or Acrobot and never balance a pole, so
# each environment also has one that does what random actions do not.


def random_discrete(env, _state, generator):
    return int(generator.integers(env.action_space.n))


def random_continuous(env, _state, generator):
    high = OVERSHOOT * float(env.action_space.high[0])
    return float(np.float32(generator.uniform(-high, high)))


def balance(_env, state, _generator):
    return int(state[2] + 0.25 * state[3] > 0)


def swing_up(env, state, _generator):
    theta, theta_dot = state
    phi = (theta + math.pi) % (2 * math.pi) - math.pi
    if abs(phi) < 0.5:
        torque = -10 * phi - 2 * theta_dot
    else:
        lack = env.g / 2 - (theta_dot**2 / 6 + env.g / 2 * math.cos(phi))
        torque = math.copysign(1, theta_dot) * min(max(10 * lack, -2), 2)
    return float(np.float32(torque))


def push_along_velocity(_env, state, _generator):
    return 2 if state[1] >= 0 else 0


def push_along_velocity_noisily(_env, state, generator):
    return float(np.float32(math.copysign(generator.uniform(0.2, OVERSHOOT), state[1])))


def torque_against_first_joint(_env, state, _generator):
    return 0 if state[2] > 0 else 2


# Parameters under Phalanx's names, set where Gymnasium keeps them.


def set_cartpole(env, name, value):
    if name == "sutton_barto_reward":
        env._sutton_barto_reward = value == "true"
    else:
        setattr(env, name, value)
    # Gymnasium computes these once, when it is constructed.
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length


def set_acrobot(env, name, value):
    setattr(env, name if name in ("dt", "book_or_nips") else name.upper(), value)


# Thresholds.


def cartpole_threshold(env, state):
    x, _, theta, _ = state
    return min(abs(abs(x) - env.x_threshold), abs(abs(theta) - env.theta_threshold_radians))


def mountain_car_threshold(env, state):
    position, velocity = state
    return min(abs(position - env.goal_position), abs(velocity - env.goal_velocity))


def acrobot_threshold(_env, state):
    return abs(-math.cos(state[0]) - math.cos(state[0] + state[1]) - 1.0)


def no_threshold(_env, _state):
    return math.inf


MOUNTAIN_CAR_LIMITS = {
    "max_speed": (0.05, 0.08),
    "min_position": (-1.3, -1.1),
    "max_position": (0.6, 0.7),
    "goal_position": (0.3, 0.55),
    "goal_velocity": (0.0, 0.02),
}

ENVIRONMENTS = (
    Environment(
        name="CartPole-v1",
        parameters={
            "gravity": (5.0, 15.0),
            "masscart": (0.5, 2.0),
            "masspole": (0.05, 0.3),
            "length": (0.3, 1.0),
            "force_mag": (5.0, 15.0),
            "tau": (0.01, 0.03),
            "theta_threshold_radians": (0.1, 0.4),
            "x_threshold": (1.0, 3.0),
            "sutton_barto_reward": "true",
            "kinematics_integrator": "semi_implicit",
        },
        set_parameter=set_cartpole,
        policies=(random_discrete,),
        threshold_distance=cartpole_threshold,
    ),
    Environment(
        name="Pendulum-v1",
        parameters={
            "g": (5.0, 12.0),
            "m": (0.5, 2.0),
            "l": (0.5, 1.5),
            "dt": (0.02, 0.06),
            "max_torque": (1.0, 3.0),
            "max_speed": (4.0, 10.0),
        },
        set_parameter=setattr,
        policies=(random_continuous,) * 5 + (swing_up,),
        threshold_distance=no_threshold,
    ),
    Environment(
        name="MountainCar-v0",
        parameters={"force": (0.0008, 0.0015), "gravity": (0.002, 0.003), **MOUNTAIN_CAR_LIMITS},
        set_parameter=setattr,
        policies=(random_discrete, push_along_velocity),
        threshold_distance=mountain_car_threshold,
    ),
    Environment(
        name="MountainCarContinuous-v0",
        # Gravity is a literal in Gymnasium's code.
        parameters={"power": (0.001, 0.002), **MOUNTAIN_CAR_LIMITS},
        set_parameter=setattr,
        policies=(random_continuous, push_along_velocity_noisily),
        threshold_distance=mountain_car_threshold,
        state_roundoff=2.0**-24,
    ),
    Environment(
        name="Acrobot-v1",
        # Gravity is a literal in Gymnasium's code.
        parameters={
            "link_length_1": (0.8, 1.2),
            "link_length_2": (0.8, 1.2),
            "link_mass_1": (0.8, 1.2),
            "link_mass_2": (0.8, 1.2),
            "link_com_pos_1": (0.4, 0.6),
            "link_com_pos_2": (0.4, 0.6),
            "link_moi": (0.8, 1.2),
            "max_vel_1": (2.0, 5.0),
            "max_vel_2": (3.0, 8.0),
            "dt": (0.1, 0.2),
            "book_or_nips": "nips",
        },
        set_parameter=set_acrobot,
        policies=(random_discrete, torque_against_first_joint),
        threshold_distance=acrobot_threshold,
    ),
)
