// The style sheets that a view's program adds to a page, by their ids.
globalThis.stylesOf = (runtime, program) => {
  const library = new Function(`${runtime}; return attentionRuntime;`)();
  let sheets;
  const mount = (...view) => { sheets = library.sheetsOf(...view); };
  new Function("attentionRuntime", "location", program)({ ...library, mount }, {});
  return JSON.stringify(sheets);
};

// A formula's HTML, or "" and what is wrong with the formula.
globalThis.typeset = (tex, options) => {
  try {
    return JSON.stringify([katex.renderToString(tex, options), ""]);
  } catch (error) {
    return JSON.stringify(["", error.message]);
  }
};
