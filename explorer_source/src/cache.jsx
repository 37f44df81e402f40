// A cache that fills: which keys and values a step makes, and which it finds.
import { useState } from "preact/hooks";
import { useLinked, useReached } from "./frame.jsx";
import tables from "./tables.css";
import style from "./cache.css";

const number = (value) => value.toLocaleString("en-GB");

export function Cache({ words, layers, steps, reach }) {
  const [at, setAt] = useState(0);
  const [kept, setKept] = useState(true);
  const [group] = useState(() => `cache-${Math.random().toString(36).slice(2)}`);
  const { length, new: fresh, bytes, cached, anew } = steps[at];
  const last = at === steps.length - 1;
  const made = kept ? fresh : length; // how many tokens this step reads
  const state = (place) => (place >= length ? "empty" : place >= length - made ? "made" : "kept");
  useReached(last && !kept, reach);
  const [linked, setLinked] = useState(null);
  const tell = useLinked(setLinked);
  const hover = (event) => event.pointerType === "mouse" && tell(words[(event.target.closest("td, thead th")?.cellIndex ?? 0) - 1] ?? null);
  const rows = Array.from({ length: layers }, (_, layer) => ["keys", "values"].map((part) => `${part} ${layer + 1}`)).flat();
  const sign = { empty: "", made: "+", kept: "✓" };
  const spoken = { empty: "nothing yet", made: "made in this step", kept: "found in the cache" };

  return (
    <>
      <div class="cache-controls">
        <fieldset>
          <legend class="view-hidden">cache</legend>
          {[[true, "with a cache"], [false, "reading all anew"]].map(([value, name]) => (
            <label key={name}>
              <input type="radio" name={group} checked={kept === value} onChange={() => setKept(value)} />
              {name}
            </label>
          ))}
        </fieldset>
        <div class="cache-steps">
          <button type="button" aria-disabled={!at} onClick={() => setAt(Math.max(at - 1, 0))}>← Back</button>
          <span>step {at + 1} of {steps.length}</span>
          <button type="button" aria-disabled={last} onClick={() => setAt(Math.min(at + 1, steps.length - 1))}>Next →</button>
        </div>
      </div>
      <div class="cache-scroll" onPointerOver={hover} onPointerLeave={() => tell(null)}>
        <table class="view-table cache-table" aria-label="keys and values of each token">
          <thead>
            <tr>
              <td></td>
              {words.map((word, place) => (
                <th key={place} scope="col" class={place > length ? "cache-later" : place === length ? "cache-next" : null}>
                  {place > length ? "·" : word}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row}>
                <th scope="row">{row}</th>
                {words.map((_, place) => (
                  <td key={place} class={`cache-${state(place)}${words[place] === linked ? " cache-linked" : ""}`} aria-label={spoken[state(place)]}>{sign[state(place)]}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="cache-said" aria-live="polite">
        The step reads <strong>{made}</strong> {made === 1 ? "token" : "tokens"} and writes “{words[length]}”: {number(kept ? cached : anew)} FLOPs.{" "}
        {kept
          ? `The cache holds ${number(bytes)} bytes and saves ${number(anew - cached)} FLOPs.`
          : `Nothing is kept; a cache would save ${number(anew - cached)} FLOPs.`}
      </p>
      <p class="view-soft">A row for the keys of each layer, and one for its values: + is made in this step, ✓ is found in the cache. The word in bold is the one that the step writes; it is read in the next step.</p>
    </>
  );
}
Cache.style = tables + style;
Cache.frame = {
  title: "A cache that fills",
  goal: "What would the last step cost without the cache? Go there, and take it away.",
};
