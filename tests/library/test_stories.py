"""attention_lib.stories: its probabilities against an enumeration of every text."""

import hashlib
import math
import os
import random
import re
import sys
import zlib
from collections import defaultdict
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lib import stories
from attention_lib.stories import (
    NOUNS,
    VERBS,
    Teller,
    expected_length_and_entropy,
    make_stories,
    tell_story,
    tell_verse,
)
from tests.running import ran

STORIES = make_stories(300, seed=0)
TEXTS = [story.text for story in STORIES]
CONTEXT_LEN = 96  # of chapter 8

SHORTEST = (
    "one day max had a red book and tom wanted it . meanwhile the birds run . "
    "then max lost that red book because tom was tired .\n"
)


# Another way to the same numbers: every text there is, and how probable it is.


class LeftError(Exception):
    """The text went another way than the one wanted."""


class Walker(Teller):
    """Go one way; every word that may be picked is a way of its own."""

    def __init__(self, script, wanted=None):
        super().__init__(random.Random(0))
        self.script, self.wanted = list(script), wanted
        self.taken, self.others = [], []
        self.probability = 1.0

    def say(self, *words):
        for word in words:
            self.words.append(word)
            if self.wanted is not None and word != self.wanted[len(self.words) - 1]:
                raise LeftError

    def pick(self, words):
        word = self.choose(dict.fromkeys(words, 1 / len(words)))
        self.say(word)
        return word

    def choose(self, ways):
        ways = {way: p for way, p in ways.items() if p}
        place = len(self.taken)
        if place == len(self.script):
            self.others += [[*self.taken, i] for i in range(1, len(ways))]
            self.script.append(0)
        self.taken.append(self.script[place])
        way = list(ways)[self.taken[-1]]
        self.probability *= ways[way]
        return way


def walks(part, *arguments, wanted=None):
    """Every text of a part; with ``wanted`` only up to the first other word."""
    ahead = [[]]
    while ahead:
        walker = Walker(ahead.pop(), wanted)
        with suppress(LeftError):
            part(walker, *arguments)
        ahead += walker.others
        yield tuple(walker.words), walker.probability


@cache
def enumerated(part, *arguments):
    """The probability of each text."""
    texts = defaultdict(float)
    for words, probability in walks(part, *arguments):
        texts[words] += probability
    return texts


def told(part, *arguments, seed=0):
    teller = Teller(random.Random(seed))
    part(teller, *arguments)
    return teller


# Small grammars, each with one thing that may go wrong.


def tiny(teller):
    teller.pick("abcd")
    if teller.choose({"more": 0.25, "stop": 0.75}) == "more":
        teller.pick("xy")
        teller.say("and")
    teller.say(".")


def uneven(teller, first, other):
    """What is drawn decides how much is drawn later."""
    way = teller.choose({"left": 0.1, "right": 0.2, "never": 0.0, "up": 0.7})
    teller.say(way)
    for _ in range({"left": 2, "right": 1, "up": 0}[way]):
        teller.pick([first, other, "z"])


def nested(teller, depth):
    teller.say("(")
    if depth:
        if teller.choose({"in": 0.3, "out": 0.7}) == "in":
            teller.tell(nested, depth - 1)
        else:
            teller.pick("ab")
    teller.say(")")


def silent(teller):
    """Nothing is drawn."""
    teller.say("once", "upon")


PARTS = [(tiny,), (uneven, "a", "b"), (nested, 3), (silent,)]
PARTS += [(tell_verse, 0), (tell_verse, 1)]
every_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0].__name__)


@every_part
def test_expected_agrees_with_all_texts(part):
    texts = enumerated(*part)
    assert math.fsum(texts.values()) == pytest.approx(1)  # these are all
    length = math.fsum(p * len(words) for words, p in texts.items())
    entropy = -math.fsum(p * math.log(p) for p in texts.values())
    assert expected_length_and_entropy(*part) == pytest.approx((length, entropy))


@every_part
def test_surprises_agree_with_all_texts(part):
    """-ln p(word | words before), from the probabilities of whole texts."""
    mass = defaultdict(float)
    for words, probability in enumerated(*part).items():
        for end in range(len(words) + 1):
            mass[words[:end]] += probability
    for seed in range(20):
        teller = told(*part, seed=seed)
        words = tuple(teller.words)
        shares = [
            mass[words[:end]] / mass[words[: end + 1]] for end in range(len(words))
        ]
        assert teller.surprises == pytest.approx([*map(math.log, shares)], abs=1e-9)


def test_expected_story_adds_up_its_parts():
    verse = expected_length_and_entropy(tell_verse, 2)
    # A song: who sings it, "sang", a verse and a full stop.
    song = verse[0] + 3, verse[1] + math.log(2)
    assert expected_length_and_entropy(
        stories.tell_song, "ana", "ben"
    ) == pytest.approx(song)
    parts = [expected_length_and_entropy(stories.tell_animals, "ana", "ben"), song]
    lengths, entropies = zip(*parts, strict=True)
    people_and_thing = math.log(8) + math.log(7) + 2 * math.log(6)
    between = math.log(2) + sum(entropies) / 2  # what happens, and how
    entropy = people_and_thing + math.log(2) + 1.5 * between + math.log(2)
    length = 12 + 1.5 * (1 + sum(lengths) / 2) + 12
    assert expected_length_and_entropy(tell_story) == pytest.approx((length, entropy))


def next_words(story):
    """For each word of a story, all that might stand there instead, and how likely."""
    ways = [defaultdict(float) for _ in story.words]
    for words, probability in walks(tell_story, wanted=story.words):
        for end in range(len(words)):
            ways[end][words[end]] += probability
    return ways


@pytest.mark.parametrize("seed", range(2))
def test_story_surprises_are_those_of_the_next_word(seed):
    (story,) = make_stories(1, seed)
    shares = [
        ways[word] / sum(ways.values())
        for word, ways in zip(story.words, next_words(story), strict=True)
    ]
    wanted = [-math.log(share) for share in shares]
    assert story.surprises == pytest.approx(wanted, abs=1e-9)


# What holds in every story.


def one_of(words):
    return "(?:" + "|".join(map(re.escape, words)) + ")"


ALL_NOUNS = [*NOUNS["one"], *NOUNS["many"]]
NAME, NOUN = one_of(stories.NAMES), one_of(ALL_NOUNS)
ANIMALS = (
    rf"the {NOUN}(?: near (?:the {NOUN}|(?P=owner)|(?P=friend))){{0,2}} "
    + one_of([*VERBS["one"], *VERBS["many"]])
    + r" \."
)
SONG = r"(?:(?P=owner)|(?P=friend)) sang [\[\]() la]+ \."
STORY = re.compile(
    rf"one day (?P<owner>{NAME}) had a (?P<colour>{one_of(stories.COLOURS)}) "
    rf"(?P<thing>{one_of(stories.THINGS)}) and (?P<friend>{NAME}) wanted it \."
    rf"(?: meanwhile (?:{ANIMALS}|{SONG})){{1,2}} "
    r"then (?P<loser>(?P=owner)|(?P=friend)) lost that (?P=colour) (?P=thing) "
    r"because (?P<tired>(?P=owner)|(?P=friend)) was tired \.\n"
)


@given(st.integers(0, 10**9))
def test_story_has_its_form(seed):
    (story,) = make_stories(1, seed)
    match = STORY.fullmatch(story.text)
    assert match
    assert match["owner"] != match["friend"]
    assert match["tired"] != match["loser"]


@pytest.mark.parametrize("number", NOUNS)
def test_story_verb_agrees_with_the_first_noun(number):
    nouns = one_of(NOUNS[number])
    sentence = re.compile(rf"meanwhile the {nouns}\b(?: near[\w ]*)? (\w+) \.")
    verbs = {verb for text in TEXTS for verb in sentence.findall(text)}
    assert verbs == set(VERBS[number])


def test_story_brackets_close_in_order():
    deepest, pairs = 0, {"(": ")", "[": "]"}
    for verse in re.findall(r"sang ([^.]*) \.", "".join(TEXTS)):
        closing = []
        for word in verse.split():
            if word in pairs:
                closing.append(pairs[word])
            elif word in ")]":
                assert word == closing.pop()
            deepest = max(deepest, len(closing))
        assert not closing
    assert deepest == 3


def longest(part, *arguments):
    """The most words a part may have."""

    class Longest(Walker):
        def tell(self, inner, *given):
            self.words += ["word"] * longest(inner, *given)

        def pick(self, words):  # whichever: all are one word long
            self.say(words[0])
            return words[0]

    most, ahead = 0, [[]]
    while ahead:
        walker = Longest(ahead.pop())
        part(walker, *arguments)
        ahead += walker.others
        most = max(most, len(walker.words))
    return most


def test_longest_story_fits_the_context():
    assert longest(tell_story) == 12 + 2 * (1 + 25) + 12 <= CONTEXT_LEN
    assert max(len(story.words) for story in STORIES) <= 76


# The same stories again.


def test_make_stories_gives_the_recorded_ones():
    texts = "".join(TEXTS)
    assert min(TEXTS, key=len) == SHORTEST
    assert zlib.crc32(texts.encode()) == 1391628993


WITHOUT_TORCH = """
import runpy, sys, types
sys.modules["attention_lib"] = types.ModuleType("attention_lib")
validation = types.ModuleType("attention_lib.validation")
for name in "positive", "not_negative", "instance", "function", "probabilities":
    setattr(validation, f"require_{name}", lambda *given, **named: None)
sys.modules["attention_lib.validation"] = validation
found = runpy.run_path(sys.argv[1])
texts = "".join(story.text for story in found["make_stories"](20, 0))
print(texts, found["expected_length_and_entropy"](found["tell_story"]))
"""


def test_make_stories_does_not_depend_on_hashes():
    command = [sys.executable, "-c", WITHOUT_TORCH, Path(stories.__file__)]
    run = ran(command, env={**os.environ, "PYTHONHASHSEED": "1"}, check=True)
    assert (
        run.stdout
        == f"{''.join(TEXTS[:20])} {expected_length_and_entropy(tell_story)}\n"
    )


@pytest.mark.usefixtures("shapes_unchecked")  # the checks draw numbers, too
def test_make_stories_leaves_the_global_generator_alone():
    state = random.getstate()
    make_stories(3, seed=0)
    expected_length_and_entropy(stories.tell_animals, "eva", "tom")
    assert random.getstate() == state


# The real book.


def test_load_alice_gives_the_cleaned_file():
    text = stories.load_alice()
    assert (len(text), len(set(text))) == (148_480, 72)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    origin = Path(stories.__file__).parent / "texts" / "README.md"
    assert checksum in origin.read_text(encoding="utf-8")


# The teller.


class Fixed(random.Random):
    """Draw the same number each time."""

    def __init__(self, number):
        super().__init__(0)
        self.number = number

    def random(self):
        return self.number


ALMOST_ONE = 1 - 2**-53


@pytest.mark.parametrize(
    ("number", "word"), [(0.0, "a"), (0.24, "a"), (0.25, "b"), (ALMOST_ONE, "d")]
)
def test_teller_picks_each_word_from_its_share(number, word):
    teller = Teller(Fixed(number))
    assert teller.pick("abcd") == word
    assert teller.words == [word]


@pytest.mark.parametrize(
    ("number", "way"),
    [(0.0, "left"), (0.09, "left"), (0.1, "right"), (0.31, "up"), (ALMOST_ONE, "up")],
)
def test_teller_chooses_each_way_from_its_share(number, way):
    ways = {"left": 0.1, "right": 0.2, "never": 0.0, "up": 0.7}
    assert Teller(Fixed(number)).choose(ways) == way
    # These sum to a little less than 1.
    assert Teller(Fixed(ALMOST_ONE)).choose(dict.fromkeys("abcdefghij", 0.1)) == "j"


def test_teller_first_word_shows_what_was_drawn():
    teller = Teller(random.Random(0))
    teller.say("one", "day")
    ways = [teller.choose({"a": 0.5, "b": 0.5}), teller.choose({"x": 0.5, "y": 0.5})]
    teller.say(*ways)
    word = teller.pick("abcd")
    teller.say("end")
    assert teller.surprises == pytest.approx([0, 0, math.log(4), 0, math.log(4), 0])
    assert teller.words == ["one", "day", *ways, word, "end"]
