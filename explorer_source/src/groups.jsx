// Query heads that share keys and values: a slider over the KV heads.
import { useRef, useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { GROUPS as SAY, fill, filled } from "./strings.js";
import style from "./groups.css";

const DRAWN = 8; // of the query heads, so that all ways to share have one line

export function Groups({ heads, choices, names, perToken, perText, tokens, reach, view }) {
  const [at, setAt] = useState(0);
  const [query, setQuery] = useState(null);
  const [id] = useState(() => `groups-${Math.random().toString(36).slice(2)}`);
  const all = useRef(null);
  // The arrow keys go from query head to query head.
  const step = (event) => {
    const buttons = [...all.current.querySelectorAll("button")];
    const next = buttons.indexOf(event.target) + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN);
    if (!buttons[next]) return;
    event.preventDefault();
    buttons[next].focus();
    setQuery(next);
  };
  const shared = choices[at];
  const size = heads / shared;
  useReached(8 * shared === heads, reach);
  useSettings(view, { heads: [choices, setAt], query: [[...Array(Math.min(heads, DRAWN)).keys()], setQuery] });
  const drawn = Math.min(heads, DRAWN);
  const hint = filled(SAY.hint, { drawn, heads });
  const own = query === null ? null : Math.floor(query / size);

  return (
    <>
      <div class="groups-choice">
        <label for={id}>
          {fill(SAY.heads, { shared: <strong class="view-number">{shared}</strong> })}
        </label>
        <input
          id={id}
          type="range"
          min="0"
          max={choices.length - 1}
          step="1"
          value={at}
          aria-valuetext={`${shared}: ${names[at]}`}
          onInput={(event) => setAt(Number(event.currentTarget.value))}
        />
      </div>
      <p class="groups-name" aria-live="polite" aria-atomic="true">
        {fill(SAY.said, {
          name: <strong>{names[at]}</strong>,
          token: <span class="view-number">{perToken[at]}</span>,
          text: <span class="view-number">{perText[at]}</span>,
          tokens: tokens.toLocaleString("en"),
        })}
      </p>
      <div class="groups-bar" aria-hidden="true">
        <span style={{ width: `${(100 * shared) / heads}%` }} />
      </div>
      <div class="groups-all" ref={all} onKeyDown={step} style={{ "--columns": drawn }}>
        {Array.from({ length: Math.ceil(drawn / size) }, (_, head) => (
          <div key={`${shared}-${head}`} class={`groups-one${head === own ? " groups-here" : ""}`} style={{ "--span": Math.min(size, drawn - head * size) }}>
            <div class="groups-queries">
              {Array.from({ length: Math.min(size, drawn - head * size) }, (_, i) => head * size + i).map((number) => (
                <button
                  key={number}
                  type="button"
                  tabIndex={number === (query ?? 0) ? 0 : -1}
                  aria-pressed={number === query}
                  aria-label={filled(SAY.query, { number })}
                  onClick={() => setQuery(number === query ? null : number)}
                >
                  {number}
                </button>
              ))}
            </div>
            <div class="groups-keys">{filled(SAY.keys, { head })}</div>
          </div>
        ))}
      </div>
      <p class="view-soft view-room" data-room={hint} aria-live="polite" aria-atomic="true">
        <span>{query === null ? hint : filled(SAY.reads, { query, own, size })}</span>
      </p>
    </>
  );
}
Groups.style = style;
Groups.frame = {
  title: SAY.title,
  goal: ({ heads, choices }) => choices.includes(heads / 8) && SAY.goal,
};
