"""The benchmarks compare equal work, and their page says what was measured."""

import io
import json
import time

import pytest
import torch
from PIL import Image

from benchmarks import (
    decode,
    flash,
    growth,
    guessing,
    latent,
    layers,
    report,
    serving,
    steps,
)
from benchmarks.plain import IGNORED
from tools.check.pictures import THRESHOLD, worst_block
from tools.check.reproduces import BLANK, fill

NUMBERS = ("milliseconds", "ratio", "median", "low", "high", "rounds")


@pytest.fixture(scope="module")
def results():
    return json.loads(report.RESULTS.read_text(encoding="utf-8"))


def gradients(layer, x, mask):
    x = x.clone().requires_grad_()
    layer.train()(x, mask).square().sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    return x.grad, sum(p.numel() for p in layer.parameters())


@pytest.mark.parametrize("mask", layers.MASKS)
def test_layers_do_the_work_of_the_floor(mask):
    x = torch.randn(2, 9, layers.D_MODEL, generator=torch.Generator().manual_seed(1))
    made = layers.make_layers()
    floor, its = made[layers.FLOOR], layers.make_mask(layers.FLOOR, mask, 9)
    wanted, (floor_grad, floor_count) = floor(x, its), gradients(floor, x, its)
    for name in layers.measured(mask):
        layer, own = made[name], layers.make_mask(name, mask, 9)
        torch.testing.assert_close(layer(x, own), wanted, msg=name)
        torch.testing.assert_close(layer.eval()(x, own), wanted, msg=name)
        layer.zero_grad()
        grad, count = gradients(layer, x, own)
        torch.testing.assert_close(grad, floor_grad, rtol=1e-4, atol=1e-4, msg=name)
        assert count == floor_count


def test_models_compute_the_same_loss_from_the_same_weights():
    torch.manual_seed(0)
    ours, plain = steps.make_ours("sdpa", 16), steps.make_plain(16)
    theirs = steps.make_theirs(16, activation_function="gelu")
    for parameter in ours.parameters():  # far from a fresh model, which says little
        torch.nn.init.normal_(parameter, std=0.2)
    steps.fill_theirs(theirs, ours)
    steps.fill_plain(plain, ours)
    ids = torch.randint(steps.VOCAB_SIZE, (3, 16))
    found = theirs(input_ids=ids, labels=ids)
    torch.testing.assert_close(ours(ids), found.logits)
    assert sum(p.numel() for p in plain.parameters()) == sum(
        p.numel() for p in ours.parameters()
    )
    targets = torch.nn.functional.pad(ids[:, 1:], (0, 1), value=IGNORED)
    loss = steps.train_step(ours, torch.optim.AdamW(ours.parameters()), ids)
    assert loss == pytest.approx(found.loss.item(), rel=1e-5)
    assert loss == pytest.approx(plain(ids, targets).item(), rel=1e-5)


def test_other_models_compute_the_same_loss_from_the_same_weights():
    torch.manual_seed(0)
    ours, plain = steps.make_ours("sdpa", 16), steps.make_plain(16)
    theirs, textbook = steps.make_x(16), steps.make_plain(16, steps.TextbookBlock)
    for name, parameter in ours.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm.bias" in name or "out_proj.bias" in name:  # theirs has none
            torch.nn.init.zeros_(parameter)
    steps.fill_x(theirs, ours)
    steps.fill_plain(plain, ours)
    textbook.load_state_dict(plain.state_dict())
    text = torch.randint(steps.VOCAB_SIZE, (3, 17))
    ids, targets = text[:, :-1], text[:, 1:]
    loss = plain(ids, targets)
    torch.testing.assert_close(textbook(ids, targets), loss)
    torch.testing.assert_close(steps.x_loss(theirs, ids, targets), loss)


@pytest.mark.parametrize("name", decode.MODELS)
def test_models_write_as_many_tokens_as_asked(name):
    with torch.no_grad():
        assert decode.make_call(name, 3)().shape == (1, decode.PROMPT + 3)


def test_latent_steps_give_the_same_output(monkeypatch):
    monkeypatch.setattr(latent, "KEPT", 9)
    wanted = latent.make_call(latent.REFERENCE)()
    for name in set(latent.MODELS) - set(latent.GROUPED):
        call = latent.make_call(name)
        torch.testing.assert_close(call(), wanted, rtol=0, atol=1e-6, msg=name)
        torch.testing.assert_close(call(), wanted, rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize("hidden", layers.MASKS)
def test_ways_to_attend_give_the_same_output_and_gradients(monkeypatch, hidden):
    monkeypatch.setattr(flash, "KEYS", 70)
    for which in layers.PASSES:
        wanted = flash.make_call(flash.REFERENCE, hidden, which)()
        for name in flash.WAYS:
            found = flash.make_call(name, hidden, which)()
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, msg=name)


def test_ways_that_grow_give_the_same_output():
    wanted = growth.make_call(growth.REFERENCE, 300)()
    for name in growth.WAYS:
        found = growth.make_call(name, 300)()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, msg=name)


def test_a_table_that_does_not_fit_is_left_out():
    assert "are free" in growth.missing(growth.PLAIN, 10**7)
    assert growth.missing(growth.REFERENCE, 10**7) == ""


def test_choices_name_the_fastest_and_whose_rounds_overlap(results):
    row = {"keys": 8, "low": 1, "median": 1, "high": 1.2}
    rows = [row | {"name": "a"}, row | {"name": "b", "low": 1.1, "median": 1.5}]
    rows.append({"keys": 8, "name": "c", "low": 2, "median": 3, "high": 4})
    line = "| attention alone, forward, causal, 8 tokens | a | b | c, 3.0 times |"
    assert line in report.choices(results | {"growth": rows})


def test_a_part_measured_on_another_day_says_so_and_on_another_machine_is_refused():
    machine = {"cpu": 1, "instructions": "AVX512"}
    kept = {"measured": "1st", "machine": machine, "versions": 1}
    new = kept | {"flash": 2}
    kept |= {"steps": 1, "flash": 1}
    assert report.joined(kept, new) == kept | {"flash": 2}
    later = report.joined(kept, new | {"measured": "3rd"})
    assert later == kept | {"flash": 2, "days": {"flash": "3rd"}}
    other = {"machine": machine | {"instructions": "AVX2"}}
    again = report.joined(later, new | {"measured": "4th"} | other)
    assert again == later | {"days": {"flash": "4th, AVX2"}}
    for wrong in (other, {"measured": "3rd", "machine": machine | {"cpu": 2}}):
        with pytest.raises(SystemExit, match="measure everything"):
            report.joined(kept, new | wrong)
    whole = kept | {"measured": "3rd", "machine": machine | {"cpu": 2}}
    assert report.joined(later, whole) == whole


def test_a_way_measured_later_joins_its_case():
    old = [{"keys": n, "name": name} for n in (1, 2) for name in "ab"]
    new = [{"keys": 1, "name": name, "ratio": 3} for name in "bc"]
    assert report.merged(old, new) == [old[0], *new, *old[2:]]


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_all_ways_to_serve_give_the_same_tokens():
    requests = [
        serving.Wanted(prompt, min(count, 9))
        for prompt, count in serving.make_stream(0, serving.BATCH + 2)
    ]
    wanted = None
    for name in serving.WAYS:
        served = serving.serve(name, requests, time.perf_counter)
        tokens = [each.tokens for each in served]
        assert [len(row) for row in tokens] == [count for _, count in requests]
        wanted = wanted or tokens
        assert tokens == wanted, name
        if name != serving.THEIR_BATCH:
            assert all(0 < each.first <= each.last for each in served)


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_guessing_writes_the_plain_texts(monkeypatch):
    sizes = {"STEPS": 2, "NEW_TOKENS": 6, "TEXTS": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(guessing, name, size)
    guessing.trained.cache_clear()
    plain = guessing.make_call(guessing.STORIES, guessing.PLAIN, 1)()
    assert len(plain.passes) == 12
    for name, slots in (
        (guessing.GUESSED, 1),
        (guessing.PLAIN, 2),
        (guessing.GUESSED, 2),
    ):
        assert (
            guessing.make_call(guessing.STORIES, name, slots)().tokens == plain.tokens
        )
    guessing.trained.cache_clear()


def test_results_are_numbers_in_order_and_name_no_machine(results):
    parts = "layers", "steps", "decode", "latent", "flash", "growth", "serving"
    parts += ("guessing",)
    for row in (row for part in parts for row in results[part]):
        assert all(row[key] > 0 for key in NUMBERS)
        assert row["low"] <= row["median"] <= row["high"]
    known = {"cpu", "cores", "threads", "timer", "instructions"}
    assert set(results["machine"]) == known


def test_page_says_what_the_results_say(results):
    page = report.PAGE.read_text(encoding="utf-8")
    assert fill(page, report.texts(results)) == page, "`python -m benchmarks.report`"
    assert {m[2] for m in BLANK.finditer(page)} == set(report.texts(results))


def test_what_the_page_says_of_a_gpu_was_measured():
    found = json.loads(report.GPU.read_text(encoding="utf-8"))
    large, ours = found["products"]["Llama 3 8B"], "4 bits, our kernel"
    assert large["1"][ours] < 1 < large["4"][ours] < large["16"][ours]
    for length, faster in (("512", True), ("2048", True), ("8192", False)):
        ways = found["attention"][length]
        assert (ways["the whole table"] < ways["our kernel"]) == faster


def test_figures_are_those_of_the_results(results):
    for name, figure in report.figures(results).items():
        kept = Image.open(report.FIGURES / name).convert("RGB")
        drawn = Image.open(io.BytesIO(figure.png())).convert("RGB")
        assert kept.size == drawn.size
        assert worst_block(kept, drawn)[0] <= THRESHOLD, f"{name}: of other results"


def test_ratios_take_the_fastest_round_and_keep_the_spread():
    times = [("floor", 2.0), ("ours", 3.0), ("floor", 1.0), ("ours", 4.0)]
    cases = [{"name": name, "length": 64, "min": fastest} for name, fastest in times]
    floor, ours = report.ratios(cases, ("length",), "floor")
    assert floor["ratio"] == floor["low"] == floor["high"] == 1
    assert ours == {
        "length": 64, "name": "ours", "milliseconds": 3000, "ratio": 3, "low": 1.5,
        "median": 2.75, "high": 4, "rounds": 2,
    }  # fmt: skip
