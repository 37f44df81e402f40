import { h, render } from "preact";
import { Frame } from "./frame.jsx";
import tables from "./tables.css";
import shared from "./views.css";

// Start each `.attention-view` of a kind: its Preact component is called with the view's
// data as properties. A view that fails keeps its static part. In a notebook each output
// brings the program, so a second run starts only what is new.
export function mount(kind, View) {
  const start = () => {
    document.addEventListener("click", follow);
    for (const view of document.querySelectorAll(`.attention-view[data-kind="${kind}"]:not([data-live])`)) {
      const data = view.querySelector('script[type="application/json"]');
      if (!data) continue;
      addStyles(kind, View);
      try {
        const live = document.createElement("div");
        live.className = "attention-live";
        render(h(Frame, { View, data: JSON.parse(data.textContent), number: numberOf(view), view }), live);
        view.append(live);
        view.dataset.live = "";
      } catch (error) {
        console.error(error);
      }
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}

// A phrase of the text that sets a view: a link to it, without this program. A reader who
// sees at least half of the view stays; else the link is followed, so that "back" works.
async function follow(event) {
  const link = event.target.closest?.("a[data-set]");
  const view = link && !event.ctrlKey && !event.metaKey && document.querySelector(`${link.hash}[data-live]`);
  if (!view) return;
  const { top, bottom } = view.getBoundingClientRect();
  const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
  if (seen >= Math.min(bottom - top, innerHeight) / 2) event.preventDefault();
  const text = link.textContent;
  for (const [name, value] of new URLSearchParams(link.dataset.set)) {
    view.dispatchEvent(new CustomEvent("attention-set", { detail: { name, value, text } }));
    await new Promise(requestAnimationFrame); // what is there next may depend on it
  }
}

// The chapter's number and the place among its views; none in a notebook.
function numberOf(view) {
  const chapter = document.querySelector(".bd-article h1 .section-number")?.textContent.match(/\d+/)?.[0];
  const views = [...document.querySelectorAll('.attention-view:not([data-kind="predict"])')];
  return chapter && `${chapter}.${views.indexOf(view) + 1}`;
}

// The style sheets of a view, by their ids: what all views share, and its own.
export const sheetsOf = (kind, View) => ({ "attention-views": shared + tables, [`attention-${kind}`]: View.style });

// Each sheet is added to a page once; a later version of the program replaces its text.
function addStyles(kind, View) {
  for (const [id, text] of Object.entries(sheetsOf(kind, View))) {
    const sheet = document.getElementById(id) ?? Object.assign(document.createElement("style"), { id });
    if (sheet.textContent !== text) sheet.textContent = text;
    if (!sheet.isConnected) document.head.append(sheet);
  }
}
