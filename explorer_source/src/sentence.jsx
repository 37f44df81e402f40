// A text whose words show where they look: lines of the true weights, as wide and as dark
// as these are. Words are radio buttons; a pointer that rests on one shows it for a while.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ONOFF, useLinked, useReached, useSettings } from "./frame.jsx";
import { labels, softmax, unpack } from "./numbers.js";
import { fill, SENTENCE as SAY } from "./strings.js";
import style from "./sentence.css";
import { ONE, TEMPERATURES, Temperature } from "./temperature.jsx";

const SHOWN = 0.005; // a smaller weight is no line and no number
const SAID = 0.05; // and a smaller one than this is not said
const MOST = 0.9; // of the weight: the goal

export function Sentence({ words, query, scores, mask, reach, view }) {
  const [chosen, choose] = useState(query);
  const [pointed, point] = useState(null);
  const [masked, setMasked] = useState(Boolean(mask));
  const [heat, setHeat] = useState(ONE);
  const [touched, touch] = useState(false);
  const [name] = useState(() => `sentence-${Math.random().toString(36).slice(2)}`);
  const box = useRef();
  const places = usePlaces(box);
  const length = words.length;
  const names = useMemo(() => words.map((word) => SAY.signs[word] ?? word), [words]);
  const named = useMemo(() => labels(names), [names]);
  const all = useMemo(() => unpack(scores), [scores]);

  const at = pointed ?? chosen;
  const may = (key) => !mask || mask[at * length + key] === "x";
  const allowed = masked ? words.map((_, key) => may(key)) : null;
  const weights = softmax(all.slice(at * length, (at + 1) * length), allowed, TEMPERATURES[heat]);
  useReached(!masked && heat === ONE && ahead(weights, may) >= MOST, reach);
  useSettings(view, {
    word: [named, choose],
    mask: [ONOFF, (on) => setMasked(!!on)],
    temperature: [TEMPERATURES, setHeat],
  });
  // Other views know words, not places: of a word that comes twice, the last one is meant.
  const tell = useLinked((heard) => point(words.includes(heard) ? words.lastIndexOf(heard) : null));
  const look = (i, seen) => {
    point(seen);
    touch(true);
    tell(words.lastIndexOf(words[i]) === i ? words[i] : null);
  };
  const leave = () => {
    point(null);
    tell(null);
  };

  return (
    <div class="sentence">
      <div class="sentence-words" role="radiogroup" aria-label={SAY.legend} ref={box} onPointerLeave={leave}>
        <svg class="sentence-lines" aria-hidden="true">
          {places && words.map((_, key) => key !== at && weights[key] >= SHOWN && (
            <path
              key={`${at} ${key}`}
              d={curve(places[at], places[key])}
              pathLength="1"
              style={{ strokeWidth: `${1 + 7 * weights[key]}px`, opacity: 0.12 + 0.88 * weights[key] }}
            />
          ))}
        </svg>
        {words.map((word, i) => (
          <>
            <label
              class={`sentence-word${weights[i] >= SHOWN ? " sentence-key" : ""}${i === at ? " sentence-query" : ""}${allowed && !allowed[i] ? " sentence-hidden" : ""}`}
              style={{ "--w": weights[i].toFixed(3) }}
              onPointerEnter={(event) => event.pointerType === "mouse" && look(i, i)}
            >
              <input
                type="radio"
                name={name}
                aria-label={named[i]}
                checked={i === chosen}
                onChange={() => {
                  choose(i);
                  look(i, null);
                }}
              />
              <span class="sentence-text">{word}</span>
              <span class="sentence-number" aria-hidden="true">{digits(weights[i])}</span>
            </label>
            {word === "." ? <br class="sentence-end" /> : " "}
          </>
        ))}
      </div>
      <p class="sentence-said" aria-live="polite" aria-atomic="true">
        {said(names, at, weights, allowed, may)}
        {!touched && <span class="sentence-hint">{SAY.hint}</span>}
      </p>
      <div class="sentence-controls">
        <Temperature name={SAY.temperature} heat={heat} choose={setHeat} />
        {mask && (
          <label>
            <input
              type="checkbox"
              role="switch"
              checked={masked}
              onChange={(event) => setMasked(event.currentTarget.checked)}
            />{" "}
            {SAY.mask}
          </label>
        )}
      </div>
    </div>
  );
}
Sentence.style = style;
Sentence.frame = {
  title: SAY.title,
  goal: ({ words, scores, mask }) => {
    const all = unpack(scores);
    const found = words.some((_, i) => {
      const weights = softmax(all.slice(i * words.length, (i + 1) * words.length), null, 1);
      return mask && ahead(weights, (key) => mask[i * words.length + key] === "x") >= MOST;
    });
    return found && SAY.goal;
  },
};

// The share of the words that may not be looked at.
function ahead(weights, may) {
  return weights.reduce((sum, weight, key) => sum + (may(key) ? 0 : weight), 0);
}

// 0.914 → ".91"
const digits = (weight) => (weight >= SHOWN ? weight.toFixed(2).replace(/^0/, "") : "");

// What the reader sees, in one or two sentences.
function said(words, at, weights, allowed, may) {
  const word = (i) => <b>{words[i]}</b>;
  const best = weights
    .map((weight, key) => [weight, key])
    .sort(([a], [b]) => b - a)
    .slice(0, 3)
    .filter(([weight], n) => !n || weight >= SAID)
    .map(([weight, key], n, all) => {
      const same = all.map(([, other]) => may(key) && may(other) && words[other] === words[key]);
      const often = same.filter(Boolean).length > 1;
      const how = !may(key) ? SAY.later : !often ? SAY.share : same.indexOf(true) === n ? SAY.one : SAY.another;
      return fill(how, { weight: weight.toFixed(2), word: word(key) });
    });
  const shares = best.map((share, n) => [n ? (n === best.length - 1 ? SAY.last : SAY.between) : "", share]);
  const parts = [fill(SAY.looks, { word: word(at), shares })];
  const later = ahead(weights, may);
  if (!allowed && later >= SHOWN) parts.push(fill(SAY.ahead, { weight: later.toFixed(2) }));
  else if (at + 1 < words.length) parts.push(fill(SAY.next, { word: word(at + 1) }));
  return parts.map((part) => [part, " "]);
}

// Where the words stand: the middle, top and bottom of each. Again when that changes.
function usePlaces(box) {
  const [places, setPlaces] = useState(null);
  useLayoutEffect(() => {
    const measure = () => {
      if (!box.current?.offsetWidth) return;
      const found = [...box.current.querySelectorAll(".sentence-word")].map((word) => {
        const text = word.querySelector(".sentence-text");
        return {
          room: text.offsetTop, // for lines, below the row before
          x: word.offsetLeft + text.offsetLeft + text.offsetWidth / 2,
          top: word.offsetTop + text.offsetTop,
          bottom: word.offsetTop + word.offsetHeight,
        };
      });
      setPlaces(found);
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    // Not `fonts.ready`: in a page whose fonts are there, it would have all laid out at once.
    document.fonts?.addEventListener("loadingdone", measure);
    return () => {
      watch.disconnect();
      document.fonts?.removeEventListener("loadingdone", measure);
    };
  }, []);
  return places;
}

// From the word that looks: an arch over its own line, a bow to another one.
function curve(from, to) {
  const flat = Math.abs(from.top - to.top) < 8;
  if (flat) {
    // An arch is three quarters as high as its ends are steep.
    const most = Math.min(34, ((from.room - 2) * 4) / 3);
    const rise = most * Math.min(1, 0.3 + Math.abs(from.x - to.x) / 240);
    return path(from.x, from.top, -rise, to.x, to.top, -rise);
  }
  const up = to.top < from.top;
  const [start, end] = up ? [from.top, to.bottom] : [from.bottom, to.top];
  const bow = (end - start) * 0.6;
  return path(from.x, start, bow, to.x, end, -bow);
}
const path = (x, y, bend, toX, toY, toBend) =>
  `M${round(x)} ${round(y)}C${round(x)} ${round(y + bend)} ${round(toX)} ${round(toY + toBend)} ${round(toX)} ${round(toY)}`;
const round = (number) => Math.round(10 * number) / 10;
