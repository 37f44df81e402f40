// Attention weights: a map to walk through, its heads and layers, one query's row in
// numbers. With scores, the mask and the temperature are the reader's.
import { useMemo, useState } from "preact/hooks";
import { ONOFF, useLinked, useReached, useSettings } from "./frame.jsx";
import { Grid } from "./grid.jsx";
import { Heads, headName } from "./heads.jsx";
import { labels, softmax, unpack } from "./numbers.js";
import { ONE, TEMPERATURES, Temperature } from "./temperature.jsx";
import { MAP, WEIGHTS as SAY, filled } from "./strings.js";
import style from "./weights.css";

export function Weights({ sentences, first = [0, 0], goal, reach, view }) {
  const [chosen, setChosen] = useState(0);
  const [head, setHead] = useState(first[0]);
  const [masked, setMasked] = useState(true);
  const [heat, setHeat] = useState(ONE);
  const [place, setPlace] = useState({ row: first[1], column: 0, held: false, isNew: true });

  const sentence = useMemo(() => read(sentences[chosen]), [sentences, chosen]);
  const { queries, keys, layers, heads, scores } = sentence;
  const temperature = TEMPERATURES[heat];
  const maps = useMemo(() => compute(sentence, masked, temperature), [sentence, masked, temperature]);
  // Another sentence may have fewer heads or words.
  const at = Math.min(head, maps.length - 1);
  const row = Math.min(place.row, queries.length - 1);
  const column = Math.min(place.column, keys.length - 1);
  const map = maps[at];
  const allowed = masked ? maskOf(sentence, at) : null;
  useReached(!!goal && row === goal.row && map[row][goal.column] >= goal.least, reach);
  const tell = useLinked((word) => !place.held && queries.includes(word) && setPlace({ ...place, row: queries.indexOf(word) }));
  const point = (next) => {
    setPlace(next);
    tell(queries[next.row]);
  };
  useSettings(view, {
    sentence: [sentences.map(({ name }) => name), setChosen],
    head: [maps.map((_, i) => `${Math.floor(i / heads) + 1}.${(i % heads) + 1}`), setHead],
    mask: [ONOFF, (on) => setMasked(!!on)],
    temperature: [TEMPERATURES, setHeat],
    query: [sentence.queryLabels, (i) => setPlace((now) => ({ ...now, row: i, held: true }))],
  });
  const top = Math.max(1e-9, ...map.map((weights) => Math.max(...weights)));

  return (
    <>
      <div class="weights-controls">
        {sentences.length > 1 && (
          <label>
            {SAY.sentence}{" "}
            <select value={chosen} onChange={(event) => setChosen(+event.currentTarget.value)}>
              {sentences.map(({ name }, i) => <option key={i} value={i}>{name}</option>)}
            </select>
          </label>
        )}
        {scores && sentence.masks && (
          <label class="weights-check">
            <input type="checkbox" checked={masked} onChange={(event) => setMasked(event.currentTarget.checked)} />
            {SAY.mask}
          </label>
        )}
        {scores && (
          <Temperature name={MAP.temperature} heat={heat} choose={setHeat} />
        )}
      </div>
      {maps.length > 1 && <Heads layers={layers} heads={heads} maps={maps} chosen={at} choose={setHead} />}
      <p class="weights-said" aria-live="polite" aria-atomic="true">
        {maps.length > 1 && <strong>{capital(headName(at, layers, heads))}. </strong>}
        {say(sentence, row, map[row])}
      </p>
      <p class="weights-words" aria-hidden="true">
        {keys.map((word, i) => (
          <span key={i} class={sentence.same && i === row ? "weights-query" : null} style={{ "--w": map[row][i] / top }}>
            {word}
          </span>
        ))}
      </p>
      <div class="weights-pair">
        <Grid
          name={filled(maps.length > 1 ? SAY.weightsOf : SAY.weights, { head: headName(at, layers, heads) })}
          {...{ sentence, map, allowed, top, row, column, held: place.held, setPlace: point }}
        />
        <Row sentence={sentence} weights={map[row]} allowed={allowed?.[row]} row={row} column={place.isNew ? null : column} />
      </div>
      <p class="view-soft weights-hint">
        {place.held
          ? SAY.held
          : SAY.hint}
      </p>
    </>
  );
}
Weights.style = style;
Weights.frame = { title: SAY.title };

const FEW = 12; // keys whose weights are all listed

// The chosen query's numbers. Of many, the largest and the one that is pointed at.
function Row({ sentence, weights, allowed, row, column }) {
  const { keys, keyLabels, queryLabels } = sentence;
  const isLong = keys.length > FEW;
  const places = keys.map((_, i) => i);
  const best = [...places].sort((a, b) => weights[b] - weights[a]).slice(0, 6);
  if (column !== null && !best.includes(column)) best[5] = column;
  return (
    <div class="weights-numbers">
      <p class="weights-title">{filled(isLong ? SAY.largest : SAY.query, { query: queryLabels[row] })}</p>
      <ul class="weights-row">
        {(isLong ? best : places).map((i) => (
          <li key={i} class={i === column ? "weights-here" : null}>
            <span class="weights-word">{isLong ? keyLabels[i] : keys[i]}</span>
            <span class="weights-bar"><span style={{ width: `${100 * weights[i]}%` }} /></span>
            <span class="view-number">{!allowed || allowed[i] ? weights[i].toFixed(3) : SAY.hidden}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function say(sentence, row, weights) {
  const best = weights
    .map((weight, i) => [weight, sentence.keyLabels[i]])
    .filter(([weight]) => weight >= 0.005)
    .sort(([a], [b]) => b - a)
    .slice(0, 3)
    .map(([weight, word]) => `${word} ${weight.toFixed(2)}`);
  return filled(best.length ? SAY.looks : SAY.nothing, { query: sentence.queryLabels[row], best: best.join(MAP.between) });
}

// What Python sent, as arrays: maps are [head][query][key], layer after layer.
function read({ queries, keys = queries, layers, heads, weights, scores, masks }) {
  const sentence = {
    queries,
    keys,
    layers,
    heads,
    same: keys === queries,
    queryLabels: labels(queries),
    keyLabels: labels(keys),
    masks: masks?.map((text) => cut([...text].map((sign) => sign === "x"), keys.length)),
  };
  if (scores) return { ...sentence, scores: split(unpack(scores), queries.length, keys.length) };
  const packed = unpack(weights);
  let next = 0; // what the mask hides was left out
  const stored = Array.from({ length: layers * heads }, (_, head) =>
    queries.map((_, i) => keys.map((_, j) => (maskOf(sentence, head)?.[i][j] ?? true ? packed[next++] : 0))),
  );
  return { ...sentence, stored };
}

// One mask may serve all heads.
function maskOf({ masks }, head) {
  return masks ? masks[head % masks.length] : null;
}

function compute(sentence, masked, temperature) {
  return (
    sentence.stored ??
    sentence.scores.map((scores, head) => {
      const mask = masked ? maskOf(sentence, head) : null;
      return scores.map((row, i) => softmax(row, mask?.[i], temperature));
    })
  );
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const cut = (list, size) =>
  Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size));
const split = (list, rows, columns) => cut(cut(list, columns), rows);
