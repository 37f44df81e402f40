// What is said of the place that the reader points at: a title, the two vectors that meet
// there with their products, and what comes of them.
import { MAP, MEETING as SAY, filled } from "./strings.js";

const minus = (text) => text.replace("-", "−");
export const number = (value, digits = 2) =>
  value === -Infinity ? "−∞" : minus((Math.abs(value) < 0.5 / 10 ** digits ? 0 : value).toFixed(digits));
// In a cell there is room for two digits: .62, −2.1, −13
export const short = (value) => (value > 0.995 ? "1" : value < 0.005 ? "0" : value.toFixed(2).slice(1));
export const signed = (value) => number(value, Math.abs(value) < 9.95 ? 1 : 0);

const column = (matrix, c) => matrix.map((row) => row[c]);

// {title, left, right, sign, total}: left and right are [name, numbers].
export function meeting(model, values, words, { id, word, key, part }, { head, scaled, heat, divisor }) {
  const of = (name, i) => `${name}(${words[i]})`;
  const times = (title, left, right, bias) => ({ title, left, right, sign: "×", bias });
  const weight = (matrix, c) => matrix[head * model.size + c];
  const nth = (c) => filled(SAY.nth, { n: c + 1 });
  const pair = { word: `“${words[word]}”`, key: `“${words[key]}”` };
  switch (id) {
    case "r":
      return { title: filled(SAY.of, { nth: nth(part), of: of("r", word) }), left: [SAY.word, [values.words[word][part]]], right: [SAY.place, [values.places[word][part]]], sign: "+" };
    case "x":
      return { title: filled(SAY.of, { nth: nth(part), of: of("x", word) }), said: filled(SAY.norm, { word: number(values.words[word][part]), place: number(values.places[word][part]), width: model.width, x: number(values.x[word][part]) }) };
    case "q":
      return times(filled(SAY.of, { nth: nth(part), of: of("q", word) }), [of("x", word), values.x[word]], [filled(SAY.column, { n: part + 1, of: "W_Q" }), weight(model.query, part)]);
    case "k":
      return times(filled(SAY.of, { nth: nth(part), of: of("k", key) }), [of("x", key), values.x[key]], [filled(SAY.column, { n: part + 1, of: "W_K" }), weight(model.key, part)]);
    case "v":
      return times(filled(SAY.of, { nth: nth(part), of: of("v", key) }), [of("x", key), values.x[key]], [filled(SAY.column, { n: part + 1, of: "W_V" }), weight(model.value, part)]);
    case "s":
      return times(filled(SAY.score, pair), [of("q", word), values.q[word]], [of("k", key), values.k[key]]);
    case "d": {
      const by = [scaled ? `${number(Math.sqrt(model.size), 0)} (√D)` : SAY.noRoot, ...(heat === 1 ? [] : [filled(SAY.heat, { heat })])];
      return { title: filled(SAY.scaled, pair), said: `${number(values.s[word][key])} ÷ ${by.join(" ÷ ")} = ${number(values.d[word][key])}.` };
    }
    case "m":
      return { title: filled(SAY.pair, pair), said: values.m[word][key] === -Infinity ? filled(SAY.hides, pair) : filled(SAY.stays, { ...pair, score: number(values.m[word][key]) }) };
    case "w": {
      const rest = values.m[word].filter((score) => score > -Infinity);
      if (!rest.length) return { title: filled(SAY.weight, pair), said: filled(SAY.emptyRow, pair) };
      const sum = rest.reduce((total, score) => total + Math.exp(score), 0);
      const mine = Math.exp(values.m[word][key]);
      return { title: filled(SAY.weight, pair), said: filled(SAY.share, { score: number(values.m[word][key]), mine: number(mine), sum: number(sum), weight: number(values.w[word][key], 3) }) };
    }
    case "o":
      return times(filled(SAY.mix, { nth: nth(part), ...pair }), [filled(SAY.weights, pair), values.w[word]], [filled(SAY.eachValue, { nth: nth(part) }), column(values.v, part)]);
    case "c":
      return { title: filled(SAY.joined, { nth: nth(part), ...pair }), said: filled(SAY.ofHead, { nth: nth(part % model.size), head: Math.floor(part / model.size) + 1, value: number(values.c[word][part]) }) };
    case "p":
      return times(filled(SAY.adds, { nth: nth(part), ...pair }), [filled(SAY.heads, pair), values.c[word]], [filled(SAY.column, { n: part + 1, of: "W_O" }), model.out[part]], model.out_bias[part]);
    case "a":
      return { title: filled(SAY.streamOf, { nth: nth(part), ...pair }), left: [SAY.stream, [values.r[word][part]]], right: [SAY.attention, [values.p[word][part]]], sign: "+" };
    case "f":
      return { title: filled(SAY.mlpAdds, { nth: nth(part), ...pair }), said: filled(SAY.reads, { ...pair, width: model.width, value: number(values.f[word][part]) }) };
    case "y":
      return { title: filled(SAY.output, { nth: nth(part), ...pair }), left: [SAY.stream, [values.a[word][part]]], right: [SAY.mlp, [values.f[word][part]]], sign: "+" };
  }
}

// One sentence for the whole row.
export function row(values, words, i) {
  const best = values.w[i]
    .map((weight, j) => [weight, words[j]])
    .filter(([weight]) => weight >= 0.05)
    .sort(([a], [b]) => b - a)
    .slice(0, 3)
    .map(([weight, word]) => `${word} ${number(weight)}`);
  return filled(best.length ? SAY.looks : SAY.nothing, { word: words[i], best: best.join(MAP.between) });
}
