// A training run to move through: the loss, the weights and a sample at each snapshot.
import { useEffect, useRef, useState } from "preact/hooks";
import { useLinked, useReached, useSettings } from "./frame.jsx";
import { labels, unpack } from "./numbers.js";
import { SNAPSHOTS as SAY, fill, filled, own } from "./strings.js";
import style from "./snapshots.css";
import { walk } from "./walk.js";

const [WIDE, HIGH] = [600, 120];
const HALF = "\ufffd"; // stands for bytes that are no letter

export function Snapshots({ words, heads, steps, queries, weights, samples, measured, losses, every, reach, view }) {
  const [at, setAt] = useState(0);
  const [asked, setAsked] = useState(0);
  const [place, setPlace] = useState(null); // a head and a word that are pointed at
  const [id] = useState(() => `snapshots-${Math.random().toString(36).slice(2)}`);
  // On a phone the map goes on to the right, and shows that it does.
  const box = useRef();
  const [more, setMore] = useState(false);
  const edge = () => setMore(box.current.scrollLeft + box.current.clientWidth < box.current.scrollWidth - 1);
  useEffect(() => {
    const watch = new ResizeObserver(edge);
    for (const element of [box.current, box.current.firstChild]) watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const [name, row, key] = queries[asked];
  const keys = words.slice(0, row + 1);
  const map = (step) => {
    const numbers = unpack(weights[step][asked]);
    return heads.map((_, h) => numbers.slice(h * (row + 1), (h + 1) * (row + 1)));
  };
  const now = map(at);
  const on = (step) => Math.max(...map(step).map((line) => line[key]));
  const goal = steps.findIndex((_, step) => on(step) >= 0.5);
  useReached(at === goal && at > 0, reach);
  useSettings(view, { step: [steps, setAt], query: [queries.map(([text]) => text), setAsked] });
  const best = now.reduce((most, line, h) => (line[key] > now[most][key] ? h : most), 0);

  const held = unpack(measured);
  const curve = unpack(losses);
  const end = Math.max(steps.at(-1), curve.length * every);
  const top = Math.max(...curve, ...held);
  const x = (step) => (WIDE * step) / end;
  const y = (loss) => HIGH - (HIGH * loss) / top;
  const line = curve.map((loss, i) => `${x((i + 0.5) * every).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
  const shown = labels(keys);
  // The word that another view points at; of one that comes twice, the last.
  const [heard, hear] = useState(null);
  const tell = useLinked(hear);
  const point = (h, j) => {
    setPlace([h, j]);
    tell(words.lastIndexOf(words[j]) === j ? words[j] : null);
  };
  const leave = () => {
    setPlace(null);
    tell(null);
  };
  const [down, across] = place && place[1] <= row ? place : [best, key]; // in the tab order

  return (
    <>
      <div class="snapshots-slide view-sticky">
        <label for={id}>{fill(SAY.training, { step: <strong class="view-number">{steps[at]}</strong> })}</label>
        <input
          id={id}
          type="range"
          min="0"
          max={steps.length - 1}
          value={at}
          aria-valuetext={filled(SAY.step, { step: steps[at] })}
          onInput={(event) => setAt(+event.currentTarget.value)}
        />
        <span class="view-number">{filled(SAY.loss, { loss: held[at].toFixed(2) })}</span>
      </div>
      <svg class="snapshots-curve" viewBox={`-4 -8 ${WIDE + 8} ${HIGH + 12}`} preserveAspectRatio="none" aria-hidden="true"
        onClick={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect();
          const step = ((event.clientX - left) / width) * end;
          setAt(steps.reduce((near, s, i) => (Math.abs(s - step) < Math.abs(steps[near] - step) ? i : near), 0));
        }}>
        <line class="snapshots-axis" x1="0" x2={WIDE} y1={HIGH} y2={HIGH} />
        <polyline points={line} />
        <line class="snapshots-now" x1={x(steps[at])} x2={x(steps[at])} y1="-8" y2={HIGH} />
      </svg>
      <p class="view-soft snapshots-scale"><span>{filled(SAY.begin, { top: top.toFixed(1) })}</span><span>{filled(SAY.step, { step: end })}</span></p>
      <p class="snapshots-sample"><span class="view-soft">{SAY.story} </span>{samples[at].replaceAll(HALF, "·")}{samples.some((it) => it.includes(HALF)) && <span class="view-soft"> {SAY.half}</span>}</p>
      <fieldset class="snapshots-asked">
        <legend>{SAY.asked}</legend>
        {queries.map(([text], i) => (
          <label key={text}>
            <input type="radio" name={`${id}-asked`} checked={i === asked} onChange={() => setAsked(i)} />
            {own(text)}
          </label>
        ))}
      </fieldset>
      <div class="snapshots-edge" data-more={more}>
        <div class="snapshots-scroll" role="group" aria-label={SAY.weights} ref={box} onScroll={edge}>
          <table aria-label={filled(SAY.table, { query: words[row] })} onKeyDown={walk} onPointerLeave={leave}>
            <thead>
              <tr>
                <td />
                {keys.map((word, j) => (
                  <th key={j} scope="col" class={`${j === key ? "snapshots-answer" : ""}${heard && j === keys.lastIndexOf(heard) ? " snapshots-heard" : ""}`}><span>{word}</span></th>
                ))}
              </tr>
            </thead>
            <tbody>
              {now.map((numbers, h) => (
                <tr key={h}>
                  <th scope="row">{heads[h]}</th>
                  {numbers.map((weight, j) => (
                    <td
                      key={j}
                      tabIndex={h === down && j === across ? 0 : -1}
                      style={{ "--w": weight }}
                      aria-label={weight.toFixed(2)}
                      onFocus={() => point(h, j)}
                      onPointerEnter={() => point(h, j)}
                      onClick={() => point(h, j)}
                    />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <p class="snapshots-said" aria-live="polite" aria-atomic="true">
        {place && place[1] <= row
          ? filled(SAY.gives, { head: heads[place[0]], weight: now[place[0]][place[1]].toFixed(2), word: shown[place[1]] })
          : filled(SAY.finds, { name: own(name), query: words[row], key: words[key], head: heads[best], weight: now[best][key].toFixed(2) })}
      </p>
    </>
  );
}
Snapshots.style = style;
Snapshots.frame = {
  title: SAY.title,
  goal: ({ queries, weights }) => {
    const found = ([, row, key], i) => weights.some((step) => unpack(step[i]).some((weight, at) => at % (row + 1) === key && weight >= 0.5));
    const [name] = queries.find(found) ?? [];
    return name && filled(SAY.goal, { name: own(name) });
  },
};
