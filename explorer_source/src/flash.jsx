// Attention tile by tile: which scores exist now, what is kept of each row, what is moved, and
// where: a picture of slow and of fast memory.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { FLASH as SAY, fill, filled } from "./strings.js";
import style from "./flash.css";

// As the view counts, for the head of the chapter's text.
const [TOKENS, WIDTH, TILE] = [4096, 64, 128];
const inBytes = (count) => (2 * count > 1e6 ? `${Math.round(2e-6 * count)} MB` : `${Math.round(2e-3 * count)} kB`);
const REAL = {
  tokens: TOKENS.toLocaleString("en"),
  width: WIDTH,
  tile: TILE,
  fast: inBytes(TILE * (4 * WIDTH + 2 + TILE)),
  moved: inBytes(2 * TOKENS * WIDTH * (1 + TOKENS / TILE)),
  apart: inBytes(4 * TOKENS * (WIDTH + TOKENS)),
  table: inBytes(TOKENS * TOKENS),
};

export function Flash({ scores, steps, apart, table, reach, view }) {
  const [at, setAt] = useState(0);
  const step = steps[at];
  const [top, bottom] = step.rows;
  const [left, right] = step.columns;
  useReached(at === steps.length - 1, reach);
  useSettings(view, { tile: [steps.map((_, i) => i + 1), setAt] });
  const ended = right === scores[0].length;
  // The result of each piece of queries that is finished.
  const finished = steps.slice(0, at).filter((it) => it.columns[1] === scores[0].length);
  const state = (i, j) => {
    if (i >= top && i < bottom && j >= left && j < right) return "now";
    return i < top || (i < bottom && j < left) ? "gone" : "later";
  };
  return (
    <>
      <div class="flash-choice">
        <button type="button" onClick={() => setAt(Math.max(at - 1, 0))} aria-disabled={!at}>
          {SAY.back}
        </button>
        <button type="button" onClick={() => setAt(Math.min(at + 1, steps.length - 1))} aria-disabled={at === steps.length - 1}>
          {SAY.next}
        </button>
        <span role="status">
          {fill(SAY.tile, { at: <strong class="view-number">{at + 1}</strong>, count: steps.length })}
        </span>
      </div>
      <p class="flash-said" aria-live="polite" aria-atomic="true">
        {fill(SAY.said, {
          fast: <strong class="view-number">{step.fast}</strong>,
          moved: <strong class="view-number">{step.moved}</strong>,
          apart,
        })}
      </p>
      <Memories {...{ step, ended, height: scores.length, width: scores[0].length }} bytes={step.moved - (steps[at - 1]?.moved ?? 0)} />
      <p class="view-soft">{filled(SAY.real, REAL)}</p>
      <div class="flash-tables">
        <div>
          <p class="flash-title">{filled(SAY.scores, { table })}</p>
          <table class="view-table flash-scores" aria-label={SAY.scoresTable}>
            <tbody>
              {scores.map((row, i) => (
                <tr key={i}>
                  <th scope="row">{filled(SAY.query, { i })}</th>
                  {row.map((score, j) => (
                    <td key={j} class={`flash-${state(i, j)}`}>
                      {state(i, j) === "now" ? score : <span class="view-hidden">{state(i, j) === "gone" ? SAY.gone : SAY.later}</span>}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div>
          <p class="flash-title">{ended ? SAY.finished : SAY.kept}</p>
          <table class="view-table flash-kept" aria-label={SAY.keptTable}>
            <thead>
              <tr>
                <th scope="col">{SAY.columns.query}</th>
                <th scope="col">{SAY.columns.shrink}</th>
                <th scope="col">{SAY.columns.largest}</th>
                <th scope="col">{SAY.columns.sum}</th>
                <th scope="col" colSpan={step.kept[0].length - 3}>
                  {SAY.columns.mix}
                </th>
              </tr>
            </thead>
            <tbody>
              {scores.map((_, i) => {
                const own = i >= top && i < bottom ? step : finished.find((it) => i >= it.rows[0] && i < it.rows[1]);
                const cells = own ? own.kept[i - own.rows[0]] : step.kept[0].map(() => "");
                return (
                  <tr key={i} class={own === step ? "flash-row" : ""}>
                    <th scope="row">{i}</th>
                    {cells.map((cell, k) => (
                      <td key={k}>{own === step || k > 2 ? cell : ""}</td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </div>
    </>
  );
}
Flash.frame = { title: SAY.title, goal: SAY.goal };
Flash.style = style;

const UNIT = 14;

// What lies in slow memory, and the pieces of it that are in fast memory now. The table of
// scores is dashed: no memory ever holds it.
function Memories({ step, ended, height, width, bytes }) {
  const [[top, bottom], [left, right]] = [step.rows, step.columns];
  const strip = (name, x, y, wide, high) => (
    <g transform={`translate(${x} ${y})`}>
      <rect width={wide * UNIT} height={high * UNIT} />
      <text x={wide > high ? -4 : UNIT / 2} y={wide > high ? 11 : -4} text-anchor={wide > high ? "end" : "middle"}>{name}</text>
    </g>
  );
  // Q at the left, K and V above, the result at the right of a table.
  const parts = (wide, high) => [
    strip("Q", 0, 48, 1, high),
    strip("K", 24, 0, wide, 1),
    strip("V", 24, 20, wide, 1),
    strip("O", 34 + wide * UNIT, 48, 1, high),
  ];
  const inSlow = 64 + width * UNIT;
  const [wide, high] = [inSlow + 116 + UNIT * width, 92 + UNIT * height];
  const moving = (x, y, w, h) => <rect class="flash-moving" style={{ "--x": x, "--y": y }} width={w * UNIT} height={h * UNIT} />;
  const [w, h] = [right - left, bottom - top];
  return (
    <svg class="flash-picture" viewBox={`0 0 ${wide} ${high}`} aria-hidden="true">
      <rect class="flash-memory" x="1" y="20" width={inSlow + 12} height={high - 21} />
      <text x="1" y="13">{SAY.slow}</text>
      <g transform="translate(22 32)">
        {parts(width, height)}
        <rect class="flash-never" x="24" y="48" width={width * UNIT} height={height * UNIT} />
        {moving(0, 48 + top * UNIT, 1, h)}
        {moving(24 + left * UNIT, 0, w, 1)}
        {moving(24 + left * UNIT, 20, w, 1)}
        {moving(24 + left * UNIT, 48 + top * UNIT, w, h)}
        {ended && moving(34 + width * UNIT, 48 + top * UNIT, 1, h)}
      </g>
      <text class="flash-arrow" x={inSlow + 30} y={high / 2} text-anchor="middle">{ended ? "⇄" : "→"}</text>
      <text x={inSlow + 30} y={high / 2 + 16} text-anchor="middle">{bytes} B</text>
      <rect class="flash-memory" x={inSlow + 46} y="20" width={wide - inSlow - 47} height={high - 21} />
      <text x={inSlow + 46} y="13">{SAY.fast}</text>
      <g class="flash-held" transform={`translate(${inSlow + 64} 32)`}>
        {parts(w, h)}
        <rect x="24" y="48" width={w * UNIT} height={h * UNIT} />
      </g>
    </svg>
  );
}
