import { h, render } from "preact";
import style from "./views.css";

// Gives each `.attention-view` its program: kinds maps data-kind to a Preact component,
// which is called with the view's data as properties. What fails keeps its static part.
export function mount(kinds) {
  if (!document.getElementById("attention-views-style")) {
    const sheet = document.createElement("style");
    sheet.id = "attention-views-style";
    sheet.textContent = style;
    document.head.append(sheet);
  }
  const start = () => {
    for (const view of document.querySelectorAll(".attention-view:not([data-live])")) {
      const kind = kinds[view.dataset.kind];
      const data = view.querySelector('script[type="application/json"]');
      if (!kind || !data) continue;
      view.dataset.live = "";
      const live = document.createElement("div");
      live.className = "attention-live";
      render(h(kind, JSON.parse(data.textContent)), live);
      view.append(live);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}
