// The contents of a page: which section is being read, the search, and the drawers of a phone.
(() => {
  // The page may be there before this script (webpack-macros.html).
  const whenLoaded = (act) => (document.readyState === "complete" ? act() : addEventListener("load", act));
  // Only the list scrolls: scrollIntoView would also stop the page where it is going.
  const bringIn = (link, list) => {
    const [box, room] = [link, list].map((element) => element.getBoundingClientRect());
    if (box.top < room.top || box.bottom > room.bottom) list.scrollTop += box.top - room.top - room.height / 3;
  };
  // The theme puts the list of chapters where it was kept on the last page, which may be far from
  // this one; it may do so before this script, or after.
  whenLoaded(() => {
    const chapters = document.getElementById("pst-primary-sidebar");
    const here = [...(chapters?.querySelectorAll(".current > a") ?? [])].at(-1);
    if (!here?.checkVisibility()) return;
    chapters.scrollTop = sessionStorage.getItem("sidebar-scroll-top");
    bringIn(here, chapters);
    sessionStorage.setItem("sidebar-scroll-top", chapters.scrollTop);
  });

  // The section is the last whose heading is above a line a quarter down the screen.
  // Bootstrap asks which headings are in a band, and names none where there is none.
  document.body.removeAttribute("data-bs-spy");
  const list = document.getElementById("pst-secondary-sidebar");
  const links = [...document.querySelectorAll("#pst-page-toc-nav a[href^='#']")];
  const places = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  let now = null;
  let asked = false;
  const look = () => {
    asked = false;
    const page = document.documentElement;
    const atEnd = innerHeight + scrollY >= page.scrollHeight - 2;
    const begun = (place) => place.getBoundingClientRect().top <= innerHeight / 4;
    // The outer first: what is inside of one far below would be laid out to be asked.
    const above = places.findLastIndex((place) => place && [place.parentElement, place, place.querySelector("h2, h3") ?? place].every(begun));
    const link = links[atEnd ? links.length - 1 : Math.max(above, 0)];
    if (link === now) return;
    now = link;
    for (const other of links) {
      other.classList.toggle("active", other === link);
      if (other === link) other.setAttribute("aria-current", "location");
      else other.removeAttribute("aria-current");
    }
    bringIn(link, list);
  };
  const ask = () => {
    if (!asked) requestAnimationFrame(look);
    asked = true;
  };
  if (links.length) {
    addEventListener("scroll", ask, { passive: true });
    // Also at the start, with the page's own first frame, and when a part below is laid out.
    new ResizeObserver(look).observe(document.querySelector(".bd-article"));
  }

  // What is far below is laid out once somebody is there: part by part, when the browser has
  // nothing else to do. Whoever only reads the first screen waits for none of it.
  const parts = [...document.querySelectorAll(".bd-article > section > section")];
  const layOut = () => {
    const part = parts.shift();
    if (!part) return void delete document.documentElement.dataset.from;
    part.style.contentVisibility = "visible";
    requestAnimationFrame(whenIdle);
  };
  const whenIdle = () => (window.requestIdleCallback ?? setTimeout)(layOut);
  whenRead(() => whenLoaded(whenIdle));

  // The search is fetched when its field is first used; the scripts run in this order.
  const find = ({ target }) => {
    if (!target?.closest?.("form.bd-search")) return;
    removeEventListener("focusin", find);
    for (const name of ["minisearch", "places", "finding_words", "finding"]) {
      const src = `${document.documentElement.dataset.content_root}_static/${name}.js`;
      document.head.append(Object.assign(document.createElement("script"), { src, async: false }));
    }
  };
  addEventListener("focusin", find);
  find({ target: document.activeElement });

  // The theme opens a drawer, and closes it by Escape or a tap beside it. It moves the
  // list into the dialog and back, so this button stands in the list.
  for (const name of ["primary", "secondary"]) {
    const sidebar = document.getElementById(`pst-${name}-sidebar`);
    if (!sidebar?.textContent.trim()) {
      for (const button of document.querySelectorAll(`.${name}-toggle`)) button.style.visibility = "hidden";
      continue;
    }
    const close = document.createElement("button");
    close.type = "button";
    close.className = "drawer-close";
    close.textContent = say("close");
    sidebar.prepend(close);
  }
  addEventListener("click", (event) => {
    const dialog = event.target.closest?.("dialog");
    const link = event.target.closest?.("a[href*='#']");
    const here = link && link.pathname === location.pathname;
    if (here) delete document.documentElement.dataset.from; // all is laid out: the jump is exact
    if (dialog && (here || event.target.closest(".drawer-close"))) dialog.close();
  });
})();
// The link to the other edition leads to the section that is being read.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a.book-language");
  if (!link) return;
  const text = document.querySelector(".bd-article").getBoundingClientRect();
  const around = document.elementsFromPoint(text.left + text.width / 3, innerHeight / 3);
  const read = around.map((it) => it.closest(".bd-article section[id]")).find(Boolean);
  link.hash = scrollY > 200 && read ? read.id : "";
}, true);

// From a page that is a file, browsers show the text of a notebook instead of keeping it.
if (location.protocol === "file:")
  addEventListener("click", (event) => {
    const link = event.target.closest("a[download]");
    if (!link) return;
    event.preventDefault();
    prompt(window.say("onDisk"), decodeURIComponent(new URL(link.href).pathname));
  });
