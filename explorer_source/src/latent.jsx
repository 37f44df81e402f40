// A trained head whose keys grow out of a latent: a slider over the latent's width.
import { useState } from "preact/hooks";
import { useReached } from "./frame.jsx";
import { labels, unpack } from "./numbers.js";
import { LATENT as SAY, fill, filled } from "./strings.js";
import { walk } from "./walk.js";
import style from "./latent.css";

export function Latent({ words, maps, widths, numbers, sizes, losses, moved, reach }) {
  const [at, setAt] = useState(widths.length);
  const [place, setPlace] = useState(null); // the cell that is pointed at, in both maps
  const [id] = useState(() => `latent-${Math.random().toString(36).slice(2)}`);
  const width = widths[at - 1];
  const share = sizes[at] / sizes[0];
  const same = (place) => Number(losses[place]) === Number(losses[0]);
  useReached(same(at) && !(at > 1 && same(at - 1)), reach);
  const show = (text) => Number(text).toFixed(2);
  const both = [maps[0], maps[at]].map((packed) => triangle(unpack(packed), words.length));
  const named = labels(words);
  const [row, key] = place ?? [];
  const part = { words, place, setPlace };
  return (
    <>
      <div class="latent-choice">
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
      <div class="latent-bar" aria-hidden="true">
        <span style={{ width: `${100 * Math.min(share, 1)}%` }} />
      </div>
      <div class="latent-maps">
        <Map title={SAY.all} name={SAY.allMap} rows={both[0]} {...part} />
        <Map title={filled(width === 1 ? SAY.fromOne : SAY.from, { width })} name={SAY.fromMap} rows={both[1]} {...part} />
      </div>
      <p class="latent-cell" aria-live="polite" aria-atomic="true">
        {place
          ? filled(SAY.cell, { query: named[row], key: named[key], all: both[0][row][key].toFixed(3), own: both[1][row][key].toFixed(3) })
          : SAY.hint}
      </p>
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
function Map({ title, name, words, rows, place, setPlace }) {
  const [down, across] = place ?? [0, 0];
  return (
    <div>
      <p class="latent-title">{title}</p>
      <table class="view-table latent-map" aria-label={filled(SAY.map, { name })} onKeyDown={walk}>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((weight, j) => (
                <td
                  key={j}
                  tabIndex={i === down && j === across ? 0 : -1}
                  class={place && i === down && j === across ? "latent-here" : null}
                  style={{ "--w": weight }}
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
    </div>
  );
}
