// What scrolls within itself is reached by keyboard. The theme's script would measure every
// place at once, also in what is folded, and so have all of the page laid out (tools/site/
// scripts.py takes that from it). Here a place is measured when it is shown or changes its size.
(() => {
  const PLACES = ".katex-display, pre, .nboutput > .output_area, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container";
  const watch = new ResizeObserver((changes) => {
    const places = changes.map(({ target }) => target);
    // All are measured before one is changed: else the page is laid out for each.
    const full = places.map((it) => it.scrollWidth > it.clientWidth || (it.scrollHeight > it.clientHeight && !it.matches(".katex-display")));
    places.forEach((it, n) => {
      if (full[n]) it.tabIndex = 0;
      else it.removeAttribute("tabindex");
    });
  });
  for (const place of document.querySelectorAll(PLACES)) {
    place.tabIndex = 0; // until it is measured: far below, and folded, it may scroll
    watch.observe(place);
  }
})();
