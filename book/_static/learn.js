// Quizzes become forms; progress is counted, and goals of views that were reached are kept. It is kept in this browser only: under
// one name in localStorage, or, where that is closed, until the page is left.
(() => {
  const NAME = "attention-book-progress";
  const ITEMS = '.quiz, .attention-view[data-kind="predict"]';
  const { say } = window;
  const said = new RegExp(`^(${say("saidAlready")})\\b`, "i");
  let memory = {};
  let lasting = true;

  const load = () => {
    if (!lasting) return memory;
    try {
      const stored = JSON.parse(localStorage.getItem(NAME)) ?? {};
      return typeof stored === "object" ? stored : {};
    } catch (error) {
      lasting = error instanceof SyntaxError;
      return lasting ? {} : memory;
    }
  };
  const save = (all) => {
    memory = all;
    try {
      if (Object.keys(all).length) localStorage.setItem(NAME, JSON.stringify(all));
      else localStorage.removeItem(NAME);
    } catch {
      lasting = false;
    }
  };

  const make = (tag, className, ...children) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const copies = (node, but = "") =>
    [...node.childNodes]
      .filter((child) => !(but && child.matches?.(but)))
      .map((child) => {
        const copy = child.cloneNode(true);
        copy.removeAttribute?.("id");
        copy.querySelectorAll?.("[id]").forEach((inner) => inner.removeAttribute("id"));
        return copy;
      });
  // The file and its folder: the same at every address of the book.
  const pageOf = (url) => url.pathname.split("/").slice(-2).join("/").replace(/\.html$/, "");
  const page = pageOf(location);

  // A question that is written anew is asked anew.
  const idOf = (item) => {
    const data = item.querySelector('script[type="application/json"]');
    const text = data ? JSON.parse(data.textContent).question : item.querySelector(".quiz-question").textContent;
    let hash = 5381;
    for (const letter of text) hash = (hash * 33 + letter.codePointAt(0)) % 0x7fffffff;
    return hash.toString(36);
  };

  function makeForm(quiz, number) {
    const several = "several" in quiz.dataset;
    const options = quiz.querySelectorAll(":scope > .quiz-options > li");
    const answers = [...quiz.querySelectorAll(":scope > details > ol > li")];
    const isRight = (answer) => answer.dataset.right === "true";
    const set = make("fieldset", "", make("legend", "", ...copies(quiz.querySelector(".quiz-question"))));
    if (several) set.append(make("p", "quiz-several", say("chooseAll")));
    const inputs = [...options].map((option) => {
      const input = make("input");
      input.type = several ? "checkbox" : "radio";
      input.name = `quiz-${number}`;
      set.append(make("label", "quiz-option", input, make("div", "", ...copies(option))));
      return input;
    });
    const verdict = make("div", "quiz-verdict");
    verdict.setAttribute("role", "status");
    const form = make("form", "quiz-form", set, make("button", "", say("check")), verdict);
    const why = (answer) => {
      const right = isRight(answer);
      const words = copies(answer, ".quiz-mark");
      const text = words.map((node) => node.textContent).join(" ").trim();
      const lead = say(right ? "right" : "wrong");
      const mark = make("span", "", right ? "✓ " : "✗ ");
      mark.setAttribute("aria-hidden", "true");
      const parts = said.test(text) ? [mark] : [mark, make("strong", "", lead)];
      return make("div", right ? "quiz-right" : "quiz-wrong", ...parts, ...words);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = answers.filter((_, n) => inputs[n].checked);
      const missing = answers.filter((answer, n) => isRight(answer) && !inputs[n].checked).length;
      if (!chosen.length) return verdict.replaceChildren(make("div", "", say("chooseFirst")));
      verdict.replaceChildren(...chosen.map(why));
      if (several && missing)
        verdict.append(make("div", "", missing === 1 ? say("oneMore") : say("more", { n: missing })));
      const right = !missing && chosen.every(isRight);
      quiz.dispatchEvent(new CustomEvent("attention-answered", { bubbles: true, detail: { right } }));
    });
    quiz.classList.add("live");
    quiz.append(form);
  }

  document.querySelectorAll(".quiz").forEach(makeForm);
  const items = new Map([...document.querySelectorAll(ITEMS)].map((item) => [idOf(item), item]));

  // A prediction hides what answers it: what the next cell puts out, and the figures
  // after it, also below a paragraph. An answer shows them; so does a button below a
  // question in words.
  const reveals = new Map();
  for (const asked of document.querySelectorAll(".cell.tag_predict, .admonition.predict")) {
    const shows = [];
    let together = null; // outputs below each other, without code between, wait behind one line
    let told = false; // a paragraph stands between: what follows is hidden if it is a figure
    for (let next = asked.nextElementSibling; next?.matches("p, .cell:not(.tag_predict)"); next = next.nextElementSibling) {
      const fold = next.querySelector(":scope > details.below-input");
      const output = next.querySelector(":scope > .cell_output");
      const figure = output?.querySelector("figure");
      if (next.matches("p, :has(> .cell_input)")) together = null;
      if (next.matches("p")) told = true;
      else if (told && fold && !figure) continue; // it is folded as it is
      else if ((told || shows.length) && !figure) break;
      else if (fold) shows.push(() => ((fold.open = true), fold.querySelector("summary")));
      else if (output) {
        output.classList.add("learn-waits");
        if (together) together.push(output);
        else shows.push(cover((together = [output])));
      }
    }
    if (!shows.length) continue;
    const reveal = () => shows.map((show) => show())[0];
    const item = asked.querySelector('.attention-view[data-kind="predict"]');
    if (item) reveals.set(idOf(item), reveal);
    else asked.append(revealer(reveal));
  }
  function cover(outputs) {
    const show = () => {
      for (const output of outputs) output.classList.remove("learn-waits");
      line.remove();
      outputs[0].tabIndex = -1;
      return outputs[0];
    };
    const line = make("p", "learn-cover", say("hidden"), " ", revealer(show));
    outputs[0].before(line);
    return show;
  }
  function revealer(show) {
    const button = make("button", "learn-reveal", say("reveal"));
    button.type = "button";
    button.addEventListener("click", () => {
      show().focus(); // the button goes
      button.remove();
    });
    return button;
  }

  // A view's goal: by its kind, and its place among those of its kind.
  const views = [...document.querySelectorAll(".attention-view")];
  const goalOf = (view) => {
    const { kind } = view.dataset;
    return `${kind}-${views.filter((other) => other.dataset.kind === kind).indexOf(view)}`;
  };
  document.addEventListener("attention-reached", (event) => {
    const all = load();
    const goals = new Set(all[page]?.goals).add(goalOf(event.target.closest(".attention-view")));
    all[page] = { ...all[page], goals: [...goals] };
    save(all);
    show();
  });

  // What was answered rightly before, and wrongly now: it counts, but no ✓ stands by ✗.
  const wrong = new Set();

  const line = make("p", "learn-progress");
  const count = make("span");
  const forget = make("button", "", say("forget"));
  forget.type = "button";
  let forgotten = false;
  forget.addEventListener("click", () => {
    forgotten = true;
    save({});
    show();
    line.tabIndex = -1;
    line.focus(); // the button has gone
  });
  line.append(count, " ", forget);
  if (items.size) {
    const last = [...document.querySelectorAll(".quiz")].pop();
    if (last) last.after(line);
    else document.querySelector("article")?.append(line);
  }

  function show() {
    const all = load();
    const done = (all[page]?.right ?? []).filter((id) => items.has(id));
    for (const [id, item] of items) {
      item.querySelector(".learn-done")?.remove();
      if (!done.includes(id) || wrong.has(id)) continue;
      (item.querySelector(":scope > .attention-live") ?? item).append(make("p", "learn-done", say("answered")));
    }
    count.textContent = say("count", { n: done.length, total: items.size }) + say(lasting ? "kept" : "notKept");
    forget.hidden = !Object.keys(all).length;
    for (const view of views) {
      view.dataset.goal = all[page]?.goals?.includes(goalOf(view)) ? "reached" : "";
      view.dispatchEvent(new Event("attention-goal"));
    }
    showRoad(all);
    document.querySelectorAll(".learn-tick").forEach((tick) => tick.remove());
    for (const link of document.querySelectorAll(".bd-sidebar-primary nav a[href]")) {
      const found = all[pageOf(new URL(link.href))];
      if (!found?.right?.length) continue;
      const { right, total } = found;
      const short = make("span", "", right.length >= total ? "✓" : `${right.length}/${total}`);
      short.setAttribute("aria-hidden", "true");
      const said = make("span", "visually-hidden", ` ${say("countShort", { n: right.length, total })}`);
      link.append(make("span", "learn-tick", short, said));
    }
  }

  // The road on the first page: each stop shows what was answered there, and the first
  // of its buttons leads to where the reader was.
  const start = document.querySelector(".ways a");
  const begin = start && { href: start.href, text: start.textContent };
  function showRoad(all) {
    for (const link of document.querySelectorAll(".road ol a")) {
      const { right = [], total = 1 } = all[pageOf(new URL(link.href))] ?? {};
      const stop = link.closest("li");
      stop.style.setProperty("--done", Math.min(1, right.length / total));
      stop.classList.toggle("road-done", right.length >= total);
      stop.querySelector(".visually-hidden")?.remove();
      const text = ` ${say("countShort", { n: right.length, total })}`;
      if (right.length) link.after(make("span", "visually-hidden", text));
    }
    if (!start) return;
    const { place } = all;
    if (place) start.style.minWidth = `${start.getBoundingClientRect().width}px`; // nothing beside it moves
    start.href = place ? new URL(`../${place.page}.html${place.hash}`, location).href : begin.href;
    start.textContent = place ? say("goOn", { place: place.number }) : begin.text;
    start.title = place?.title ?? "";
  }

  // The section of a chapter that was read last, with its number: "3.4".
  const keepPlace = () => {
    const link = document.querySelector("#pst-page-toc-nav a[aria-current]");
    const heading = document.querySelector("article h1 > .section-number");
    if (!heading || forgotten || !page.startsWith("chapters/")) return;
    const deep = link && scrollY > innerHeight / 2;
    const title = (deep ? link : heading.parentNode).textContent.replace(/#$/, "").trim();
    const number = title.match(/^\d+(\.\d+)*/)?.[0] ?? heading.textContent.trim();
    const all = load();
    all.place = { page, hash: deep ? link.hash : "", number, title };
    save(all);
  };
  addEventListener("pagehide", keepPlace);
  document.addEventListener("visibilitychange", () => document.hidden && keepPlace());

  document.addEventListener("attention-answered", (event) => {
    const item = event.target.closest(ITEMS);
    const id = item && idOf(item);
    if (!items.has(id)) return;
    if (event.detail.right || event.detail.shown) reveals.get(id)?.();
    if (!event.detail.right) {
      if (!event.detail.shown) wrong.add(id);
      return show();
    }
    wrong.delete(id);
    const all = load();
    const before = (all[page]?.right ?? []).filter((known) => items.has(known) && known !== id);
    all[page] = { ...all[page], right: [...before, id], total: items.size };
    save(all);
    show();
  });
  // A prediction may get its card later than this runs: then the mark moves into it.
  const cards = new MutationObserver(show);
  for (const item of items.values()) cards.observe(item, { attributeFilter: ["data-live"] });
  addEventListener("storage", show);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll(".quiz > details, .attention-static > details")) folded.open = true;
  });
  show();
  for (const id of load()[page]?.right ?? []) reveals.get(id)?.();
})();
