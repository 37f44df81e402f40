// What a call is made of, and which kernel then runs: switches.
import { useState } from "preact/hooks";
import { ONOFF, useReached, useSettings } from "./frame.jsx";
import { KERNELS as SAY, fill, filled } from "./strings.js";
import style from "./kernels.css";

export function Kernels({ switches, kinds, found, reach, view }) {
  const [on, setOn] = useState(switches.map(() => false));
  const turn = (i) => [ONOFF, (on) => setOn((now) => now.map((old, j) => (j === i ? !!on : old)))];
  useSettings(view, Object.fromEntries(switches.map((name, i) => [name, turn(i)])));
  const kernel = (chosen) => kinds[found[parseInt(chosen.map(Number).join(""), 2)]];
  const best = kinds[0]; // that of the call with nothing switched on
  const now = kernel(on);
  const count = on.filter(Boolean).length;
  useReached(now === best && count >= 3, reach);
  // Which single switch, turned off, would bring the first kernel back?
  const blamed = switches.filter((_, i) => on[i] && now !== best && kernel(on.map((v, j) => v && j !== i)) === best);
  const why = now === best ? SAY.fused : blamed.length ? filled(SAY.one, { names: blamed.join(SAY.or) }) : SAY.several;
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
      <p class="kernels-said" aria-live="polite" aria-atomic="true">
        {fill(SAY.said, { kernel: <strong class={now === best ? "kernels-best" : "kernels-slow"}>{now}</strong> })} {why}
      </p>
    </>
  );
}
Kernels.style = style;
Kernels.frame = { title: SAY.title, goal: SAY.goal };
