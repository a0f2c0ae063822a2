"""O. Threads, the interpreter's lock, processes, panics, Ctrl-C; and whether memory stays flat through all of it."""

import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from helpers import within_a_second

import phalanx


LONG = 1_000_000  # environments: a step or a reset takes long enough for another thread to be seen in it


def refused():
    """A call that reads and checks many actions, and then refuses them."""
    env = phalanx.make_vec("CartPole-v1", 1_000, autoreset_mode="SameStep", threads=1)
    env.reset(seed=0)
    actions = np.zeros((10_000, 1_000), np.int32)
    actions[-1, -1] = 2

    def call():
        with pytest.raises(ValueError, match="in step 9999"):
            phalanx.rollout(env, 10_000, actions=actions)

    return call


def files(folder):
    """A call that reads and writes an agent."""
    config = phalanx.create_config("CartPole-v1", "ppo", num_envs=4, total_timesteps=1024, hidden=[512, 512])
    agent = phalanx.train_and_evaluate(config, root=None, progress=False).agent_state

    def call():
        agent.save(folder / "agent.safetensors")
        phalanx.AgentState.load(folder / "agent.safetensors")

    return call


@pytest.mark.parametrize("what", ["rollout", "step", "reset", "check", "files"])
def test_o1_others_run_meanwhile(what, tmp_path):
    env = phalanx.make_vec("CartPole-v1", 10_000 if what == "rollout" else LONG, threads=1)
    env.reset(seed=0)
    actions = np.zeros(env.num_envs, np.int32)
    env.step(actions)
    call = {
        "rollout": lambda: lambda: phalanx.rollout(env, 2_000, scan_chunk_size=2_000),
        "step": lambda: lambda: env.step(actions),
        "reset": lambda: lambda: env._engine.reset(),
        "check": refused,
        "files": lambda: files(tmp_path),
    }[what]()
    counted, stop, interval = [0], threading.Event(), sys.getswitchinterval()

    def count():
        while not stop.is_set():
            for _ in range(200):
                counted[0] += 1
            # Gives the lock back to who waits for it.
            time.sleep(0)

    thread = threading.Thread(target=count)
    best = 0
    try:
        # The other thread gets the lock only where the call lets go of it: Python itself would take a minute to.
        sys.setswitchinterval(60)
        thread.start()
        # A busy machine may not let it run in the first.
        for _ in range(10):
            before = counted[0]
            call()
            best = max(best, counted[0] - before)
    finally:
        sys.setswitchinterval(interval)
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


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("chunk", [None, 10**9])
def test_o5_ctrl_c_ends_a_rollout(given, chunk):
    env = phalanx.make_vec("CartPole-v1", 1_000, threads=1, autoreset_mode="SameStep")
    env.reset(seed=0)
    steps = 20_000 if given else 10**9
    actions = np.zeros((steps, 1_000), np.int32) if given else None

    def seconds_of(_):
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        threading.Timer(0.2, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                phalanx.rollout(env, steps, actions=actions, scan_chunk_size=chunk)
        return time.monotonic() - sent[0]

    within_a_second(seconds_of)
    assert env.num_steps > 0
    env.step(np.zeros(1_000, int))


def test_o5_cutting_a_chunk_changes_nothing():
    """A chunk that takes long is made in parts, which shows in nothing but that Ctrl-C is heard."""
    run = [phalanx.rollout("CartPole-v1", 3_000, num_envs=500, seed=3, scan_chunk_size=chunk) for chunk in (7, 3_000)]
    assert run[0].checksum == run[1].checksum and run[0].episodes == run[1].episodes


def resident():
    """The memory of this process now, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def threads_here():
    return len(os.listdir("/proc/self/task"))


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")


def in_threads(work, count=4):
    """Runs `work(number)` in several threads; what it raises there is raised here."""
    raised = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    gc.collect()
    if raised:
        raise raised[0]


@needs_proc
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

    in_threads(work)
    alone(1_000)
    before = resident()
    in_threads(work)
    alone(100_000)
    in_threads(work)
    assert resident() - before < 10_000_000


def cart_poles(**kwargs):
    env = phalanx.make_vec("CartPole-v1", 8, **{"autoreset_mode": "SameStep", **kwargs})
    env.reset(seed=0)
    return env, lambda: env.step(np.ones(8, int))


def masked():
    env = phalanx.make_vec("TicTacToe-v0", 8, autoreset_mode="SameStep")
    env.reset(seed=0)
    return env, lambda: env.step(env.action_masks().argmax(axis=1))


def costly():
    env = phalanx.make_vec("ChemicalReactor-v0", 8, autoreset_mode="SameStep", safety="monitor", max_episode_steps=5)
    env.reset(seed=0)
    return env, lambda: env.step(np.ones((8, 3)))


def pictured():
    env, step = cart_poles(render_mode="rgb_array")
    return env, lambda: (step(), env.render())


def recorded():
    env, _ = cart_poles()
    return env, lambda: phalanx.rollout(env, 20, record=True)


def refused_and_restored():
    env, step = cart_poles()
    start = env.snapshot()

    def work():
        with pytest.raises(ValueError):
            env.step(np.full(8, 2))
        env.restore(start)
        env.set_state(env.state())
        phalanx.rollout(env, 3)
        return pickle.loads(pickle.dumps(env))

    return env, work


LEAKS = {
    "finals": cart_poles,
    "dense": lambda: cart_poles(final_obs_dense=True),
    "views": lambda: cart_poles(copy=False),
    "episodes": lambda: cart_poles(episode_stats=True),
    "masks": masked,
    "costs": costly,
    "pictures": pictured,
    "recorded": recorded,
    "pickle": refused_and_restored,
}


@pytest.mark.parametrize("what", LEAKS)
def test_nothing_is_kept_of_a_call(what):
    """What the module and Python have allocated is no more after many calls than after some: a slope, no ceiling."""
    env, work = LEAKS[what]()
    calls = {"pictures": 100, "pickle": 600}.get(what, 1_500)

    def held(calls):
        for _ in range(calls):
            work()
        gc.collect()
        return phalanx._phalanx.allocated_bytes() + tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        held(calls // 5)
        before = held(calls)
        grown = held(calls) - before
    finally:
        tracemalloc.stop()
    # Python's own tables grow now and then; what a call leaves behind is more than this for each.
    assert grown < 20 * calls, f"{grown} bytes in {calls} calls"


@needs_proc
def test_environments_with_threads_of_their_own_come_and_go():
    """Batches that are large enough for workers, made and dropped in threads: neither memory nor a thread is left."""
    envs = 4096

    def work(seed):
        rng = np.random.default_rng(seed)
        for round_ in range(12):
            mode = ["NextStep", "SameStep"][round_ % 2]
            env = phalanx.make_vec("CartPole-v1", envs, threads=2 + round_ % 2, autoreset_mode=mode, copy=round_ % 3 > 0)
            env.reset(seed=seed)
            for _ in range(40):
                env.step(rng.integers(2, size=envs))
            bytes_ = env.snapshot()
            env.reset()
            env.restore(bytes_)
            phalanx.rollout(env, 50)
            # The others are left to the garbage collector, in whichever thread it runs.
            if round_ % 3 == 0:
                env.close()

    at_first = threads_here()
    in_threads(work)
    before = resident()
    for _ in range(3):
        in_threads(work)
    assert resident() - before < 20_000_000
    deadline = time.monotonic() + 5
    while threads_here() > at_first and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread that has been joined may still be listed for a moment
    assert threads_here() == at_first


HAMMERED = """
import random, sys, threading, time
import numpy as np, phalanx
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

envs, threads = int(sys.argv[1]), int(sys.argv[2])
refusals = (RuntimeError, ClosedEnvironmentError, ResetNeeded)
env, calls, refused, wrong = None, [0], [0], []
actions = np.zeros(envs, int)


def hammer(number):
    rng = random.Random(number)
    while time.monotonic() < end and not wrong:
        here = env
        work = rng.choice([
            lambda: here.step(actions)[0].shape == (envs, 4),
            lambda: here.step(actions)[0].shape == (envs, 4),
            lambda: here.reset(seed=number)[0].shape == (envs, 4),
            lambda: here.state().shape == (envs, 4),
            lambda: here.restore(here.snapshot()) is None,
            lambda: here.get_param("gravity").shape == (envs,),
            lambda: here.set_param("gravity", 9.8) is None,
            lambda: phalanx.rollout(here, 20).steps == 20,
            lambda: here.close() is None if rng.random() < 0.02 else True,
        ])
        try:
            if not work():
                wrong.append("a result of the wrong shape")
            calls[0] += 1
        except refusals as error:
            refused[0] += 1
            if not str(error):
                wrong.append(f"{type(error).__name__} says nothing")
        except BaseException as error:
            wrong.append(repr(error))


end = time.monotonic() + 3
while time.monotonic() < end and not wrong:
    env = phalanx.make_vec("CartPole-v1", envs, threads=threads)
    env.reset(seed=0)
    workers = [threading.Thread(target=hammer, args=(number,)) for number in range(4)]
    stop, end = end, min(end, time.monotonic() + 0.3)
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    end = stop
print(calls[0], refused[0], wrong[:3])
"""


@pytest.mark.parametrize(("envs", "threads"), [(16, 1), (4096, 2)])
def test_o2_an_environment_that_many_threads_hammer_answers_or_refuses(envs, threads):
    """In a process of its own, since what must not happen is a crash."""
    command = [sys.executable, "-c", HAMMERED, str(envs), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    calls, refused, wrong = done.stdout.split(maxsplit=2)
    assert wrong.strip() == "[]"
    # Both happened, or nothing was tried.
    assert int(calls) > 100 and int(refused) > 0


@needs_proc
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
