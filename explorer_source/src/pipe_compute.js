// What one small block does with a sentence: the calculation of attention_lib, from the
// numbers that Python rounded, so that what is shown is exact. Rows are words everywhere.
import { softmax, unpack } from "./numbers.js";

export const cut = (list, size) =>
  Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size));
export const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const add = (a, b) => a.map((value, i) => value + b[i]);
// x (T, M) and a weight as nn.Linear keeps it, (out, in).
const linear = (x, weight, bias) => x.map((row) => weight.map((line, i) => dot(row, line) + (bias ? bias[i] : 0)));

function norm(row) {
  const mean = row.reduce((a, b) => a + b) / row.length;
  const centred = row.map((value) => value - mean);
  const root = Math.sqrt(dot(centred, centred) / row.length + 1e-5);
  return centred.map((value) => value / root);
}

// The GELU of PyTorch, x·Φ(x), by the series of Φ: to ten decimals for |x| < 6.
function gelu(x) {
  if (Math.abs(x) > 6) return x > 0 ? x : 0;
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-12; n++) sum += term *= (x * x) / (2 * n + 1);
  return x * (0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI));
}

// The packed numbers of Python, as matrices.
export function read({ words, sizes: [width, size, heads], numbers }) {
  const lines = Object.fromEntries(Object.entries(numbers).map(([name, text]) => [name, unpack(text)]));
  for (const name of Object.keys(lines))
    if (name.endsWith("bias")) continue;
    else lines[name] = cut(lines[name], name === "out" ? heads * size : name === "down" ? 4 * width : width);
  return { words, width, size, heads, ...lines };
}

// Masks by their name, for a text of any length; `of` are its words.
export const MASKS = {
  none: () => true,
  causal: (i, j) => j <= i,
  window: (i, j) => j <= i && j > i - 3,
  padding: (i, j, of) => of[j] !== "pad",
  "causal + padding": (i, j, of) => j <= i && of[j] !== "pad",
};

// All stages of one head, and of the block around it where the numbers have one.
export function compute(model, ids, { head, allowed, scaled, heat }) {
  const { size, heads } = model;
  const words = ids.map((id) => model.table[id]);
  const places = ids.map((_, i) => model.places[i]);
  const r = words.map((word, i) => add(word, places[i]));
  const x = r.map(norm);
  const divisor = (scaled ? Math.sqrt(size) : 1) * heat;
  const one = (h) => {
    const part = (weight) => weight.slice(h * size, (h + 1) * size);
    const [q, k, v] = [model.query, model.key, model.value].map((weight) => linear(x, part(weight)));
    const s = q.map((row) => k.map((key) => dot(row, key)));
    const d = s.map((row) => row.map((score) => score / divisor));
    const m = d.map((row, i) => row.map((score, j) => (allowed(i, j) ? score : -Infinity)));
    const w = d.map((row, i) => softmax(row, row.map((_, j) => allowed(i, j)), 1));
    const o = w.map((row) => v[0].map((_, c) => row.reduce((sum, weight, j) => sum + weight * v[j][c], 0)));
    return { q, k, v, s, d, m, w, o };
  };
  const all = { words, places, r, x, divisor, ...one(head) };
  if (!model.out) return all;
  // The block: all heads side by side, W_O, the stream, the MLP.
  const each = Array.from({ length: heads }, (_, h) => (h === head ? all.o : one(h).o));
  const c = ids.map((_, i) => each.flatMap((o) => o[i]));
  const p = linear(c, model.out, model.out_bias);
  const a = r.map((row, i) => add(row, p[i]));
  const hidden = linear(a.map(norm), model.up, model.up_bias).map((row) => row.map(gelu));
  const f = linear(hidden, model.down, model.down_bias);
  return { ...all, c, p, a, f, y: a.map((row, i) => add(row, f[i])) };
}
