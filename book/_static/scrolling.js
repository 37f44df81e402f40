// What scrolls within itself is reached by keyboard. The theme's script does so for all but
// formulas, but changes one place before it measures the next, so that a browser lays the
// page out for each. Here all are measured first, and the theme finds nothing to change.
(() => {
  const THEIRS = "pre, .nboutput > .output_area, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container";
  const letScroll = () => {
    const [formulas, others] = [".katex-display", THEIRS].map((kind) => [...document.querySelectorAll(kind)]);
    const wide = formulas.map((formula) => formula.scrollWidth > formula.clientWidth);
    const full = others.map((it) => it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight);
    formulas.forEach((formula, n) => {
      if (wide[n]) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    });
    others.forEach((it, n) => {
      it.tabIndex = full[n] ? 0 : -1;
    });
  };
  window.addEventListener("load", letScroll);
  window.addEventListener("resize", letScroll);
})();
