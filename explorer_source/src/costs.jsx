// What one layer costs: sliders over length and width; a bar for each matrix product.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { COSTS as SAY, fill } from "./strings.js";
import style from "./costs.css";

// FLOPs of the four parts, as attention_lib/course/views/costs.py has them.
export const parts = (length, width) => {
  const [line, square] = [length * width ** 2, length ** 2 * width];
  return [6 * line, 2 * square, 2 * square, 2 * line];
};

const words = (count) => {
  const unit = ["", "k", "M", "G", "T", "P"][Math.floor(Math.log10(count) / 3)];
  return `${Number((count / 1000 ** Math.floor(Math.log10(count) / 3)).toPrecision(3))} ${unit}`;
};

export function Costs({ lengths, widths, width: first, reach, view }) {
  const [at, setAt] = useState(0);
  const [wide, setWide] = useState(widths.indexOf(first));
  const [length, width] = [lengths[at], widths[wide]];
  const counts = parts(length, width);
  const all = counts.reduce((a, b) => a + b, 0);
  const square = (counts[1] + counts[2]) / all;
  useReached(square > 0.5, reach);
  useSettings(view, { length: [lengths, setAt], width: [widths, setWide] });
  const sliders = [
    [SAY.length, lengths, at, setAt],
    [SAY.width, widths, wide, setWide],
  ];
  return (
    <>
      <div class="costs-choice">
        {sliders.map(([name, values, value, set]) => (
          <label key={name}>
            <span>
              {name}: <strong class="view-number">{values[value].toLocaleString("en")}</strong>
            </span>
            <input
              type="range"
              min="0"
              max={values.length - 1}
              step="1"
              value={value}
              aria-valuetext={values[value]}
              onInput={(event) => set(Number(event.currentTarget.value))}
            />
          </label>
        ))}
      </div>
      <p class="costs-said" aria-live="polite">
        {fill(SAY.said, {
          all: <strong class="view-number">{words(all)}</strong>,
          share: <strong class="view-number">{Math.round(100 * square)}</strong>,
        })}
      </p>
      <dl class="costs-parts">
        {counts.map((count, i) => (
          <div key={i}>
            <dt>{SAY.parts[i]}</dt>
            <dd>
              <span class={`costs-bar${i % 3 ? " costs-square" : ""}`} style={{ width: `${(60 * count) / all}%` }} />
              <span class="view-number">{Math.round((100 * count) / all)} %</span>
            </dd>
          </div>
        ))}
      </dl>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Costs.style = style;
Costs.frame = { title: SAY.title, goal: SAY.goal };
