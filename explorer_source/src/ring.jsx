// Keys and values go round: who holds which, who computes what, and what was sent.
import { useEffect, useState } from "preact/hooks";
import { ONOFF, useReached, useSettings } from "./frame.jsx";
import { RING as SAY, STEP, fill, filled } from "./strings.js";
import style from "./ring.css";

const ORDERS = ["plain", "zigzag"];

// The text is cut into two pieces per process: who has which of them.
export const ownerOf = (piece, processes, order) =>
  order === "plain" ? Math.floor(piece / 2) : Math.min(piece, 2 * processes - 1 - piece);

// The pairs of one tile: all, those up to the diagonal, or none.
const pairs = (i, j, size, causal) => (!causal || j < i ? size * size : j === i ? (size * (size + 1)) / 2 : 0);

export function Ring({ processes, length, bytes, reach, view }) {
  const [order, setOrder] = useState("plain");
  const [causal, setCausal] = useState(true);
  const [at, setAt] = useState(0);
  const [idle, setIdle] = useState(false); // has the reader seen a process without work?
  const size = length / processes / 2;
  const pieces = Array.from({ length: 2 * processes }, (_, piece) => piece);
  const ranks = Array.from({ length: processes }, (_, rank) => rank);
  const owner = (piece) => ownerOf(piece, processes, order);
  const stepOf = (i, j) => (owner(i) - owner(j) + processes) % processes;
  const work = ranks.map((rank) =>
    ranks.map((step) =>
      pieces
        .filter((i) => owner(i) === rank)
        .flatMap((i) => pieces.filter((j) => stepOf(i, j) === step).map((j) => pairs(i, j, size, causal)))
        .reduce((sum, count) => sum + count, 0),
    ),
  );
  const now = work.map((steps) => steps[at]);
  const [most, least] = [Math.max(...now), Math.min(...now)];
  useEffect(() => {
    if (least === 0) setIdle(true);
  }, [least]);
  useReached(idle && causal && at > 0 && most === least, reach);
  useSettings(view, {
    order: [ORDERS, (i) => setOrder(ORDERS[i])],
    causal: [ONOFF, (on) => setCausal(!!on)],
    step: [ranks.map((rank) => rank + 1), setAt],
  });
  const state = (i, j) => (!pairs(i, j, size, causal) ? "never" : stepOf(i, j) === at ? "now" : stepOf(i, j) < at ? "done" : "later");
  const tokens = (rank) =>
    pieces
      .filter((piece) => owner(piece) === rank)
      .map((piece) => filled(SAY.tokens, { from: piece * size, to: (piece + 1) * size - 1 }))
      .join(SAY.and);
  return (
    <>
      <div class="ring-choice">
        <span class="ring-orders" role="group" aria-label={SAY.order}>
          {ORDERS.map((name) => (
            <button key={name} type="button" aria-pressed={name === order} onClick={() => setOrder(name)}>
              {SAY.orders[name]}
            </button>
          ))}
        </span>
        <label>
          <input type="checkbox" checked={causal} onChange={() => setCausal(!causal)} /> {SAY.causal}
        </label>
      </div>
      <div class="ring-choice view-sticky">
        <button type="button" onClick={() => setAt(Math.max(at - 1, 0))} aria-disabled={!at}>
          {STEP.back}
        </button>
        <button type="button" onClick={() => setAt(Math.min(at + 1, processes - 1))} aria-disabled={at === processes - 1}>
          {STEP.next}
        </button>
        <span role="status">{fill(STEP.step, { at: <strong class="view-number">{at + 1}</strong>, count: processes })}</span>
      </div>
      <p class="ring-said" aria-live="polite">
        {fill(SAY.said, {
          sent: <strong class="view-number">{at * bytes}</strong>,
          most: <strong class="view-number">{most}</strong>,
          least: <strong class="view-number">{least}</strong>,
        })}
      </p>
      <div class="ring-tables">
        <Circle {...{ processes, at, now }} />
        <table class="view-table ring-held" aria-label={SAY.heldTable}>
          <thead>
            <tr>
              {SAY.columns.map((name) => (
                <th key={name} scope="col">{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ranks.map((rank) => {
              const origin = (rank - at + processes) % processes;
              return (
                <tr key={rank} style={hue(rank)}>
                  <th scope="row">
                    <span class="ring-name">{rank}</span>
                  </th>
                  <td>
                    {filled(SAY.of, { origin })} <span class="view-soft">{tokens(origin)}</span>
                  </td>
                  <td class="ring-pairs">{work[rank][at]}</td>
                  <td class="ring-sum">{work[rank].slice(0, at + 1).reduce((sum, count) => sum + count, 0)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        <table class={`view-table ring-map view-number${processes > 5 ? " ring-many" : ""}`} aria-label={SAY.map}>
          <caption class="view-soft">{SAY.legend}</caption>
          <tbody>
            {pieces.map((i) => (
              <tr key={i} style={hue(owner(i))}>
                <th scope="row">
                  <span class="ring-name">{owner(i)}</span>
                </th>
                {pieces.map((j) => (
                  <td key={j} class={`ring-${state(i, j)}`}>
                    {state(i, j) === "never" ? <span class="view-hidden">{SAY.never}</span> : stepOf(i, j) + 1}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
Ring.frame = { title: SAY.title, goal: SAY.goal };
Ring.style = style;

const hue = (rank) => ({ "--own": (rank * 137.5 + 205) % 360 });

// Each process has its place on the ring; keys and values go one place further at each step.
function Circle({ processes, at, now }) {
  const place = (rank, far) => {
    const angle = 2 * Math.PI * (rank / processes - 0.25);
    return [far * Math.cos(angle), far * Math.sin(angle)];
  };
  const [arrowX, arrowY] = place(0.5, 62);
  return (
    <svg class="ring-circle" viewBox="-107 -107 214 214" aria-hidden="true">
      <circle class="ring-way" r="62" />
      {now.map((count, rank) => {
        const [x, y] = place(rank, 62);
        return (
          <g key={rank}>
            <path class="ring-way" d="M-4 -5l6 5l-6 5" transform={`rotate(${(360 * rank) / processes}) translate(${arrowX} ${arrowY}) rotate(${180 / processes})`} />
            <circle class="ring-process" data-idle={!count || null} style={hue(rank)} cx={x} cy={y} r="16" />
            <text x={x} y={y + 5}>{rank}</text>
          </g>
        );
      })}
      {now.map((_, origin) => (
        <g key={origin} class="ring-going" style={{ ...hue(origin), transform: `rotate(${(360 * (origin + at)) / processes}deg) translateY(-94px) rotate(${(-360 * (origin + at)) / processes}deg)` }}>
          <rect x="-11" y="-9" width="22" height="18" rx="3" />
          <text y="4">{origin}</text>
        </g>
      ))}
      <text class="ring-what" y="-4">{SAY.pieces[0]}</text>
      <text class="ring-what" y="12">{SAY.pieces[1]}</text>
    </svg>
  );
}
