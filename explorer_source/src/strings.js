// What views say, a table each: a second language is a second one. A name in braces is
// filled in: with words, numbers, or parts that stand out.
export const SENTENCE = {
  legend: "Point at a word",
  mask: "mask: no looking ahead",
  temperature: "temperature",
  looks: "To go on after {word}, this head takes {shares}.",
  share: "{weight} from {word}",
  later: "{weight} from the later {word}",
  between: ", ",
  last: " and ",
  next: "The next word is {word}.",
  hint: "Point at another word, or tap it.",
  ahead: "Without the mask, {weight} comes from words that are not written yet.",
};

export const PREDICT = {
  title: "Predict.",
  check: "Check",
  show: "Show the answer",
  right: "Right.",
  wrong: "Not yet.",
  calculation: "A calculation such as 4*768**2 will do.",
  // What cannot be read.
  noShape: "Type a shape first.",
  noNumber: "Type a number first.",
  odd: "“{size}” is no size: type whole numbers, as in (8, 5).",
  missing: "A size is missing: type whole numbers, as in (8, 5).",
  notShape: "One number is asked for, not a shape.",
  comma: "Write decimals with a point: {number}.",
  unit: "Give the number alone.",
  infinite: "“{typed}” is no finite number.",
  unread: "“{typed}” cannot be read: type one number, as in 1200, 0.25 or 1.2e3.",
  // What is not right.
  axes: (count) => (count === 1 ? "1 axis" : `${count} axes`),
  fewAxes: "Your shape has {axes}: too few.",
  manyAxes: "Your shape has {axes}: too many.",
  order: "These are the right sizes, in another order.",
  oneAxis: "{axes} is the right number, but axis {wrong} is not right. Count from 0.",
  someAxes: "{axes} is the right number, but axes {wrong} are not right. Count from 0.",
  and: " and ",
  sign: "The sign is wrong.",
  high: "Too high.",
  low: "Too low.",
  farHigh: "Far too high.",
  farLow: "Far too low.",
};

// What every view has around it, what all maps say, and the buttons of what goes by steps.
export const FRAME = { number: "View {number}", goal: "Try it.", reached: "Reached." };
export const STEP = { back: "← Back", next: "Next →", step: "step {at} of {count}" };
export const MAP = {
  key: "key →",
  query: "query ↓",
  table: "{name}: rows are queries, columns are keys",
  scale: "weight 0 {ramp} {top}",
  hidden: "hidden by the mask",
  temperature: "temperature",
  between: ", ",
};

export const HEADS = {
  layer: "layer",
  head: "head",
  both: "layer and head",
  oneLayer: "layer {layer}",
  oneHead: "head {head}",
  layerHead: "layer {layer}, head {head}",
};

export const WEIGHTS = {
  title: "Attention weights, row by row",
  goal: "Find a word, after the first, that gives nine tenths of its weight to one word.",
  sentence: "sentence",
  mask: "mask",
  weights: "weights",
  weightsOf: "weights of {head}",
  held: "This row is held. Click it again, or press Escape, to let it go.",
  hint: "Point at a row, tap it, or walk with the arrow keys. A click holds the row.",
  query: "Weights of the query “{query}”",
  hidden: "hidden",
  looks: "Query “{query}” looks at {best}.",
  nothing: "Query “{query}” looks at nothing.",
};

export const MASK = {
  title: "A mask to click together",
  goal: "Hide everything from one word. What are its weights now?",
  presets: "masks to start from",
  mask: "Mask: who may look at whom",
  maskTable: "mask: rows are queries, columns are keys",
  may: "{query} may look at {key}",
  weights: "Weights that it leaves",
  weightsTable: "weights: rows are queries, columns are keys",
  hint: "Click cells: ✓ may look, × may not. Or walk with the arrow keys, and press Space.",
  shares: "“{query}” shares its weight out: {seen}.",
  nothing: "“{query}” may look at nothing.",
  four: "There are four answers:",
  answers: "answers for the empty row of {query}",
  hidden: "hidden scores",
};

export const VECTORS = {
  title: "Words as arrows",
  goal: "Move “{word}” until it looks most at another word than now.",
  query: "query",
  temperature: "temperature τ",
  divide: "divide by √2",
  reset: "Reset",
  asking: "{word}, the query",
  hint: "Drag a word, or use the arrow keys (with Shift: farther). A click in the plane moves “{word}”.",
  key: "key",
  score: "score",
  plain: "as it is",
  weight: "weight",
  said: "“{query}” looks most at “{key}”, {weight}. Its mix is {mix}",
};

export const SPLIT = {
  title: "Numbered cells on their way into heads",
  goal: "Follow a number that the mistake brings into the wrong head.",
  token: (n) => `token ${n}`,
  head: (n) => `head ${n}`,
  row: (n) => `row ${n}`,
  rows: "Each row is a token. Its heads stand side by side.",
  cut: "Each token’s row is cut into heads. Nothing moves in memory.",
  turned: "Heads come before tokens. Each head has its own part of every token.",
  ways: "way into heads",
  right: "view, then transpose",
  mistake: "view alone (the mistake)",
  wrapper: "wrapper: {heads} times {shape}",
  same: "✓ Each head of the wrapper has a projection of its own, and holds the same numbers.",
  other: "✗ Not what the wrapper’s heads hold. A dashed number belongs to another head.",
  stands: "{number} (token {token}, head {head}) now stands in {row}.",
  hint: "A colour is a token; pale is head 0, darker the next. Point at a number, tap it, or walk with the arrow keys: the same number is framed in every step.",
  strayed: "{count} of the {all} numbers in head {head}",
  and: " and ",
  astray: "The shape is right, and nothing fails. But {held} belong to another head.",
};

export const CACHE = {
  title: "A cache that fills",
  goal: "What would the last step cost without the cache? Go there, and take it away.",
  keys: "keys {layer}",
  values: "values {layer}",
  empty: "nothing yet",
  made: "made in this step",
  kept: "found in the cache",
  cache: "cache",
  on: "with a cache",
  off: "reading all anew",
  table: "keys and values of each token",
  readsOne: "The step reads {made} token and writes “{word}”: {flops} FLOPs.",
  reads: "The step reads {made} tokens and writes “{word}”: {flops} FLOPs.",
  saves: "The cache holds {bytes} bytes and saves {flops} FLOPs.",
  wouldSave: "Nothing is kept; a cache would save {flops} FLOPs.",
  legend: "A row for the keys of each layer, and one for its values: + is made in this step, ✓ is found in the cache. The word in bold is the one that the step writes; it is read in the next step.",
};

export const ROPE = {
  title: "A score that knows the offset only",
  goal: "Move both positions, and get the first score again.",
  speed: "speed of the pair",
  query: "position of the query “{word}”",
  key: "position of the key “{word}”",
  both: "both together",
  table: "the score now, and before",
  at: "{word} at",
  offset: "offset",
  score: "score",
  said: "Offset {offset}: score {score}.",
};

export const GROUPS = {
  title: "Query heads that share keys and values",
  goal: "Make the cache eight times smaller than with keys and values for each head.",
  heads: "heads of keys and values: {shared}",
  said: "{name}: the cache takes {token} per token, {text} for {tokens} tokens.",
  query: "query head {number}",
  keys: "k, v {head}",
  hint: "Each frame is a head of keys and values, with the query heads that read it. Press a query head to follow it.",
  reads: "Query head {query} reads head {own} of keys and values: {query} divided by {size}, rounded down.",
};

export const LATENT = {
  width: "width of the latent: {width}",
  numbers: "{width} numbers",
  said: "A token takes {size} bytes instead of {all} ({count} of {whole} numbers). The weight that changes most changes by {moved}. The loss of the model is {loss}; it was {before}.",
  all: "All keys",
  allMap: "map with all keys",
  fromOne: "Keys from {width} number",
  from: "Keys from {width} numbers",
  fromMap: "map with keys from the latent",
  map: "{name}: rows are queries, columns are keys",
  cell: "{query} on {key}: {weight}",
  legend: "Rows are queries, columns are keys, both in the order of the text. The more colour a cell has, the larger is its weight.",
};

export const FLASH = {
  title: "Attention, tile by tile",
  goal: "Step to the last tile. Which sums shrink on the way?",
  back: "Back",
  next: "Next tile",
  tile: "Tile {at} of {count}",
  said: "In fast memory: {fast} bytes. Moved so far: {moved} bytes; step by step, {apart} would move. The whole table of scores: {table} bytes.",
  scores: "Scores: only one tile exists",
  scoresTable: "scores: rows are queries, columns are keys",
  query: "query {i}",
  gone: "forgotten",
  later: "not made yet",
  kept: "Kept of each query",
  finished: "Kept: this piece is finished",
  keptTable: "what is kept of each query",
  columns: { query: "query", shrink: "shrink", largest: "largest", sum: "sum", mix: "mix / sum" },
};

export const SNAPSHOTS = {
  title: "A training run, snapshot by snapshot",
  goal: "Find the first snapshot in which a head gives half of its weight to what it has to find. (Begin with: {name}.)",
  training: "training step {step}",
  step: "step {step}",
  loss: "held-out loss {loss} nats per token",
  begin: "step 0, loss up to {top}",
  story: "A story at this step:",
  asked: "What each head looks at, where the model must find",
  weights: "weights of all heads",
  table: "weights of the query “{query}”; rows are heads, columns are words",
  gives: "Head {head} gives {weight} to “{word}”.",
  finds: "{name}: “{query}” has to find “{key}”. Head {head} gives it most, {weight}.",
};

export const PIPE = {
  title: "Attention, step by step",
  asks: "Which word looks?",
  hidden: "hidden",
  cache: "cache",
  mask: "mask",
  head: "head",
  on: "on",
  off: "off",
  walk: "the matrices; up and down: another word; left and right: another cell of the chosen step",
  step: "Step",
  hint: "Point at a cell, or choose a step: the two vectors that meet there appear here.",
  all: "all numbers",
  link: "link to this moment",
  again: "start again",
  signs: "Filled: above zero. Hollow: below. ×: hidden by the mask.",
  dashed: "Dashed: a key and a value made in this step; the others were kept.",
  other: "another sentence",
  show: "Show",
  known: "Known words: {words}.",
  stranger: "The head does not know {words}: it has no row for it in its table.",
  strangers: "The head does not know {words}: it has no row for them in its table.",
  long: "Eight words at most: the head has learned {places} places, and there are {count} words.",
  empty: "Type at least one word.",
  bias: "bias",
  code: "each step as a formula and as code",
  where: "{name} in the text, {where}",
  numbers: "Numbers of {name}",
};

// What is said of two vectors that meet: `pipe_words.js`.
export const MEETING = {
  nth: "number {n}",
  of: "{nth} of {of}",
  word: "word",
  place: "place",
  norm: "word {word} + place {place}, then brought to mean 0 and deviation 1 over the {width} numbers: {x}.",
  column: "column {n} of {of}",
  score: "score of {word} and {key}",
  noRoot: "1 (no √D)",
  heat: "temperature {heat}",
  scaled: "scaled score of {word} and {key}",
  pair: "{word} and {key}",
  hides: "the mask hides {key} from {word}: −∞, so that the weight will be 0.",
  stays: "{word} may look at {key}: the score {score} stays.",
  weight: "weight of {word} on {key}",
  emptyRow: "{word} may look at nothing: the whole row is 0.",
  share: "e^{score} = {mine}, divided by the sum of the row, {sum}: {weight}.",
  mix: "{nth} of the mix of {word}",
  weights: "weights of {word}",
  eachValue: "{nth} of each value",
  joined: "{nth} of the joined heads of {word}",
  ofHead: "{nth} of head {head}: {value}.",
  adds: "{nth} of what attention adds to {word}",
  heads: "heads of {word}",
  streamOf: "{nth} of the stream of {word}",
  stream: "stream",
  attention: "attention",
  mlp: "MLP",
  mlpAdds: "{nth} of what the MLP adds to {word}",
  reads: "the MLP reads the {width} numbers of {word} alone, and gives {value}.",
  output: "{nth} of the block’s output for {word}",
  looks: "“{word}” looks at {best}.",
  nothing: "“{word}” may look at nothing: its row is 0.",
};

// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
export const filled = (text, parts) => fill(text, parts).join("");
