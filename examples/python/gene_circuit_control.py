"""Control of a gene circuit by light: controllers against an agent that learns.

    python examples/python/gene_circuit_control.py            # a minute or two
    python examples/python/gene_circuit_control.py --quick

A cell makes a fluorescent protein under green light (an exact stochastic simulation, one decision in five minutes,
a day long), and the fluorescence should follow a target. Bang-bang and PI see only the last measurement. PQN
learns from the last sixteen. The return is minus the sum of deviations, in molecules.
"""

import argparse

import phalanx

ENV = "gene-circuit"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="learn for seconds only")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    episodes = 20 if args.quick else 200

    # With the settings that ship for this environment; see `config.agent`.
    controllers = {"random": "random", "bang-bang": "bangbang", "PI": "pid"}
    for name, agent in controllers.items():
        config = phalanx.create_eval_config(ENV, agent, eval_rollouts=episodes, seed=args.seed)
        tell(name, phalanx.evaluate(config))

    length = {"steps_per_env": 576} if args.quick else {}
    config = phalanx.create_config(ENV, "pqn", seed=args.seed, eval_rollouts=episodes, eval_frequency=0, **length)
    trained = phalanx.train_and_evaluate(config, root=None)
    tell("PQN", phalanx.evaluate(config, trained.agent_state))
    steps, speed = trained.agent_state.global_step, phalanx.lab.format_number(trained.steps_per_second)
    print(f"{steps} steps of {config.run.num_envs} cells, {speed} steps/s")


def tell(name, found):
    print(f"{name:<10} {found.mean_return:8.0f} ± {found.std_return:.0f} over {found.num_episodes} days")


if __name__ == "__main__":
    main()
