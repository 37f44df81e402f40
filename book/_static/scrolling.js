// What scrolls within itself can be reached, and scrolled, by keyboard.
(() => {
  const SCROLLERS = "pre, .cell_output > .output, .katex-display, .pst-scrollable-table-container";
  const letScroll = () => {
    // All are measured before one is changed, so that the page is laid out once.
    const blocks = [...document.querySelectorAll(SCROLLERS)];
    const wide = blocks.map((block) => block.scrollWidth > block.clientWidth);
    blocks.forEach((block, n) => {
      if (wide[n]) block.tabIndex = 0;
      else block.removeAttribute("tabindex");
    });
  };
  window.addEventListener("load", letScroll);
  window.addEventListener("resize", letScroll);
})();
