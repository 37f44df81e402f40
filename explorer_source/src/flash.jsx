// Attention tile by tile: which scores exist now, what is kept of each row, what is moved.
import { useState } from "preact/hooks";
import { useReached } from "./frame.jsx";
import { FLASH as SAY, fill, filled } from "./strings.js";
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
          table,
        })}
      </p>
      <div class="flash-tables">
        <div>
          <p class="flash-title">{SAY.scores}</p>
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
