// What views say, in one table, so that a second language is a second table. A name in
// braces is filled in: with words, numbers, or parts that stand out.
export const SENTENCE = {
  legend: "Point at a word",
  mask: "mask: no looking ahead",
  temperature: "temperature",
  again: "start again",
  looks: "To go on after {word}, this head takes {shares}.",
  nothing: "After {word}, this head takes nothing.",
  share: "{weight} from {word}",
  between: ", ",
  last: " and ",
  next: "The next word is {word}.",
  ahead: "Without the mask, {weight} comes from words that are not written yet.",
};

// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
