// What a reader typed, read and judged: a number, or a shape as a list of sizes.

import { calculate } from "./calculate.js";

const counted = (n, noun) => `${n} ${noun === "axis" && n !== 1 ? "axes" : noun}`;

// Gives {value} or {unread: what to say}.
export function read(text, { answer, question }) {
  const isShape = Array.isArray(answer);
  const typed = text.trim().replace(/[−–]/g, "-");
  if (!typed) return { unread: isShape ? "Type a shape first." : "Type a number first." };
  return isShape ? readShape(typed) : readNumber(typed, question);
}

function readShape(typed) {
  const inner = typed.replace(/^torch\.Size/, "").replace(/^[\s([{]+|[\s)\]},]+$/g, "");
  const sizes = inner ? inner.split(/\s*[,;×x*·]\s*|\s+/) : [];
  const odd = sizes.find((size) => !/^\d+$/.test(size));
  if (odd === undefined) return { value: sizes.map(Number) };
  const what = odd ? `“${odd}” is no size` : "A size is missing";
  return { unread: `${what}: type whole numbers, as in (8, 5).` };
}

function readNumber(typed, question) {
  if (/^[[(]\s*(?:[\])]|[^()]*,)|^\d+(?:, | *x *)\d/.test(typed)) return { unread: "One number is asked for, not a shape." };
  if (/^\d+,\d+$/.test(typed) && !/,\d{3}$/.test(typed))
    return { unread: `Write decimals with a point: ${typed.replace(",", ".")}.` };
  // A unit may follow a number alone, where the question names it.
  const [, number, unit] = /^(.*[\d%).])\s*([a-zµ]+)\.?$/i.exec(typed) ?? [];
  if (unit) {
    const asked = question.replace(/<[^>]*>/g, "").toLowerCase().match(/[a-zµ]+/g) ?? [];
    const plain = /^[^a-z*/^()]*(?:e[+-]?\d+)?$/i.test(number);
    if (!plain || !asked.includes(unit.toLowerCase())) return { unread: "Give the number alone." };
  }
  try {
    const value = calculate(number ?? typed);
    return Number.isFinite(value) ? { value } : { unread: `“${typed}” is no finite number.` };
  } catch {
    return { unread: `“${typed}” cannot be read: type one number, as in 1200, 0.25 or 1.2e3.` };
  }
}

// Gives {right} with the book's words as {html}, or those made here as {plain}.
export function judge(value, { answer, because, mistakes, absolute, relative }) {
  const distance = (wanted) => Math.abs(value - wanted);
  // A share of the number is allowed besides: what people round, and what floats do.
  const near = (wanted, share) =>
    Array.isArray(wanted)
      ? value.length === wanted.length && wanted.every((size, axis) => size === value[axis])
      : distance(wanted) <= (absolute ?? relative * Math.abs(wanted)) + share * Math.abs(wanted);
  if (near(answer, 1e-9)) return { right: true, html: because };
  const [mistake] = mistakes
    .filter(([wanted]) => near(wanted, Number.isInteger(wanted) ? 1e-9 : 0.03))
    .sort(([one], [other]) => distance(one) - distance(other) || 0);
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
