// One pair of a query and of a key, turned by their positions: the score knows the offset.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { unpack } from "./numbers.js";
import { ROPE as SAY, fill, filled } from "./strings.js";
import style from "./rope.css";

const KEPT = 4; // how many earlier scores stay in view
const minus = (text) => text.replace("-", "−");
// No "-0.000".
const show = (number, digits = 3) => minus((number.toFixed(digits) * 1).toFixed(digits));

function turn([x, y], angle) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return [x * cos - y * sin, y * cos + x * sin];
}

export function Rope({ pairs, words, speeds, positions, longest, reach, view }) {
  const [places, setPlaces] = useState(positions);
  const [chosen, setChosen] = useState(0);
  const [seen, setSeen] = useState([]);
  const given = pairs.map(unpack);
  const measure = (at, speed) => {
    const [q, k] = given.map((pair, i) => turn(pair, speed * at[i]));
    return q[0] * k[0] + q[1] * k[1];
  };
  const speed = speeds[chosen][1];
  const turned = given.map((pair, i) => turn(pair, speed * places[i]));
  const score = measure(places, speed);
  const offset = places[0] - places[1];

  const kept = offset === positions[0] - positions[1] && places[0] !== positions[0];
  useReached(kept, reach);

  const go = (next) => {
    const line = { places, offset, score };
    setSeen([line, ...seen.filter((old) => old.places.join() !== places.join())].slice(0, KEPT));
    setPlaces(next);
  };
  const choose = (i) => {
    setChosen(i);
    setSeen([]);
  };
  const all = Array.from({ length: longest + 1 }, (_, at) => at);
  useSettings(view, {
    frequency: [speeds.map(([name]) => name), choose],
    query: [all, (at) => setPlaces(([, key]) => [at, key])],
    key: [all, (at) => setPlaces(([query]) => [query, at])],
  });
  const least = Math.min(...places);
  const slider = (name, value, [min, max], move) => (
    <label>
      <span>{name}</span>
      <input type="range" min={min} max={max} value={value} onInput={(event) => move(+event.currentTarget.value)} />
      <output>{value}</output>
    </label>
  );
  const rows = [{ places, offset, score }, ...seen.filter((old) => old.places.join() !== places.join())];

  return (
    <>
      <div class="rope-speeds" role="group" aria-label={SAY.speed}>
        {speeds.map(([name], i) => (
          <button key={name} type="button" aria-pressed={i === chosen} onClick={() => choose(i)}>
            {name}
          </button>
        ))}
      </div>
      <div class="rope-parts">
        <Picture {...{ given, turned, words }} />
        <div>
          <div class="rope-sliders">
            {slider(filled(SAY.query, { word: words[0] }), places[0], [0, longest], (at) => go([at, places[1]]))}
            {slider(filled(SAY.key, { word: words[1] }), places[1], [0, longest], (at) => go([places[0], at]))}
            {slider(SAY.both, least, [0, longest - Math.abs(offset)], (at) =>
              go(places.map((place) => place - least + at)),
            )}
          </div>
          <p class="rope-said" aria-live="polite" aria-atomic="true">
            {fill(SAY.said, { offset: minus(`${offset}`), score: <strong>{show(score)}</strong> })}
          </p>
          <div class="rope-kept"><table class="view-table rope-table" aria-label={SAY.table}>
            <thead>
              <tr>
                <th scope="col">{filled(SAY.at, { word: words[0] })}</th>
                <th scope="col">{filled(SAY.at, { word: words[1] })}</th>
                <th scope="col">{SAY.offset}</th>
                <th scope="col">{SAY.score}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row, i) => (
                <tr key={row.places.join()} class={[!i && "rope-now", row.offset === offset && "rope-same"].filter(Boolean).join(" ")}>
                  <td>{row.places[0]}</td>
                  <td>{row.places[1]}</td>
                  <td>{minus(`${row.offset}`)}</td>
                  <td>{show(row.score)}</td>
                </tr>
              ))}
            </tbody>
          </table></div>
        </div>
      </div>
    </>
  );
}
Rope.style = style;
Rope.frame = { title: SAY.title, goal: SAY.goal };

// Faint: before turning. The circles are the ways of the two tips.
function Picture({ given, turned, words }) {
  const lengths = given.map((pair) => Math.hypot(...pair));
  const reach = Math.max(...lengths) * 1.25;
  const unit = reach / 14;
  // From the key to the query, the short way round.
  const [to, from] = turned.map(([x, y]) => Math.atan2(y, x));
  const angle = Math.atan2(Math.sin(to - from), Math.cos(to - from));
  const at = (far, where) => `${far * Math.cos(where)} ${-far * Math.sin(where)}`;
  const [x, y] = at(4.4 * unit, from + angle / 2).split(" ");
  return (
    <svg class="rope-picture" viewBox={`${-reach} ${-reach} ${2 * reach} ${2 * reach}`} aria-hidden="true">
      <line class="rope-axis" x1={-reach} x2={reach} />
      <line class="rope-axis" y1={-reach} y2={reach} />
      <path class="rope-angle" d={`M${at(3 * unit, from)}A${3 * unit} ${3 * unit} 0 0 ${angle > 0 ? 0 : 1} ${at(3 * unit, to)}`} />
      <text class="rope-degrees" x={x} y={+y + unit / 3} style={{ fontSize: `${unit}px` }}>{Math.round(Math.abs(angle) * 57.2958)}°</text>
      {given.map(([x, y], i) => (
        <g key={i} class={`rope-${i}`}>
          <circle class="rope-way" r={lengths[i]} />
          <line class="rope-before" x2={x} y2={-y} />
          <line class="rope-arrow" x2={turned[i][0]} y2={-turned[i][1]} />
          <circle class="rope-tip" cx={turned[i][0]} cy={-turned[i][1]} r={unit / 2.6} />
          <text
            x={turned[i][0] * (1 + (1.6 * unit) / lengths[i])}
            y={-turned[i][1] * (1 + (1.6 * unit) / lengths[i]) + unit / 3}
            style={{ fontSize: `${unit * 1.15}px` }}
          >
            {words[i]}
          </text>
        </g>
      ))}
    </svg>
  );
}
