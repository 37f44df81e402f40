// The name and the text of the style sheet that a view's program adds to a page: here one
// that holds a view of each kind, in which it can draw nothing.
globalThis.styleOf = (program, kinds) => {
  let sheet = null;
  const nothing = () => null;
  const view = (kind) => ({ dataset: { kind }, querySelector: () => ({ textContent: "{}" }) });
  const page = {
    document: {
      readyState: "complete",
      querySelectorAll: () => kinds.map(view),
      querySelector: nothing,
      getElementById: nothing,
      addEventListener: nothing,
      createElement: () => ({}),
      head: { append: (added) => { sheet = added; } },
    },
    window: { addEventListener: nothing, matchMedia: () => ({}) },
    addEventListener: nothing,
    location: { hash: "", search: "", href: "" },
    console: { error: nothing },
  };
  new Function(...Object.keys(page), program)(...Object.values(page));
  return [sheet.id, sheet.textContent];
};

// A formula's HTML, or "" and what is wrong with the formula.
globalThis.typeset = (tex, options) => {
  try {
    return JSON.stringify([katex.renderToString(tex, options), ""]);
  } catch (error) {
    return JSON.stringify(["", error.message]);
  }
};
