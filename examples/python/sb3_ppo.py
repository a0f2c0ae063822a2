"""PPO of Stable-Baselines3 on Phalanx environments.

    python examples/python/sb3_ppo.py            # CartPole-v1, 200 000 steps
    python examples/python/sb3_ppo.py --quick

`phalanx.to_sb3` is the only line that is not Stable-Baselines3's own. Needs stable-baselines3.
"""

import argparse
import time

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import phalanx


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="train for seconds only")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    envs = VecMonitor(phalanx.to_sb3(args.env_id, args.num_envs))
    envs.seed(args.seed)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=512, learning_rate=1e-3, seed=args.seed, device="cpu")
    before, _ = evaluate_policy(model, envs, n_eval_episodes=32)
    start = time.monotonic()
    model.learn(40_000 if args.quick else 200_000)
    seconds = time.monotonic() - start
    after, spread = evaluate_policy(model, envs, n_eval_episodes=32)
    print(f"return {before:.1f} before, {after:.1f} ± {spread:.1f} after {model.num_timesteps} steps in {seconds:.1f} s")
    envs.close()


if __name__ == "__main__":
    main()
