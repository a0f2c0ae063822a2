"""Gradients of networks, action distributions and losses against the `autograd` package.

    python check.py --gradients PATH

PATH is the built example `gradients` of phalanx-learn. It prints parameters, inputs and its own gradients;
here the same functions are written down a second time and differentiated automatically.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import autograd.numpy as np
import numpy
from autograd import grad

# Relative to the largest gradient of a case; both sides compute in double precision.
TOLERANCE = 1e-10


def network(case, parameters):
    """What comes out of the layers, whose parameters follow each other: weights row by row, then biases."""
    x = np.array(case["rows"]).reshape(-1, case["inputs"])
    used = 0

    def take(*shape):
        nonlocal used
        first, used = used, used + int(numpy.prod(shape))
        return np.reshape(parameters[first:used], shape)

    for layer in case["layers"]:
        width = x.shape[1]
        if layer.startswith("Dense("):
            outputs = int(layer[6:-1])
            weights, biases = take(outputs, width), take(outputs)
            x = np.dot(x, weights.T) + biases
        elif layer == "Norm":
            scale, shift = take(width), take(width)
            centred = x - np.mean(x, axis=1, keepdims=True)
            variance = np.mean(centred**2, axis=1, keepdims=True)
            x = centred / np.sqrt(variance + 1e-5) * scale + shift
        elif layer == "Relu":
            x = np.maximum(x, 0.0)
        elif layer == "Tanh":
            x = np.tanh(x)
        else:
            sys.exit(f"unknown layer {layer}")
    return np.ravel(x)


def categorical(case, logits):
    legal = [i for i, is_legal in enumerate(case["legal"]) if is_legal]
    shifted = logits[np.array(legal)]
    log_p = shifted - np.log(np.sum(np.exp(shifted)))
    entropy = -np.sum(np.exp(log_p) * log_p)
    return case["by_choice"] * log_p[legal.index(0)] + case["by_entropy"] * entropy


def log_density(case, means, log_deviations):
    z = (np.array(case["action"]) - means) / np.exp(log_deviations)
    return np.sum(-0.5 * z**2 - log_deviations - 0.5 * np.log(2 * np.pi))


def policy_loss(case, log_ratio):
    ratio = np.exp(log_ratio)
    clipped = np.clip(ratio, 1 - case["clip"], 1 + case["clip"])
    return np.maximum(-case["advantage"] * ratio, -case["advantage"] * clipped)


def value_loss(case, value, clip):
    free = (value - case["target"]) ** 2
    if not clip:
        return 0.5 * free
    near = case["old"] + np.clip(value - case["old"], -case["clip"], case["clip"])
    return 0.5 * np.maximum(free, (near - case["target"]) ** 2)


def huber(error):
    return np.where(np.abs(error) <= 1, 0.5 * error**2, np.abs(error) - 0.5)


LOSSES = {"half_square": lambda error: 0.5 * error**2, "square": lambda error: error**2, "huber": huber}


def action_values(case, parameters):
    out = np.reshape(network(case, parameters), (len(case["actions"]), -1))
    if not case["dueling"]:
        return out
    state, advantages = out[:, :1], out[:, 1:]
    return state + advantages - np.mean(advantages, axis=1, keepdims=True)


def mean_square(case, parameters):
    chosen = action_values(case, parameters)[np.arange(len(case["actions"])), np.array(case["actions"])]
    return np.mean((chosen - np.array(case["targets"])) ** 2)


def with_slope(function, at):
    return [function(at), grad(function)(at)]


def pairs(case):
    """What Phalanx says and what autograd says."""
    if case["kind"] == "network":
        parameters = np.array(case["parameters"])
        weights = np.array(case["by_output"])
        yield case["outputs"], network(case, parameters)
        yield case["gradients"], grad(lambda p: np.sum(network(case, p) * weights))(parameters)
    elif case["kind"] == "categorical":
        yield case["gradients"], grad(lambda x: categorical(case, x))(np.array(case["logits"]))
    elif case["kind"] == "ppo":
        yield case["policy"], with_slope(lambda x: policy_loss(case, x), case["log_ratio"])
        yield case["clipped_value"], with_slope(lambda x: value_loss(case, x, True), case["value"])
        yield case["free_value"], with_slope(lambda x: value_loss(case, x, False), case["value"])
    elif case["kind"] == "action values":
        parameters = np.array(case["parameters"])
        yield case["values"], np.ravel(action_values(case, parameters))
        yield case["gradients"], grad(lambda p: mean_square(case, p))(parameters)
    elif case["kind"] == "temporal difference":
        yield case["found"], with_slope(LOSSES[case["loss"]], case["error"])
    else:
        means, deviations = np.array(case["means"]), np.array(case["log_deviations"])
        yield [case["log_density"]], [log_density(case, means, deviations)]
        for argument, name in ((1, "by_mean"), (2, "by_log_deviation")):
            gradient = grad(log_density, argument)(case, means, deviations)
            yield case[name], case["by_density"] * gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradients", required=True)
    program = parser.parse_args().gradients
    cases = json.loads(subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout)
    kinds = {case["kind"] for case in cases}
    if kinds != {"network", "categorical", "gaussian", "ppo", "temporal difference", "action values"}:
        sys.exit(f"the example prints {sorted(kinds)}: something is missing")
    worst = 0.0
    for case in cases:
        for ours, theirs in pairs(case):
            ours, theirs = numpy.array(ours), numpy.array(theirs)
            error = numpy.max(numpy.abs(ours - theirs)) / numpy.max(numpy.abs(theirs))
            worst = max(worst, error)
            if not error <= TOLERANCE:
                sys.exit(f"{case['kind']} {case.get('layers', '')}: relative error {error:.2g} > {TOLERANCE}")
    print(f"{len(cases)} functions agree with autograd within {worst:.1g}")


if __name__ == "__main__":
    main()
