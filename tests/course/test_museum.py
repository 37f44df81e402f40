"""The bug museum: each bug is seen by what claims it, and nothing fires when mended."""

import re
from functools import cache

import pytest
import torch

from attention_lib.course.museum import BUGS, ROOMS, TAGS, Bug, run_checks
from attention_lib.course.museum.building_blocks import GroupedHeads, RotaryHeads
from attention_lib.course.museum.detect import EXAMINED, OWN_CHECKS
from attention_lib.reproducibility import seeded
from tests.running import sample
from tools.chapters import ROOT

# As a reader runs them: to look at a bug takes thousands of calls.
pytestmark = pytest.mark.usefixtures("shapes_unchecked")

by_name = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
# Chapter 21 looks at all bugs, and fails where one is missed or a mended program is not
# quiet. So here the first of each kind is looked at; the others are slow.
FIRST = {bug.kind: bug for bug in reversed(BUGS)}.values()
MARKED = [pytest.param(b, marks=[pytest.mark.slow] * (b not in FIRST)) for b in BUGS]
looked_at = pytest.mark.parametrize("bug", MARKED, ids=lambda bug: bug.name)


@cache
def seen(bug, fixed=False):
    return run_checks(bug, fixed=fixed)


@looked_at
def test_bug_is_seen_by_each_check_that_claims_it(bug):
    assert bug.checks
    found = seen(bug)
    assert [name for name in bug.checks if found[name].holds is not False] == []


@looked_at
def test_mended_program_raises_no_alarm(bug):
    assert [one for one in seen(bug, True).values() if one.holds is False] == []


@looked_at
def test_mended_program_is_looked_at_by_each_check_that_claims_the_bug(bug):
    # One that does not apply to right code would fire on whatever is unusual.
    found = seen(bug, True)
    assert [name for name in bug.checks if found[name].holds is not True] == []


def test_bug_keeps_its_address():
    # People have these in their notes: a bug may be added here, none may change.
    anchors = [bug.anchor for bug in BUGS]
    assert len({*anchors}) == len(anchors)
    assert {*sample("bug_addresses.txt").split()} == {*anchors}


@by_name
def test_bug_is_short_and_says_where_it_was_made(bug):
    lines = bug.program.splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 88
    assert bug.lines
    assert set(bug.lines) <= set(range(1, len(lines) + 1))
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|[A-E]", bug.source)
    rows = (ROOT / "book/sources.md").read_text(encoding="utf-8")
    assert (bug.link is None) == (f"| {bug.source} |" in rows)


def test_museum_holds_forty_bugs_of_many_people_under_names_of_their_own():
    assert len(BUGS) >= 40
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len({bug.source for bug in BUGS if bug.link}) >= 40
    assert {tag for bug in BUGS for tag in bug.tags} == set(TAGS)
    assert all(len([bug for bug in BUGS if tag in bug.tags]) >= 2 for tag in TAGS)
    assert sum(map(len, ROOMS.values())) == len(BUGS)


def test_every_check_of_the_museum_sees_a_bug_and_every_kind_has_one():
    claimed = {(bug.kind, check) for bug in BUGS for check in bug.checks}
    own = {(kind, check) for kind, checks in OWN_CHECKS.items() for check in checks}
    assert own - claimed == set()
    assert {bug.kind for bug in BUGS} == set(OWN_CHECKS)
    assert set(EXAMINED) <= set(OWN_CHECKS)


def test_faulty_lines_are_those_that_the_mend_replaces():
    program = "a = 1\nb = 2\nc = 3\n"
    rest = ("", ("formula",), "A", ("nan after some steps",), "")
    assert Bug("", "layer", program, (("b = 2", "b = 5"),), *rest).lines == (2,)
    assert Bug("", "layer", program, (("b = 2\n", ""),), *rest).lines == (2,)
    missing = Bug("", "layer", program, (("b = 2", "x\nb = 2"),), *rest)
    assert missing.lines == (2,)
    assert missing.fixed == "a = 1\nx\nb = 2\nc = 3\n"


def test_layers_of_a_bug_have_the_weights_of_one_seed_and_leave_the_others_alone():
    bug = next(bug for bug in BUGS if bug.name == "scaled by the model's width")
    torch.manual_seed(5)
    wrong, right = bug.wrong(), bug.right()
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    for name, weight in wrong.state_dict().items():
        assert torch.equal(weight, right.state_dict()[name])


def test_what_is_no_bug_is_refused():
    with pytest.raises(TypeError, match="bug"):
        run_checks("loss")


def test_grouped_heads_share_keys_and_rotary_heads_rotate_by_position():
    few = torch.randn(1, 2, 5, 4, generator=seeded(0))
    shared = GroupedHeads(16, 4).share(few)
    assert [torch.equal(shared[:, i], few[:, i // 2]) for i in range(4)] == [True] * 4
    rotated, _ = RotaryHeads(8, 2).encode_positions(few, few, 0)
    torch.testing.assert_close(rotated[:, :, 0], few[:, :, 0])  # position 0: no angle
    torch.testing.assert_close(rotated.norm(dim=-1), few.norm(dim=-1))
    assert not torch.allclose(rotated[:, :, 1:], few[:, :, 1:])
