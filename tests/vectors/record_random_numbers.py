#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records JAX's random numbers and initialisers, as conformance vectors.

    pip install "jax[cpu]==0.10.2"
    python record_random_numbers.py > tests/vectors/jax_random.json

Runs with JAX's defaults: threefry2x32, partitionable, 32 bits; CI does not run
it. A key is written {"seed": s, "fold_in": [d, ..]}: PRNGKey(s), then fold_in
of each. Answers are flat, in row-major order. Bits are integers, and so are
uniform numbers (the bits of the float32), since both must agree exactly; other
floats have nine digits, which tell any two float32 apart. Of long answers,
those `at` some places and the `sum` modulo 2^32 are recorded.
"""
import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

SEEDS = [0, 1, 42, -1, 2**31, 2**32 + 5, 3 - 2**40, 2**63 - 1]
CASES = []


def add(function, inputs, answer):
    number = sum(case["function"] == function for case in CASES)
    case = {"id": f"{function}-{number:03}", "function": function,
            "inputs": inputs}
    try:
        case["expected"] = answer()
    except ValueError as error:
        case["error"] = {"type": "ValueError", "message": str(error)}
    CASES.append(case)


def key_of(key):
    made = jax.random.PRNGKey(key["seed"])
    for data in key.get("fold_in", []):
        made = jax.random.fold_in(made, data)
    return made


def integers(array):
    return [int(x) for x in np.asarray(array).ravel()]


def float_bits(array):
    return integers(np.asarray(array, np.float32).view(np.uint32))


def floats(array):
    return [float(f"{x:.9g}") for x in np.asarray(array, np.float32).ravel()]


def keys():
    for seed in SEEDS:
        add("jax.random.PRNGKey", {"seed": seed},
            lambda: integers(jax.random.PRNGKey(seed)))
        key = {"seed": seed}
        for count in [1, 2, 3, 7]:
            add("jax.random.split", {"key": key, "num": count},
                lambda: np.asarray(
                    jax.random.split(key_of(key), count)).tolist())
        for data in [0, 1, 12345, 2**31, 2**32 - 1]:
            add("jax.random.fold_in", {"key": key, "data": data},
                lambda: integers(jax.random.fold_in(key_of(key), data)))
    chain = {"seed": 42, "fold_in": [3, 1, 4, 1, 5, 9, 2, 6]}
    add("jax.random.split", {"key": chain, "num": 64},
        lambda: np.asarray(jax.random.split(key_of(chain), 64)).tolist())


def bits():
    for seed in SEEDS:
        for shape in [[], [1], [2], [3], [7], [4, 5]]:
            key = {"seed": seed, "fold_in": [7]}
            add("jax.random.bits", {"key": key, "shape": shape},
                lambda: integers(jax.random.bits(key_of(key), shape)))
    key = {"seed": 1}
    add("jax.random.bits", {"key": key, "shape": [0, 3]},
        lambda: integers(jax.random.bits(key_of(key), [0, 3])))
    for shape in [[1000], [65537], [3, 5, 7, 11], [257, 513], [1024, 1024]]:
        count = int(np.prod(shape))
        at = [0, 1, 2, count // 3, count // 2, count - 2, count - 1]

        def answer():
            flat = integers(jax.random.bits(key_of(key), shape))
            return {"at": [flat[i] for i in at], "sum": sum(flat) % 2**32}

        add("jax.random.bits", {"key": key, "shape": shape, "at": at}, answer)


def distributions():
    for low, high in [(0, 1), (-1, 1), (-0.3, 0.7), (1e-3, 1e3), (2, 2)]:
        for shape in [[3, 17], [400]]:
            key = {"seed": 42, "fold_in": [len(shape)]}
            add("jax.random.uniform",
                {"key": key, "shape": shape, "minval": low, "maxval": high},
                lambda: float_bits(jax.random.uniform(
                    key_of(key), shape, minval=low, maxval=high)))
    for seed, shape in [(0, [4096]), (-1, [3, 5, 7]), (2**32 + 5, [])]:
        key = {"seed": seed}
        add("jax.random.normal", {"key": key, "shape": shape},
            lambda: floats(jax.random.normal(key_of(key), shape)))
    for low, high, shape in [(-2, 2, [4096]), (-1.5, 0.5, [16, 32]),
                             (0, 9, [100]), (3, 5, [100])]:
        key = {"seed": 5}
        add("jax.random.truncated_normal",
            {"key": key, "shape": shape, "lower": low, "upper": high},
            lambda: floats(jax.random.truncated_normal(
                key_of(key), low, high, shape)))


def initialisers():
    init = jax.nn.initializers
    plain = ["lecun_normal", "lecun_uniform", "glorot_normal",
             "glorot_uniform", "he_normal", "he_uniform"]
    for name in plain + ["zeros", "ones", "normal"]:
        make = getattr(init, name)
        made = make() if name in plain + ["normal"] else make
        for shape in [[16, 24], [3, 2, 4, 8], [6]]:
            key = {"seed": 9}
            add("jax.nn.initializers",
                {"init": name, "key": key, "shape": shape},
                lambda: floats(made(key_of(key), shape, jnp.float32)))
    key = {"seed": 10}
    add("jax.nn.initializers",
        {"init": "normal", "key": key, "shape": [64], "stddev": 0.02},
        lambda: floats(init.normal(0.02)(key_of(key), [64], jnp.float32)))
    add("jax.nn.initializers",
        {"init": "lecun_normal", "key": key, "shape": [64, 64]},
        lambda: floats(init.lecun_normal()(key_of(key), [64, 64],
                                           jnp.float32)))
    for mode in ["fan_in", "fan_out", "fan_avg"]:
        for distribution in ["truncated_normal", "normal", "uniform"]:
            add("jax.nn.initializers.variance_scaling",
                {"key": key, "shape": [5, 6, 7], "scale": 2.5, "mode": mode,
                 "distribution": distribution},
                lambda: floats(init.variance_scaling(2.5, mode, distribution)(
                    key_of(key), [5, 6, 7], jnp.float32)))


def shards():
    """What xlstm's ModelParallelismWrapper and scale_init do, on n devices."""
    lecun = jax.nn.initializers.lecun_normal()
    for count in [1, 2, 4]:
        for split_rngs in [True, False]:
            for mask in [None, 0, count - 1]:
                key = {"seed": 11, "fold_in": [count]}
                inputs = {"key": key, "shape": [4, 6], "init": "lecun_normal",
                          "scale_factor": 0.3, "devices": count,
                          "split_rngs": split_rngs,
                          "mask_except_model_idx": mask}

                def one(device):
                    index = jax.lax.axis_index("model")
                    own = key_of(key)
                    if split_rngs:
                        own = jax.random.fold_in(own, index)
                    value = 0.3 * lecun(own, [4, 6], jnp.float32)
                    if mask is not None:
                        value = jnp.where(index == mask, value, 0.0)
                    return value

                add("ModelParallelismWrapper.init", inputs,
                    lambda: floats(jax.vmap(one, axis_name="model")(
                        jnp.arange(count))))


keys()
bits()
distributions()
initialisers()
shards()
print("[" + ",\n".join(json.dumps(case, separators=(", ", ": "))
                       for case in CASES) + "]")
