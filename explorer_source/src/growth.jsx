// Heads that grow: the loss, their scores and their maps at each snapshot of a run.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { labels, unpack } from "./numbers.js";
import { GROWTH as SAY, fill, filled } from "./strings.js";
import style from "./growth.css";

const [WIDE, HIGH] = [600, 120];
const start = (row) => (row * (row + 1)) / 2; // of a row, in a triangle

export function Growth({ words, steps, heads, wanted, weights, scores, measured, reach, view }) {
  const [at, setAt] = useState(0);
  const [row, setRow] = useState(words.length - 1);
  const [id] = useState(() => `growth-${Math.random().toString(36).slice(2)}`);
  const losses = unpack(measured);
  const lines = scores.map(unpack);
  const top = Math.max(...losses);
  const named = labels(words);
  const last = heads.length - 1;
  useSettings(view, { step: [steps, setAt], query: [named, setRow] });
  useReached(at > 0 && at === lines[last].findIndex((score) => score >= 0.5), reach);
  const x = (i) => (WIDE * steps[i]) / steps.at(-1);
  const points = (numbers, most) => numbers.map((y, i) => `${x(i).toFixed(1)},${(HIGH - (HIGH * y) / most).toFixed(1)}`).join(" ");
  const maps = weights[at].map(unpack);
  const most = maps.map((map) => {
    const own = map.slice(start(row), start(row + 1));
    const best = own.indexOf(Math.max(...own));
    return { key: named[best], weight: own[best] };
  });
  return (
    <>
      <div class="growth-slide view-sticky">
        <label for={id}>{fill(SAY.training, { step: <strong class="view-number">{steps[at]}</strong> })}</label>
        <input
          id={id}
          type="range"
          min="0"
          max={steps.length - 1}
          value={at}
          aria-valuetext={filled(SAY.step, { step: steps[at] })}
          onInput={(event) => setAt(+event.currentTarget.value)}
        />
      </div>
      <ul class="growth-legend">
        <li class="growth-loss">{fill(SAY.loss, { loss: <b class="view-number">{losses[at].toFixed(2)}</b> })}</li>
        {heads.map((head, i) => (
          <li key={head} class={`growth-score-${i}`}>
            {fill(SAY.score, { head, score: <b class="view-number">{lines[i][at].toFixed(2)}</b> })}
          </li>
        ))}
      </ul>
      <svg
        class="growth-curves"
        viewBox={`-4 -8 ${WIDE + 8} ${HIGH + 12}`}
        preserveAspectRatio="none"
        aria-hidden="true"
        onClick={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect();
          const near = ((event.clientX - left) / width) * WIDE;
          setAt(steps.reduce((best, _, i) => (Math.abs(x(i) - near) < Math.abs(x(best) - near) ? i : best), 0));
        }}
      >
        <line x1="0" x2={WIDE} y1={HIGH} y2={HIGH} />
        <polyline class="growth-loss" points={points(losses, top)} />
        {lines.map((line, i) => <polyline key={i} class={`growth-score-${i}`} points={points(line, 1)} />)}
        <line class="growth-now" x1={x(at)} x2={x(at)} y1="-8" y2={HIGH} />
      </svg>
      <p class="view-soft growth-scale">
        <span>{filled(SAY.scale, { top: top.toFixed(1) })}</span>
        <span>{filled(SAY.step, { step: steps.at(-1) })}</span>
      </p>
      <label class="growth-query">
        {SAY.query}{" "}
        <select value={row} onChange={(event) => setRow(+event.currentTarget.value)}>
          {named.map((word, i) => <option key={i} value={i}>{word}</option>)}
        </select>
      </label>
      <div class="growth-maps">
        {heads.map((head, h) => (
          <div key={head}>
            <p class="growth-title">{filled(SAY.map, { head })}</p>
            <table class="view-table" aria-label={filled(SAY.table, { head })}>
              <tbody>
                {words.map((word, i) => (
                  <tr key={i} class={i === row ? "growth-row" : ""} onClick={() => setRow(i)}>
                    <th scope="row">{word}</th>
                    {words.map((_, j) => (
                      <td
                        key={j}
                        class={j <= i && wanted[h][start(i) + j] === "1" ? "growth-wanted" : ""}
                        style={j <= i ? { "--w": maps[h][start(i) + j] } : null}
                      />
                    ))}
                  </tr>
                ))}
              </tbody>
              <tfoot>
                <tr>
                  <td />
                  {words.map((word, j) => <th key={j} scope="col">{word}</th>)}
                </tr>
              </tfoot>
            </table>
          </div>
        ))}
      </div>
      <p class="growth-said" aria-live="polite" aria-atomic="true">
        {heads.map((head, h) => filled(SAY.most, { head, query: named[row], key: most[h].key, weight: most[h].weight.toFixed(2) })).join(" ")}
      </p>
      <p class="view-soft growth-note">{SAY.note}</p>
    </>
  );
}
Growth.style = style;
Growth.frame = { title: SAY.title, goal: ({ heads }) => filled(SAY.goal, { head: heads.at(-1) }) };
