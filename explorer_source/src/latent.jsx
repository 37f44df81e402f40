// A trained head whose keys grow out of a latent: a slider over the latent's width.
import { useState } from "preact/hooks";
import { useReached } from "./frame.jsx";
import { unpack } from "./numbers.js";
import { LATENT as SAY, fill, filled } from "./strings.js";
import tables from "./tables.css";
import style from "./latent.css";

export function Latent({ words, maps, widths, numbers, sizes, losses, moved, reach }) {
  const [at, setAt] = useState(widths.length);
  const [id] = useState(() => `latent-${Math.random().toString(36).slice(2)}`);
  const width = widths[at - 1];
  const share = sizes[at] / sizes[0];
  const same = (place) => Number(losses[place]) === Number(losses[0]);
  useReached(same(at) && !(at > 1 && same(at - 1)), reach);
  const show = (text) => Number(text).toFixed(2);
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
        <Map title={SAY.all} name={SAY.allMap} words={words} weights={unpack(maps[0])} />
        <Map title={filled(width === 1 ? SAY.fromOne : SAY.from, { width })} name={SAY.fromMap} words={words} weights={unpack(maps[at])} />
      </div>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Latent.style = tables + style;
Latent.frame = { title: SAY.title, goal: SAY.goal };

// The lower triangle of a map, row by row.
function Map({ title, name, words, weights }) {
  const rows = words.map((_, i) => weights.slice((i * (i + 1)) / 2, ((i + 1) * (i + 2)) / 2));
  return (
    <div>
      <p class="latent-title">{title}</p>
      <table class="view-table latent-map" aria-label={filled(SAY.map, { name })}>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              <th scope="row">{words[i]}</th>
              {row.map((weight, j) => (
                <td key={j} style={{ "--w": weight }} title={filled(SAY.cell, { query: words[i], key: words[j], weight: weight.toFixed(3) })}>
                  <span class="view-hidden">{weight.toFixed(3)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
