// A window over a text, and kept first tokens: the mask, and the loss that was measured.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { SINKS as SAY, fill, filled } from "./strings.js";
import style from "./sinks.css";

export function Sinks({ windows, firsts, losses, full, length, reach, view }) {
  const [at, setAt] = useState(Math.floor(windows.length / 2));
  const [row, setRow] = useState(0);
  const [window, first, loss] = [windows[at], firsts[row], losses[row][at]];
  useReached(loss - full < 0.3 && window <= 64, reach);
  useSettings(view, { window: [windows, setAt], first: [firsts, setRow] });
  const band = window - first;
  const top = Math.max(full, ...losses.flat());
  const sliders = [
    [SAY.window, window, at, setAt, windows.length - 1],
    [SAY.first, first, row, setRow, firsts.length - 1],
  ];
  return (
    <>
      <div class="sinks-choice">
        {sliders.map(([name, shown, value, set, max]) => (
          <label key={name}>
            <span>{name}: <strong class="view-number">{shown}</strong></span>
            <input type="range" min="0" max={max} value={value} aria-valuetext={String(shown)} onInput={(event) => set(+event.currentTarget.value)} />
          </label>
        ))}
      </div>
      <div class="sinks-both">
        <svg viewBox={`0 0 ${length} ${length}`} role="img" aria-label={filled(SAY.mask, { window, first })}>
          <path class="sinks-past" d={`M0 0L${length} ${length}H0Z`} />
          <path d={`M0 0L${length} ${length}H${length - band}L0 ${band}Z`} />
          {first > 0 && <path d={`M0 0H${8 + 4 * first}V${length}H0Z`} />}
        </svg>
        <ul>
          {[[SAY.full, full], [SAY.chosen, loss]].map(([name, value]) => (
            <li key={name}>
              {name} <b class="view-number">{value.toFixed(2)}</b>
              <span style={{ width: `${(100 * value) / top}%` }} />
            </li>
          ))}
        </ul>
      </div>
      <p aria-live="polite">{fill(SAY.said, { more: <b class="view-number">{(loss - full).toFixed(2).replace("-", "−")}</b> })}</p>
      <p class="view-soft">{SAY.note}</p>
    </>
  );
}
Sinks.style = style;
Sinks.frame = { title: SAY.title, goal: SAY.goal };
