// Bugs by their symptoms: choose one, read its program, and find the faulty line.
import { useEffect, useRef, useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { MUSEUM as SAY, filled } from "./strings.js";
import style from "./museum.css";

export function Museum({ bugs, tags, reach, view }) {
  const named = () => bugs.findIndex(({ id }) => `#${id}` === location.hash);
  const [tag, setTag] = useState(null);
  const [at, setAt] = useState(() => Math.max(0, named()));
  const [tried, setTried] = useState(null); // the number of the line that was chosen
  const [open, setOpen] = useState([]); // bugs whose fault is shown
  const [found, setFound] = useState([]); // bugs whose line the reader found
  const [id] = useState(() => `museum-${Math.random().toString(36).slice(2)}`);
  const [wide] = useState(() => matchMedia("(min-width: 501px)").matches);
  const [unfolded, setUnfolded] = useState(wide);
  const top = useRef();
  const page = document.querySelector(".bd-article"); // of the site: there each bug has an address
  useReached(found.length >= Math.min(3, bugs.length), reach);

  const shown = bugs.map((_, i) => i).filter((i) => !tag || bugs[i].tags.includes(tag));
  const bug = bugs[at];
  const isOpen = open.includes(at);
  const missing = bug.lines.every(([kind]) => kind !== "-"); // only a line is left out
  const go = (to) => {
    setAt(to);
    setTried(null);
    if (page) history.replaceState(null, "", `#${bugs[to].id}`);
  };
  useEffect(() => {
    const lead = () => {
      if (!page || named() < 0) return;
      setTag(null);
      go(named());
      top.current.scrollIntoView();
    };
    lead();
    addEventListener("hashchange", lead);
    return () => removeEventListener("hashchange", lead);
  }, []);
  const choose = (next) => {
    setTag(next);
    setUnfolded(wide);
    const first = bugs.findIndex((it) => !next || it.tags.includes(next));
    if (next && !bug.tags.includes(next)) go(first);
  };
  useSettings(view, {
    bug: [bugs.map(({ name }) => name), (i) => { setTag(null); go(i); }],
    symptom: [tags, (i) => choose(tags[i])],
  });
  const reveal = () => !isOpen && setOpen([...open, at]);
  const pick = (number) => {
    setTried(number);
    if (!bug.faulty.includes(number)) return;
    if (!isOpen) setFound([...found, at]);
    reveal();
  };
  // As many lines as the longest program with its answer, at as many letters a line as on a phone.
  const answers = bugs.map((it) => [
    ...it.lines.map(([, text]) => text.trim() || "."),
    `${SAY.belongs} ${SAY.shown} ${it.why}`,
    SAY.checks,
    ...it.checks.map((check) => `   ${check.join(": ")}`),
    SAY.source,
    it.source,
    "\n\n",
  ]);
  const lengthOf = (texts) => texts.reduce((sum, text) => sum + Math.ceil(text.length / 36), 0);
  const room = answers.reduce((most, it) => (lengthOf(it) > lengthOf(most) ? it : most)).join("\n");
  let number = 0;
  const lines = bug.lines.map(([kind, text]) => ({ kind, text, number: kind === "+" ? null : ++number }));
  const said = isOpen
    ? [
        tried && bug.faulty.includes(tried) ? filled(SAY.yes, { number: tried }) : SAY.shown,
        missing ? filled(SAY.belongs, { number: bug.faulty[0] }) : "",
        coded(bug.why),
      ].filter(Boolean).map((it) => [it, " "])
    : tried
      ? filled(SAY.no, { number: tried })
      : SAY.ask;
  return (
    <>
      <details class="museum-tags" open={unfolded} ref={top} onToggle={(event) => setUnfolded(event.currentTarget.open)}>
        <summary>
          <b>{SAY.symptom}</b> {tag ?? SAY.all}
        </summary>
        {[null, ...tags].map((it) => (
          <button key={it} type="button" aria-pressed={tag === it} onClick={() => choose(it)}>
            {it ?? SAY.all} <span class="view-soft">{it ? bugs.filter((own) => own.tags.includes(it)).length : bugs.length}</span>
          </button>
        ))}
      </details>
      <div class="museum-room">
        <label for={id}>{SAY.bugs}</label>
        <select id={id} value={at} onChange={(event) => go(Number(event.currentTarget.value))}>
          {shown.map((i) => (
            <option key={i} value={i}>
              {found.includes(i) ? "✓ " : ""}
              {bugs[i].name}
            </option>
          ))}
        </select>
        <button type="button" onClick={() => go(shown[(shown.indexOf(at) + 1) % shown.length])}>
          {SAY.next}
        </button>
        {page && <a href={`#${bug.id}`} aria-label={SAY.link} title={SAY.link}>#</a>}
      </div>
      <p class="museum-symptom">{coded(bug.symptom)}</p>
      <div class="view-room" data-room={room}>
        <div>
          <ol class="museum-code" tabIndex={0} aria-label={SAY.program}>
            {lines.map(({ kind, text, number: own }, i) => {
              if (kind === "+")
                return isOpen && (
                  <li key={`${at}-${i}`} class="museum-line" data-kind="mend">
                    <span class="museum-number" aria-hidden="true">+</span>
                    <span class="view-hidden">{SAY.mended}: </span>
                    <code style={{ "--indent": text.search(/\S|$/) }}>{text || " "}</code>
                  </li>
                );
              const bad = isOpen && kind === "-";
              const name = [filled(SAY.line, { number: own }), bad && SAY.faulty].filter(Boolean).join(", ");
              return (
                <li key={`${at}-${i}`} class="museum-line" data-kind={bad ? "bad" : null} data-tried={tried === own || null}>
                  <button type="button" disabled={isOpen || !text.trim()} aria-label={`${name}: ${text}`} onClick={() => pick(own)}>
                    <span class="museum-number view-number">{own}</span>
                    <code style={{ "--indent": text.search(/\S|$/) }}>{text || " "}</code>
                  </button>
                </li>
              );
            })}
          </ol>
          <p class="museum-said" aria-live="polite">
            {said}{" "}
            {!isOpen && (
              <button type="button" onClick={reveal}>
                {SAY.show}
              </button>
            )}
          </p>
          {isOpen && (
            <dl class="museum-facts">
              <dt>{SAY.checks}</dt>
              {bug.checks.map(([name, seen]) => (
                <dd key={name}>
                  <b>{name}</b>
                  {seen && `: ${seen}`}
                </dd>
              ))}
              <dt>{SAY.source}</dt>
              <dd>{bug.link ? <a href={bug.link}>{bug.source}</a> : bug.source}</dd>
            </dl>
          )}
        </div>
      </div>
    </>
  );
}
// "before `backward`" → its parts, of which every second one is code.
const coded = (text) => text.split("`").map((part, n) => (n % 2 ? <code>{part}</code> : part));

Museum.style = style;
Museum.frame = { title: SAY.title, goal: SAY.goal };
