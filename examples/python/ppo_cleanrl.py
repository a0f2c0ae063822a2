"""PPO in one file, in the manner of CleanRL, on a Phalanx vector environment.

    python examples/python/ppo_cleanrl.py                     # CartPole-v1, half a million steps
    python examples/python/ppo_cleanrl.py --env-id Acrobot-v1 --num-envs 32
    python examples/python/ppo_cleanrl.py --quick             # seconds, to see that it runs

Other than CleanRL's it tells a time limit from an end: where an episode was truncated, the value of its true last
observation (`final_obs`) is part of the return. The environment is the only part that is ours; needs torch.
"""

import argparse
import time
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical

import phalanx


@dataclass
class Args:
    env_id: str = "CartPole-v1"
    seed: int = 1
    total_timesteps: int = 500_000
    learning_rate: float = 1e-3
    num_envs: int = 64
    num_steps: int = 64
    gamma: float = 0.99
    gae_lambda: float = 0.95
    num_minibatches: int = 8
    update_epochs: int = 4
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


def layer(size_in, size_out, gain=np.sqrt(2)):
    linear = nn.Linear(size_in, size_out)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        size = int(np.prod(envs.single_observation_space.shape))
        self.critic = nn.Sequential(layer(size, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        actions = int(envs.single_action_space.n)
        self.actor = nn.Sequential(layer(size, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, 0.01))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def act(self, obs, action=None):
        chances = Categorical(logits=self.actor(obs))
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.value(obs)


def train(args, report=print):
    """Trains an agent; answers the returns of all episodes that ended, in order."""
    torch.manual_seed(args.seed)
    generator = np.random.default_rng(args.seed)
    envs = phalanx.make_vec(args.env_id, num_envs=args.num_envs, autoreset_mode="SameStep", episode_stats=True)
    agent = Agent(envs)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros(shape + envs.single_observation_space.shape)
    actions = torch.zeros(shape, dtype=torch.int64)
    log_probs, rewards, ends, values, bootstrap = (torch.zeros(shape) for _ in range(5))

    returns, global_step, start = [], 0, time.monotonic()
    next_obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
    batch = args.num_steps * args.num_envs
    updates = max(args.total_timesteps // batch, 1)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - update / updates)
        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step] = next_obs
            with torch.no_grad():
                actions[step], log_probs[step], _, values[step] = agent.act(next_obs)
            new_obs, reward, terminated, truncated, infos = envs.step(actions[step].numpy())
            next_obs = torch.from_numpy(new_obs)
            rewards[step] = torch.from_numpy(reward)
            ended = terminated | truncated
            ends[step] = torch.from_numpy(ended)
            bootstrap[step] = 0.0
            if ended.any():
                returns += infos["episode"]["r"][ended].tolist()
                cut_short = truncated & ~terminated
                if cut_short.any():
                    last = torch.from_numpy(np.stack(infos["final_obs"][cut_short]))
                    with torch.no_grad():
                        bootstrap[step, torch.from_numpy(cut_short)] = agent.value(last)

        # Advantages: nothing crosses the end of an episode but the value of where a limit cut it short.
        with torch.no_grad():
            advantages, later = torch.zeros(shape), torch.zeros(args.num_envs)
            next_value = agent.value(next_obs)
            for step in reversed(range(args.num_steps)):
                goes_on = 1.0 - ends[step]
                delta = rewards[step] + args.gamma * (goes_on * next_value + bootstrap[step]) - values[step]
                later = delta + args.gamma * args.gae_lambda * goes_on * later
                advantages[step], next_value = later, values[step]
            targets = advantages + values

        flat = [part.flatten(0, 1) for part in (obs, actions, log_probs, advantages, targets, values)]
        for _ in range(args.update_epochs):
            for rows in np.array_split(generator.permutation(batch), args.num_minibatches):
                b_obs, b_actions, b_log_probs, b_advantages, b_targets, b_values = (part[rows] for part in flat)
                _, log_prob, entropy, value = agent.act(b_obs, b_actions)
                ratio = (log_prob - b_log_probs).exp()
                b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = torch.max(-b_advantages * ratio, -b_advantages * clipped).mean()
                near = b_values + (value - b_values).clamp(-args.clip_coef, args.clip_coef)
                value_loss = 0.5 * torch.max((value - b_targets) ** 2, (near - b_targets) ** 2).mean()
                loss = policy_loss - args.ent_coef * entropy.mean() + args.vf_coef * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        if update % 10 == 9 or update == updates - 1:
            mean = np.mean(returns[-100:]) if returns else float("nan")
            speed = global_step / (time.monotonic() - start)
            report(f"step {global_step:>8}  return of the last 100 episodes {mean:8.1f}  {speed:8.0f} steps/s")
    envs.close()
    return returns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="train for seconds only")
    for known in fields(Args):
        parser.add_argument(f"--{known.name.replace('_', '-')}", type=type(known.default), default=known.default)
    given = vars(parser.parse_args())
    quick = given.pop("quick")
    args = Args(**given)
    if quick:
        args.total_timesteps, args.num_envs = 100_000, 64
    returns = train(args)
    first, last = np.mean(returns[:100]), np.mean(returns[-100:])
    print(f"{len(returns)} episodes: return {first:.1f} at first, {last:.1f} at last")


if __name__ == "__main__":
    main()
