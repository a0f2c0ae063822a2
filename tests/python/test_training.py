"""Training and evaluation from Python: settings, results, runs on disk, progress, Ctrl-C."""

import copy
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import within_a_second

import phalanx
from phalanx.training import ProgressLine, TrainingInterrupted

QUICK = {"num_envs": 8, "total_timesteps": 8192, "eval_frequency": 256, "eval_rollouts": 5, "rollout_steps": 64}


def quick(agent="ppo", env="CartPole-v1", **settings):
    return phalanx.create_config(env, agent, **{**QUICK, **settings})


def train(config, **options):
    return phalanx.train_and_evaluate(config, **{"root": None, "progress": False, **options})


# Settings


def test_settings_come_from_the_preset_and_from_the_caller():
    config = phalanx.create_config("CartPole-v1", "ppo")
    assert (config.run.num_envs, config.total_timesteps, config.run.threads) == (32, 40_000, None)
    config = phalanx.create_config("phalanx/CartPole-v1", "ppo", num_envs=16, learning_rate=1e-3, seed=np.int64(3))
    assert (config.env.name, config.run.num_envs, config.run.seed) == ("CartPole-v1", 16, 3)
    assert config.agent.learning_rate == 1e-3 and config.agent["gamma"] == 0.99
    assert phalanx.create_config("Acrobot-v1", "random").run.steps_per_env == 1000


def test_settings_of_sections_can_be_named_in_three_ways():
    configs = [
        phalanx.create_config("CartPole-v1", "dqn", env__max_steps=77, agent__gamma=0.9),
        phalanx.create_config("CartPole-v1", "dqn", **{"env.max_steps": 77, "agent.gamma": 0.9}),
        phalanx.create_config("CartPole-v1", "dqn").replace(env__max_steps=77, gamma=0.9),
    ]
    assert configs[0] == configs[1] == configs[2] and len(set(configs)) == 1
    assert configs[0].agent.gamma == 0.9
    assert phalanx.create_config("CartPole-v1", "dqn", hidden=[32, 16]).agent.hidden == [32, 16]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"agent__gama": 1}, "did you mean 'gamma'"),
        ({"num_envs": 0}, "run.num_envs"),
        ({"gamma": "much"}, "agent.gamma"),
        ({"steps_per_env": 10, "total_timesteps": 100}, "both given"),
        ({"wandb_enabled": True}, "tensorboard"),
        ({"env__gravitas": 1}, "did you mean 'gravity'"),
        ({"env__gravity": -1}, "from 0 to 1000"),
        ({"env__safety": "sometimes"}, "enforce"),
        ({"scan_chunk_size": 8, "env__max_steps": None, "agents": 1}, "agents"),
    ],
)
def test_wrong_settings_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        phalanx.create_config("CartPole-v1", "ppo", **settings)
    if all(key.startswith("env__") for key in settings):
        with pytest.raises(ValueError, match=told):
            phalanx.create_config("CartPole-v1", "ppo").replace(**settings)


def test_unknown_environments_and_strange_values_are_told():
    import gymnasium

    with pytest.raises(gymnasium.error.NameNotFound, match="CartPole-v1"):
        phalanx.create_config("CartPol", "ppo")
    with pytest.raises(TypeError, match="a setting is a set"):
        phalanx.create_config("CartPole-v1", "ppo", hidden={1, 2})
    with pytest.raises(TypeError, match="create_config"):
        phalanx.train_and_evaluate({"env": "CartPole-v1"})


def test_settings_survive_files_pickles_and_copies(tmp_path):
    config = quick(learning_rate=3e-4)
    assert phalanx.Config.from_toml(config.to_toml()) == config
    file = tmp_path / "run.toml"
    file.write_text(config.to_toml())
    assert phalanx.Config.load(file) == config
    assert phalanx.Config.load(file, seed=5) == config.replace(seed=5) != config
    assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)
    with pytest.raises(AttributeError, match="replace"):
        config.run.seed = 1
    with pytest.raises(AttributeError, match="no setting 'sead'"):
        config.run.sead  # noqa: B018


# Training


def test_results_have_the_fields_of_the_reference():
    results = train(quick())
    metrics, evals = results.training_metrics, results.eval_metrics
    assert metrics.global_steps.dtype == np.int64 and metrics.global_steps[-1] == 8192
    assert metrics.loss.shape == metrics.reward.shape == metrics.steps_per_env.shape == metrics.global_steps.shape
    assert np.isfinite(metrics.loss).all() and "losses/entropy" in metrics.agent_metrics
    assert (evals.global_steps == 8 * evals.steps_per_env).all()
    assert evals.episode_returns.shape == evals.episode_lengths.shape == (len(evals.global_steps), 5)
    np.testing.assert_allclose(evals.episode_returns.mean(1), evals.mean_return)
    np.testing.assert_allclose(evals.episode_returns.std(1), evals.std_return)
    summary = results.summary()
    assert summary["training_global_steps"] == 8192 and summary["training_steps_per_env"] == 1024
    assert summary["final_eval_return_mean"] == evals.mean_return[-1]
    assert summary["num_eval_checkpoints"] == len(evals.global_steps)
    assert results.complete and results.run_dir is None and results.steps_per_second > 0
    assert results.final_env_state and all(state.size for state in results.final_env_state.values())
    weights = results.agent_state.arrays()
    assert any(array.dtype == np.float32 and array.ndim == 2 for array in weights.values())
    assert "ppo on CartPole-v1" in repr(results)


def test_an_agent_learns():
    evals = train(phalanx.create_config("CartPole-v1", "ppo", seed=1)).eval_metrics
    assert evals.mean_return[-1] >= 475, evals.mean_return


def test_threads_chunks_and_evaluations_never_change_what_is_learnt():
    states = [
        train(config, threads=threads).agent_state.arrays()
        for config, threads in [
            (quick(), 1),
            (quick(), 2),
            (quick(scan_chunk_size=512), 1),
            (quick(eval_frequency=1024, eval_rollouts=1), 1),
        ]
    ]
    names = [name for name in states[0] if states[0][name].dtype == np.float32]
    assert names
    for state in states[1:]:
        assert all(np.array_equal(state[name], states[0][name]) for name in names)


def test_the_last_evaluation_can_be_repeated_and_its_episodes_looked_at(tmp_path):
    results = train(quick())
    found = phalanx.evaluate(results.config, results.agent_state, return_episodes=True)
    assert found.mean_return == results.eval_metrics.mean_return[-1]
    assert found.num_episodes == 5 == len(found.episodes)
    for episode, total, length in zip(found.episodes, found.episode_returns, found.episode_lengths, strict=True):
        assert episode.observations.shape == (length + 1, 4) and episode.actions.shape == (length,)
        assert episode.length == length and episode.episode_return == total
        assert (episode.terminated | episode.truncated).nonzero()[0].tolist() == [length - 1]
    assert found.run_dir is None and found.summary()["mean_return"] == found.mean_return
    saved = phalanx.evaluate(results.config, results.agent_state, save_episodes=True, root=tmp_path)
    files = sorted(saved.run_dir.rglob("*.npz"))
    assert len(files) == 5
    with np.load(files[0]) as stored:
        np.testing.assert_array_equal(stored["observations"], found.episodes[0].observations)


def test_controllers_are_evaluated_without_training():
    random = phalanx.evaluate(phalanx.create_eval_config("CartPole-v1", "random", eval_rollouts=20))
    pid = phalanx.evaluate(phalanx.create_eval_config("CartPole-v1", "pid", eval_rollouts=20))
    assert random.mean_return < 40 < 400 < pid.mean_return and pid.agent_state is None
    assert random.termination_rate == 1.0 and random.mean_cost is None
    reactor = phalanx.evaluate(phalanx.create_eval_config("chemical-reactor", "random", eval_rollouts=5))
    assert reactor.mean_cost is not None


def test_training_lets_other_threads_run():
    counted, done = 0, threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = counted
        train(quick(total_timesteps=200_000, eval_frequency=0), threads=1)
    finally:
        done.set()
        counter.join()
    assert counted - before > 1000


# Runs on disk


def test_a_run_is_stored_and_read_back(tmp_path):
    results = train(quick(), root=tmp_path)
    assert results.run_dir.is_relative_to(tmp_path) and results.stored
    again = phalanx.TrainingResults.load(results.run_dir)
    assert again.agent_state == results.agent_state and again.config == results.config
    np.testing.assert_array_equal(again.eval_metrics.episode_returns, results.eval_metrics.episode_returns)
    run = phalanx.load_run(results.run_dir)
    assert run.metadata["status"] == "ok" and run.results.summary() == results.summary()
    assert run.load_checkpoint() == results.agent_state
    with pytest.raises(FileNotFoundError, match="step_00000001"):
        run.load_checkpoint("step_00000001")
    found = phalanx.evaluate(run.config, checkpoint=results.run_dir)
    assert found.mean_return == results.eval_metrics.mean_return[-1]


def test_damaged_results_are_told(tmp_path):
    """A run that has come to its end is not one without results."""
    folder = train(quick(), root=tmp_path).run_dir
    whole = (folder / "results.json").read_text()
    (folder / "results.json").write_text(whole[:-20])
    with pytest.warns(UserWarning, match="results"), pytest.raises(ValueError, match="json is no usable results"):
        phalanx.load_run(folder)
    (folder / "results.json").write_text(whole)
    assert phalanx.load_run(folder).results is not None
    next((folder / "checkpoints").glob("final*")).unlink()
    assert phalanx.load_run(folder).results is None
    (folder / "results.json").unlink()
    assert phalanx.load_run(folder).results is None


def test_a_run_can_be_made_longer(tmp_path):
    results = train(quick(), root=tmp_path)
    steps = results.agent_state.global_step
    longer = phalanx.resume(results.run_dir, total_timesteps=2 * steps, progress=False)
    assert longer.agent_state.global_step == longer.config.total_timesteps == 2 * steps and longer.complete
    assert phalanx.load_run(results.run_dir).config.total_timesteps == 2 * steps
    with pytest.raises(ValueError, match="longer only"):
        phalanx.resume(results.run_dir, total_timesteps=steps, progress=False)
    with pytest.raises(ValueError, match="total_timesteps is 0"):
        phalanx.resume(results.run_dir, total_timesteps=0)


def test_what_is_no_configuration_is_refused():
    for refused in (phalanx.train_and_evaluate, phalanx.evaluate):
        with pytest.raises(TypeError, match="config is a dict, but must come from create_config"):
            refused({})


def test_the_keys_that_a_callback_gets_are_those_of_the_docs():
    keys = set()
    train(quick(), progress=lambda now: keys.update(now))
    assert keys == set(re.findall(r"``(\w+)``", re.search(r"with a dict \((.*?)\), and ends", DOCS, re.S)[1]))


DOCS = phalanx.train_and_evaluate.__doc__


def test_agents_and_results_can_be_saved_by_hand(tmp_path):
    results = train(quick(total_timesteps=1024))
    results.save_agent(tmp_path / "agent.safetensors")
    assert phalanx.TrainingResults.load_agent(tmp_path / "agent.safetensors") == results.agent_state
    results.save(tmp_path / "run")
    assert phalanx.TrainingResults.load(tmp_path / "run").summary() == results.summary()
    with pytest.raises(OSError):
        results.save(tmp_path / "run")
    (tmp_path / "broken.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="no usable checkpoint"):
        phalanx.AgentState.load(tmp_path / "broken.safetensors")
    with pytest.raises(FileNotFoundError):
        phalanx.AgentState.load(tmp_path / "missing.safetensors")


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    whole = train(quick())
    # At the first look: the next one is 50 ms later, when so short a run may be over.
    begun = train(quick(), run_dir=tmp_path / "run", progress=lambda now: False)
    assert not begun.complete and begun.stored and begun.run_dir == tmp_path / "run"
    assert 0 < begun.agent_state.global_step < 8192
    ended = phalanx.resume(begun.run_dir, progress=False)
    weights, expected = ended.agent_state.arrays(), whole.agent_state.arrays()
    assert all(np.array_equal(weights[name], expected[name]) for name in expected if "float" in str(expected[name].dtype))
    assert ended.complete and ended.eval_metrics.global_steps.tolist() == whole.eval_metrics.global_steps.tolist()
    from_memory = train(quick(), resume_from=begun.agent_state)
    np.testing.assert_array_equal(from_memory.eval_metrics.mean_return, whole.eval_metrics.mean_return)
    with pytest.raises(ValueError, match="learning_rate"):
        train(quick(learning_rate=1e-5), resume_from=begun.agent_state)


def test_what_a_callback_raises_ends_the_run_and_keeps_the_checkpoint(tmp_path):
    def fail(now):
        if now["global_step"] >= 2048:
            raise ZeroDivisionError("from the callback")

    with pytest.raises(ZeroDivisionError, match="from the callback"):
        train(quick(), run_dir=tmp_path / "run", progress=fail)
    assert phalanx.resume(tmp_path / "run", progress=False).complete


@pytest.mark.parametrize("answer", [0, None, "", np.True_, np.int64(0)])
def test_only_false_ends_a_run(answer):
    assert train(quick(), root=None, progress=lambda now: answer).complete


@pytest.mark.parametrize("answer", [False, np.False_])
def test_false_ends_a_run(answer):
    assert not train(quick(), root=None, progress=lambda now: answer).complete


# Ctrl-C

INTERRUPTED = """
import signal, sys, threading, time, phalanx
config = phalanx.create_config("CartPole-v1", {agent!r}, total_timesteps=10**10, num_envs={num_envs})
sent = []
def interrupt():
    time.sleep(1.5)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    phalanx.train_and_evaluate(config, run_dir=sys.argv[1], progress=False)
except KeyboardInterrupt as stopped:
    print(time.monotonic() - sent[0], stopped.results.agent_state.global_step, "resume" in str(stopped))
"""


@pytest.mark.parametrize(("agent", "num_envs"), [("ppo", 4), ("dqn", 8), ("pqn", 32)])
def test_ctrl_c_stops_soon_and_keeps_the_checkpoint(tmp_path, agent, num_envs):
    script = INTERRUPTED.format(agent=agent, num_envs=num_envs)

    def seconds_of(attempt):
        run_dir = tmp_path / f"run{attempt}"
        done = subprocess.run(
            [sys.executable, "-c", script, str(run_dir)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        seconds, step, told = done.stdout.split()
        assert int(step) > 0 and told == "True"
        run = phalanx.load_run(run_dir)
        assert run.metadata["status"] == "interrupted"
        assert run.load_checkpoint(None).global_step == int(step)
        return float(seconds)

    within_a_second(seconds_of)


IN_THE_MIDST = """
import json, signal, sys, threading, time, phalanx
config = phalanx.create_config(*sys.argv[1:3], seed=1, **json.loads(sys.argv[3]))
begun, sent = threading.Event(), []
def interrupt():
    begun.wait()
    time.sleep(0.3)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
def progress(now):
    begun.set()
threading.Thread(target=interrupt, daemon=True).start()
try:
    phalanx.train_and_evaluate(config, run_dir=sys.argv[4], progress=progress)
except KeyboardInterrupt as stopped:
    print(time.monotonic() - sent[0], stopped.results.agent_state.global_step)
"""

# A roll-out with its updates takes many seconds, or an evaluation does, and not for the sake of what it computes.
LONG_UNITS = [
    ("CartPole-v1", "ppo", {"num_envs": 512, "rollout_steps": 512, "num_epochs": 150, "total_timesteps": 10**9}),
    ("CartPole-v1", "pqn", {"num_envs": 512, "rollout_steps": 512, "num_epochs": 20, "total_timesteps": 10**9}),
]
LONG_EVALUATION = (
    "Pendulum-v1", "ppo",
    {
        "num_envs": 4, "rollout_steps": 16, "num_minibatches": 2, "steps_per_env": 160, "eval_frequency": 32,
        "env__max_steps": 10**8,
    },
)


@pytest.mark.parametrize(("env", "agent", "settings"), [*LONG_UNITS, LONG_EVALUATION])
def test_ctrl_c_is_heard_in_the_midst(tmp_path, env, agent, settings):
    def seconds_of(attempt):
        run_dir = tmp_path / f"run{attempt}"
        command = [sys.executable, "-c", IN_THE_MIDST, env, agent, json.dumps(settings), str(run_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        seconds, step = done.stdout.split()
        run = phalanx.load_run(run_dir)
        assert run.metadata["status"] == "interrupted"
        # What was begun is undone: there are whole roll-outs only, and the run can go on from the last.
        unit = settings["num_envs"] * settings["rollout_steps"]
        assert run.load_checkpoint(None).global_step == int(step) and int(step) % unit == 0 and int(step) > 0
        return float(seconds)

    within_a_second(seconds_of)


EVALUATED = """
import signal, threading, time, phalanx
config = phalanx.create_eval_config("Pendulum-v1", "random", eval_rollouts=64, env__max_steps=10**8)
sent = []
def interrupt():
    time.sleep(0.7)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    phalanx.evaluate(config)
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
"""


def test_ctrl_c_ends_an_evaluation():
    def seconds_of(_):
        done = subprocess.run([sys.executable, "-c", EVALUATED], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    within_a_second(seconds_of)


def test_an_interrupt_is_a_keyboard_interrupt():
    assert issubclass(TrainingInterrupted, KeyboardInterrupt)


# Progress

NOW = {
    "global_step": 2500, "first_step": 0, "total": 10_000, "steps_per_second": 1.5e6, "loss": 0.0123,
    "episode_return": None, "eval_return": 200.5, "checkpoint": None, "run_dir": None,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_real_terminal_shows_the_line(tmp_path):
    """A child whose standard error is a terminal of 60 columns: one line, redrawn, no wider, gone in the end."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    script = """
import phalanx
config = phalanx.create_config("CartPole-v1", "ppo", num_envs=8, total_timesteps=10**9)
seconds = __import__("time").monotonic() + 2.5
line = phalanx.training.ProgressLine("ppo on CartPole-v1")
assert line.mode == "terminal"
with line as show:
    def progress(now):
        show(now)
        return __import__("time").monotonic() < seconds
    phalanx.train_and_evaluate(config, root=None, progress=progress)
"""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60)) if hasattr(termios, "tcsetwinsize") else None
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-c", script], stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait(timeout=30) == 0, seen
    lines = [line for line in seen.decode().split("\r") if line]
    drawn = [line.removesuffix("\x1b[K") for line in lines if line != "\x1b[K"]
    assert len(drawn) >= 3 and "\n" not in "".join(lines)
    assert all(line.startswith("Step ") and len(line) <= 59 for line in drawn)
    assert len(set(drawn)) > 1 and lines[-1] == "\x1b[K"


def test_a_terminal_has_one_line_that_is_overwritten_and_removed():
    out = Terminal()
    with ProgressLine("ppo on CartPole-v1", out) as show:
        show.start -= 10
        show.next = 0
        show(NOW)
        first = out.getvalue()
        assert first.startswith("\rStep 2500/10000 (25%) [██████") and "\n" not in first
        assert "| loss=0.0123 | eval_return=200.5 | SPS=1.50M" in show.line(NOW)
        assert "30 s left" in show.line(NOW)
        show(NOW)
        assert out.getvalue() == first, "not more often than eyes can follow"
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_log_has_plain_lines_now_and_then_and_short_work_none():
    out = io.StringIO()
    with ProgressLine("ppo on CartPole-v1", out) as show:
        show(NOW)
        assert out.getvalue() == ""
        show.next = 0
        show(NOW)
        show({**NOW, "global_step": 3000})
    (line,) = out.getvalue().splitlines()
    assert line.startswith("ppo on CartPole-v1: Step 2500/10000 (25%) | loss=") and "\x1b" not in line


def test_a_notebook_updates_one_display(monkeypatch):
    import types

    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(("update", data, raw))

    class ZMQInteractiveShell:
        pass

    def display(data, raw, display_id):
        shown.append(("display", data, raw))
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    show = ProgressLine("ppo on CartPole-v1")
    for step in (2500, 5000):
        show.next = 0
        show({**NOW, "global_step": step})
    assert [kind for kind, *_ in shown] == ["display", "update"]
    assert "<progress value='50.0' max='100'>" in shown[1][1]["text/html"]


class OnlyWrites:
    """A stream of programs without a console."""

    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text)


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [lambda: None, closed, OnlyWrites], ids=["none", "closed", "only-writes"])
def test_no_console_ends_no_training(stream, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(ProgressLine, "LOG_INTERVAL", 0.0)
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    assert phalanx.train_and_evaluate(quick("random", rollout_steps=None), root=None).complete
    assert phalanx.suggest_scan_chunk_size(8, "CartPole-v1", "random", time_budget=0.1, threads=1) >= 1
    line = ProgressLine("ppo on CartPole-v1")
    line.mode = "terminal"
    with line as show:
        show({"global_step": 1, "first_step": 0, "total": 2, "steps_per_second": 3.0})
    if isinstance(sys.stderr, OnlyWrites):
        assert any(text.startswith("ppo on CartPole-v1: Step") or "Step 1/2" in text for text in sys.stderr.texts)


def test_the_bar_is_of_characters_that_the_terminal_has():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    line = ProgressLine("ppo", out).line({"global_step": 1, "first_step": 0, "total": 2, "steps_per_second": 3.0})
    assert f"[{'#' * 12}{'.' * 12}]" in line and line.isascii()


def test_an_interrupt_can_be_pickled():
    raised = TrainingInterrupted(train(quick("random", rollout_steps=None)))
    copied = pickle.loads(pickle.dumps(raised))
    assert str(copied) == str(raised) and type(copied) is TrainingInterrupted
    assert copied.results.summary() == raised.results.summary()


def test_a_run_shows_its_progress(capfd):
    phalanx.train_and_evaluate(quick(total_timesteps=1024), root=None)
    assert capfd.readouterr().err == "", "what is over at once shows nothing"


def test_auto_tune_finds_the_chunk_size_and_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    config = quick(total_timesteps=1024, auto_tune=True, threads=1)
    assert config.run.auto_tune
    start = time.monotonic()
    results = phalanx.train_and_evaluate(config, root=None)
    assert time.monotonic() - start < 60
    assert results.config.run.scan_chunk_size > 0 and not results.config.run.auto_tune
    told = capfd.readouterr().err
    assert f"scan_chunk_size = {results.config.run.scan_chunk_size}" in told
    with pytest.raises(ValueError, match="leave out one of them"):
        phalanx.train_and_evaluate(config.replace(scan_chunk_size=8), root=None)


def test_the_environment_variable_asks_to_tune_too(monkeypatch):
    monkeypatch.setenv("PHALANX_AUTO_TUNE", "perhaps")
    with pytest.raises(ValueError, match="must be 1 or 0"):
        train(quick())


def test_videos_are_drawn(tmp_path):
    config = quick(total_timesteps=512, eval_frequency=0, eval_rollouts=1, eval_render_videos=True, env__max_steps=20)
    results = train(config)
    saved = phalanx.evaluate(config, results.agent_state, save_episodes=True, root=tmp_path)
    (video,) = saved.run_dir.rglob("*.gif")
    assert video.read_bytes()[:6] == b"GIF89a"


def test_nothing_is_left_behind_without_a_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(quick(total_timesteps=512))
    assert os.listdir(Path.cwd()) == []


def test_an_agent_knows_its_settings_as_all_else_has_them():
    results = train(quick(total_timesteps=1024))
    state = results.agent_state
    assert isinstance(state.config, phalanx.Config) and state.config.run.num_envs == 8
    assert phalanx.evaluate(state.config, state).config == state.config
    for wrong in (3, "agent", state._native):
        with pytest.raises(TypeError, match="must come from a training or a checkpoint"):
            phalanx.evaluate(state.config, wrong)


CLONES = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("clone", CLONES.values(), ids=CLONES)
@pytest.mark.parametrize("stopped", [False, True])
def test_agents_and_results_survive_pickles_and_copies(clone, stopped, tmp_path):
    results = train(quick(), run_dir=tmp_path / "run", progress=(lambda now: False) if stopped else False)
    again = clone(results)
    assert clone(results.agent_state) == results.agent_state == again.agent_state
    for name in ("config", "run_dir", "complete", "stored", "training_seconds"):
        assert getattr(again, name) == getattr(results, name), name
    assert again.complete != stopped and again.summary() == results.summary()
    np.testing.assert_array_equal(again.training_metrics.loss, results.training_metrics.loss)
    np.testing.assert_array_equal(again.eval_metrics.episode_returns, results.eval_metrics.episode_returns)
    assert all(np.array_equal(again.final_env_state[key], value) for key, value in results.final_env_state.items())
    assert phalanx.evaluate(again.config, again.agent_state).mean_return >= 1
    with pytest.raises(ValueError, match="no usable checkpoint"):
        phalanx.AgentState._unpickled(b"no")


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (('"CartPole-v1"', '"CartPol"'), "NameNotFound", "CartPole-v1"),
        (('"CartPole-v1"', '"CartPole-v1"\ngravity = "-1"'), "ValueError", "from 0 to 1000"),
        (('"CartPole-v1"', '"CartPole-v1"\ngravitas = "1"'), "ValueError", "gravity"),
    ],
)
def test_settings_from_texts_and_files_are_checked_as_others_are(wrong, error, words, tmp_path):
    text = quick().to_toml()
    assert text.count(wrong[0]) == 1
    text, file = text.replace(*wrong), tmp_path / "run.toml"
    file.write_text(text)
    for read in (lambda: phalanx.Config.from_toml(text), lambda: phalanx.Config.load(file)):
        with pytest.raises(Exception, match=words) as caught:
            read()
        assert type(caught.value).__name__ == error


def test_settings_of_a_run_are_read_without_its_checkpoints(tmp_path):
    folder = train(quick(), run_dir=tmp_path / "run", progress=lambda now: False).run_dir
    (checkpoint,) = (folder / "checkpoints").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    run = phalanx.load_run(folder)
    assert run.config == quick() and run.results is None
    with pytest.raises(ValueError, match="truncated"):
        run.load_checkpoint(None)


def test_resuming_reads_checkpoints_once(tmp_path):
    """So one that is passed over is told of once."""
    folder = train(quick(), run_dir=tmp_path / "run", progress=lambda now: False).run_dir
    (folder / "checkpoints" / "step_00009999.safetensors").write_bytes(b"no")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert phalanx.resume(folder, progress=False).complete
    assert len([one for one in told if "step_00009999" in str(one.message)]) == 1
