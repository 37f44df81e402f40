// A call as code, lines of which can be changed, and which kernel then runs.
import { useState } from "preact/hooks";
import { ONOFF, useReached, useSettings } from "./frame.jsx";
import { KERNELS as SAY, fill, filled } from "./strings.js";
import style from "./kernels.css";

export function Kernels({ program, kinds, found, reach, view }) {
  const switches = program.map(([name]) => name).filter(Boolean);
  const [on, setOn] = useState(switches.map(() => false));
  const turn = (i) => [ONOFF, (on) => setOn((now) => now.map((old, j) => (j === i ? !!on : old)))];
  useSettings(view, Object.fromEntries(switches.map((name, i) => [name, turn(i)])));
  const kernel = (chosen) => kinds[found[parseInt(chosen.map(Number).join(""), 2)]];
  const best = kinds[0]; // that of the call as it is at first
  const now = kernel(on);
  const count = on.filter(Boolean).length;
  useReached(now === best && count >= 3, reach);
  const slow = switches.filter((_, i) => on[i] && now !== best);
  // Which single line, changed back, would bring the first kernel back? Where none does,
  // those to blame are the ones that would each be too much alone.
  const back = slow.filter((name) => kernel(on.map((value, i) => value && switches[i] !== name)) === best);
  const blamed = back.length ? back : slow.filter((name) => kernel(switches.map((it) => it === name)) !== best);
  const why = now === best ? SAY.fused : back.length ? filled(SAY.one, { names: back.join(SAY.or) }) : SAY.several;
  return (
    <>
      <fieldset class="kernels-all">
        <legend>{SAY.legend}</legend>
        {switches.map((name, i) => (
          <label key={name}>
            <input type="checkbox" checked={on[i]} onChange={() => setOn(on.map((v, j) => (j === i ? !v : v)))} />
            {name}
          </label>
        ))}
      </fieldset>
      <pre class="kernels-code" tabIndex={0} aria-label={SAY.code}>
        {program.map(([name, before, after], i) => {
          const changed = on[switches.indexOf(name)];
          const kind = blamed.includes(name) ? "blamed" : changed ? "on" : name && !before ? "out" : null;
          return (
            <code key={i} data-kind={kind}>
              {changed ? after : before || `# ${after}`}
              {kind === "blamed" && <span class="view-hidden"> ({SAY.blamed})</span>}
              {"\n"}
            </code>
          );
        })}
      </pre>
      <p class="kernels-said" aria-live="polite" aria-atomic="true">
        {fill(SAY.said, { kernel: <strong class={now === best ? "kernels-best" : "kernels-slow"}>{now}</strong> })} {why}
      </p>
    </>
  );
}
Kernels.style = style;
Kernels.frame = { title: SAY.title, goal: SAY.goal };
