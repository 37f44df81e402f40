// What a reader typed, read and judged: a number, or a shape as a list of sizes.

const SPACE = "[ \\u00a0\\u2009\\u202f]";
const GROUPS = new RegExp(`^\\d{1,3}(?:[,'_]\\d{3}|${SPACE}\\d{3})+(?=\\.|$)`);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

const counted = (n, noun) => `${n} ${noun === "axis" && n !== 1 ? "axes" : noun}`;

// Gives {value} or {unread: what to say}.
export function read(text, isShape) {
  const typed = text.trim().replace(/[−–]/g, "-");
  if (!typed) return { unread: isShape ? "Type a shape first." : "Type a number first." };
  return isShape ? readShape(typed) : readNumber(typed);
}

function readShape(typed) {
  const inner = typed.replace(/^torch\.Size/, "").replace(/^[\s([{]+|[\s)\]},]+$/g, "");
  const sizes = inner ? inner.split(/\s*[,;×x*·]\s*|\s+/) : [];
  const odd = sizes.find((size) => !/^\d+$/.test(size));
  if (odd === undefined) return { value: sizes.map(Number) };
  const what = odd ? `“${odd}” is no size` : "A size is missing";
  return { unread: `${what}: type whole numbers, as in (8, 5).` };
}

function readNumber(typed) {
  const [, sign, rest] = /^([+-]?)\s*(.*)$/.exec(typed);
  const parts = rest.split(/\s*\/\s*/).map((part) => part.replace(/\s*%$/, ""));
  const numbers = parts.map((part) => part.replace(GROUPS, (groups) => groups.replace(/[^\d]/g, "")));
  if (/^\(|^\[/.test(rest) || /^\d+(, *| *[x×] *)\d+(,| *[x×]|$)/.test(numbers[0]))
    return { unread: /^\d+,\d+$/.test(rest)
      ? `Write decimals with a point: ${rest.replace(",", ".")}.`
      : "One number is asked for, not a shape." };
  const odd = numbers.find((part) => !NUMBER.test(part));
  if (odd !== undefined || numbers.length > 2)
    return { unread: `“${typed}” cannot be read: type one number, as in 1200, 0.25 or 1.2e3.` };
  const value = numbers.length > 1 ? numbers[0] / numbers[1] : Number(numbers[0]);
  const share = rest.endsWith("%") ? value / 100 : value;
  return { value: sign === "-" ? -share : share };
}

// Gives {right} with the book's words as {html}, or those made here as {plain}.
export function judge(value, { answer, because, mistakes, absolute, relative }) {
  const near = (wanted) =>
    Array.isArray(wanted)
      ? value.length === wanted.length && wanted.every((size, axis) => size === value[axis])
      : Math.abs(value - wanted) <= (absolute ?? relative * Math.abs(wanted)) + 1e-9 * Math.abs(wanted);
  if (near(answer)) return { right: true, html: because };
  const mistake = mistakes.find(([wanted]) => near(wanted));
  if (mistake) return { right: false, html: mistake[1] };
  return { right: false, plain: Array.isArray(answer) ? shapeWords(value, answer) : sizeWords(value, answer) };
}

function shapeWords(value, answer) {
  const count = counted(value.length, "axis");
  if (value.length !== answer.length)
    return `Your shape has ${count}: too ${value.length < answer.length ? "few" : "many"}.`;
  const sorted = (sizes) => [...sizes].sort((a, b) => a - b).join();
  if (sorted(value) === sorted(answer)) return "These are the right sizes, in another order.";
  const wrong = answer.flatMap((size, axis) => (size === value[axis] ? [] : [axis]));
  const places = wrong.length === 1 ? `axis ${wrong[0]} is` : `axes ${wrong.join(" and ")} are`;
  return `${count[0].toUpperCase()}${count.slice(1)} is the right number, but ${places} not right. Count from 0.`;
}

function sizeWords(value, answer) {
  const ratio = value / answer;
  if (ratio < 0) return "The sign is wrong.";
  const far = ratio > 10 || ratio < 0.1 ? "Far too" : "Too";
  return `${far} ${value > answer ? "high" : "low"}.`;
}
