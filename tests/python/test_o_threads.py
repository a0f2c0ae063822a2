"""O. Threads, the interpreter's lock, processes, panics, Ctrl-C; and whether memory stays flat through all of it."""

import gc
import os
import resource
import signal
import threading
import time

import numpy as np
import pytest

import phalanx


LONG = 1_000_000  # environments: a step or a reset takes long enough for another thread to be seen in it


@pytest.mark.parametrize("what", ["rollout", "step", "reset"])
def test_o1_others_run_meanwhile(what):
    env = phalanx.make_vec("CartPole-v1", 10_000 if what == "rollout" else LONG, threads=1)
    env.reset(seed=0)
    actions = np.zeros(env.num_envs, np.int32)
    env.step(actions)
    call = {
        "rollout": lambda: phalanx.rollout(env, 2_000, scan_chunk_size=2_000),
        "step": lambda: env.step(actions),
        "reset": lambda: env._engine.reset(),
    }[what]
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    best = 0
    try:
        # The other thread's turns before and after a call are short; a busy machine may not let it run in the first.
        for _ in range(10):
            before = counted[0]
            call()
            best = max(best, counted[0] - before)
    finally:
        stop.set()
        thread.join()
    assert best >= 1_000


def test_o2_two_threads_on_one_environment():
    env = phalanx.make_vec("CartPole-v1", 10_000, threads=1)
    env.reset(seed=0)
    errors = []

    def run():
        try:
            phalanx.rollout(env, 3_000, scan_chunk_size=3_000)
        except RuntimeError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(errors) == 1 and "another thread" in errors[0]
    env.step(np.zeros(10_000, int))


def test_o3_a_panic_is_an_exception(capfd):
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="on request"):
        env._engine._panic()
    with pytest.raises(RuntimeError, match="cannot be used any more"):
        env.step([0, 0])
    calls = (
        lambda: env.reset(seed=0), env.state, env.snapshot, env.action_masks, lambda: env.get_param("gravity"),
        lambda: env.set_param("gravity", 1.0), env.render, lambda: phalanx.rollout(env, 3),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="cannot be used any more"):
            call()
    env.close()
    phalanx.make_vec("CartPole-v1", 2).reset(seed=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_o4_a_forked_child_steps_on():
    env, twin = (phalanx.make_vec("CartPole-v1", 5_000, threads=2) for _ in range(2))
    actions = np.zeros(5_000, int)
    for each in (env, twin):
        each.reset(seed=0)
        each.step(actions)
    expected = float(twin.step(actions)[0].sum())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sums = [float(env.step(actions)[0].sum()), 0.0]
            phalanx.rollout(env, 10)
            env.close()
            del twin
            gc.collect()
            code = 0 if sums[0] == expected else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert float(env.step(actions)[0].sum()) == expected


def test_o5_ctrl_c_ends_a_rollout():
    env = phalanx.make_vec("CartPole-v1", 1_000)
    env.reset(seed=0)
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        phalanx.rollout(env, 10**9)
    assert time.monotonic() - start < 0.2 + 2.0
    assert env.num_steps > 0
    env.step(np.zeros(1_000, int))


def resident():
    """The memory of this process now, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_stays_flat():
    """A million steps and resets, 100,000 snapshots, and environments that come and go in threads."""

    def work(seed):
        rng = np.random.default_rng(seed)
        for round_ in range(20):
            env = phalanx.make_vec("CartPole-v1", 50, autoreset_mode=["NextStep", "SameStep"][round_ % 2])
            env.reset(seed=seed)
            actions = rng.integers(2, size=(250, 50))
            for step in range(250):
                env.step(actions[step])
            bytes_ = env.snapshot()
            env.reset()
            env.restore(bytes_)
            if round_ % 3:
                env.close()

    def burst():
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        gc.collect()

    def alone(rounds):
        one = phalanx.make("CartPole-v1")
        one.reset(seed=1)
        reset, step, snapshot, restore = one.reset, one.step, one.snapshot, one.restore
        for _ in range(rounds):
            reset()
            for _ in range(10):
                reset()
                step(0)
            restore(snapshot())

    burst()
    alone(1_000)
    before = resident()
    burst()
    alone(100_000)
    burst()
    gc.collect()
    assert resident() - before < 10_000_000


def test_large_environments_are_given_back():
    for _ in range(3):
        env = phalanx.make_vec("CartPole-v1", 200_000)
        env.reset(seed=0)
        env.step(np.zeros(200_000, int))
    before = resident()
    for _ in range(20):
        env = phalanx.make_vec("CartPole-v1", 200_000)
        env.reset(seed=0)
        env.step(np.zeros(200_000, int))
    assert resident() - before < 60_000_000
