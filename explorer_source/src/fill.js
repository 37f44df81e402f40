// "{a} of {b}" → the parts in their order, texts and what stands for the names.
export const fill = (text, parts) =>
  text.split(/\{(\w+)\}/).map((piece, n) => (n % 2 ? parts[piece] : piece));
export const filled = (text, parts) => fill(text, parts).join("");
// Of one thing, or of several: ["1 token", "{count} tokens"].
export const counted = ([one, several], count) => (count === 1 ? one : filled(several, { count }));
// What is said, or a table of it, in the words of a page that brings its own.
export const own = (said) => {
  if (typeof said === "string") return globalThis.attentionWords?.[said] ?? said;
  const pairs = Object.entries(said).map(([name, text]) => [name, own(text)]);
  return Array.isArray(said) ? pairs.map(([, text]) => text) : Object.fromEntries(pairs);
};
