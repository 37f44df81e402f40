// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
export const filled = (text, parts) => fill(text, parts).join("");
