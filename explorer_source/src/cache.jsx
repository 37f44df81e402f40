// A cache that fills: which keys and values a step makes, and which it finds.
import { useState } from "preact/hooks";
import { ONOFF, useLinked, useReached, useSettings } from "./frame.jsx";
import { CACHE as SAY, STEP, fill, filled } from "./strings.js";
import style from "./cache.css";

const number = (value) => value.toLocaleString("en-GB");

// SmolLM2-135M, counted in the same way: its weights stand for 24 M² and M V.
const [TOKENS, LAYERS, WIDTH, KV_WIDTH, WEIGHTS] = [1000, 30, 576, 3 * 64, 134.5e6];
const STEP_FLOPS = 2 * WEIGHTS + 4 * TOKENS * LAYERS * WIDTH;
const REAL = {
  tokens: number(TOKENS),
  bytes: Math.round(2e-6 * 2 * LAYERS * KV_WIDTH * TOKENS),
  cached: (1e-9 * STEP_FLOPS).toFixed(1),
  recomputed: Math.round(1e-9 * STEP_FLOPS * TOKENS),
};

export function Cache({ words, layers, steps, reach, view }) {
  const [at, setAt] = useState(0);
  const [kept, setKept] = useState(true);
  const [group] = useState(() => `cache-${Math.random().toString(36).slice(2)}`);
  const { length, new: fresh, bytes, cached, anew } = steps[at];
  const last = at === steps.length - 1;
  const spent = (name, to) => steps.slice(0, to).reduce((sum, step) => sum + step[name], 0);
  const made = kept ? fresh : length; // how many tokens this step reads
  const state = (place) => (place >= length ? "empty" : place >= length - made ? "made" : "kept");
  useReached(last && !kept, reach);
  useSettings(view, { cache: [ONOFF, (on) => setKept(!!on)], step: [steps.map((_, i) => i + 1), setAt] });
  const [linked, setLinked] = useState(null);
  const tell = useLinked(setLinked);
  const hover = (event) => event.pointerType === "mouse" && tell(words[(event.target.closest("td, thead th")?.cellIndex ?? 0) - 1] ?? null);
  const rows = Array.from({ length: layers }, (_, layer) => [SAY.keys, SAY.values].map((part) => filled(part, { layer: layer + 1 }))).flat();
  const sign = { empty: "", made: "+", kept: "✓" };
  const spoken = { empty: SAY.empty, made: SAY.made, kept: SAY.kept };

  return (
    <>
      <div class="cache-controls">
        <fieldset>
          <legend class="view-hidden">{SAY.cache}</legend>
          {[[true, SAY.on], [false, SAY.off]].map(([value, name]) => (
            <label key={name}>
              <input type="radio" name={group} checked={kept === value} onChange={() => setKept(value)} />
              {name}
            </label>
          ))}
        </fieldset>
        <div class="cache-steps">
          <button type="button" aria-disabled={!at} onClick={() => setAt(Math.max(at - 1, 0))}>{STEP.back}</button>
          <span>{filled(STEP.step, { at: at + 1, count: steps.length })}</span>
          <button type="button" aria-disabled={last} onClick={() => setAt(Math.min(at + 1, steps.length - 1))}>{STEP.next}</button>
        </div>
      </div>
      <div class="cache-scroll" onPointerOver={hover} onPointerLeave={() => tell(null)}>
        <table class="view-table cache-table" aria-label={SAY.table}>
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
      <p class="cache-said" aria-live="polite" aria-atomic="true">
        {fill(made === 1 ? SAY.readsOne : SAY.reads, { made: <strong>{made}</strong>, word: words[length], flops: number(kept ? cached : anew) })}{" "}
        {filled(kept ? SAY.saves : SAY.wouldSave, { bytes: number(bytes), flops: number(anew - cached) })}
      </p>
      <table class="view-table cache-spent" aria-label={SAY.spent}>
        <caption>{SAY.spent}</caption>
        <tbody>
          {[["cached", SAY.on], ["anew", SAY.off]].map(([name, says]) => (
            <tr key={name} class={(name === "cached") === kept ? "cache-chosen" : null}>
              <th scope="row">{says}</th>
              <td><span class="cache-bar" style={{ width: `${(100 * spent(name, at + 1)) / spent("anew")}%` }} /></td>
              <td class="view-number">{number(spent(name, at + 1))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="view-soft">{filled(SAY.real, REAL)}</p>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Cache.style = style;
Cache.frame = {
  title: SAY.title,
  goal: SAY.goal,
};
