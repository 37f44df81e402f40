// A translation that is written word by word. Before each word the reader says which word
// of the source it will look at; then its row of weights appears.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { labels, unpack } from "./numbers.js";
import { ALIGN as SAY, filled } from "./strings.js";
import { walk } from "./walk.js";
import style from "./align.css";

const WANTED = 5;
const BEGUN = 2; // rows that show at the start what one sees
// Enough words are left to find.
const begun = ({ written }) => Array(Math.max(0, Math.min(BEGUN, written.length - WANTED))).fill(null);
const best = (row) => row.indexOf(Math.max(...row));

export function Align({ sentences, reach, view }) {
  const [chosen, setChosen] = useState(0);
  const [guesses, setGuesses] = useState(begun(sentences[0])); // a column for each written word, null for none
  const body = useRef();
  const { written, read, weights } = sentences[chosen];
  const packed = unpack(weights);
  const rows = written.map((_, i) => packed.slice(i * read.length, (i + 1) * read.length));
  const names = labels(read);
  const next = guesses.length;
  const done = next === written.length;
  const right = guesses.filter((guess, i) => guess === best(rows[i])).length;
  useReached(right >= WANTED, reach);

  const restart = (sentence) => {
    setChosen(sentence);
    setGuesses(begun(sentences[sentence]));
  };
  useSettings(view, {
    sentence: [sentences.map(({ name }) => name), restart],
    shown: [[0, ...written.map((_, i) => i + 1)], (count) => setGuesses(Array(count).fill(null))],
  });
  // The button that was pressed is gone: its neighbour in the next row takes over.
  const column = useRef(null);
  useLayoutEffect(() => {
    if (column.current !== null) body.current.querySelectorAll(".align-next button")[column.current]?.focus({ preventScroll: true });
    column.current = null;
  }, [next]);
  const guess = (place) => {
    column.current = place;
    setGuesses([...guesses, place]);
  };

  return (
    <>
      <div class="align-choice">
        <label>
          {SAY.sentence}{" "}
          <select value={chosen} onChange={(event) => restart(+event.currentTarget.value)}>
            {sentences.map(({ name }, i) => <option key={i} value={i}>{name}</option>)}
          </select>
        </label>
      </div>
      <p class="align-said" aria-live="polite">
        {next > 0 && `${filled(SAY.written, { word: written[next - 1] })} ${say(rows[next - 1], names, guesses[next - 1])} `}
        {done ? filled(SAY.done, { right, all: written.length - begun(sentences[chosen]).length }) : SAY.ask}
      </p>
      <div class="align-scroll">
        <table class="view-table align-map" aria-label={SAY.table}>
          <thead>
            <tr>
              <td></td>
              {read.map((word, j) => <th key={j} scope="col"><span>{word}</span></th>)}
            </tr>
          </thead>
          <tbody ref={body} onKeyDown={walk}>
            {rows.map((row, i) => (
              <tr key={i} class={i === next ? "align-next" : null}>
                <th scope="row">{i < next ? written[i] : i === next ? SAY.next : "·"}</th>
                {row.map((weight, j) => (
                  <td key={j} style={i < next ? { "--w": weight } : null}>
                    {i === next && <button type="button" aria-label={filled(SAY.guess, { word: names[j] })} onClick={() => guess(j)}>?</button>}
                    {i < next && <span class="view-hidden">{weight.toFixed(3)}</span>}
                    {i < next && guesses[i] === j && <span aria-hidden="true">{j === best(row) ? "✓" : "✗"}</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="align-choice">
        <button type="button" aria-disabled={done} onClick={() => done || setGuesses([...guesses, null])}>{SAY.show}</button>
        <button type="button" onClick={() => restart(chosen)}>{SAY.again}</button>
      </div>
      <p class="view-soft">{SAY.legend}</p>
    </>
  );
}
Align.style = style;
Align.frame = {
  title: SAY.title,
  goal: filled(SAY.goal, { wanted: WANTED }),
};

function say(row, names, guess) {
  const most = best(row);
  const found = filled(SAY.found, { weight: row[most].toFixed(2), word: names[most] });
  if (guess === null) return found;
  return filled(guess === most ? SAY.right : SAY.wrong, { guess: names[guess], found });
}
