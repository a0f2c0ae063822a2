"""Gymnax: the whole loop (actions, steps, resets) in one compiled scan over all environments."""


def version():
    import importlib.metadata

    import gymnax  # noqa: F401  (whether it works is part of the answer)
    import jax

    return f"{importlib.metadata.version('gymnax')} (jax {jax.__version__})"


class Scan:
    random = "threefry2x32"

    def __init__(self, case):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_default_prng_impl", self.random)
        import gymnax

        env, params = gymnax.make(case["env"])
        num_envs, chunk, space = case["num_envs"], case["scan_chunk_size"], env.action_space(params)

        def actions(key):
            if hasattr(space, "n"):
                return jax.random.randint(key, (num_envs,), 0, space.n)
            return jax.random.uniform(key, (num_envs,) + space.shape, minval=space.low, maxval=space.high)

        def body(carry, _):
            key, state, total = carry
            key, key_actions, key_steps = jax.random.split(key, 3)
            keys = jax.random.split(key_steps, num_envs)
            out = jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions(key_actions), params)
            # What is not used would be compiled away: every observation and reward goes into the number.
            return (key, out[1], total + out[0].sum() + out[2].sum()), None

        self.scan = jax.jit(lambda carry: jax.lax.scan(body, carry, None, length=chunk)[0], donate_argnums=0)
        key = jax.random.key(case["seed"] % 2**31)
        _observation, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, num_envs), params)
        self.carry, self.steps = (key, state, jnp.float32(0)), num_envs * chunk

    def run(self, iterations):
        import jax

        carry = self.carry
        for _ in range(iterations):
            carry = self.scan(carry)
        self.carry = jax.block_until_ready(carry)
        return iterations * self.steps, float(carry[2])


class FastRandom(Scan):
    random = "unsafe_rbg"


MODES = {"threefry": Scan, "rbg": FastRandom}


def trajectory(name, starts, actions):
    import gymnax
    import jax
    import jax.numpy as jnp

    if name != "CartPole-v1":
        raise ValueError(f"start states of gymnax's {name} cannot be set here")
    env, params = gymnax.make(name)
    from gymnax.environments.classic_control.cartpole import EnvState

    step, key = jax.jit(env.step_env), jax.random.key(0)
    episodes = []
    for start, row in zip(starts, actions):
        x, x_dot, theta, theta_dot = (jnp.float32(value) for value in start)
        state = EnvState(time=0, x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)
        steps = []
        for action in row:
            observation, state, reward, terminated, *_rest = step(key, state, action, params)
            steps.append([[float(value) for value in observation], float(reward), bool(terminated)])
            if terminated:
                break
        episodes.append({"start": start, "steps": steps})
    return episodes
