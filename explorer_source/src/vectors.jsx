// Tokens as arrows in the plane: move them, and scores, weights and mix follow.
import { useRef, useState } from "preact/hooks";
import { ONOFF, useReached, useSettings } from "./frame.jsx";
import { softmax, unpack } from "./numbers.js";
import { ONE, TEMPERATURES, Temperature } from "./temperature.jsx";
import { VECTORS as SAY, fill, filled } from "./strings.js";
import style from "./vectors.css";

const MOVES = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
const STEP = 0.1;
// A handle at the edge of where tokens can go is seen whole.
const ROOM = 1.13;
const dot = ([a, b], [c, d]) => a * c + b * d;
// Minus signs of one width, and no "-0.000".
const show = (number, digits = 3) => (number.toFixed(digits) * 1).toFixed(digits).replace("-", "−");

export function Vectors({ words, axes, x, query, limit, reach: tick, view }) {
  const given = () => words.map((_, i) => unpack(x).slice(2 * i, 2 * i + 2));
  const [points, setPoints] = useState(given);
  const [asking, setAsking] = useState(query);
  const [active, setActive] = useState(query);
  const [heat, setHeat] = useState(ONE);
  const [scaled, setScaled] = useState(true);
  const [group] = useState(() => `vectors-${Math.random().toString(36).slice(2)}`);
  const plane = useRef();
  const reach = limit * ROOM;
  const grip = useRef(null);

  const temperature = TEMPERATURES[heat];
  const scores = points.map((point) => dot(points[asking], point));
  const divided = scores.map((score) => (scaled ? score / Math.SQRT2 : score));
  const heated = divided.map((score) => score / temperature);
  const weights = softmax(heated, null, 1);
  const best = weights.indexOf(Math.max(...weights));
  const [before] = useState(best);
  useReached(asking === query && best !== before && best !== query, tick);
  const places = Array.from({ length: 2 * Math.round(limit / STEP) + 1 }, (_, i) => +(i * STEP - limit).toFixed(1) + 0);
  const move = (axis) => [places, (at) => setPoints((old) => old.map((point, i) => (i === query ? point.map((old, j) => (j === axis ? places[at] : old)) : point)))];
  useSettings(view, {
    query: [words, setAsking],
    temperature: [TEMPERATURES, setHeat],
    divide: [ONOFF, (on) => setScaled(!!on)],
    across: move(0), // of the first query
    up: move(1),
  });
  const steps = [scaled && "÷ √2", temperature !== 1 && "÷ τ"].filter(Boolean).join(" ");
  const mix = [0, 1].map((axis) => weights.reduce((sum, weight, i) => sum + weight * points[i][axis], 0));

  const put = (i, [across, up]) => {
    const round = (at) => Math.max(-limit, Math.min(limit, Math.round(at / STEP) * STEP)) + 0;
    setActive(i);
    setPoints((old) => old.map((point, j) => (j === i ? [round(across), round(up)] : point)));
  };
  const under = (event) => {
    const { left, top, width, height } = plane.current.getBoundingClientRect();
    const [across, down] = [(event.clientX - left) / width, (event.clientY - top) / height];
    return [(2 * across - 1) * reach, (1 - 2 * down) * reach];
  };
  // Where handles lie on each other, the nearest is taken; of equals, the one in use.
  const grab = (event) => {
    if (event.button) return;
    const [across, up] = under(event);
    const far = points.map(([x, y], i) => Math.hypot(x - across, y - up) - (i === active) * 1e-9);
    const i = far.indexOf(Math.min(...far));
    const [x, y] = points[i];
    event.currentTarget.setPointerCapture(event.pointerId);
    grip.current = { i, across: x - across, up: y - up };
    plane.current.querySelectorAll(".vectors-handle")[i].focus({ preventScroll: true });
    setActive(i);
  };
  const drag = (event) => {
    if (!grip.current) return;
    const [across, up] = under(event);
    put(grip.current.i, [across + grip.current.across, up + grip.current.up]);
  };
  const drop = () => (grip.current = null);
  const press = (event, i) => {
    const move = MOVES[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const far = event.shiftKey ? 5 * STEP : STEP;
    put(i, [points[i][0] + far * move[0], points[i][1] + far * move[1]]);
  };
  const reset = () => {
    setPoints(given);
    setAsking(query);
    setActive(query);
    setHeat(ONE);
    setScaled(true);
  };

  return (
    <>
      <div class="vectors-controls">
        <fieldset>
          <legend>{SAY.query}</legend>
          {words.map((word, i) => (
            <label key={i}>
              <input type="radio" name={group} checked={i === asking} onChange={() => setAsking(i)} />
              {word}
            </label>
          ))}
        </fieldset>
        <Temperature name={SAY.temperature} heat={heat} choose={setHeat} />
        <label>
          <input type="checkbox" checked={scaled} onChange={(event) => setScaled(event.currentTarget.checked)} />
          {SAY.divide}
        </label>
        <button type="button" onClick={reset}>{SAY.reset}</button>
      </div>
      <div class="vectors-parts">
        <div>
          <div class="vectors-plane" ref={plane} onClick={(event) => put(active, under(event))}>
            <Picture {...{ points, mix, limit, reach, axes }} />
            {points.map((point, i) => (
              <div
                key={i}
                role="slider"
                tabIndex={0}
                class={`vectors-handle vectors-${i}${i === asking ? " vectors-query" : ""}`}
                style={{
                  left: `${50 + (50 * point[0]) / reach}%`,
                  top: `${50 - (50 * point[1]) / reach}%`,
                  zIndex: i === active ? 1 : 0,
                }}
                aria-label={i === asking ? filled(SAY.asking, { word: words[i] }) : words[i]}
                aria-valuemin={-limit}
                aria-valuemax={limit}
                aria-valuenow={+point[0].toFixed(2)}
                aria-valuetext={point.map((at, axis) => `${axes[axis]} ${show(at, 1)}`).join(", ")}
                onFocus={() => setActive(i)}
                onKeyDown={(event) => press(event, i)}
                onMouseDown={(event) => event.preventDefault()} // it would focus the one on top
                onPointerDown={grab}
                onPointerMove={drag}
                onPointerUp={drop}
                onPointerCancel={drop}
                onClick={(event) => event.stopPropagation()}
              >
                <span class={isBelow(point, i, limit) ? "vectors-below" : null} style={shift(point, limit)}>{words[i]}</span>
              </div>
            ))}
          </div>
          <p class="view-soft">
            {filled(SAY.hint, { word: words[active] })}
          </p>
        </div>
        <div class="vectors-numbers">
          <table class="view-table">
            <thead>
              <tr>
                <th scope="col">{SAY.key}</th>
                <th scope="col">{axes.join(", ")}</th>
                <th scope="col">{SAY.score}</th>
                <th scope="col">{steps || SAY.plain}</th>
                <th scope="col">{SAY.weight}</th>
              </tr>
            </thead>
            <tbody>
              {words.map((word, i) => (
                <tr key={i} class={i === active ? "vectors-active" : null}>
                  <th scope="row"><i class={`vectors-${i}`} />{word}</th>
                  <td>{points[i].map((at) => show(at, 1)).join(", ")}</td>
                  <td>{show(scores[i])}</td>
                  <td>{show(heated[i])}</td>
                  <td style={{ "--w": weights[i] }}>{show(weights[i])}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <p aria-live="polite" aria-atomic="true" class="vectors-said">
            {fill(SAY.said, {
              query: words[asking],
              key: words[best],
              weight: show(weights[best], 2),
              mix: <strong class="view-number">({mix.map((at) => show(at)).join(", ")})</strong>,
            })}
            <span aria-hidden="true"> ◆</span>
          </p>
        </div>
      </div>
    </>
  );
}
Vectors.style = style;
Vectors.frame = {
  title: SAY.title,
  goal: ({ words, query }) => filled(SAY.goal, { word: words[query] }),
};

// A word stays in the plane: at its upper edge below the handle, at the sides beside it.
const isBelow = ([, up], i, limit) => (Math.abs(up) > 0.75 * limit ? up > 0 : i % 2);
const shift = ([across], limit) => {
  const far = Math.max(0, Math.abs(across) / limit - 0.7) / 0.3;
  return { transform: `translateX(${-50 - 50 * far * Math.sign(across)}%)` };
};

// The grid, the arrows, and the mix as a dashed arrow that ends in a diamond.
function Picture({ points, mix, limit, reach, axes }) {
  const lines = Array.from({ length: 2 * limit + 1 }, (_, i) => i - limit);
  return (
    <svg viewBox={`${-reach} ${-reach} ${2 * reach} ${2 * reach}`} aria-hidden="true">
      {lines.map((at) => (
        <g key={at} class={at ? "vectors-grid" : "vectors-axis"}>
          <line x1={at} x2={at} y1={-reach} y2={reach} />
          <line y1={at} y2={at} x1={-reach} x2={reach} />
        </g>
      ))}
      <g style={{ fontSize: `${limit / 13}px` }}>
        <text x={reach * 0.98} y={reach * 0.08} text-anchor="end">{axes[0]} →</text>
        <text x={-reach * 0.03} y={-reach * 0.92} text-anchor="end">{axes[1]} ↑</text>
      </g>
      {points.map(([across, up], i) => (
        <line key={i} class={`vectors-arrow vectors-${i}`} x2={across} y2={-up} />
      ))}
      <g class="vectors-mix">
        <line x2={mix[0]} y2={-mix[1]} />
        <path d={diamond(mix, limit / 22)} />
      </g>
    </svg>
  );
}

const diamond = ([across, up], size) =>
  `M${across} ${-up - size}l${size} ${size}l${-size} ${size}l${-size} ${-size}z`;
