// Run by pdf.py in the document that it prints.
const paper = {
  // Fill in the numbers of pages that are known, and return which are wanted.
  async fill(numbers) {
    // Every font first: one that came between two prints would move lines.
    await Promise.allSettled([...document.fonts].map((font) => font.load()));
    await document.fonts.ready;
    return [...document.querySelectorAll("[data-page-of]")].map((element) => {
      const place = element.dataset.pageOf;
      element.textContent = numbers[place] ?? element.textContent;
      return place;
    });
  },

  // Say what is missing, and what is wider than its column, `width` pixels at most.
  faults(width) {
    const edge = document.body.getBoundingClientRect().left + width;
    const right = (element) => element.getBoundingClientRect().right - 1.5; // rounding
    const told = (what, elements) => elements.map((element) => {
      const heading = element.closest("section")?.querySelector("h1, h2, h3, h4, h5");
      const text = element.querySelector("annotation") ?? element;
      const words = text.textContent.trim().slice(0, 60) || element.outerHTML.slice(0, 90);
      return `${what}, under "${heading?.textContent.trim()}": ${words}`;
    });
    const all = (css, from = document) => [...from.querySelectorAll(css)];
    const overflows = (element) => {
      const { left } = element.getBoundingClientRect();
      return Math.max(right(element), left + element.scrollWidth - 1.5) > edge;
    };
    const wide = all("body *:not(.katex *, svg *)").filter(overflows);
    // A formula may go on in the next line, but not one of its parts.
    const parts = (formula) => all(".katex-html > span", formula);
    const cut = (formula) => {
      const column = right(formula.querySelector(".katex-display") ?? document.body) + 1.5;
      return parts(formula).some((part) => right(part) > Math.min(edge, column));
    };
    const drawn = (formula) => parts(formula).length && parts(formula).every((it) => it.offsetWidth);
    return [
      // A browser leaves such links out of the PDF without a word.
      ...told("a link leads nowhere", all('a[href^="#"]').filter((link) => !document.getElementById(decodeURIComponent(link.hash.slice(1))))),
      ...new Set([...document.fonts].filter(({ family, status }) => /Han/.test(family) && status === "error")
        .map(({ family }) => `no face ${family}: install Debian's fonts-noto-cjk`)),
      ...told("no picture", all("img").filter((image) => !image.naturalWidth)),
      ...told("over the margin", wide.filter((it) => !wide.some((other) => other !== it && it.contains(other)))),
      ...told("a formula is cut off", all(".math").filter(cut)),
      ...told("a formula is not drawn", all(".math").filter((it) => !drawn(it))),
    ];
  },
};
