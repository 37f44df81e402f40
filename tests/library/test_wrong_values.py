"""Wrong values, made by a rule: for each argument of each public call, and each field.

``wrong_calls`` lists by hand what is wrong for an argument. Here each argument,
those with a default included, is replaced by what no argument of its kind can be, and
each field of a published ``config.json`` by values of other types and sizes.
"""

import inspect
import json
import math

import numpy as np
import pytest
import torch

from attention_lib.pretrained import HARMLESS, read_config
from attention_lib.pretrained.configs import ROUTING
from tests.library.wrong_calls import CALLS, fault

pytestmark = pytest.mark.long

ANY = [object(), 1j, b"x"]
NUMBERS = ["x", {}, [1], True, math.nan, torch.ones(2, 2)]
FLAGS = ["x", {}, [1], 2, math.nan]


def wrong_for(value):
    """What cannot stand in the place of a value, whatever the call."""
    if isinstance(value, torch.Tensor):
        kind = torch.int64 if value.is_floating_point() else torch.complex64
        return [*ANY, "x", {}, value.numpy(), value.to(kind)]
    if isinstance(value, np.ndarray):
        return [*ANY, "x", {}, value.astype(object), value.astype(complex)]
    if isinstance(value, bool):
        return [*ANY, *FLAGS, None]
    if isinstance(value, int):
        return [*ANY, *NUMBERS, 2.5, math.inf, -(10**9)]
    if isinstance(value, float):
        return [*ANY, *NUMBERS]
    if isinstance(value, str):
        return [*ANY, {}, 3, ["x"]]
    return ANY


def mutations():
    """Every public call of ``wrong_calls``, each argument replaced."""
    for function, right, _ in CALLS:
        for name, found in inspect.signature(function).parameters.items():
            if found.kind in (found.VAR_POSITIONAL, found.VAR_KEYWORD):
                continue
            for wrong in wrong_for(right.get(name, found.default)):
                yield function, right, name, wrong


def assert_few(number, faults):
    """At most 1 % of wrong values may pass in silence, 3 % with unclear words."""
    silent = [line for line in faults if line.endswith("silent")]
    unclear = len(faults) - len(silent)
    report = f"of {number} wrong values {len(silent)} silent, {unclear} unclear:"
    report = "\n".join([report, *faults])
    print(report)
    assert len(silent) <= 0.01 * number, report
    assert unclear <= 0.03 * number, report


@pytest.mark.usefixtures("shapes_unchecked")
def test_each_argument_refuses_what_it_cannot_be():
    number, faults = 0, []
    for function, right, name, wrong in mutations():
        number += 1
        if said := fault(function, right, name, wrong):
            called = getattr(function, "__qualname__", type(function).__name__)
            came = " ".join(str(wrong).split())[:30]
            faults.append(f"{called}({name}={came}): {said}")
    assert number > 3000
    assert_few(number, faults)


# The families, with two layers each, as transformers writes their config.json.
FAMILIES = {
    **{"GPT2": {"n_layer": 2}, "Llama": {}, "Mistral": {}, "Qwen2": {}, "Qwen3": {}},
    **{"Gemma2": {}, "Gemma3Text": {}, "GptOss": {}},
    "DeepseekV3": {"first_k_dense_replace": 2},
}
# What the published model ignores, so that no value of it is wrong.
IGNORED = {*HARMLESS, *ROUTING, "_sliding_window_pattern"}
IGNORED |= {"initial_context_length", "experts_per_token"}
WORDS = ["x", ["x"], [1], {"x": 1}]
# By the type of the value that is there, what is wrong; then values out of bounds.
WRONG = {
    bool: [*WORDS, None, 2, 0.5, math.nan],
    int: [*WORDS, True, 0, -1, 10**30, 2.5, "2", math.nan, math.inf],
    float: [*WORDS, True, 0, -1.0, "1e-6", math.nan, math.inf, -math.inf, 10**400],
    str: ["x", ["silu"], {"x": 1}, None, 1, True],
    list: ["x", [1], [None], 3, {"x": 1}, ["x", "y"], ["full_attention"] * 3],
    dict: [*WORDS, True, 3, [["rope_type", "x"]]],
    type(None): ["x", ["x"], [1], 0, -1, math.nan],
}
WRONG_ROPE = [{"rope_type": "x"}, {"rope_type": ["linear"]}, {"rope_type": "linear"}]
WRONG_ROPE += [
    {"rope_type": "linear", "factor": wrong}
    for wrong in (None, "2", [2], 0.5, math.nan, math.inf, True)
]


def written(family, options):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{family}Config")(**options)
    fields = json.loads(config.to_json_string()) | options
    if "num_hidden_layers" in fields:
        fields["num_hidden_layers"] = 2
    if fields.get("layer_types"):
        fields["layer_types"] = fields["layer_types"][:2]
    return fields


def refusal(fields, name):
    """What is wrong with how a field is refused; nothing where it is named."""
    try:
        read_config(fields)
    except Exception as error:
        if isinstance(error, ValueError) and name in str(error):
            return None
        return f"unclear: {type(error).__name__}: {str(error)[:70]}"
    return "silent"


def test_each_field_of_config_json_refuses_other_types_and_values():
    number, faults = 0, []
    for family, options in FAMILIES.items():
        right = written(family, options)
        read_config(right)
        for name in right.keys() - IGNORED:
            wrong = [*WRONG[type(right[name])]]
            if name == "rope_parameters":
                wrong += WRONG_ROPE
            if name in ("max_window_layers", "first_k_dense_replace"):
                wrong.remove(0)  # a whole number from 0 on
            for value in wrong:
                number += 1
                if said := refusal(right | {name: value}, name):
                    faults.append(f"{family}, {name} = {str(value)[:30]}: {said}")
    assert number > 1000
    assert_few(number, faults)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("fields", [None, "x", [1], 3])
def test_fields_must_be_a_mapping(fields):
    with pytest.raises(TypeError, match="fields must be a Mapping"):
        read_config(fields)


@pytest.mark.parametrize("wrong", [None, ["llama"], {}, 3, "x"])
def test_family_that_is_not_known_is_refused(wrong):
    with pytest.raises(ValueError, match="model_type"):
        read_config({"model_type": wrong})
