// A formula that scrolls within itself is reached by keyboard; the theme's script does
// so for code, outputs and tables.
(() => {
  const letScroll = () => {
    // All are measured before one is changed, so that the page is laid out once.
    const formulas = [...document.querySelectorAll(".katex-display")];
    const wide = formulas.map((formula) => formula.scrollWidth > formula.clientWidth);
    formulas.forEach((formula, n) => {
      if (wide[n]) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    });
  };
  window.addEventListener("load", letScroll);
  window.addEventListener("resize", letScroll);
})();
