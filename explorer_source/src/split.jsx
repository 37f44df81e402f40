// Numbered cells through view and transpose, step by step, beside a wrapper's heads.
import { useState } from "preact/hooks";
import { useReached, useSettings } from "./frame.jsx";
import { walk } from "./walk.js";
import { SPLIT as SAY, STEP, fill, filled } from "./strings.js";
import style from "./split.css";

export function Split({ cells, viewed, split, mistake, wrapper, reach, view }) {
  const [wrong, setWrong] = useState(false);
  const [step, setStep] = useState(0);
  const [followed, setFollowed] = useState(cells[0][0]);
  const [group] = useState(() => `split-${Math.random().toString(36).slice(2)}`);

  const [length, width, heads] = [cells.length, cells[0].length, split.length];
  const size = width / heads;
  const shape = (...axes) => `(1, ${axes.join(", ")})`;
  // Where a number comes from: its token, its head.
  const token = (number) => cells.findIndex((row) => row.includes(number));
  const head = (number) => Math.floor(cells[token(number)].indexOf(number) / size);
  const cut = {
    title: `view: ${shape(length, heads, size)}`,
    code: `x.view(1, ${length}, ${heads}, ${size})`,
    says: SAY.cut,
    blocks: viewed.map((block, t) => [filled(SAY.token, { n: t + 1 }), block, (h) => filled(SAY.head, { n: h })]),
  };
  const steps = [
    { title: `x: ${shape(length, width)}`, code: "x", says: SAY.rows, blocks: [["", cells, (t) => filled(SAY.token, { n: t + 1 })]] },
    ...(wrong
      ? [{
          title: `view: ${shape(heads, length, size)}`,
          code: `x.view(1, ${heads}, ${length}, ${size})`,
          says: astray(mistake, head),
          blocks: mistake.map((block, h) => [filled(SAY.head, { n: h }), block, (row) => filled(SAY.row, { n: row })]),
        }]
      : [
          cut,
          {
            title: `transpose: ${shape(heads, length, size)}`,
            code: `x.view(1, ${length}, ${heads}, ${size}).transpose(1, 2)`,
            says: SAY.turned,
            blocks: split.map((block, h) => [filled(SAY.head, { n: h }), block, (t) => filled(SAY.token, { n: t + 1 })]),
          },
        ]),
  ];
  const at = Math.min(step, steps.length - 1);
  const last = at === steps.length - 1;
  const strayed = wrong && last && mistake[head(followed)].every((row) => !row.includes(followed));
  useReached(strayed, reach);
  const choose = (value) => {
    setWrong(value);
    setStep(value ? 1 : 2);
  };
  useSettings(view, {
    way: [["right", "mistake"], (at) => choose(!!at)],
    step: [[1, 2, 3], setStep],
    number: [cells.flat(), (at) => setFollowed(cells.flat()[at])],
  });
  const grid = { token, head, followed, setFollowed };
  const rowOf = (blocks) => {
    for (const [name, block, label] of blocks) {
      const row = block.findIndex((line) => line.includes(followed));
      if (row >= 0) return [name, label(row)].filter(Boolean).join(", ");
    }
  };

  return (
    <>
      <div class="split-controls view-sticky">
        <fieldset>
          <legend class="view-hidden">{SAY.ways}</legend>
          {[[false, SAY.right], [true, SAY.mistake]].map(([value, name]) => (
            <label key={name}>
              <input type="radio" name={group} checked={wrong === value} onChange={() => choose(value)} />
              {name}
            </label>
          ))}
        </fieldset>
        <div class="split-steps">
          <button type="button" aria-disabled={!at} onClick={() => setStep(Math.max(at - 1, 0))}>{STEP.back}</button>
          <span>{filled(STEP.step, { at: at + 1, count: steps.length })}</span>
          <button type="button" aria-disabled={last} onClick={() => setStep(Math.min(at + 1, steps.length - 1))}>{STEP.next}</button>
        </div>
      </div>
      <div class="split-now" aria-live="polite" aria-atomic="true">
        <p class="split-code"><code>{steps[at].code}</code></p>
        <p>{steps[at].says}</p>
      </div>
      {/* What comes later has its room from the start, and so has what the mistake leaves out. */}
      {steps.slice(0, -1).map((part, i) => <Part key={part.title} later={i > at} {...part} {...grid} />)}
      <div class={last ? "" : "split-later"}>
        <div class="split-pair">
          <Part {...steps.at(-1)} {...grid} />
          <Part
            title={filled(SAY.wrapper, { heads, shape: shape(length, size) })}
            blocks={wrapper.map((block, h) => [filled(SAY.head, { n: h }), block, (t) => filled(SAY.token, { n: t + 1 })])}
            {...grid}
          />
        </div>
        <p class="split-verdict">
          {JSON.stringify(steps.at(-1).blocks.map(([, block]) => block)) === JSON.stringify(wrapper) ? SAY.same : SAY.other}
        </p>
      </div>
      <p class="split-said" aria-live="polite" aria-atomic="true">
        {fill(SAY.stands, {
          number: <strong class="view-number">{followed}</strong>,
          token: token(followed) + 1,
          head: head(followed),
          row: rowOf(steps[at].blocks),
        })}
      </p>
      <p class="view-soft">{SAY.hint}</p>
      {wrong && <Part later {...cut} {...grid} />}
    </>
  );
}
Split.style = style;
Split.frame = {
  title: SAY.title,
  goal: SAY.goal,
};

// One step: its blocks beside each other. One cell of each block is in the tab order.
function Part({ title, blocks, later, token, head, followed, setFollowed }) {
  return (
    <section class={`split-part${later ? " split-later" : ""}`}>
      <p class="split-title">{title}</p>
      <div class="split-blocks">
        {blocks.map(([name, block, label], at) => {
          const open = block.flat().includes(followed) ? followed : block[0][0];
          return (
            <table key={at} class="view-table split-table" aria-label={name || title} onKeyDown={walk}>
              {name && <caption>{name}</caption>}
              <tbody>
                {block.map((line, row) => (
                  <tr key={row}>
                    <th scope="row">{label(row)}</th>
                    {line.map((number) => {
                      const foreign = name === filled(SAY.head, { n: at }) && head(number) !== at;
                      return (
                        <td
                          key={number}
                          tabIndex={number === open ? 0 : -1}
                          class={`split-${token(number)}${number === followed ? " split-here" : ""}${foreign ? " split-foreign" : ""}`}
                          style={{ "--s": head(number) % 2 ? 0.55 : 0.2 }}
                          onFocus={() => setFollowed(number)}
                          onPointerOver={(event) => event.pointerType === "mouse" && setFollowed(number)}
                          onClick={() => setFollowed(number)}
                        >
                          {number}
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          );
        })}
      </div>
    </section>
  );
}

// How many numbers of other heads each head holds.
function astray(blocks, head) {
  const held = blocks.map((block, h) => {
    const numbers = block.flat();
    return filled(SAY.strayed, { count: numbers.filter((number) => head(number) !== h).length, all: numbers.length, head: h });
  });
  return filled(SAY.astray, { held: held.join(SAY.and) });
}
