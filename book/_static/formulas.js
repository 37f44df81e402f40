// A formula that scrolls within itself can be reached, and scrolled, by keyboard.
const letScroll = () => {
  for (const formula of document.querySelectorAll(".katex-display")) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
};
letScroll();
window.addEventListener("load", letScroll);
window.addEventListener("resize", letScroll);
