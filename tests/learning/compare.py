"""How long PPO takes to solve CartPole-v1: Stable-Baselines3 and PureJaxRL against `phalanx train`.

    python compare.py --phalanx PATH [--rounds N] [--out FILE]

Every figure is that of a process of its own; the sides take turns, each round with another seed. Solved means that
the mean return of 100 greedy episodes is at least 475, looked at every 2 048 steps.

| side | settings | what its clock counts |
|---|---|---|
| sb3 | RL Zoo's for CartPole-v1 (8 environments) | `learn` until solved, evaluations left out; and the whole process |
| phalanx | the same | from the start of the process until solved, evaluations included; and training alone |
| phalanx-preset | the shipped preset | the same |
| purejaxrl | its own defaults (4 environments, 500 000 steps) | the whole training: it is one compiled function |

Stable-Baselines3 computes with one thread, which is faster for networks this small. PureJaxRL is not on PyPI; what
is run here is a short re-implementation of its `ppo.py` with the same settings, network, losses and structure (all of
training in nested scans under one `jit`), on gymnax's CartPole. Its compilation is counted apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOLVED = 475.0
EPISODES = 100
EVALUATE_EVERY = 2048
# https://github.com/DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml
ZOO = {
    "num_envs": 8,
    "total_timesteps": 100_000,
    "rollout_steps": 32,
    "batch_size": 256,
    "num_epochs": 20,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "ent_coef": 0.0,
    "learning_rate": 1e-3,
    "clip_coef": 0.2,
}


def stable_baselines(seed: int) -> dict:
    start = time.perf_counter()
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    envs = gymnasium.make_vec("CartPole-v1", num_envs=EPISODES, vectorization_mode="vector_entry_point")

    def evaluated(model) -> float:
        observations, _ = envs.reset(seed=10_000 + seed)
        returns, running = np.zeros(EPISODES), np.ones(EPISODES, bool)
        while running.any():
            actions, _ = model.predict(observations, deterministic=True)
            observations, rewards, terminated, truncated, _ = envs.step(actions)
            returns += rewards * running
            running &= ~(terminated | truncated)
        return float(returns.mean())

    class UntilSolved(BaseCallback):
        evaluation_seconds = 0.0
        found = None
        next_look = EVALUATE_EVERY

        def _on_step(self) -> bool:
            return self.found is None

        def _on_rollout_start(self) -> None:
            # The weights are those after the update of the roll-out before.
            if self.num_timesteps < self.next_look:
                return
            self.next_look += EVALUATE_EVERY
            begin = time.perf_counter()
            if evaluated(self.model) >= SOLVED:
                self.found = self.num_timesteps
            self.evaluation_seconds += time.perf_counter() - begin

    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=ZOO["num_envs"], seed=seed),
        n_steps=ZOO["rollout_steps"],
        batch_size=ZOO["batch_size"],
        n_epochs=ZOO["num_epochs"],
        gamma=ZOO["gamma"],
        gae_lambda=ZOO["gae_lambda"],
        ent_coef=ZOO["ent_coef"],
        learning_rate=lambda left: ZOO["learning_rate"] * left,
        clip_range=lambda left: ZOO["clip_coef"] * left,
        seed=seed,
        device="cpu",
    )
    look = UntilSolved()
    begin = time.perf_counter()
    model.learn(ZOO["total_timesteps"], callback=look)
    end = time.perf_counter()
    return {
        "solved_at_step": look.found,
        "training_seconds": end - begin - look.evaluation_seconds,
        "process_seconds": end - start - look.evaluation_seconds,
    }


def pure_jax(seed: int) -> dict:
    start = time.perf_counter()
    import flax.linen as nn
    import gymnax
    import jax
    import jax.numpy as jnp
    import optax
    from flax.linen.initializers import orthogonal

    envs, steps, total, epochs, parts = 4, 128, 500_000, 4, 4
    gamma, decay, clip, learning_rate = 0.99, 0.95, 0.2, 2.5e-4
    updates = total // (envs * steps)
    env, params = gymnax.make("CartPole-v1")

    def step_env(key, state, action):
        """Observation, state, reward and whether the episode has ended; gymnax starts a new one by itself."""
        observation, state, reward, terminated, truncated, _ = env.step(key, state, action, params)
        return observation, state, reward, jnp.logical_or(terminated, truncated).astype(jnp.float32)

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            def tower(outputs, gain):
                y = x
                for _ in range(2):
                    y = nn.tanh(nn.Dense(64, kernel_init=orthogonal(2**0.5))(y))
                return nn.Dense(outputs, kernel_init=orthogonal(gain))(y)

            return jax.nn.log_softmax(tower(2, 0.01)), tower(1, 1.0)[..., 0]

    network = Network()

    def rate(count):
        return learning_rate * (1.0 - (count // (parts * epochs)) / updates)

    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(rate, eps=1e-5))

    def of(log_probs, actions):
        return jnp.take_along_axis(log_probs, actions[..., None], -1)[..., 0]

    def loss(weights, batch):
        observations, actions, old_log_probs, old_values, advantages, targets = batch
        log_probs, values = network.apply(weights, observations)
        clipped = old_values + jnp.clip(values - old_values, -clip, clip)
        value_loss = 0.5 * jnp.maximum((values - targets) ** 2, (clipped - targets) ** 2).mean()
        ratio = jnp.exp(of(log_probs, actions) - old_log_probs)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        gain = jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return -gain + 0.5 * value_loss - 0.01 * entropy

    def rollout(carry, _):
        weights, state, observations, key = carry
        key, choose, move = jax.random.split(key, 3)
        log_probs, values = network.apply(weights, observations)
        actions = jax.random.categorical(choose, log_probs)
        keys = jax.random.split(move, envs)
        following, state, rewards, done = jax.vmap(step_env)(keys, state, actions)
        seen = (observations, actions, of(log_probs, actions), values, rewards, done)
        return (weights, state, following, key), seen

    def update(carry, _):
        weights, memory, state, observations, key = carry
        carry, seen = jax.lax.scan(rollout, (weights, state, observations, key), None, steps)
        _, state, observations, key = carry
        seen_observations, actions, log_probs, values, rewards, done = seen
        last = network.apply(weights, observations)[1]

        def backwards(carry, at):
            advantage, following = carry
            reward, value, ended = at
            delta = reward + gamma * following * (1 - ended) - value
            advantage = delta + gamma * decay * (1 - ended) * advantage
            return (advantage, value), advantage

        first = (jnp.zeros_like(last), last)
        _, advantages = jax.lax.scan(backwards, first, (rewards, values, done), reverse=True, unroll=16)
        batch = (seen_observations, actions, log_probs, values, advantages, advantages + values)
        batch = jax.tree.map(lambda x: x.reshape((envs * steps, *x.shape[2:])), batch)

        def epoch(carry, _):
            weights, memory, key = carry
            key, shuffle = jax.random.split(key)
            order = jax.random.permutation(shuffle, envs * steps)
            mixed = jax.tree.map(lambda x: x[order].reshape((parts, -1, *x.shape[1:])), batch)

            def minibatch(carry, part):
                weights, memory = carry
                change, memory = optimiser.update(jax.grad(loss)(weights, part), memory)
                return (optax.apply_updates(weights, change), memory), None

            (weights, memory), _ = jax.lax.scan(minibatch, (weights, memory), mixed)
            return (weights, memory, key), None

        (weights, memory, key), _ = jax.lax.scan(epoch, (weights, memory, key), None, epochs)
        return (weights, memory, state, observations, key), None

    def train(key):
        key, for_weights, for_envs = jax.random.split(key, 3)
        observations, state = jax.vmap(lambda k: env.reset(k, params))(jax.random.split(for_envs, envs))
        weights = network.init(for_weights, observations[0])
        carry = (weights, optimiser.init(weights), state, observations, key)
        (weights, *_), _ = jax.lax.scan(update, carry, None, updates)
        return weights

    def judged(weights, key):
        def one(key):
            observation, state = env.reset(key, params)

            def step(carry, _):
                observation, state, running, total, key = carry
                key, move = jax.random.split(key)
                action = jnp.argmax(network.apply(weights, observation)[0])
                observation, state, reward, done = step_env(move, state, action)
                return (observation, state, running * (1 - done), total + reward * running, key), None

            carry, _ = jax.lax.scan(step, (observation, state, jnp.float32(1), jnp.float32(0), key), None, 500)
            return carry[3]

        return jax.vmap(one)(jax.random.split(key, EPISODES)).mean()

    key = jax.random.PRNGKey(seed)
    begin = time.perf_counter()
    compiled = jax.jit(train).lower(key).compile()
    middle = time.perf_counter()
    weights = jax.block_until_ready(compiled(key))
    end = time.perf_counter()
    return {
        "final_return": float(judged(weights, jax.random.PRNGKey(10_000 + seed))),
        "compile_seconds": middle - begin,
        "training_seconds": end - middle,
        "process_seconds": end - start,
    }


def phalanx(program: str, seed: int, preset: bool) -> dict:
    settings = ["env=CartPole-v1", "agent=ppo", f"run.eval_rollouts={EPISODES}", f"run.seed={seed}"]
    settings.append(f"run.eval_stop_return={SOLVED}")
    num_envs = 32 if preset else ZOO["num_envs"]
    settings.append(f"run.eval_frequency={EVALUATE_EVERY // num_envs}")
    if not preset:
        for key in ("num_envs", "total_timesteps", "rollout_steps", "num_epochs", "gamma", "gae_lambda", "ent_coef"):
            settings.append(f"{key}={ZOO[key]}")
        # One minibatch is the whole roll-out; the network is that of Stable-Baselines3.
        settings += [f"learning_rate={ZOO['learning_rate']}", f"clip_coef={ZOO['clip_coef']}", "anneal_clip=true"]
        settings += ["num_minibatches=1", "hidden=[64, 64]", "clip_vloss=false"]
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        command = [program, "train", "--quiet", "--json", "--root", folder, *settings]
        process = subprocess.run(command, capture_output=True, text=True)
        end = time.time()
        if process.returncode != 0:
            sys.exit(f"phalanx train failed: {process.stderr.strip()}")
        document = json.loads(process.stdout)
        rows = [json.loads(line) for line in (Path(document["run_dir"]) / "metrics.jsonl").read_text().splitlines()]
    solved = next((row for row in rows if row.get("eval/return/mean", 0.0) >= SOLVED), None)
    step = solved and solved["global_step"]
    return {
        "solved_at_step": step,
        "training_seconds": step and step / document["steps_per_second"],
        "process_seconds": solved and solved["wall_time"] - start,
        "whole_process_seconds": end - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phalanx", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps({"sb3": stable_baselines, "purejaxrl": pure_jax}[arguments.side](arguments.seed)))
        return

    def elsewhere(side: str, seed: int) -> dict:
        command = [sys.executable, __file__, "--phalanx", "-", "--side", side, "--seed", str(seed)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(f"{side} failed: {process.stderr.strip().splitlines()[-1]}")
        return json.loads(process.stdout.splitlines()[-1])

    sides = {
        "sb3": lambda seed: elsewhere("sb3", seed),
        "phalanx": lambda seed: phalanx(arguments.phalanx, seed, preset=False),
        "purejaxrl": lambda seed: elsewhere("purejaxrl", seed),
        "phalanx-preset": lambda seed: phalanx(arguments.phalanx, seed, preset=True),
    }
    found: dict[str, list] = {side: [] for side in sides}
    for seed in range(1, arguments.rounds + 1):
        for side, measure in sides.items():
            found[side].append(measure(seed))
            figures = ", ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in found[side][-1].items())
            print(f"round {seed}, {side}: {figures}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")

    def spread(side: str, key: str) -> str:
        values = [run[key] for run in found[side] if run.get(key) is not None]
        if not values:
            return "-"
        return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    print("\n| side | solved | training until solved, s | process until solved, s |\n|---|---|---|---|")
    for side in ("sb3", "phalanx", "phalanx-preset"):
        solved = sum(run["solved_at_step"] is not None for run in found[side])
        print(f"| {side} | {solved} of {arguments.rounds} | {spread(side, 'training_seconds')} | {spread(side, 'process_seconds')} |")
    solved = sum(run["final_return"] >= SOLVED for run in found["purejaxrl"])
    whole = f"{spread('purejaxrl', 'training_seconds')}, all 500 000 steps"
    process = f"{spread('purejaxrl', 'process_seconds')}, of which compiling {spread('purejaxrl', 'compile_seconds')}"
    print(f"| purejaxrl | {solved} of {arguments.rounds} | {whole} | {process} |")


if __name__ == "__main__":
    main()
