// In the book, a step lights its lines of code in the listings of the page, and its
// formula: by the highlights of CSS, which leave the page's own parts as they are.
const STEPS = {
  q: [/\bquery, key(, value)? = .*(@|_proj|_project).*/g, "projections"],
  s: [/\bquery @ key(\.\w+)?(\(-2, -1\))?/g, "attention"],
  d: [/\/ (query\.shape\[-1\]|head_dim|4) ?\*\* ?0\.5/g, "attention"],
  m: [/\.(masked_fill|where)\([^()]*mask([^()\n]|\([^()]*\))*\)/g, "causal"],
  w: [/\.softmax\(dim=-1\)/g, "softmax"],
  o: [/(\bweights|\)) @ (value\b|self\.v_proj\(x\))/g, "attention"],
  c: [/\btorch\.cat\(.*(found|head).*dim=-1\)/g, "multi-head"],
  p: [/\bself\.out_proj\(.*/g, "multi-head"],
  r: [null, "residual"],
  x: [/\bself\.attention_norm\(x\)/g, "layer-norm"],
  a: [/\bx = x \+ .*attention.*/g, "residual"],
  f: [/\bself\.feed_forward\(.*/g, "ffn"],
  y: [/\b(return )?x \+ .*feed_forward.*/g, "residual"],
};

export function light(step) {
  const [code, formula] = STEPS[step === "k" || step === "v" ? "q" : step] ?? [];
  for (const old of document.querySelectorAll(".pipe-formula")) old.classList.remove("pipe-formula");
  document.getElementById(`equation-eq-${formula}`)?.classList.add("pipe-formula");
  if (!window.CSS?.highlights) return;
  const ranges = [];
  for (const pre of code ? document.querySelectorAll(".bd-article .highlight pre") : [])
    for (const { index, 0: found } of pre.textContent.matchAll(code)) ranges.push(rangeOf(pre, index, index + found.length));
  CSS.highlights.set("pipe-step", new Highlight(...ranges));
}

// The part of an element from one character of its text to another.
function rangeOf(element, from, to) {
  const range = new Range();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let at = 0;
  for (let node; (node = walker.nextNode()); at += node.length) {
    if (from >= at && from <= at + node.length) range.setStart(node, from - at);
    if (to > at && to <= at + node.length) {
      range.setEnd(node, to - at);
      return range;
    }
  }
  return range;
}
