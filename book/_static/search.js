// What the search page adds to Sphinx's own search: sections are found too, what is
// written for readers comes before lists, and a summary is a sentence, without code.
(() => {
  // A page opened as a file may read no other page, so it shows titles only.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  Documentation.addTranslations({
    locale: "en",
    messages: {
      "Search finished, found ${resultCount} page(s) matching the search query.":
        "Places found: ${resultCount}.",
      "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
        "Nothing found. Try fewer words, or another spelling.",
    },
    plural_expr: "n != 1",
  });

  const stemmer = new Stemmer();
  const words = (text) =>
    splitQuery(text.toLowerCase())
      .filter((word) => !stopwords.includes(word))
      .map((word) => stemmer.stemWord(word));
  const plain = (title) =>
    title.replace(/\\sqrt\{?(\w+)\}?/g, "√$1").replace(/\\[a-z]+|[{}$\\]/gi, "");
  const favour = (page) =>
    page.startsWith("chapters/") ? 3
      : page === "book/questions" ? 2
      : /^book\/(api\/|sources|bibliography|speed|reproduces|notation)/.test(page) ? -4 : 0;

  const plainSearch = Search._performSearch;
  Search._performSearch = (query, terms, excluded, highlight, objectTerms) => {
    const index = Search._index;
    const found = plainSearch(query, terms, excluded, highlight, objectTerms);
    // A word on few pages says more than one on many.
    // One in titles only stands in another list; one that stands nowhere counts most.
    const pagesOf = (word) =>
      [].concat(index.terms[word] ?? index.titleterms[word] ?? []).length || 0.5;
    const weight = (word) => Math.log(1 + index.docnames.length / pagesOf(word));
    const whole = [...terms].reduce((sum, word) => sum + weight(word), 0) || 1;
    const share = (title) => {
      const has = new Set(words(title));
      return [...terms].reduce((sum, w) => sum + (has.has(w) ? weight(w) : 0), 0) / whole;
    };
    const pages = new Map(); // those with every word somewhere
    for (const item of found)
      if (!item[2] && !item[3] && !pages.has(item[0])) pages.set(item[0], item);
    const results = [];
    const about = {}; // how many sections of a page are about this
    for (const [title, places] of Object.entries(index.alltitles))
      for (const [file, id] of places) {
        const page = index.docnames[file], part = share(title);
        if (!id || part < 0.5 || index.titles[file] === title) continue;
        about[page] = (about[page] ?? 0) + 1;
        const excess = words(title).length - terms.size * part;
        const score = (pages.has(page) ? 16 : 12) * part - excess / 2 + favour(page);
        results.push([
          page, `${plain(index.titles[file])} › ${plain(title)}`, `#${id}`, null,
          score, index.filenames[file],
        ]);
      }
    for (const [page, item] of pages) {
      const score = 4 + 12 * share(item[1]) + Math.min(6, about[page] ?? 0) + favour(page);
      results.push([page, plain(item[1]), "", null, score, item[5]]);
    }
    for (const [page, title, anchor, descr, score, file] of found) {
      const name = title.split(".").pop().toLowerCase();
      if (anchor.startsWith("#term-")) {
        const entry = anchor.slice(6).replaceAll("-", " ");
        results.push([page, `${title} › ${entry}`, anchor, null, Math.min(score, 24), file]);
      } else if (descr && !anchor.startsWith("#module-"))
        results.push([page, title, anchor, descr, objectTerms.has(name) ? 20 : 2, file]);
    }
    return results.sort((a, b) => a[4] - b[4] || (a[1] < b[1] ? 1 : -1)); // best last
  };

  // The paragraph with most of the words, and of it what stands around the first.
  Search.makeSearchSummary = (html, keywords, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const noise = "pre, script, style, figure, table, .headerlink, " +
      ".book-shown, .book-library, .attention-view, .cell_output";
    const place = (anchor && page.getElementById(anchor.slice(1))) || null;
    const root = (place?.closest("dt")?.nextElementSibling ?? place?.closest("section"))
      ?? page.querySelector("article");
    if (!root) return null;
    for (const part of root.querySelectorAll(noise)) part.remove();
    for (const formula of root.querySelectorAll(".math, .katex")) {
      const tex = formula.querySelector("annotation") ?? formula;
      formula.textContent = plain(tex.textContent.replace(/\\[()[\]]/g, ""));
    }
    const blocks = root.matches("p, li") ? [root] : [...root.querySelectorAll("p, li, dd")];
    const count = (text) =>
      [...keywords].filter((w) => text.toLowerCase().replaceAll("√", "sqrt ").includes(w)).length;
    let best = "", most = 0;
    for (const block of blocks) {
      const text = block.textContent.replace(/\s+/g, " ").trim();
      const here = count(text);
      if (here > most || !best) [best, most] = [text, here];
    }
    if (!best) return null;
    const lower = best.toLowerCase();
    const places = [...keywords].map((word) => lower.indexOf(word)).filter((at) => at >= 0);
    const first = Math.max(0, Math.min(...places, best.length) - 80);
    const start = first && places.length ? best.indexOf(" ", first) + 1 : 0;
    let end = best.length;
    if (end > start + 200) end = best.lastIndexOf(" ", start + 200);
    const summary = document.createElement("p");
    summary.className = "context";
    summary.textContent =
      (start ? "… " : "") + best.slice(start, end) + (end < best.length ? " …" : "");
    return summary;
  };
})();
