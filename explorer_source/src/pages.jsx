// A server's pages over time: who owns which, who waits, and the block table of one request.
import { useEffect, useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { PAGES as SAY, STEP, fill, filled, counted } from "./strings.js";
import style from "./pages.css";

const BEAT = 500; // milliseconds per step, when it plays
const listed = (words) => (words.length < 2 ? words.join("") : filled(SAY.listed, { first: words.slice(0, -1).join(", "), last: words.at(-1) }));
const colour = (request) => ({ "--own": (request * 137.5 + 205) % 360 });

function ownersOf({ tables }, pages) {
  const owners = Array.from({ length: pages }, () => []);
  tables.forEach((table, request) => table.forEach((page) => owners[page].push(request)));
  return owners;
}
const isShared = (step, pages) => ownersOf(step, pages).some((own) => own.length > 1);
const isPreempted = (step) => step.states.includes("preempted");

// Llama 3 8B: 32 layers, 8 KV heads of width 128, keys and values, at 2 bytes per number.
const [REAL_LEN, MEMORY] = [16, 40 * 2 ** 30];
const PAGE = REAL_LEN * 2 * 32 * 8 * 128 * 2;
const REAL = {
  tokens: REAL_LEN,
  size: PAGE / 2 ** 20,
  memory: MEMORY / 2 ** 30,
  pages: (MEMORY / PAGE).toLocaleString("en"),
  all: ((REAL_LEN * MEMORY) / PAGE).toLocaleString("en"),
};

export function Pages({ steps, pages, pageLen, names, reach, view }) {
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [pointed, setPointed] = useState(null); // by the mouse, for as long as it stays
  const [playing, setPlaying] = useState(false);
  const [seen, setSeen] = useState([false, false]); // a shared page, a preempted request
  const [id] = useState(() => `pages-${Math.random().toString(36).slice(2)}`);
  const step = steps[at];
  const last = steps.length - 1;
  const owners = ownersOf(step, pages);
  const own = pointed ?? chosen;
  const state = (request) => step.states[request] ?? "";
  const table = step.tables[own] ?? [];

  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => setAt((now) => Math.min(now + 1, last)), BEAT);
    return () => clearInterval(timer);
  }, [playing]);
  useEffect(() => at === last && setPlaying(false), [at]);
  useEffect(() => {
    if (playing) return;
    const now = [isShared(step, pages), isPreempted(step)];
    if (now.some((it, i) => it && !seen[i])) setSeen(seen.map((it, i) => it || now[i]));
  }, [at, playing]);
  const wanted = [steps.some((it) => isShared(it, pages)), steps.some(isPreempted)];
  useReached(at > 0 && wanted.some(Boolean) && wanted.every((it, i) => !it || seen[i]), reach);

  const go = (to) => {
    setPlaying(false);
    setAt(Math.max(0, Math.min(to, last)));
  };
  useSettings(view, { step: [steps.map((_, i) => i + 1), go], request: [names, setChosen] });
  const play = () => {
    if (!playing && at === last) setAt(0);
    setPlaying(!playing);
  };
  const point = (request) => (event) => event.pointerType === "mouse" && setPointed(request);

  const room = Math.max(1, ...steps.flatMap((it) => it.tables.map((own) => own.length)));
  const used = owners.filter((it) => it.length).length;
  const shared = owners.filter((it) => it.length > 1).length;
  const read = step.fed.filter(Boolean).length;
  const queue = names.filter((_, request) => ["waiting", "preempted"].includes(state(request)));
  const before = at ? steps[at - 1] : { states: [] };
  const news = Object.entries(SAY.news)
    .map(([word, says]) => [names.filter((_, request) => state(request) === word && before.states[request] !== word), says])
    .filter(([who]) => who.length)
    .map(([who, [one, many]]) => filled(who.length > 1 ? many : one, { who: listed(who) }));

  const high = (it) => ownersOf(it, pages).filter((each) => each.length).length / pages;
  const bars = steps.map((it, i) => `M${i} 1v${(-high(it)).toFixed(3)}h1V1z`).join("");
  return (
    <>
      <div class="pages-choice">
        <button type="button" class="pages-play" onClick={play}>
          {playing ? SAY.stop : SAY.play}
        </button>
        <button type="button" onClick={() => go(at - 1)} disabled={at === 0}>
          {STEP.back}
        </button>
        <button type="button" onClick={() => go(at + 1)} disabled={at === last}>
          {STEP.next}
        </button>
        <label for={id}>
          {fill(STEP.step, { at: <strong class="view-number">{at + 1}</strong>, count: steps.length })}
        </label>
        <input id={id} type="range" min="1" max={steps.length} step="1" value={at + 1} onInput={(event) => go(Number(event.currentTarget.value) - 1)} />
      </div>
      <svg
        class="pages-time"
        viewBox={`0 0 ${steps.length} 1`}
        preserveAspectRatio="none"
        aria-hidden="true"
        onClick={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect();
          go(Math.floor(((event.clientX - left) / width) * steps.length));
        }}
      >
        <path class="pages-used" d={bars} />
        <rect class="pages-now" x={at} y="0" width="1" height="1" />
      </svg>
      <p class="view-soft pages-scale">{filled(SAY.time, { pages })}</p>
      <p class="pages-said" aria-live={playing ? "off" : "polite"}>
        {filled(SAY.said, {
          tokens: counted(SAY.tokens, step.fed.reduce((sum, count) => sum + count, 0)),
          requests: counted(SAY.requests, read),
          used: counted(SAY.pages, used),
          pages,
          shared,
          queue: queue.join(", ") || SAY.empty,
        })}{" "}
        {news.join(" ")}
      </p>

      <p class="pages-title">{SAY.grid}</p>
      <ul class="pages-grid" aria-label={filled(SAY.ofTokens, { pageLen })} onPointerLeave={point(null)}>
        {owners.map((who, page) => {
          const kept = !who.length && step.kept.includes(page);
          const mine = who.includes(own);
          return (
            <li
              key={page}
              class={`pages-page${who.length ? "" : " pages-free"}${mine ? " pages-mine" : ""}`}
              style={{ ...colour(who[0] ?? 0), ...(who.length > 1 && { "--other": colour(who[1])["--own"] }) }}
              data-shared={who.length > 1 || null}
              onPointerEnter={point(who.length ? who[0] : null)}
              onClick={() => who.length && setChosen(mine ? who[(who.indexOf(own) + 1) % who.length] : who[0])}
            >
              <span class="view-hidden">{SAY.page} </span>
              <span class="pages-number">{page}</span>
              <b>{who.length > 2 ? `${who.length} ×` : who.map((it) => names[it]).join(" ") || (kept ? SAY.kept : <span class="view-hidden">{SAY.free}</span>)}</b>
            </li>
          );
        })}
      </ul>

      <p class="view-soft pages-scale">
        {filled(steps.some((it) => it.kept.length) ? SAY.legendKept : SAY.legend, { tokens: counted(SAY.tokens, pageLen) })}{" "}
        {filled(SAY.real, REAL)}
      </p>

      <fieldset class="pages-requests">
        <legend class="pages-title">{SAY.choose}</legend>
        <div onPointerLeave={point(null)}>
          {names.map((name, request) => (
            <label key={name} class="pages-request" data-state={state(request)} style={colour(request)} onPointerEnter={point(request)}>
              <input type="radio" class="view-hidden" name={id} checked={request === chosen} onChange={() => setChosen(request)} />
              <span class="view-pick pages-name">{name}</span>
              <span>
                {SAY.states[state(request)] ?? SAY.notYet}
                {step.fed[request] > 0 && <span class="view-soft view-number"> +{step.fed[request]}</span>}
              </span>
            </label>
          ))}
        </div>
      </fieldset>

      <p class="pages-title">{filled(SAY.table, { name: names[own] })}</p>
      <ol class="pages-table" start={0} aria-label={filled(SAY.table, { name: names[own] })}>
        {table.map((page, i) => (
          <li key={i} class="pages-entry" style={colour(own)}>
            <span class="view-number view-soft">
              {filled(SAY.range, { from: i * pageLen, to: (i + 1) * pageLen - 1 })}
            </span>
            <span>
              {SAY.page} <b class="view-number">{page}</b>
              {owners[page].length > 1 && filled(SAY.with, { others: listed(owners[page].filter((it) => it !== own).map((it) => names[it])) })}
            </span>
          </li>
        ))}
        {Array.from({ length: room - Math.max(table.length, 1) }, (_, i) => <li key={-i} class="pages-filler" aria-hidden="true"><br /><br /></li>)}
        {!table.length && <li class="pages-entry pages-none">{SAY.none}</li>}
      </ol>
    </>
  );
}
Pages.style = style;
Pages.frame = {
  title: SAY.title,
  goal: ({ steps, pages }) => {
    const found = [
      steps.some((it) => isShared(it, pages)) && SAY.sharedGoal,
      steps.some(isPreempted) && SAY.preemptedGoal,
    ].filter(Boolean);
    return found.length > 0 && filled(SAY.goal, { found: found.join(SAY.and) });
  },
};
