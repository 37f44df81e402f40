// Numbers as Python packed them (attention_lib/course/views/_packing.py), and the softmax.

// ".5 1. -.25" → [0.5, 1, -0.25]
export const unpack = (text) => text.split(" ").map(Number);

// The weights of one row of scores: softmax(scores / temperature) over what `allowed`
// says (all when it is null). A row that may attend to nothing gets zeros.
export function softmax(scores, allowed, temperature) {
  const open = (i) => !allowed || allowed[i];
  const top = Math.max(...scores.filter((_, i) => open(i)));
  const parts = scores.map((score, i) => (open(i) ? Math.exp((score - top) / temperature) : 0));
  const sum = parts.reduce((a, b) => a + b, 0);
  return parts.map((part) => (sum ? part / sum : 0));
}

// Words of which some occur twice are told apart by their place: "the (2)".
export const labels = (words) =>
  words.map((word, i) => (words.indexOf(word) === words.lastIndexOf(word) ? word : `${word} (${i + 1})`));
