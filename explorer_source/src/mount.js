import { h, render } from "preact";
import { Frame } from "./frame.jsx";
import shared from "./views.css";

// Gives each `.attention-view` its program: kinds maps data-kind to a Preact component,
// which is called with the view's data as properties. What fails keeps its static part.
// In a notebook every output brings the program: so a second run only starts what is new.
export function mount(kinds) {
  const start = () => {
    for (const view of document.querySelectorAll(".attention-view:not([data-live])")) {
      const data = view.querySelector('script[type="application/json"]');
      const kind = Object.hasOwn(kinds, view.dataset.kind) && kinds[view.dataset.kind];
      if (!kind || !data) continue;
      addStyle(kinds);
      try {
        const live = document.createElement("div");
        live.className = "attention-live";
        render(h(Frame, { View: kind, data: JSON.parse(data.textContent), number: numberOf(view), view }), live);
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

// The chapter's number and the place among its views; none in a notebook.
function numberOf(view) {
  const chapter = document.querySelector(".bd-article h1 .section-number")?.textContent.match(/\d+/)?.[0];
  const views = [...document.querySelectorAll('.attention-view:not([data-kind="predict"])')];
  return chapter && `${chapter}.${views.indexOf(view) + 1}`;
}

// One sheet for each program of each build: HASH is that of the sources, set by build.mjs.
function addStyle(kinds) {
  const id = `attention-${Object.keys(kinds)[0]}-${HASH}`;
  if (document.getElementById(id)) return;
  const sheet = document.createElement("style");
  sheet.id = id;
  sheet.textContent = [shared, ...Object.values(kinds).map((kind) => kind.style ?? "")].join("\n");
  document.head.append(sheet);
}
