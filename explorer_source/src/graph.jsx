// What a recorded graph holds, and what it gives at other lengths: all found in Python.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { GRAPH as SAY, fill, filled } from "./strings.js";
import style from "./graph.css";

export function Graph({ program: first, at: firstAt, lengths, longest, programs, reach, view }) {
  const [chosen, choose] = useState(first);
  const [at, setAt] = useState(firstAt);
  const [run, setRun] = useState(lengths[firstAt]);
  const { steps, outcomes } = programs.find(({ name }) => name === chosen).graphs[at];
  useReached(!outcomes.includes("!") && outcomes.split("x").length === longest, reach);
  useSettings(view, {
    program: [programs.map(({ name }) => name), (i) => choose(programs[i].name)],
    at: [lengths, setAt],
    run: [[...outcomes].map((_, i) => i + 1), (i) => setRun(i + 1)],
  });
  const inWords = (count) => (count === 1 ? SAY.token : filled(SAY.tokens, { count }));
  const outcome = outcomes[run - 1];
  const most = Math.max(...programs.flatMap(({ graphs }) => graphs.map((it) => it.steps.length)));
  return (
    <>
      <div class="graph-choice">
        <label>
          <span>{SAY.program}</span>
          <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
            {programs.map(({ name, words }) => (
              <option key={name} value={name}>{words}</option>
            ))}
          </select>
        </label>
        <label>
          <span>{SAY.at}</span>
          <select value={at} onChange={(event) => setAt(Number(event.currentTarget.value))}>
            {lengths.map((length, index) => (
              <option key={length} value={index}>{inWords(length)}</option>
            ))}
          </select>
        </label>
        <label>
          <span>
            {SAY.run} <strong class="view-number">{inWords(run)}</strong>
          </span>
          <input type="range" min="1" max={longest} step="1" value={run} onInput={(event) => setRun(Number(event.currentTarget.value))} />
        </label>
      </div>
      <p class="graph-said" aria-live="polite">
        {fill(SAY.said, { tokens: inWords(run), outcome: <strong class={`graph-outcome graph-${names[outcome]}`}>{SAY[outcome]}</strong> })}
      </p>
      <p class="graph-strip view-number" role="img" aria-label={filled(SAY.strip, { longest }) + ": " + [...outcomes].join(" ")}>
        {[...outcomes].map((sign, index) => (
          <span key={index} class={`graph-${names[sign]}`} data-now={index + 1 === run}>{sign}</span>
        ))}
      </p>
      <p class="view-soft">{SAY.legend}</p>
      <p class="graph-holds">{SAY.holds}</p>
      <ol class="graph-steps view-number">
        {steps.map(({ name, frozen, shape }, index) => (
          <li key={index}>
            {name}
            {frozen.length > 0 && (
              <strong class="graph-frozen" title={SAY.frozen}> ({frozen.join(", ")})</strong>
            )}{" "}
            <span class="view-soft">
              {SAY.gives} ({shape.join(", ")})
            </span>
          </li>
        ))}
        {Array.from({ length: most - steps.length }, (_, index) => <li key={-index} class="graph-filler" aria-hidden="true">·</li>)}
      </ol>
    </>
  );
}

const names = { "=": "same", "!": "error", x: "wrong" };

Graph.style = style;
Graph.frame = { title: SAY.title, goal: SAY.goal };
