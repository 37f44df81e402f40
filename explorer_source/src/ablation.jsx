// Heads of a model, switched off one by one, and the losses that were measured without them.
import { useState } from "preact/hooks";
import { useReached } from "./frame.jsx";
import { ABLATION as SAY, filled } from "./strings.js";
import style from "./ablation.css";

export function Ablation({ orders, texts, whole, reach }) {
  const [order, setOrder] = useState(0);
  const [alone, setAlone] = useState(false);
  const [last, setLast] = useState(1); // the last head that is off; -1 where none is
  const { heads, losses } = orders[order];
  const isOff = (head) => (alone ? head === last : head <= last);
  const off = heads.filter((_, head) => isOff(head));
  const now = off.length ? losses[last][alone ? 0 : 1] : whole;
  const top = Math.max(...whole, ...orders.flatMap((it) => it.losses).flat(2));
  const press = (head) => setLast(head !== last ? head : alone ? -1 : head - 1);
  const choose = (to) => {
    setOrder(to);
    setLast(Math.min(last, orders[to].heads.length - 1));
  };
  const more = (text, i) => filled(SAY.more, { text, more: signed(now[i] - whole[i]) });
  useReached(off.length === 1 && now[0] - whole[0] > 5, reach);
  return (
    <>
      <div class="ablation-choice">
        <div class="ablation-orders" role="group" aria-label={SAY.order}>
          <span>{SAY.order}</span>
          {orders.map(({ name }, i) => (
            <button key={name} type="button" aria-pressed={i === order} onClick={() => choose(i)}>{name}</button>
          ))}
        </div>
        <div class="ablation-heads" role="group" aria-label={alone ? SAY.only : SAY.heads}>
          <span>{alone ? SAY.only : SAY.heads}</span>
          {heads.map((name, head) => (
            <button key={name} type="button" aria-pressed={isOff(head)} onClick={() => press(head)}>{name}</button>
          ))}
        </div>
        <label>
          <input type="checkbox" checked={alone} onChange={() => setAlone(!alone)} /> {SAY.alone}
        </label>
      </div>
      <ul class="ablation-losses">
        {texts.map((text, i) => (
          <li key={text}>
            {filled(SAY.loss, { text })} <b class="view-number">{now[i].toFixed(2)}</b>{" "}
            <span class="view-soft view-number">{filled(SAY.before, { loss: whole[i].toFixed(2) })}</span>
            <div class="ablation-bar" aria-hidden="true">
              <span style={{ width: `${(100 * now[i]) / top}%` }} />
              <i style={{ left: `${(100 * whole[i]) / top}%` }} />
            </div>
          </li>
        ))}
      </ul>
      <p class="ablation-said" aria-live="polite">
        {off.length ? filled(SAY.off, { off: off.join(SAY.between), more: texts.map(more).join(SAY.between) }) : SAY.none}
      </p>
      <p class="view-soft">{SAY.note}</p>
    </>
  );
}
// To two decimals: "+0.25", "−0.10", "0.00".
const signed = (number) => {
  const digits = Math.abs(number).toFixed(2);
  return (Number(digits) ? (number < 0 ? "−" : "+") : "") + digits;
};

Ablation.style = style;
Ablation.frame = { title: SAY.title, goal: ({ texts }) => filled(SAY.goal, { text: texts[0] }) };
