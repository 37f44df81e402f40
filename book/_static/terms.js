// The meaning of a glossary term beside its link: on hover, focus and tap.
// Without this file, or in a browser without popovers, each term is a plain link.
(() => {
  const OPEN = 150, CLOSE = 250; // ms: not at a pointer that passes, not on the way over
  if (!HTMLElement.prototype.showPopover) return;
  let card, link, timer, pointer, dismissed;

  const meaning = (a) => {
    const html = window.bookTerms?.[decodeURIComponent(a.hash.slice(1))];
    if (!html) return null;
    const text = new DOMParser().parseFromString(html, "text/html").body;
    // The glossary's own links lead from the glossary.
    for (const part of text.querySelectorAll("[href]"))
      part.href = new URL(part.getAttribute("href"), a.href).href;
    return text;
  };
  const term = (node) => {
    const a = node.closest?.("a");
    return a && a.querySelector(".std-term") && !a.closest(".term-card") ? a : null;
  };
  const close = () => {
    clearTimeout(timer);
    if (!card) return;
    link.removeAttribute("aria-describedby");
    card.remove();
    card = link = null;
  };
  const place = () => {
    const at = link.getClientRects()[0], gap = 6, edge = 8;
    const size = card.getBoundingClientRect();
    const above = at.bottom + gap + size.height > innerHeight && at.top > size.height + gap;
    const left = Math.min(at.left, document.documentElement.clientWidth - size.width - edge);
    card.style.left = `${Math.max(edge, left) + scrollX}px`;
    card.style.top = `${(above ? at.top - gap - size.height : at.bottom + gap) + scrollY}px`;
  };
  const open = (a) => {
    clearTimeout(timer);
    const text = meaning(a);
    if (a === link || !text) return;
    close();
    link = a;
    card = document.createElement("span"); // allowed wherever a link is
    card.className = "term-card";
    card.popover = "manual";
    const body = document.createElement("span");
    body.id = "term-meaning";
    body.append(...text.childNodes);
    for (const part of body.querySelectorAll("[id]")) part.removeAttribute("id");
    const more = document.createElement("a");
    more.href = a.href;
    more.textContent = say("inGlossary");
    card.append(body, more);
    a.after(card); // next in the order of the keyboard too
    card.showPopover();
    a.setAttribute("aria-describedby", body.id);
    place();
  };
  const soon = (what, wait) => { clearTimeout(timer); timer = setTimeout(what, wait); };
  const inside = (node) => card && (card.contains(node) || link.contains(node));

  addEventListener("pointerover", (e) => {
    if (e.pointerType === "touch") return;
    const a = term(e.target);
    if (a && a !== link) soon(() => open(a), OPEN);
    else if (inside(e.target)) clearTimeout(timer);
    else if (card && !card.contains(document.activeElement) && link !== document.activeElement)
      soon(close, CLOSE);
    else if (!card) clearTimeout(timer);
  });
  addEventListener("focusin", (e) => {
    const a = term(e.target);
    if (a && pointer !== "touch" && e.target.matches(":focus-visible")) open(a);
    else if (!inside(e.target)) close();
  });
  addEventListener("pointerdown", (e) => {
    pointer = e.pointerType;
    if (!inside(e.target)) close();
  });
  addEventListener("keydown", (e) => {
    pointer = "";
    if (e.key !== "Escape" || !card) return;
    if (card.contains(document.activeElement)) { const back = link; close(); back.focus({ focusVisible: false }); close(); }
    else close();
  });
  // The first tap shows, the second goes there.
  addEventListener("click", (e) => {
    const a = term(e.target);
    if (!a || pointer !== "touch" || a === link || !meaning(a)) return;
    e.preventDefault();
    open(a);
  });
  addEventListener("resize", close);
})();
