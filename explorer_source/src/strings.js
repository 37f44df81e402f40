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

// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
export const filled = (text, parts) => fill(text, parts).join("");
