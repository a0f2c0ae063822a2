"""EnvPool: all environments with each call, or the batch that is ready first."""


def version():
    import envpool

    return envpool.__version__


class Sync(HostSteps):
    threads = 1

    def __init__(self, case):
        import envpool

        n = case["num_envs"]
        envs = envpool.make_gymnasium(case["env"], num_envs=n, num_threads=self.threads, seed=case["seed"] % 2**31)
        envs.reset()
        self.start(envs.step, drawn_actions(envs.action_space, n, case["seed"]))


class SyncAllCores(Sync):
    threads = os.cpu_count() or 1


class Async:
    """Half of the environments are stepped while the other half is waited for."""

    def __init__(self, case):
        import envpool

        n = case["num_envs"]
        self.batch = max(1, n // 2)
        self.envs = envpool.make_gymnasium(
            case["env"], num_envs=n, batch_size=self.batch, num_threads=os.cpu_count() or 1, seed=case["seed"] % 2**31
        )
        self.actions = drawn_actions(self.envs.action_space, self.batch, case["seed"])
        self.envs.async_reset()
        self.calls, self.sum = 0, 0.0

    def run(self, iterations):
        import numpy as np

        recv, send, resets = self.envs.recv, self.envs.send, 0
        for _ in range(iterations):
            observation, reward, terminated, truncated, info = recv()
            send(self.actions[self.calls % ACTION_ROWS], info["env_id"])
            self.calls += 1
            # Every end is followed by a step that only resets.
            resets += int(np.count_nonzero(np.logical_or(terminated, truncated)))
            if self.calls % CHECKSUM_STRIDE == 0:
                self.sum += float(observation.sum()) + float(reward.sum())
        self.sum += float(observation.sum())
        return iterations * self.batch - resets, self.sum


MODES = {"sync1": Sync, "sync": SyncAllCores, "async": Async}


def trajectory(name, starts, actions):
    """Its states cannot be set: it begins where it likes and says where that was, rounded to single precision."""
    import envpool
    import numpy as np

    envs = envpool.make_gymnasium(name, num_envs=len(starts), num_threads=1, seed=7)
    observations, _info = envs.reset()
    episodes = [{"start": row.astype(float).tolist(), "steps": []} for row in observations]
    if name != "CartPole-v1":
        raise ValueError(f"the state of {name} cannot be told from its observation")
    for t in range(len(actions[0])):
        observations, rewards, terminated, _truncated, _info = envs.step(np.array([row[t] for row in actions]))
        for i, episode in enumerate(episodes):
            if not (episode["steps"] and episode["steps"][-1][2]):
                episode["steps"].append([observations[i].astype(float).tolist(), float(rewards[i]), bool(terminated[i])])
    return episodes
