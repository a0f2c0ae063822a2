"""CartPole by a call for each step: Phalanx beside Gymnasium, measured by the lab.

    python examples/python/benchmark_comparison.py                    # 4096 environments
    python examples/python/benchmark_comparison.py --num-envs 65536
    python examples/python/benchmark_comparison.py --quick

All get the same actions from one array, made beforehand, and give their observations back. For figures to quote use
`phalanx bench comparison`, which measures in fresh processes that take turns.
"""

import argparse
import itertools

import gymnasium
import numpy as np

import phalanx
from phalanx import lab

ENV = "CartPole-v1"


def subjects(num_envs):
    yield "phalanx, copies", lambda: phalanx.make_vec(ENV, num_envs=num_envs)
    yield "phalanx, views", lambda: phalanx.make_vec(ENV, num_envs=num_envs, copy=False)
    yield "gymnasium, NumPy", lambda: gymnasium.make_vec(ENV, num_envs=num_envs, vectorization_mode="vector_entry_point")
    if num_envs <= 1024:
        yield "gymnasium, sync", lambda: gymnasium.make_vec(ENV, num_envs=num_envs, vectorization_mode="sync")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="few environments and few steps")
    args = parser.parse_args()
    if args.quick:
        args.num_envs, args.iterations = 64, 50

    actions = np.random.default_rng(0).integers(0, 2, (64, args.num_envs))
    suite = lab.BenchmarkSuite()
    for name, make in subjects(args.num_envs):
        envs = make()
        envs.reset(seed=0)
        rows = itertools.cycle(actions)
        suite.benchmark_function(
            lambda step=envs.step, rows=rows: step(next(rows)),
            name, "host_api_random", args.iterations, warmup=20, num_envs=args.num_envs,
        )  # fmt: skip
        envs.close()

    slowest = min(result["throughput"] for result in suite.results)
    for result in suite.results:
        interval = result["throughput_ci95"]
        rate, low, high = (lab.format_number(args.num_envs * per_call) for per_call in
                           (result["throughput"], interval["low"], interval["high"]))  # fmt: skip
        times = result["throughput"] / slowest
        print(f"{result['name']:<18} {rate:>7} steps/s  [{low}, {high}]  {times:7.1f}x")


if __name__ == "__main__":
    main()
