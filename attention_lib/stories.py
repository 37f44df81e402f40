"""Texts to learn from: stories from a grammar of known entropy, and one real book.

The stories give a loss its floor. Each random choice decides exactly the next word. So
a text can arise in one way only, and a word's surprise, -ln of its probability given
all words before it, is the sum over the choices that it shows. Surprise and entropy
are in nats.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attention_lib.validation import (
    require_function,
    require_instance,
    require_not_negative,
    require_positive,
    require_probabilities,
)

NAMES = ("ana", "ben", "eva", "ida", "leo", "max", "mia", "tom")
COLOURS = ("black", "blue", "green", "grey", "red", "white")
THINGS = ("ball", "boat", "book", "drum", "hat", "kite")
NOUNS = {
    "one": ("bird", "cat", "dog", "goat", "horse", "mouse"),
    "many": ("birds", "cats", "dogs", "goats", "horses", "mice"),
}
VERBS = {
    "one": ("dreams", "eats", "plays", "runs", "sleeps", "waits"),
    "many": ("dream", "eat", "play", "run", "sleep", "wait"),
}
CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Story:
    """A story, and the lowest possible loss of each of its words.

    Attributes:
        words: its words; the last one is a line break.
        surprises: of each word, given all words before it.
    """

    words: tuple[str, ...]
    surprises: tuple[float, ...]

    @property
    def text(self) -> str:
        """The words with spaces between, and the line break."""
        return " ".join(self.words[:-1]) + self.words[-1]


class Teller:
    """Say the words of one story, and draw the random choices.

    Args:
        rng: Python's generator; its ``random()`` is the same on every machine.

    Attributes:
        words: the words so far.
        surprises: of each word.
    """

    def __init__(self, rng: random.Random) -> None:
        require_instance("rng", rng, random.Random)
        self.rng = rng
        self.words: list[str] = []
        self.surprises: list[float] = []
        self._drawn = 0.0  # the surprise of what was drawn since the last word

    def say(self, *words: str) -> None:
        """Add words; the first one reveals what was drawn before it."""
        self.words += words
        self.surprises += [self._drawn] + [0.0] * (len(words) - 1)
        self._drawn = 0.0

    def pick(self, words: Sequence[str]) -> str:
        """Say one of several words, all equally probable, and return it."""
        require_positive(**{"the number of words": len(words)})
        self._drawn += math.log(len(words))
        word = words[int(self.rng.random() * len(words))]
        self.say(word)
        return word

    def choose(self, options: Mapping[str, float]) -> str:
        """Draw one of several continuations, from their probabilities."""
        require_probabilities(options)
        option = self._draw({option: p for option, p in options.items() if p > 0})
        self._drawn -= math.log(options[option])
        return option

    def tell(self, part: Callable[..., None], *arguments: Any) -> None:
        """Tell a part of the story that does not depend on the others."""
        require_function("part", part, "a function that tells a part")
        part(self, *arguments)

    def _draw(self, options: Mapping[str, float]) -> str:
        at = self.rng.random()
        for option, probability in options.items():
            if at < probability:
                return option
            at -= probability
        return option  # if rounding made the probabilities sum to less than 1


def tell_story(teller: Teller) -> None:
    """Two people and a thing; something happens; the people and the thing come back."""
    teller.say("one", "day")
    owner = teller.pick(NAMES)  # says one of eight names
    teller.say("had", "a")
    colour, thing = teller.pick(COLOURS), teller.pick(THINGS)
    teller.say("and")
    friend = teller.pick([name for name in NAMES if name != owner])
    teller.say("wanted", "it", ".")
    tell_meanwhile(teller, owner, friend)
    teller.say("then")
    loser = teller.choose({owner: 0.5, friend: 0.5})
    teller.say(loser, "lost", "that", colour, thing, "because")
    teller.say(friend if loser == owner else owner, "was", "tired", ".", "\n")


def tell_meanwhile(teller: Teller, owner: str, friend: str) -> None:
    """Once or twice: animals do something, or one of the two people sings."""
    for chance in (1.0, 0.5):
        if teller.choose({"meanwhile": chance, "then": 1 - chance}) == "then":
            break
        teller.say("meanwhile")
        tell = {"animals": tell_animals, "song": tell_song}
        teller.tell(tell[teller.choose(dict.fromkeys(tell, 0.5))], owner, friend)


def tell_animals(teller: Teller, owner: str, friend: str) -> None:
    """The verb agrees with the first noun, whatever comes between the two."""
    teller.say("the")
    number = teller.choose({"one": 0.5, "many": 0.5})
    teller.pick(NOUNS[number])
    for chance in (0.6, 0.4):
        if teller.choose({"near": chance, "verb": 1 - chance}) == "verb":
            break
        teller.say("near")
        other = teller.choose({"the": 0.5, owner: 0.25, friend: 0.25})
        teller.say(other)
        if other == "the":
            any_number = teller.choose({"one": 0.5, "many": 0.5})
            teller.pick(NOUNS[any_number])
    teller.pick(VERBS[number])
    teller.say(".")


def tell_song(teller: Teller, owner: str, friend: str) -> None:
    """Somebody sings a verse that may contain verses."""
    teller.say(teller.choose({owner: 0.5, friend: 0.5}), "sang")
    teller.tell(tell_verse, 2)
    teller.say(".")


def tell_verse(teller: Teller, depth: int) -> None:
    """One or two things in brackets; at most ``depth`` more brackets inside each other.

    A bracket is closed by its own kind, and the one opened last is closed first.
    """
    require_not_negative(depth=depth)
    opening = teller.choose(dict.fromkeys(CLOSING, 0.5))
    teller.say(opening)
    verse = 0.4 if depth else 0.0
    for chance in (1.0, 0.5):
        options = {
            "la": chance * (1 - verse),
            "verse": chance * verse,
            "end": 1 - chance,
        }
        option = teller.choose(options)
        if option == "end":
            break
        if option == "la":
            teller.say("la")
        else:
            teller.tell(tell_verse, depth - 1)
    teller.say(CLOSING[opening])


def make_stories(count: int, seed: int) -> list[Story]:
    """Draw stories, the same ones for the same seed on every machine.

    Raises:
        TypeError: a count or a seed that is not an int.
        ValueError: a count below 1; a seed below 0.
    """
    require_positive(count=count)
    require_not_negative(seed=seed)
    rng = random.Random(seed)
    stories = []
    for _ in range(count):
        teller = Teller(rng)
        tell_story(teller)
        stories.append(Story(tuple(teller.words), tuple(teller.surprises)))
    return stories


def load_alice() -> str:
    """Return *Alice's Adventures in Wonderland* by Lewis Carroll (1865), as one string.

    It is in the public domain; ``texts/README.md`` next to this file tells where the
    file comes from. All its characters are ASCII.
    """
    path = Path(__file__).parent / "texts" / "alice.txt"
    return path.read_text(encoding="utf-8")


@cache
def expected_length_and_entropy(
    part: Callable[..., None], *arguments: Any
) -> tuple[float, float]:
    """Return the exact mean length and entropy of a part, by following every choice.

    Words that are picked have the same effect, so one of them represents all.

    Returns:
        Words per story, and nats per story.
    """
    require_function("part", part, "a function that tells a part")
    length = entropy = 0.0
    ahead: list[list[int]] = [[]]
    while ahead:
        explorer = _Explorer(ahead.pop())
        part(explorer, *arguments)
        length += explorer.probability * explorer.length
        entropy += explorer.probability * explorer.surprise
        ahead += explorer.passed_by
    return length, entropy


class _Explorer(Teller):
    """Follow one sequence of choices, and record those that it passes by."""

    def __init__(self, script: list[int]) -> None:
        super().__init__(random.Random(0))
        self.script = script
        self.taken: list[int] = []
        self.passed_by: list[list[int]] = []
        self.probability = 1.0
        self.length = 0.0
        self.surprise = 0.0

    def say(self, *words: str) -> None:
        self.length += len(words)
        self.surprise += self._drawn
        self._drawn = 0.0

    def tell(self, part: Callable[..., None], *arguments: Any) -> None:
        length, entropy = expected_length_and_entropy(part, *arguments)
        self.length += length
        self.surprise += entropy

    def _draw(self, options: Mapping[str, float]) -> str:
        step = len(self.taken)
        if step == len(self.script):
            self.passed_by += [[*self.taken, i] for i in range(1, len(options))]
            self.script = [*self.script, 0]
        self.taken.append(self.script[step])
        option = list(options)[self.taken[-1]]
        self.probability *= options[option]
        return option
