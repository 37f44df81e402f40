// A trained head whose keys grow out of a latent: a slider over the latent's width, the loss
// at every width, and what changes in the head's map.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { labels, unpack } from "./numbers.js";
import { LATENT as SAY, fill, filled } from "./strings.js";
import { walk } from "./walk.js";
import style from "./latent.css";

const [WIDE, HIGH] = [600, 100];

// DeepSeek-V3: layers, heads, widths of a key and a value; numbers of a latent and of
// what knows positions, at 2 bytes.
const [LAYERS, HEADS, KEY, VALUE, OWN, ROPE] = [61, 128, 192, 128, 512, 64];
const REAL = {
  latent: OWN,
  rope: ROPE,
  own: Math.round(2e-3 * LAYERS * (OWN + ROPE)),
  all: Math.round(2e-3 * LAYERS * HEADS * (KEY + VALUE)).toLocaleString("en"),
};

export function Latent({ words, maps, widths, numbers, sizes, losses, moved, reach, view }) {
  const [at, setAt] = useState(Math.max(1, widths.length >> 1)); // where something differs
  const [kind, setKind] = useState(2);
  const [place, setPlace] = useState(null); // the cell that is pointed at, in both maps
  const [id] = useState(() => `latent-${Math.random().toString(36).slice(2)}`);
  const width = widths[at - 1];
  const same = (place) => Number(losses[place]) === Number(losses[0]);
  useReached(same(at) && !(at > 1 && same(at - 1)), reach);
  useSettings(view, { width: [widths, (i) => setAt(i + 1)], map: [["all", "narrow", "change"], setKind] });
  const show = (text) => Number(text).toFixed(2);
  const [before, after] = [maps[0], maps[at]].map((packed) => triangle(unpack(packed), words.length));
  const change = after.map((row, i) => row.map((weight, j) => weight - before[i][j]));
  const rows = [before, after, change][kind];
  const named = labels(words);
  const [row, key] = place ?? [];
  const [least, top] = [Math.min(...losses), Math.max(...losses)];
  const x = (i) => (WIDE * widths[i]) / widths.at(-1);
  const y = (i) => (HIGH * (top - losses[i])) / (top - least || 1);
  return (
    <>
      <div class="latent-choice view-sticky">
        <label for={id}>
          {fill(SAY.width, { width: <strong class="view-number">{width}</strong> })}
        </label>
        <input
          id={id}
          type="range"
          min="1"
          max={widths.length}
          step="1"
          value={at}
          aria-valuetext={filled(SAY.numbers, { width })}
          onInput={(event) => setAt(Number(event.currentTarget.value))}
        />
      </div>
      <p class="latent-said" aria-live="polite" aria-atomic="true">
        {fill(SAY.said, {
          size: <strong class="view-number">{sizes[at]}</strong>,
          all: sizes[0],
          count: numbers[at],
          whole: numbers[0],
          moved: <strong class="view-number">{show(moved[at])}</strong>,
          loss: <strong class="view-number">{show(losses[at])}</strong>,
          before: show(losses[0]),
        })}
      </p>
      <svg class="latent-curve" viewBox={`0 -8 ${WIDE} ${HIGH + 16}`} preserveAspectRatio="none" aria-hidden="true">
        <line class="latent-before" x2={WIDE} y1={y(0)} y2={y(0)} />
        <polyline points={widths.map((_, i) => `${x(i)},${y(i + 1)}`).join(" ")} />
        <path class="latent-dot" d={`M${x(at - 1)} ${y(at)}h0`} />
      </svg>
      <p class="view-soft latent-scale">
        <span>{filled(SAY.scale, { least: show(least), top: show(top) })}</span>
        <span>{filled(SAY.numbers, { width: widths.at(-1) })}</span>
      </p>
      <div class="latent-kinds" role="group" aria-label={SAY.maps}>
        {SAY.kinds.map((name, i) => (
          <button key={name} type="button" aria-pressed={i === kind} onClick={() => setKind(i)}>{name}</button>
        ))}
      </div>
      <Map name={SAY.kinds[kind]} {...{ words, rows, place, setPlace }} />
      <p class="latent-cell" aria-live="polite" aria-atomic="true">
        {place
          ? filled(SAY.cell, { query: named[row], key: named[key], all: before[row][key].toFixed(3), own: after[row][key].toFixed(3) })
          : SAY.hint}
      </p>
      <p class="view-soft">{filled(SAY.real, REAL)}</p>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Latent.style = style;
Latent.frame = { title: SAY.title, goal: SAY.goal };

// The lower triangle of a map, row by row.
const triangle = (weights, count) => Array.from({ length: count }, (_, i) => weights.slice((i * (i + 1)) / 2, ((i + 1) * (i + 2)) / 2));

// A word stands where its row ends and its column begins: this leaves a phone's width to
// the cells, so that a finger can hit one. One cell is in the tab order.
function Map({ name, words, rows, place, setPlace }) {
  const [down, across] = place ?? [0, 0];
  return (
    <table class="view-table latent-map" aria-label={filled(SAY.map, { name })} onKeyDown={walk}>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>
            {row.map((weight, j) => (
              <td
                key={j}
                tabIndex={i === down && j === across ? 0 : -1}
                class={`${weight < 0 ? "latent-less" : ""}${place && i === down && j === across ? " latent-here" : ""}`}
                style={{ "--w": Math.abs(weight) }}
                onFocus={() => setPlace([i, j])}
                onPointerOver={(event) => event.pointerType === "mouse" && setPlace([i, j])}
                onClick={() => setPlace([i, j])}
              >
                <span class="view-hidden">{weight.toFixed(3)}</span>
              </td>
            ))}
            <th scope="row" colSpan={words.length - i}>{words[i]}</th>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
