// Which tokens can change which outputs: sliders over window, sinks and layers.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { REACH as SAY, fill } from "./strings.js";
import style from "./reach.css";

// The fewest layers by which token j (column) reaches output i (row); Infinity for none.
export function hops(length, window, sinks, most) {
  const sees = (i, j) => j <= i && (i - j < window || j < sinks);
  const found = Array.from({ length }, (_, i) => Array.from({ length }, (_, j) => (i === j ? 0 : Infinity)));
  for (let layer = 1; layer <= most; layer++) {
    const before = found.map((row) => row.map((count) => layer > count));
    for (let i = 0; i < length; i++)
      for (let j = 0; j <= i; j++)
        if (!before[i][j] && before.some((row, m) => sees(i, m) && row[j])) found[i][j] = layer;
  }
  return found.map((row, i) => row.map((count, j) => (i === j ? 1 : count)));
}

export function Reach({ length, window: first, sinks: none, layers: one, most, reach, view }) {
  const [window, setWindow] = useState(first);
  const [sinks, setSinks] = useState(none);
  const [layers, setLayers] = useState(one);
  const map = hops(length, window, sinks, most);
  const last = map[length - 1].filter((count) => layers >= count).length;
  useReached(map[length - 1][0] <= layers, reach);
  const kept = Math.min(length, window + Math.min(sinks, Math.max(0, length - window)));
  const sliders = [
    [SAY.window, window, setWindow, 1, Math.min(length, 8)],
    [SAY.sinks, sinks, setSinks, 0, Math.min(length, 4)],
    [SAY.layers, layers, setLayers, 1, most],
  ];
  const places = ([, , set, min, max]) => [Array.from({ length: max - min + 1 }, (_, i) => min + i), (at) => set(min + at)];
  useSettings(view, Object.fromEntries(["window", "sinks", "layers"].map((name, i) => [name, places(sliders[i])])));
  return (
    <>
      <div class="reach-choice">
        {sliders.map(([name, value, set, min, max]) => (
          <label key={name}>
            <span>
              {name}: <strong class="view-number">{value}</strong>
            </span>
            <input type="range" min={min} max={max} step="1" value={value} onInput={(event) => set(Number(event.currentTarget.value))} />
          </label>
        ))}
      </div>
      <p class="reach-said" aria-live="polite">
        {fill(SAY.said, {
          last: <strong class="view-number">{last}</strong>,
          length,
          kept: <strong class="view-number">{kept}</strong>,
        })}
      </p>
      <table class="view-table reach-map view-number" aria-label={SAY.table}>
        <thead>
          <tr>
            <td />
            {map.map((_, j) => (
              <th key={j} scope="col">{j}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {map.map((row, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {row.map((count, j) =>
                layers >= count ? (
                  <td key={j} class="reach-seen" style={{ "--w": 0.12 + 0.5 / count }}>{count}</td>
                ) : (
                  <td key={j}>{j <= i && <span class="view-hidden">{SAY.hidden}</span>}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Reach.style = style;
Reach.frame = { title: SAY.title, goal: SAY.goal };
