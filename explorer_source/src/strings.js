// What a view says, in one table: a second language is a second one. A name in braces is
// filled in: with words, numbers, or parts that stand out.
export const SENTENCE = {
  legend: "Point at a word",
  mask: "mask: no looking ahead",
  temperature: "temperature",
  looks: "To go on after {word}, this head takes {shares}.",
  share: "{weight} from {word}",
  between: ", ",
  last: " and ",
  next: "The next word is {word}.",
  hint: "Point at another word, or tap it.",
  ahead: "Without the mask, {weight} comes from words that are not written yet.",
};

// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
