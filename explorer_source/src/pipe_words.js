// What is said of the place that the reader points at: a title, the two vectors that meet
// there with their products, and what comes of them.
const minus = (text) => text.replace("-", "−");
export const number = (value, digits = 2) =>
  value === -Infinity ? "−∞" : minus((Math.abs(value) < 0.5 / 10 ** digits ? 0 : value).toFixed(digits));
// In a cell there is room for two digits: .62, −2.1
export const short = (value) => (value > 0.995 ? "1" : value < 0.005 ? "0" : value.toFixed(2).slice(1));
export const signed = (value) => number(value, 1);

const column = (matrix, c) => matrix.map((row) => row[c]);

// {title, left, right, sign, total}: left and right are [name, numbers].
export function meeting(model, values, words, { id, word, key, part }, { head, scaled, heat, divisor }) {
  const of = (name, i) => `${name}(${words[i]})`;
  const times = (title, left, right, bias) => ({ title, left, right, sign: "×", bias });
  const weight = (matrix, c) => matrix[head * model.size + c];
  const nth = (c) => `number ${c + 1}`;
  switch (id) {
    case "r":
      return { title: `${nth(part)} of r(${words[word]})`, left: ["word", [values.words[word][part]]], right: ["place", [values.places[word][part]]], sign: "+" };
    case "x":
      return { title: `${nth(part)} of ${of("x", word)}`, said: `word ${number(values.words[word][part])} + place ${number(values.places[word][part])}, then brought to mean 0 and deviation 1 over the ${model.width} numbers: ${number(values.x[word][part])}.` };
    case "q":
      return times(`${nth(part)} of ${of("q", word)}`, [of("x", word), values.x[word]], [`column ${part + 1} of W_Q`, weight(model.query, part)]);
    case "k":
      return times(`${nth(part)} of ${of("k", key)}`, [of("x", key), values.x[key]], [`column ${part + 1} of W_K`, weight(model.key, part)]);
    case "v":
      return times(`${nth(part)} of ${of("v", key)}`, [of("x", key), values.x[key]], [`column ${part + 1} of W_V`, weight(model.value, part)]);
    case "s":
      return times(`score of ${words[word]} and ${words[key]}`, [of("q", word), values.q[word]], [of("k", key), values.k[key]]);
    case "d": {
      const by = [scaled ? `√D = ${number(Math.sqrt(model.size), 0)}` : "1 (no √D)", ...(heat === 1 ? [] : [`temperature ${heat}`])];
      return { title: `scaled score of ${words[word]} and ${words[key]}`, said: `${number(values.s[word][key])} ÷ ${by.join(" ÷ ")} = ${number(values.d[word][key])}.` };
    }
    case "m":
      return { title: `${words[word]} and ${words[key]}`, said: values.m[word][key] === -Infinity ? `the mask hides ${words[key]} from ${words[word]}: −∞, so that the weight will be 0.` : `${words[word]} may look at ${words[key]}: the score ${number(values.m[word][key])} stays.` };
    case "w": {
      const rest = values.m[word].filter((score) => score > -Infinity);
      if (!rest.length) return { title: `weight of ${words[word]} on ${words[key]}`, said: `${words[word]} may look at nothing: the whole row is 0.` };
      const sum = rest.reduce((total, score) => total + Math.exp(score), 0);
      const mine = Math.exp(values.m[word][key]);
      return { title: `weight of ${words[word]} on ${words[key]}`, said: `e^${number(values.m[word][key])} = ${number(mine)}, divided by the sum of the row, ${number(sum)}: ${number(values.w[word][key], 3)}.` };
    }
    case "o":
      return times(`${nth(part)} of the mix of ${words[word]}`, [`weights of ${words[word]}`, values.w[word]], [`${nth(part)} of each value`, column(values.v, part)]);
    case "c":
      return { title: `${nth(part)} of the joined heads of ${words[word]}`, said: `number ${(part % model.size) + 1} of head ${Math.floor(part / model.size) + 1}: ${number(values.c[word][part])}.` };
    case "p":
      return times(`${nth(part)} of what attention adds to ${words[word]}`, [`heads of ${words[word]}`, values.c[word]], [`column ${part + 1} of W_O`, model.out[part]], model.out_bias[part]);
    case "a":
      return { title: `${nth(part)} of the stream of ${words[word]}`, left: ["stream", [values.r[word][part]]], right: ["attention", [values.p[word][part]]], sign: "+" };
    case "f":
      return { title: `${nth(part)} of what the MLP adds to ${words[word]}`, said: `the MLP reads the ${model.width} numbers of ${words[word]} alone, and gives ${number(values.f[word][part])}.` };
    case "y":
      return { title: `${nth(part)} of the block’s output for ${words[word]}`, left: ["stream", [values.a[word][part]]], right: ["MLP", [values.f[word][part]]], sign: "+" };
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
  return best.length ? `“${words[i]}” looks at ${best.join(", ")}.` : `“${words[i]}” may look at nothing: its row is 0.`;
}
