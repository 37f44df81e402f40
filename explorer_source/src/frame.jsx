// What every view has around it: a title with a number, and something to try, which is
// ticked when it is reached: a page that remembers it says so by `data-goal`, and by an
// event when that changes. Views of a page tell each other which word is pointed at.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FRAME as SAY, filled } from "./strings.js";

export function Frame({ View, data, number, view }) {
  // The first page has one view, which says by itself what to do.
  const { title, goal } = (!view.closest(".hero") && View.frame) || {};
  const [reached, setReached] = useState(view.dataset.goal === "reached");
  useEffect(() => {
    const hear = () => setReached(view.dataset.goal === "reached");
    view.addEventListener("attention-goal", hear);
    return () => view.removeEventListener("attention-goal", hear);
  }, []);
  const card = useRef();
  const [set, setSet] = useState("");
  useEffect(() => view.addEventListener("attention-set", ({ detail }) => setSet(detail.text)), []);
  const asked = data.goal?.text ?? (typeof goal === "function" ? goal(data) : goal);
  const reach = () => {
    if (reached || !asked) return;
    setReached(true);
    card.current.dispatchEvent(new CustomEvent("attention-reached", { bubbles: true }));
  };
  return (
    <>
      {title && (
        <p class="view-title">
          {number && <span>{filled(SAY.number, { number })} </span>}
          <b>{title}</b>
        </p>
      )}
      {asked && (
        <p class="view-goal" role="status" data-reached={reached} ref={card}>
          <span aria-hidden="true">{reached ? "✓" : "○"} </span>
          <b class="view-room" data-room={SAY.reached}><span>{reached ? SAY.reached : SAY.goal}</span></b> {asked}
        </p>
      )}
      <p class="view-hidden" role="status">{set && filled(SAY.set, { number: number ?? title, set })}</p>
      <View {...data} {...{ reach, view }} />
    </>
  );
}

// For an effect: a goal counts as reached once the reader has brought it about.
export function useReached(reached, reach) {
  const before = useRef(reached);
  useEffect(() => {
    if (reached && !before.current) reach();
    before.current = reached;
  }, [reached]);
}

// What a phrase of the text may set (mount.js): by its name, the values that there are,
// and what is called with the place of one among them.
export const ONOFF = ["off", "on"];

export function useSettings(view, settings) {
  useLayoutEffect(() => {
    const hear = ({ detail: { name, value } }) => {
      const [values, choose] = settings[name] ?? [[]];
      const at = values.findIndex((it) => `${it}` === value);
      at < 0 ? console.error(`${view.id}?${name}=${value}`) : choose(at);
    };
    view.addEventListener("attention-set", hear);
    return () => view.removeEventListener("attention-set", hear);
  });
}

// Which word another view points at, and how to tell the others: null when none.
export function useLinked(found) {
  const own = useRef({});
  useEffect(() => {
    const hear = ({ detail }) => detail.from !== own.current && found(detail.word);
    addEventListener("attention-word", hear);
    return () => removeEventListener("attention-word", hear);
  });
  return (word) => dispatchEvent(new CustomEvent("attention-word", { detail: { from: own.current, word } }));
}
