// Attention tile by tile: which scores exist now, what is kept of each row, what is moved.
import { useState } from "preact/hooks";
import { useReached } from "./frame.jsx";
import tables from "./tables.css";
import style from "./flash.css";

export function Flash({ scores, steps, apart, table, reach }) {
  const [at, setAt] = useState(0);
  const step = steps[at];
  const [top, bottom] = step.rows;
  const [left, right] = step.columns;
  useReached(at === steps.length - 1, reach);
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
        <button type="button" onClick={() => setAt(at - 1)} disabled={at === 0}>
          Back
        </button>
        <button type="button" onClick={() => setAt(at + 1)} disabled={at === steps.length - 1}>
          Next tile
        </button>
        <span>
          Tile <strong class="view-number">{at + 1}</strong> of {steps.length}
        </span>
      </div>
      <p class="flash-said" aria-live="polite">
        In fast memory: <strong class="view-number">{step.fast}</strong> bytes. Moved so far:{" "}
        <strong class="view-number">{step.moved}</strong> bytes; step by step, {apart} would move. The whole table of scores: {table} bytes.
      </p>
      <div class="flash-tables">
        <div>
          <p class="flash-title">Scores: only one tile exists</p>
          <table class="view-table flash-scores" aria-label="scores: rows are queries, columns are keys">
            <tbody>
              {scores.map((row, i) => (
                <tr key={i}>
                  <th scope="row">query {i}</th>
                  {row.map((score, j) => (
                    <td key={j} class={`flash-${state(i, j)}`}>
                      {state(i, j) === "now" ? score : <span class="view-hidden">{state(i, j) === "gone" ? "forgotten" : "not made yet"}</span>}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div>
          <p class="flash-title">{ended ? "Kept: this piece is finished" : "Kept of each query"}</p>
          <table class="view-table flash-kept" aria-label="what is kept of each query">
            <thead>
              <tr>
                <th scope="col">query</th>
                <th scope="col">shrink</th>
                <th scope="col">largest</th>
                <th scope="col">sum</th>
                <th scope="col" colSpan={step.kept[0].length - 3}>
                  mix / sum
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
Flash.frame = { title: "Attention, tile by tile", goal: "Step to the last tile. Which sums shrink on the way?" };
Flash.style = tables + style;
