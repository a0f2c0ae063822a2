"""Gymnasium: its own NumPy vector environment, its SyncVectorEnv, and one environment in a plain loop."""

MOST_SYNC_ENVS = 10_000


def version():
    import gymnasium

    return gymnasium.__version__


class VectorEntryPoint(HostSteps):
    def __init__(self, case):
        import gymnasium

        envs = gymnasium.make_vec(case["env"], case["num_envs"], vectorization_mode="vector_entry_point")
        envs.reset(seed=case["seed"] % 2**31)
        # Without the wrappers of make_vec, if any: the fastest way in.
        envs = envs.unwrapped
        self.start(envs.step, drawn_actions(envs.single_action_space, case["num_envs"], case["seed"]))


class Sync(HostSteps):
    def __init__(self, case):
        import gymnasium

        if case["num_envs"] > MOST_SYNC_ENVS:
            raise ValueError(f"SyncVectorEnv is measured with at most {MOST_SYNC_ENVS} environments")
        make = lambda: gymnasium.make(case["env"], disable_env_checker=True)
        envs = gymnasium.vector.SyncVectorEnv([make] * case["num_envs"])
        envs.reset(seed=case["seed"] % 2**31)
        self.start(envs.step, drawn_actions(envs.single_action_space, case["num_envs"], case["seed"]))


class Single:
    """One environment without the wrapper that checks every call. Resets take time, but are no steps."""

    def __init__(self, case):
        import gymnasium

        self.env = gymnasium.make(case["env"], disable_env_checker=True)
        self.env.reset(seed=case["seed"] % 2**31)
        rows = drawn_actions(self.env.action_space, 1, case["seed"])
        self.actions = [int(row[0]) if hasattr(self.env.action_space, "n") else row[0] for row in rows]
        self.calls, self.sum = 0, 0.0

    def run(self, iterations):
        step, reset, actions, calls = self.env.step, self.env.reset, self.actions, self.calls
        for _ in range(iterations):
            observation, reward, terminated, truncated, _info = step(actions[calls % ACTION_ROWS])
            calls += 1
            if terminated or truncated:
                observation, _info = reset()
            if calls % CHECKSUM_STRIDE == 0:
                self.sum += float(observation.sum()) + float(reward)
        self.sum += float(observation.sum())
        self.calls = calls
        return iterations, self.sum


MODES = {"vector_entry_point": VectorEntryPoint, "sync": Sync, "single": Single}


def trajectory(name, starts, actions):
    """The same start states and actions, in the plain environment and in the vector one, which must agree."""
    import gymnasium
    import numpy as np

    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    vector = gymnasium.make_vec(name, len(starts), vectorization_mode="vector_entry_point").unwrapped
    vector.reset(seed=0)
    vector.state = np.array(starts, dtype=np.float64).T
    rows = [vector.step(np.array([row[t] for row in actions])) for t in range(len(actions[0]))]
    episodes = []
    for i, (start, row) in enumerate(zip(starts, actions)):
        env.reset(seed=0)
        env.state = np.array(start, dtype=np.float64)
        steps = []
        for t, action in enumerate(row):
            observation, reward, terminated, truncated, _info = env.step(action)
            steps.append([observation.tolist(), float(reward), bool(terminated)])
            observations, rewards, ends, _truncated, _info = rows[t]
            if steps[-1] != [observations[i].tolist(), float(rewards[i]), bool(ends[i])]:
                raise ValueError(f"its vector environment differs from its plain one at step {t + 1}")
            if terminated:
                break
        episodes.append({"start": start, "steps": steps})
    return episodes
