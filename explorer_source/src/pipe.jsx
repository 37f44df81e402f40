// One head, live, from the words to the mix: x → Q, K, V → scores → ÷√D → mask → softmax.
// The same component in every chapter: what is there besides comes with the numbers.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ONOFF, useLinked, useReached, useSettings } from "./frame.jsx";
import { fromAddress, toAddress } from "./pipe_address.js";
import { MASKS, compute, dot, read } from "./pipe_compute.js";
import { light } from "./pipe_page.js";
import { Picture } from "./pipe_picture.jsx";
import { meeting, number, row as sayRow } from "./pipe_words.js";
import { labels } from "./numbers.js";
import { TEMPERATURES, Temperature } from "./temperature.jsx";
import { MAP, PIPE as SAY, STEP, filled, own } from "./strings.js";
import style from "./pipe.css";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
// The chapters that steps are explained in lie beside this page, not beside a notebook.
const BOOK = /\/chapters\/[^/]*\.html$/.test(location.pathname);

export function Pipe({ model: sent, stages: steps, masks = ["none"], heads, flips, cache, goal, start, about, reach, view }) {
  const model = useMemo(() => read(sent), [sent]);
  const stages = useMemo(() => own(steps), [steps]);
  const card = useRef();
  const [id] = useState(() => `pipe-${Math.random().toString(36).slice(2)}`);
  const first = { head: 0, mask: masks[0], scaled: true, heat: 1, flip: "", step: start.word, key: null, stage: null, ...start };
  const [state, setState] = useState(first);
  const [pointed, setPointed] = useState(null);
  const [all, setAll] = useState(false);
  const set = (more) => {
    setPointed(null);
    setState((now) => ({ ...now, ...more }));
  };
  // On a wide screen of the book the picture is as wide as the window: the style sheet
  // is told where the column begins, also when a reader folds what is at its left.
  useEffect(() => {
    const column = view.parentElement;
    const watch = new ResizeObserver(() => view.style.setProperty("--column", `${column.getBoundingClientRect().left + scrollX}px`));
    for (const element of [column, document.querySelector(".bd-sidebar-primary")]) element && watch.observe(element);
    return () => watch.disconnect();
  }, []);
  // A link in the text, or the one that a teacher sends, leads to a moment of the picture.
  useEffect(() => {
    const follow = () => {
      const found = fromAddress(first);
      if (!found || card.current !== document.querySelector(".pipe-card")) return;
      set({ ...first, ...found });
      card.current.scrollIntoView({ block: "start" });
    };
    if (fromAddress(first)) follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);

  const { words, ids, fault } = useMemo(() => known(state.text, model), [state.text, model]);
  const shown = labels(words);
  const [head, mask] = [Math.min(state.head, model.heads - 1), masks.includes(state.mask) ? state.mask : masks[0]];
  const flipped = new Set(state.flip ? state.flip.split("_") : []);
  const allowed = (i, j) => MASKS[cache ? "causal" : mask](i, j, words) !== flipped.has(`${i}-${j}`);
  const settings = { head, allowed, scaled: state.scaled, heat: state.heat };
  const values = useMemo(() => compute(model, ids, settings), [model, ids, head, mask, state.flip, state.scaled, state.heat]);

  const count = words.length;
  const step = cache ? Math.min(state.step, count - 1) : null; // which word is being read
  const kept = cache && !state.anew;
  const word = cache && (kept || (pointed?.word ?? state.word) > step) ? step : Math.min(pointed?.word ?? state.word, count - 1);
  const best = values.w[word].indexOf(Math.max(...values.w[word]));
  const chosen = pointed ? pointed.key ?? null : state.key;
  const key = chosen !== null && chosen < count && !(cache && chosen > step) ? chosen : best;
  const wanted = pointed?.id ?? state.stage;
  const stage = values[wanted] ? wanted : null;
  useEffect(() => light(stage), [stage]);
  // A column that was chosen in a wide matrix is the last one of a narrower matrix.
  const place = stage && { id: stage, word, key, part: Math.min(pointed?.part ?? state.part ?? 0, values[stage][0].length - 1) };
  const meets = place && meeting(model, values, shown, place, { ...settings, divisor: values.divisor });
  const reads = {
    made: (r) => !cache || (kept ? r === step : r <= step),
    kept: (r) => !cache || r <= step,
    fresh: kept ? step : -1,
  };
  useReached(!!goal && met(goal, words, values, reads), reach);
  const tell = useLinked((heard) => {
    const i = words.indexOf(heard);
    setPointed(i < 0 || !reads.made(i) ? null : { word: i, id: state.stage });
  });
  const pointAt = (found) => {
    if (JSON.stringify(found) === JSON.stringify(pointed)) return; // still in the same cell
    setPointed(found);
    tell(found ? words[found.word] : null);
  };

  useSettings(view, {
    word: [shown, (word) => set({ word, step: word, key: null })],
    key: [shown, (key) => set({ key })],
    mask: [masks, (at) => set({ mask: masks[at], flip: "" })],
    head: [heads.map((_, i) => i + 1), (head) => set({ head })],
    scale: [ONOFF, (on) => set({ scaled: !!on })],
    cache: [ONOFF, (on) => set({ anew: !on })],
    temperature: [TEMPERATURES, (at) => set({ heat: TEMPERATURES[at] })],
    stage: [stages.map(({ id: at }) => at), (at) => set({ stage: stages[at].id, part: 0 })],
  });
  const hold = ({ id: at, word: r, key: c, part }) => {
    const more = { stage: at ?? null, part: part ?? 0, key: c ?? null };
    if (!kept) more.word = r;
    if (flips && at === "m" && c !== undefined) {
      const name = `${r}-${c}`;
      flipped.has(name) ? flipped.delete(name) : flipped.add(name);
      more.flip = [...flipped].join("_");
    }
    set(more);
  };
  const turns = flips && stage === "m";
  const walk = (event) => {
    if (event.target !== event.currentTarget || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!MOVES[event.key] && !(turns && event.key === " ")) return;
    event.preventDefault();
    press(event.key);
  };
  const press = (name) => {
    const move = MOVES[name];
    if (!move) return hold({ id: "m", word, key });
    const within = (value, size) => Math.min(Math.max(value, 0), size - 1);
    const across = stage && !"sdmw".includes(stage);
    const wide = across ? values[stage === "k" || stage === "v" ? "k" : stage][0].length : count;
    const part = across ? within((state.part ?? 0) + move[1], wide) : state.part;
    const down = stage === "k" || stage === "v" ? { key: within(key + move[0], count) } : { word: within(word + move[0], count) };
    set({ key: across ? state.key : within(key + move[1], count), part, ...down });
  };

  // Where a page may not write to the clipboard, the link has changed the address only.
  const address = toAddress(state, first);
  const [copied, setCopied] = useState(null);
  const copy = ({ currentTarget: { href } }) => navigator.clipboard?.writeText(href).then(() => setCopied(address), () => {});

  const radios = (name, legend, options, now, choose) => (
    <fieldset class="pipe-pick">
      <legend>{legend}</legend>
      {options.map(([value, text]) => (
        <label key={text}>
          <input type="radio" name={`${id}-${name}`} checked={now === value} onChange={() => choose(value)} />
          <span>{own(text)}</span>
        </label>
      ))}
    </fieldset>
  );

  return (
    <div class="pipe-card" ref={card}>
      <fieldset class="pipe-sentence" onPointerLeave={() => pointAt(null)}>
        <legend class="view-hidden">{SAY.asks}</legend>
        {words.map((text, i) => (
          <label
            key={i}
            class={`${i === word ? "pipe-asks" : ""}${reads.kept(i) ? "" : " pipe-later"}`}
            onPointerEnter={(event) => event.pointerType === "mouse" && !kept && reads.made(i) && pointAt({ word: i, id: state.stage })}
          >
            <input type="radio" name={`${id}-word`} checked={i === word} onChange={() => (kept ? set({ step: i }) : set({ word: i, key: null }))} aria-label={shown[i]} />
            <span class="pipe-word" style={{ "--w": values.w[word][i] }}>{text}</span>
            <span class="pipe-share" aria-hidden="true">{!reads.kept(i) ? "·" : values.m[word][i] === -Infinity ? SAY.hidden : number(values.w[word][i])}</span>
          </label>
        ))}
      </fieldset>
      <Sentence {...{ text: state.text, fault, id, model, set }} />
      <div class="pipe-controls">
        {cache && (
          <div class="pipe-steps">
            <button type="button" aria-disabled={!step} onClick={() => set({ step: Math.max(step - 1, 0) })}>{STEP.back}</button>
            <span>{filled(STEP.step, { at: step + 1, count })}</span>
            <button type="button" aria-disabled={step === count - 1} onClick={() => set({ step: Math.min(step + 1, count - 1) })}>{STEP.next}</button>
          </div>
        )}
        {cache && radios("cache", SAY.cache, [[false, SAY.on], [true, SAY.off]], !!state.anew, (anew) => set({ anew, word: step }))}
        {masks.length > 1 && !cache && radios("mask", SAY.mask, masks.map((name) => [name, name]), state.flip ? null : mask, (name) => set({ mask: name, flip: "" }))}
        {heads.length > 1 && radios("head", SAY.head, heads.map((name, i) => [i, name]), head, (value) => set({ head: value }))}
        {radios("scale", "÷ √D", [[true, SAY.on], [false, SAY.off]], state.scaled, (scaled) => set({ scaled }))}
        <Temperature name={MAP.temperature} heat={Math.max(0, TEMPERATURES.indexOf(state.heat))} choose={(at) => set({ heat: TEMPERATURES[at] })} />
      </div>
      <div
        class="pipe-walk"
        tabIndex={0}
        role="application"
        aria-label={SAY.walk}
        onKeyDown={walk}
      >
        <Picture
          {...{ model, values, words, row: word, column: key, place, head, reads, stage, all, hold }}
          tip={place && <Meeting brief {...meets} />}
          point={(found) => (!found || !cache || reads.kept(Math.max(found.word, found.key ?? 0))) && pointAt(found && { ...found, key: found.key ?? (found.id === "m" ? null : undefined) })}
          stages={(blocks) => (
            <fieldset>
              <legend class="view-hidden">{SAY.step}</legend>
              {stages.filter(({ id: at }) => blocks[at]).map(({ id: at, name, does }) => {
                const { x, y, width, height } = blocks[at];
                const title = at === "d" ? [state.scaled ? "÷ √D" : "÷ 1", state.heat !== 1 && `÷ ${state.heat}`].filter(Boolean).join(" ") : name;
                const above = at === "k" || at === "v";
                if (above) return null;
                return (
                  <label key={at} class="pipe-stage" data-tone={at} style={{ left: `${x + width / 2}px`, top: `${y + height + 5}px` }}>
                    <input type="radio" name={`${id}-stage`} checked={state.stage === at} onChange={() => set({ stage: at, part: 0 })} />
                    <span><b>{title}</b><i>{does}</i></span>
                  </label>
                );
              })}
            </fieldset>
          )}
        />
      </div>
      <div class="pipe-under">
        <div class="pipe-said" tabIndex={0} aria-live="polite" aria-atomic="true">
          <p>{sayRow(values, shown, word)}</p>
          {place ? <Meeting {...meets} /> : <p class="view-soft">{SAY.hint}</p>}
        </div>
        {/* on a phone a cell is narrower than a finger */}
        <div class="pipe-pad" data-off={!place || null} role="group" aria-label={SAY.pad}>
          {Object.keys(MOVES).map((name, i) => (
            <button key={name} type="button" aria-label={SAY.pads[i]} onClick={() => press(name)}>{"↑↓←→"[i]}</button>
          ))}
          {turns && <button type="button" onClick={() => press(" ")}>{SAY.turn}</button>}
        </div>
      </div>
      <Code stages={stages} stage={stage} choose={(at) => set({ stage: at, part: 0 })} point={(at) => setPointed(at && { id: at, word: state.word, key: state.key ?? undefined })} />
      <div class="pipe-foot">
        <label class="pipe-all"><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> {SAY.all}</label>
        <a href={address} onClick={copy}>{SAY.link}</a>
        <span role="status">{copied === address && SAY.copied}</span>
        <button type="button" data-off={JSON.stringify(state) === JSON.stringify(first) || null} onClick={() => set({ anew: undefined, part: undefined, ...first })}>{SAY.again}</button>
      </div>
      <Numbers {...{ values, words: shown, stage: stage ?? "w", stages, model }} />
      <p class="view-soft pipe-about">{SAY.signs} {cache && `${SAY.dashed} `}{about}</p>
    </div>
  );
}
Pipe.style = style;
Pipe.frame = { title: SAY.title };

// A sentence of known words; what is not known is named, and the old sentence stays.
function Sentence({ text, fault, id, model, set }) {
  const [typed, setTyped] = useState(text);
  const [said, setSaid] = useState("");
  useEffect(() => setTyped(text), [text]);
  const send = (event) => {
    event.preventDefault();
    const found = known(typed, model);
    setSaid(found.fault);
    if (!found.fault) set({ text: found.words.join(" "), word: Math.min(4, found.words.length - 1), key: null, flip: "", step: 0 });
  };
  return (
    <form class="pipe-form" onSubmit={send}>
      <label for={`${id}-text`}>{SAY.other}</label>
      <input id={`${id}-text`} type="text" autocomplete="off" autocapitalize="off" spellcheck={false} value={typed} aria-describedby={`${id}-fault`} onInput={(event) => setTyped(event.currentTarget.value)} />
      <button type="submit">{SAY.show}</button>
      <p id={`${id}-fault`} role="status">{said || fault}</p>
      <p class="view-soft">{filled(SAY.known, { words: model.words.join(MAP.between) })}</p>
    </form>
  );
}

function known(text, { words, places }) {
  const typed = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const strange = [...new Set(typed.filter((word) => !words.includes(word)))];
  const fault = strange.length
    ? filled(strange.length > 1 ? SAY.strangers : SAY.stranger, { words: strange.map((word) => `“${word}”`).join(MAP.between) })
    : typed.length > places.length
      ? filled(SAY.long, { places: places.length, count: typed.length })
      : typed.length ? "" : SAY.empty;
  const taken = typed.filter((word) => words.includes(word)).slice(0, places.length);
  const of = taken.length ? taken : [words[0]];
  return { fault, words: of, ids: of.map((word) => words.indexOf(word)) };
}

// Two vectors, number by number, with their products, and the sum.
function Meeting({ title, said, left, right, sign, bias, brief }) {
  if (said) return <p><b>{title}:</b> {said}</p>;
  const parts = left[1].map((value, i) => [value, right[1][i]]);
  const total = sign === "+" ? parts[0][0] + parts[0][1] : dot(left[1], right[1]) + (bias ?? 0);
  if (sign === "+") return <p><b>{title}:</b> {left[0]} {number(parts[0][0])} + {right[0]} {number(parts[0][1])} = {number(total)}.</p>;
  return (
    <>
      <p><b>{title}:</b> {left[0]} · {right[0]}{bias === undefined ? "" : ` + ${SAY.bias}`} = <strong class="view-number">{number(total)}</strong></p>
      {!brief && <ul class="pipe-meeting view-number" style={{ "--n": parts.length }}>
        {parts.map(([a, b], i) => (
          <li key={i}>
            <span>{number(a)}</span> <span><i>×</i> {number(b)}</span> <b><i>=</i> {number(a * b)}</b>
          </li>
        ))}
        {bias !== undefined && <li><span>{SAY.bias}</span> <span /> <b>{number(bias)}</b></li>}
      </ul>}
    </>
  );
}

// The steps as formulas and as code: a line for each, lit with its matrix.
function Code({ stages, stage, choose, point }) {
  const same = (at) => at === stage || ((stage === "k" || stage === "v") && at === "q");
  return (
    <table class="pipe-code" aria-label={SAY.code} onPointerLeave={() => point(null)}>
      <tbody>
        {stages.map(({ id, name, formula, code, href, where }) => (
          <tr
            key={id}
            class={same(id) ? "pipe-lit" : null}
            onPointerEnter={(event) => event.pointerType === "mouse" && point(id)}
            onClick={(event) => event.target.closest("a") || choose(id)}
          >
            <th scope="row" data-tone={id} dangerouslySetInnerHTML={{ __html: formula }} />
            <td><code>{code}</code></td>
            <td>{BOOK && <a href={href} aria-label={filled(SAY.where, { name, where })}>{where}</a>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// The numbers of one matrix, to three decimals: to read, to hear, to copy.
function Numbers({ values, words, stage, stages, model }) {
  const name = stages.find(({ id }) => id === stage)?.name ?? stage.toUpperCase();
  const matrix = values[stage];
  const heads = "sdmw".includes(stage) ? words : matrix[0].map((_, i) => i + 1);
  return (
    <details class="pipe-numbers">
      <summary>{filled(SAY.numbers, { name })}</summary>
      <div class="pipe-scroll" tabIndex={0} role="group" aria-label={filled(SAY.numbers, { name })}>
        <table class="view-table view-number">
          <thead><tr><td />{heads.map((text, i) => <th key={i} scope="col">{text}</th>)}</tr></thead>
          <tbody>
            {matrix.map((line, i) => (
              <tr key={i}><th scope="row">{words[i]}</th>{line.map((value, j) => <td key={j}>{number(value, 3)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

// The goal: one word gives so much of its weight to another, or all words are read.
function met({ query, key, least }, words, values, reads) {
  return words.some((word, i) => word === query && reads.made(i) && words.some((other, j) => other === key && values.w[i][j] >= least));
}
