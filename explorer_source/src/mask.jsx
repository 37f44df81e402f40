// A mask to click together, and the weights that it leaves of given scores.
import { useState } from "preact/hooks";
import { useLinked, useReached, useSettings } from "./frame.jsx";
import { labels, softmax, unpack } from "./numbers.js";
import { walk } from "./walk.js";
import { MAP, MASK as SAY, filled, own } from "./strings.js";
import style from "./mask.css";

// The answers for the scores of a row that may look at nothing.
const ANSWERS = {
  zeros: (scores) => scores.map(() => 0),
  inf: (scores) => plain(scores.map(() => -Infinity)),
  fill: (scores) => plain(scores.map(() => -1e9)),
  add: (scores) => plain(scores.map((score) => score - 1e9)),
};

// A softmax that knows no mask: of −∞ alone it is 0 / 0, as everywhere.
function plain(scores) {
  const top = Math.max(...scores);
  const parts = scores.map((score) => Math.exp(score - top));
  const sum = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / sum);
}

export function Mask({ queries, keys = queries, scores, masks, answers, note, reach, view }) {
  const table = (list) => queries.map((_, i) => list.slice(i * keys.length, (i + 1) * keys.length));
  const signs = (mask) => mask.flat().map((yes) => (yes ? "x" : ".")).join("");
  const [mask, setMask] = useState(() => table([...masks[0][1]].map((sign) => sign === "x")));
  const [place, setPlace] = useState([0, 0]);
  const [touched, setTouched] = useState(false);
  const [rows, columns] = [labels(queries), labels(keys)];
  const raw = table(unpack(scores));
  const weights = raw.map((row, i) => softmax(row, mask[i], 1));
  const now = signs(mask);
  const empty = mask.map((row) => !row.includes(true));
  const shown = empty[place[0]] ? place[0] : empty.indexOf(true);

  const known = Math.max(shown, 0);
  useReached(touched && shown >= 0, reach);

  const [linked, setLinked] = useState(null);
  const tell = useLinked(setLinked);
  const hover = (event) => event.pointerType === "mouse" && tell(queries[event.target.closest("tbody tr")?.sectionRowIndex] ?? null);
  const isLit = (i) => (linked === null ? i === place[0] && touched : queries[i] === linked);

  const take = (preset) => {
    setMask(table([...preset].map((sign) => sign === "x")));
    setTouched(false);
  };
  useSettings(view, { mask: [masks.map(([name]) => name), (i) => take(masks[i][1])] });
  const toggle = (i, j) => {
    setPlace([i, j]);
    setTouched(true);
    setMask(mask.map((row, r) => (r === i ? row.map((yes, c) => (c === j ? !yes : yes)) : row)));
  };
  const heads = (corner) => (
    <thead>
      <tr>
        <th scope="col" class="mask-corner">{corner}</th>
        {keys.map((word, j) => <th key={j} scope="col">{word}</th>)}
      </tr>
    </thead>
  );

  return (
    <>
      <div class="mask-presets" role="group" aria-label={SAY.presets}>
        {masks.map(([name, preset]) => (
          <button
            key={name}
            type="button"
            aria-pressed={preset === now}
            onClick={() => take(preset)}
          >
            {own(name)}
          </button>
        ))}
      </div>
      <div class="mask-parts" onPointerOver={hover} onPointerLeave={() => tell(null)}>
        <div>
          <p class="mask-title">{SAY.mask}</p>
          <table class="view-table mask-table" onKeyDown={walk} aria-label={SAY.maskTable}>
            {heads(<>{MAP.key}<br />{MAP.query}</>)}
            <tbody>
              {mask.map((row, i) => (
                <tr key={i}>
                  <th scope="row">{queries[i]}</th>
                  {row.map((yes, j) => (
                    <td key={j}>
                      <button
                        type="button"
                        class="mask-cell"
                        tabIndex={i === place[0] && j === place[1] ? 0 : -1}
                        aria-pressed={yes}
                        aria-label={filled(SAY.may, { query: rows[i], key: columns[j] })}
                        onFocus={() => setPlace([i, j])}
                        onClick={() => toggle(i, j)}
                      >
                        {yes ? "✓" : "×"}
                      </button>
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div>
          <p class="mask-title">{SAY.weights}</p>
          <table class="view-table mask-table view-number" aria-label={SAY.weightsTable}>
            {heads(<>{MAP.key}<br />{MAP.query}</>)}
            <tbody>
              {weights.map((row, i) => (
                <tr key={i} class={isLit(i) ? "mask-row" : null}>
                  <th scope="row">{queries[i]}</th>
                  {row.map((weight, j) => (
                    <td key={j} class={mask[i][j] ? null : "mask-hidden"} style={{ "--w": weight }}>
                      {mask[i][j] ? weight.toFixed(3) : "0"}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <p class="mask-said" aria-live="polite" aria-atomic="true">
        {touched ? say(rows[place[0]], columns, weights[place[0]], mask[place[0]]) : SAY.hint}
      </p>
      <div class="mask-empty">
        {shown < 0 && <p class="view-soft mask-waits">{SAY.waits}</p>}
        <div style={shown < 0 ? { visibility: "hidden" } : null}>
          <p>
            <strong>{filled(SAY.nothing, { query: rows[known] })}</strong> {SAY.four}
          </p>
          <table class="view-table mask-table view-number" aria-label={filled(SAY.answers, { query: rows[known] })}>
            {heads(SAY.hidden)}
            <tbody>
              {answers.map(([kind, name]) => (
                <tr key={kind}>
                  <th scope="row">{own(name)}</th>
                  {ANSWERS[kind](raw[known]).map((weight, j) => (
                    <td key={j} style={{ "--w": weight || 0 }}>{Number.isNaN(weight) ? "nan" : weight.toFixed(3)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          <p class="view-soft">{note}</p>
        </div>
      </div>
    </>
  );
}
Mask.style = style;
Mask.frame = { title: SAY.title, goal: SAY.goal };

function say(query, keys, weights, allowed) {
  const seen = keys.map((key, j) => allowed[j] && `${key} ${weights[j].toFixed(2)}`).filter(Boolean);
  return seen.length ? filled(SAY.shares, { query, seen: seen.join(MAP.between) }) : filled(SAY.nothing, { query });
}
