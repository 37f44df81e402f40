// What the site's scripts say, in one table: a second language is a second table.
// A name in braces is filled in by `say`.
window.bookWords = {
  close: "Close",
  inGlossary: "In the glossary",
  // Quizzes and predictions.
  check: "Check",
  chooseAll: "Choose all that are right.",
  chooseFirst: "Choose an option first.",
  right: "Right. ",
  wrong: "Not this one. ",
  saidAlready: "right|yes|no|wrong|not this",
  oneMore: "One more is right.",
  more: "{n} more are right.",
  answered: "✓ Answered",
  count: "{n} of {total} answered. ",
  countShort: "({n} of {total} answered)",
  kept: "Kept in this browser only.",
  notKept: "This browser keeps nothing: it is gone with the page.",
  forget: "Forget all of it",
  reveal: "Show what comes out",
  hidden: "What comes out is hidden until you have answered.",
  // The search.
  groups: "Best|Sections|Questions|Glossary|Library",
  list: "Places found",
  foundOne: "1 place found",
  found: "{n} places found",
  nothing: "Nothing found. Try fewer words, or another spelling.",
  absent: "; not in this book: {words}",
  code: "In its code:",
  // The button at the top of a chapter, on a page that was opened as a file.
  onDisk: "Browsers do not download from a page that was opened as a file. The notebook is here:",
  // The first page.
  goOn: "Continue at {place}",
};
window.say = (name, parts = {}) => window.bookWords[name].replace(/\{(\w+)\}/g, (_, part) => parts[part]);
