"""From the measured times to what readers see: results.json, the plots, the tables.

Run as `python -m benchmarks.report TIMES.json` after a measurement, with several files
where it was done in parts, or without one to draw and fill the page again from the
results that are kept. A measurement of some cases (`-k flash`) replaces these only, and
is refused unless the others were measured on that day, by the same versions. Of some
ways, it needs the reference, too: `-k "test_step and (nanoGPT or textbook)"`.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from attention_lib.plotting import BookFigure, show_bars, show_curves
from benchmarks import flash, growth, guessing, latent, real, serving, steps
from tools.check.reproduces import fill
from tools.words import say

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results.json"
GPU = ROOT / "benchmarks/gpu.json"
PAGE = ROOT / "book/speed.md"
FIGURES = ROOT / "book/_static"

FLOOR, OURS = "floor", "our sdpa"
CALLERS = {  # who calls PyTorch's kernel; the others write attention out
    OURS, "our torch", "nn.MultiheadAttention", "Hugging Face GPT-2",
    "Hugging Face Llama", "our sdpa, causal=True",
}  # fmt: skip
Row = dict[str, Any]
# What a comparison has in common, in all parts.
CASE = ("length", "mask", "which", "new_tokens", "kept", "hidden", "keys", "stream",
        "text", "slots", "task")  # fmt: skip


def summarise(raw: Row) -> Row:
    """Turn pytest-benchmark's times into ratios; keep no name of the machine."""
    cpu, each = raw["machine_info"]["cpu"], raw["benchmarks"]
    said = each[0]["extra_info"]
    noted = {key: said[key] for key in ("threads", "timer", "instructions")}
    cases = [case["extra_info"] | case["params"] | case["stats"] for case in each]
    served = [case for case in cases if "stream" in case]
    guessed = [case for case in cases if "slots" in case]
    layers = [case for case in cases if "mask" in case]
    decoded = [case for case in cases if "new_tokens" in case]
    published = [case for case in cases if "task" in case]
    kept = [case for case in cases if "kept" in case]
    whole = [case for case in cases if "length" in case and "mask" not in case]
    tiled = [case for case in cases if "hidden" in case]
    grown = [case for case in cases if "keys" in case]
    found = {
        "layers": ratios(layers, ("length", "mask", "which"), FLOOR),
        "steps": ratios(whole, ("length",), steps.PLAIN),
        "decode": ratios(decoded, ("new_tokens",), steps.FACE),
        "real": ratios(published, ("task",), real.REFERENCE),
        "latent": ratios(kept, ("kept",), latent.REFERENCE),
        "flash": ratios(tiled, ("hidden", "which"), flash.REFERENCE),
        "growth": ratios(grown, ("keys",), growth.REFERENCE),
        "serving": ratios(served, ("stream",), serving.REFERENCE),
        "waits": waits([case for case in served if not case["stream"]]),
        "guessing": ratios(guessed, ("text", "slots"), guessing.PLAIN),
        "passes": {
            f"{case['text']}, {case['slots']}": [
                case[key] for key in ("passes", "guessed", "accepted")
            ]
            for case in guessed
            if case["name"] == guessing.GUESSED
        },
    }
    return {
        "measured": raw["datetime"][:10],
        "machine": {
            "cpu": cpu.get("brand_raw", "unknown"),
            "cores": os.cpu_count(),
            **noted,
        },
        "versions": {"python": raw["machine_info"]["python_version"]}
        | {name: version(name) for name in ("torch", "transformers", "x-transformers")}
        | {"pytest-benchmark": raw["version"]},
    } | {part: rows for part, rows in found.items() if rows}


def joined(kept: Row, new: Row) -> Row:
    """Replace the new measurements; the rest must have the same machine and versions.

    Parts of another day than the rest replace the old ones whole, and keep their day,
    and their instructions where these differ.
    """
    others = set(kept) - set(new) - {"days"}
    own, before = new["machine"], kept["machine"]
    if kept["measured"] != new["measured"]:
        own = own | {"instructions": before["instructions"]}
    for key, one, two in (
        ("machine", before, own),
        ("versions", kept["versions"], new["versions"]),
    ):
        if one != two and others:
            raise SystemExit(f"{key} differs: {one}, {two}; measure everything")
    if not others:
        return new
    if kept["measured"] != new["measured"]:
        parts = set(new) - {"measured", "machine", "versions"}
        used = new["machine"]["instructions"]
        day = new["measured"] + (f", {used}" if used != before["instructions"] else "")
        days = kept.get("days", {}) | dict.fromkeys(sorted(parts), day)
        return (
            kept
            | new
            | {key: kept[key] for key in ("measured", "machine")}
            | {"days": days}
        )
    rows = {part for part in set(kept) & set(new) if isinstance(new[part], list)}
    return kept | new | {part: merged(kept[part], new[part]) for part in rows}


def merged(kept: list[Row], new: list[Row]) -> list[Row]:
    """Put new rows in the place of those with the same case and name.

    All are divided by a reference that was measured in turns with them, so ways that
    were measured alone with it can be listed with the others.
    """
    cases: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in kept + new:
        case = tuple(row.get(key) for key in CASE)
        cases.setdefault(case, {})[row["name"]] = row
    return [row for case in cases.values() for row in case.values()]


def waits(cases: list[Row]) -> Row:
    """Return each request's first and last time, relative to the reference's last.

    Each way's are those of its fastest round.
    """
    fastest = {}
    for case in sorted(cases, key=lambda case: -case["min"]):
        fastest[case["name"]] = case
    whole = max(fastest[serving.REFERENCE]["last"]) if fastest else 1.0
    return {
        name: {
            when: [round(time / whole, 4) for time in sorted(case[when])]
            for when in ("first", "last")
            if None not in case[when]
        }
        for name, case in sorted(fastest.items())
    }


def ratios(cases: list[Row], keys: tuple[str, ...], reference: str) -> list[Row]:
    """Divide each fastest time by the reference's; the spread is that of the rounds.

    Args:
        cases: in the order of measurement, with the fastest time of each round.
        keys: what one comparison has in common.
        reference: the name that all are divided by.
    """
    rows = []
    for values, group in groupby(cases, lambda case: [case[key] for key in keys]):
        times: dict[str, list[float]] = {}
        for case in group:
            times.setdefault(case["name"], []).append(case["min"])
        floor = times[reference]
        for name, own in times.items():
            each = [a / b for a, b in zip(own, floor, strict=True)]
            rows.append(
                dict(zip(keys, values, strict=True))
                | {
                    "name": name,
                    "milliseconds": round(1000 * min(own), 3),
                    "ratio": round(min(own) / min(floor), 3),
                    "median": round(statistics.median(each), 3),
                    "low": round(min(each), 3),
                    "high": round(max(each), 3),
                    "rounds": len(own),
                }
            )
    return rows


def table(rows: list[Row]) -> str:
    """Return a table: one line per name, one column per length, ratios in the cells."""
    lengths = list(dict.fromkeys(row["length"] for row in rows))
    left_out, lines = say("speed.left_out"), {}
    for name in dict.fromkeys(row["name"] for row in rows):
        own = {row["length"]: row["ratio"] for row in rows if row["name"] == name}
        lines[name] = [f"{own[n]:.2f}" if n in own else left_out for n in lengths]
    return grid(say("speed.tokens"), [f"{length:,}" for length in lengths], lines)


def grid(head: str, columns: Iterable[str], lines: dict[str, list[str]]) -> str:
    """Return a table: one line per name, with its cells."""
    heads = [head, *columns]
    rows = [heads, *([name, *cells] for name, cells in lines.items())]
    first, *rest = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([first, "|---|" + "---:|" * (len(heads) - 1), *rest])


def grown(rows: list[Row]) -> str:
    """Return a table: the time at each length relative to that at the first length."""
    return table(
        [
            row | {"length": row["keys"], "ratio": row["milliseconds"] / first}
            for row in rows
            for first in [
                next(r for r in rows if r["name"] == row["name"])["milliseconds"]
            ]
        ]
    )


def choices(results: Row) -> str:
    """Return for each case the fastest row, those close to it, and the slowest.

    Two ways count as equally fast where the ranges of their single rounds overlap.
    """
    cases: dict[str, list[Row]] = {}
    says = {"none": say("speed.none"), "causal": say("speed.causal")}
    for row in results["layers"]:
        if row["length"] in (128, 2048) and not row["name"].startswith(FLOOR):
            own = {"which": row["which"], "mask": says[row["mask"]]}
            case = say("speed.layer", **own, n=row["length"])
            cases.setdefault(case, []).append(row)
    for row in results["growth"]:
        case = say("speed.alone", n=row["keys"])
        cases.setdefault(case, []).append(row)
    for row in results["steps"]:
        case = say("speed.step", n=row["length"])
        cases.setdefault(case, []).append(row)
    cases[say("speed.new_token")] = results["decode"]
    for row in results["serving"]:
        case = say("speed.requests", n=row["stream"] + 1)
        cases.setdefault(case, []).append(row)
    for row in results["guessing"]:
        case = say("speed.guessing", text=row["text"], n=row["slots"])
        cases.setdefault(case, []).append(row)
    lines = [say("speed.choices"), "|---|---|---|---|"]
    for case, rows in cases.items():
        first, *others = sorted(rows, key=lambda row: row["median"])
        near = [row["name"] for row in others if row["low"] <= first["high"]]
        last = others[-1]
        times = last["median"] / first["median"]
        lines.append(
            f"| {case} | {first['name']} | "
            f"{'; '.join(near) or say('speed.nothing_near')} | "
            f"{say('speed.times', name=last['name'], times=times)} |"
        )
    return "\n".join(lines)


def of(results: Row, mask: str, which: str) -> list[Row]:
    """Return the rows of one table of layers."""
    rows = results["layers"]
    return [row for row in rows if (row["mask"], row["which"]) == (mask, which)]


def against(
    results: list[Row], name: str, others: Callable[[str], bool]
) -> list[tuple[float, Row]]:
    """Return for each comparison the time of ``name`` over the fastest other's."""
    found = []
    key = ("length", "mask", "which")
    for _, group in groupby(results, lambda row: [row.get(k) for k in key]):
        rows = list(group)
        own = next(row for row in rows if row["name"] == name)
        best = min(row["ratio"] for row in rows if others(row["name"]))
        found.append((round(own["ratio"] / best, 3), own))
    return found


def bounds(results: Row) -> str:
    """Compare the promised bounds with the results."""
    told, its_floor = "our sdpa, causal=True", "floor, is_causal"
    no_layer = {FLOOR, its_floor, OURS, told}
    layers, whole = results["layers"], results["steps"]
    promised = [
        ("our sdpa / floor", 1.05, against(layers, OURS, lambda name: name == FLOOR)),
        (
            say("speed.fastest_other"),
            1.0,
            against(layers, OURS, lambda name: name not in no_layer),
        ),
        (
            "our split / textbook split",
            1.0,
            against(layers, "our split", lambda name: name == "textbook split"),
        ),
    ]
    long = [r for r in layers if (r["mask"], r["length"]) == ("causal", 2048)]
    found = against(long, told, lambda name: name == its_floor)
    promised.append((f"{told} / {its_floor}", 1.03, found))
    for other, bound in ((steps.PLAIN, 1.0), (steps.FACE, 0.85)):
        found = against(whole, steps.OURS, lambda name, its=other: name == its)
        what = say("speed.steps_of", ours=steps.OURS, other=other)
        promised.append((what, bound, found))
    written = [r for r in results["decode"] if r["name"] == steps.OURS]
    found = [(r["ratio"], r | {"length": r["new_tokens"]}) for r in written]
    what = say("speed.token_of", ours=steps.OURS, other=steps.FACE)
    promised.append((what, 0.35, found))
    for task, bound in ((real.PREFILL, 1.03), (real.DECODE, 1.0)):
        own = [r for r in results["real"] if r["name"] == real.OURS]
        found = [
            (row["median"], row | {"where": real.MODEL})
            for row in own
            if row["task"] == task
        ]
        what = say("speed.task_of", task=task, other=real.REFERENCE)
        promised.append((what, bound, found))
    absorbed = [r for r in results["latent"] if r["name"] == latent.OURS]
    found = [(r["ratio"], r | {"length": r["kept"]}) for r in absorbed]
    what = say("speed.one_step", ours=latent.OURS, other=latent.REFERENCE)
    promised.append((what, 0.2, found))
    streams = [
        row
        | {"length": row["stream"], "where": say("speed.stream", n=row["stream"] + 1)}
        | {"ratio": row["median"]}
        for row in results["serving"]
    ]
    others = {serving.REFERENCE: 1.6, serving.STATIC: 1.6, serving.THEIR_BATCH: 1.5}
    for ours in (serving.OURS, serving.MORE):
        for other, bound in others.items():  # of requests per second
            found = against(streams, ours, lambda name, its=other: name == its)
            what = say("speed.stream_of", ours=ours, other=other)
            promised.append((what, 1 / bound, found))
    found = [
        (row["median"], row | {"where": row["text"]})
        for row in results["guessing"]
        if (row["name"], row["slots"]) == (guessing.GUESSED, 1)
    ]
    promised.append((say("speed.guesses_of"), 0.65, found))
    lines = [say("speed.bounds"), "|---|---|---|---|---|---|"]
    for what, bound, found in promised:
        worst, row = max(found, key=lambda pair: pair[0])
        where = [row.get("where") or say("speed.at", n=row["length"])]
        if "mask" in row:
            where += [say("speed.mask", kind=row["mask"]), row["which"]]
        median = statistics.median(value for value, _ in found)
        held = sum(value <= bound for value, _ in found)
        lines.append(
            f"| {what} | {bound:.2f} | {median:.2f} | {worst:.2f} | "
            f"{', '.join(where)} | "
            f"{say('speed.within', held=held, all=len(found))} |"
        )
    return "\n".join(lines)


def decoded(rows: list[Row]) -> str:
    """Return one line per model: the time per new token, and its spread."""
    lines = [say("speed.decoded"), "|---|---:|---:|"]
    for row in rows:
        lines.append(
            f"| {row['name']} | {row['ratio']:.2f} | {say('speed.spread', **row)} |"
        )
    return "\n".join(lines)


def by_tiles(rows: list[Row]) -> str:
    """Return one line per function, one column for each mask and pass."""
    cases = dict.fromkeys((row["hidden"], row["which"]) for row in rows)
    says = {"none": say("speed.none"), "causal": say("speed.causal_short")}
    lines: dict[str, list[str]] = {}
    for row in rows:
        lines.setdefault(row["name"], []).append(f"{row['ratio']:.2f}")
    columns = (f"{says[mask]}, {which}" for mask, which in cases)
    return grid(say("speed.way"), columns, lines)


def by_task(rows: list[Row]) -> str:
    """Return one line per model, one column per task: ratios, and their spread."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        spread = say("speed.spread", **row)
        lines.setdefault(row["name"], []).append(f"{row['median']:.2f} ({spread})")
    return grid(say("speed.way"), dict.fromkeys(row["task"] for row in rows), lines)


def on_gpu(cases: dict[str, dict[str, float]]) -> str:
    """Return one line per way, one column per case: ratios."""
    lines: dict[str, list[str]] = {}
    for case in cases.values():
        for name, ratio in case.items():
            lines.setdefault(name, []).append(f"{ratio:.2f}")
    return grid(say("speed.way"), cases, lines)


def gpu_texts(found: Row) -> dict[str, str]:
    """Return the blocks that are made from what a GPU gave."""
    versions = ", ".join(f"{name} {it}" for name, it in found["versions"].items())
    products = {
        f"{size}, {say('speed.row' if rows == '1' else 'speed.rows', n=rows)}": ways
        for size, each in found["products"].items()
        for rows, ways in each.items()
    }
    lengths = {f"{int(n):,}": ways for n, ways in found["attention"].items()}
    named = {"gpu": found["gpu"], "day": found["measured"], "versions": versions}
    return {
        "gpu": say("speed.gpu", **named),
        "gpu_products": on_gpu(products),
        "gpu_attention": on_gpu(lengths),
    }


def requests(rows: list[Row]) -> str:
    """Return one line per server, one column per stream: ratios of throughput.

    Beside them, how far the single rounds of all streams differ.
    """
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    named = " | ".join(say("speed.stream", n=stream + 1) for stream in streams)
    lines = [
        f"| {say('speed.way')} | {named} | {say('speed.rounds')} |",
        "|---|" + "---:|" * len(streams) + "---:|",
    ]
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        cells = " | ".join(f"{1 / row['median']:.2f}" for row in own)
        low, high = min(1 / r["high"] for r in own), max(1 / r["low"] for r in own)
        lines.append(
            f"| {name} | {cells} | {say('speed.spread', low=low, high=high)} |"
        )
    return "\n".join(lines)


def until_last(results: Row) -> str:
    """Return the difference to their server without its start and its end."""
    ends = {name: each["last"][-1] for name, each in results["waits"].items()}
    later = ends[serving.THEIR_BATCH] / ends[serving.OURS]
    names = {"ours": serving.OURS, "theirs": serving.THEIR_BATCH}
    return say("speed.until_last", **names, later=later)


def guesses(results: Row) -> str:
    """Return one line for each kind of text and number of texts at a time."""
    lines = [
        say("speed.guesses"),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in results["guessing"]:
        if row["name"] == guessing.GUESSED:
            passes, guessed, right = results["passes"][f"{row['text']}, {row['slots']}"]
            lines.append(
                f"| {row['text']} | {row['slots']} | {passes:,} | {guessed:,} | "
                f"{right:,} | {row['median']:.2f} | {say('speed.spread', **row)} |"
            )
    return "\n".join(lines)


def spread(results: Row) -> str:
    """Return how far single rounds of the training step differ."""
    own = [row for row in results["steps"] if row["name"] == steps.OURS]
    medians = ", ".join(f"{row['median']:.3f}" for row in own)
    low, high = min(row["low"] for row in own), max(row["high"] for row in own)
    names = {"ours": steps.OURS, "other": steps.PLAIN}
    said = {"n": own[0]["rounds"], "medians": medians, "low": low, "high": high}
    return say("speed.over", **names, **said)


def machine(results: Row) -> str:
    """Describe the machine of the measurements."""
    own, versions = results["machine"], results["versions"]
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    threads = say(
        "speed.threads" if own["threads"] > 1 else "speed.thread", n=own["threads"]
    )
    found = own | {"threads": threads, "versions": named, "day": results["measured"]}
    later = [f"{part} ({day})" for part, day in results.get("days", {}).items()]
    more = " " + say("speed.days", parts=", ".join(later)) if later else ""
    return say("speed.machine", **found) + more


def texts(results: Row) -> dict[str, str]:
    """Return every block of the page that is made from the results."""
    return {
        "machine": machine(results),
        "bounds": bounds(results),
        "forward_causal": table(of(results, "causal", "forward")),
        "backward_causal": table(of(results, "causal", "with backward")),
        "forward_none": table(of(results, "none", "forward")),
        "backward_none": table(of(results, "none", "with backward")),
        "steps": table(results["steps"]),
        "spread": spread(results),
        "decode": decoded(results["decode"]),
        "real": by_task(results["real"]),
        "serving": requests(results["serving"]),
        "until_last": until_last(results),
        "guessing": guesses(results),
        "latent": table([row | {"length": row["kept"]} for row in results["latent"]]),
        "flash": by_tiles(results["flash"]),
        "growth": table([row | {"length": row["keys"]} for row in results["growth"]]),
        "grown": grown(results["growth"]),
        "choices": choices(results),
        **gpu_texts(json.loads(GPU.read_text(encoding="utf-8"))),
    }


def figures(results: Row) -> dict[str, BookFigure]:
    """Return the plots, by the name of their file."""
    drawn = {}
    for which, short in (("forward", "forward"), ("with backward", "backward")):
        rows = of(results, "causal", which)
        # A figure tells six apart: x-transformers stands in the tables.
        rows = [row for row in rows if not row["name"].startswith((FLOOR, "x-"))]
        for kind, calls in (("kernel", True), ("written", False)):
            curves: dict[str, list[float]] = {}
            for row in rows:
                if (row["name"] in CALLERS) == calls:
                    curves.setdefault(row["name"], []).append(row["ratio"])
            drawn[f"speed-{kind}-{short}.png"] = show_curves(
                sorted({row["length"] for row in rows}),
                curves,
                xlabel=say("speed.x_tokens"),
                ylabel=say("speed.y_floor"),
                log_x=True,
            )
    bars: dict[str, list[float]] = {}
    for row in results["steps"]:
        bars.setdefault(f"{row['length']} {say('speed.tokens')}", []).append(
            row["ratio"]
        )
    names = dict.fromkeys(row["name"] for row in results["steps"])
    drawn["speed-steps.png"] = show_bars(
        bars,
        [name.replace("Hugging Face ", "").replace(", ", "\n") for name in names],
        xlabel=say("speed.x_model"),
        ylabel=say("speed.y_plain"),
    )
    curves = {}
    for row in results["growth"]:
        curves.setdefault(row["name"], []).append(row["milliseconds"])
    shortest = min(each[0] for each in curves.values())
    whole = {n: each for n, each in curves.items() if len(each) == len(growth.KEYS)}
    drawn["speed-growth.png"] = show_curves(
        growth.KEYS,
        {name: [time / shortest for time in each] for name, each in whole.items()},
        xlabel=say("speed.x_tokens"),
        ylabel=say("speed.y_shortest"),
        log_x=True,
        log_y=True,
    )
    times = [round(0.02 * i, 2) for i in range(56)]
    for when in ("first", "last"):
        had = {
            name: [sum(own <= time for own in each[when]) for time in times]
            for name, each in results["waits"].items()
            if when in each and name not in (serving.THEIR_ONE, serving.THEIR_STATIC)
        }
        drawn[f"speed-{when}-token.png"] = show_curves(
            times,
            had,
            xlabel=say("speed.x_waits"),
            ylabel=say({"first": "speed.y_first", "last": "speed.y_last"}[when]),
        )
    return drawn


def as_rows(results):
    """Return the results as JSON with one measured row per line, for quiet diffs."""
    parts = [
        f"{json.dumps(name)}: "
        + (
            "[\n" + ",\n".join(f" {json.dumps(row)}" for row in part) + "\n]"
            if isinstance(part, list)
            else json.dumps(part)
        )
        for name, part in results.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> None:
    """Make everything, from a file of new times if one is given."""
    if arguments:
        parts = [json.loads(Path(a).read_text(encoding="utf-8")) for a in arguments]
        cases = [case for part in parts for case in part["benchmarks"]]
        raw = parts[0] | {"benchmarks": cases}
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
        found = as_rows(joined(kept, summarise(raw)))
        RESULTS.write_text(found, encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, figure in figures(results).items():
        (FIGURES / name).write_bytes(figure.png())
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, texts(results)), encoding="utf-8")
    print(bounds(results))


if __name__ == "__main__":
    main(sys.argv[1:])
