// "Predict, then run": the reader types a number or a shape, and learns at once. A page
// may listen to `attention-answered`, which says whether the answer was right.
import { useRef, useState } from "preact/hooks";
import { judge, read } from "./answer.js";
import { PREDICT as SAY } from "./strings.js";
import style from "./predict.css";

export function Predict(data) {
  const isShape = Array.isArray(data.answer);
  // Every output of a notebook has a program of its own, which cannot count the others.
  const [id] = useState(() => `predict-${Math.random().toString(36).slice(2)}`);
  const form = useRef();
  const [typed, setTyped] = useState("");
  const [said, setSaid] = useState(null);

  const check = (event) => {
    event.preventDefault();
    const { value, unread } = read(typed, data);
    if (unread) return setSaid({ mark: "○", plain: unread });
    const verdict = judge(value, data);
    setSaid({ mark: verdict.right ? "✓" : "✗", lead: verdict.right ? SAY.right : SAY.wrong, ...verdict });
    tell(verdict.right);
  };
  const show = () => {
    setSaid({ mark: "→", lead: `${data.shown}.`, html: data.because });
    tell(false, true);
  };
  const tell = (right, shown = false) =>
    form.current.dispatchEvent(new CustomEvent("attention-answered", { bubbles: true, detail: { right, shown } }));

  return (
    <form class="predict" ref={form} onSubmit={check}>
      <p class="predict-question">
        <strong>{SAY.title}</strong> <label for={id} dangerouslySetInnerHTML={{ __html: data.question }} />
      </p>
      <div class="predict-row">
        <input
          id={id}
          type="text"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          aria-describedby={`${id}-hint`}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <button type="submit">{SAY.check}</button>
        <button type="button" class="predict-show" onClick={show}>{SAY.show}</button>
      </div>
      <p class="view-soft predict-hint" id={`${id}-hint`}>{data.hint}{!isShape && ` ${SAY.calculation}`}</p>
      <p class="predict-verdict" role="status" data-right={said?.right}>
        {said && (
          <>
            <span aria-hidden="true">{said.mark} </span>
            {said.lead && <strong>{said.lead} </strong>}
            {said.plain ?? <span dangerouslySetInnerHTML={{ __html: said.html }} />}
          </>
        )}
      </p>
    </form>
  );
}
Predict.style = style;
