// What a reader typed, read and judged: a number, or a shape as a list of sizes.

import { calculate } from "./calculate.js";
import { filled, PREDICT as SAY, counted } from "./strings.js";

// Gives {value} or {unread: what to say}.
export function read(text, { answer, question }) {
  const isShape = Array.isArray(answer);
  const typed = text.trim().replace(/[−–]/g, "-");
  if (!typed) return { unread: isShape ? SAY.noShape : SAY.noNumber };
  return isShape ? readShape(typed) : readNumber(typed, question);
}

function readShape(typed) {
  const inner = typed.replace(/^torch\.Size/, "").replace(/^[\s([{]+|[\s)\]},]+$/g, "");
  const sizes = inner ? inner.split(/\s*[,;×x*·]\s*|\s+/) : [];
  const odd = sizes.find((size) => !/^\d+$/.test(size));
  if (odd === undefined) return { value: sizes.map(Number) };
  return { unread: odd ? filled(SAY.odd, { size: odd }) : SAY.missing };
}

function readNumber(typed, question) {
  if (/^[[(]\s*(?:[\])]|[^()]*,)|^\d+(?:, | *x *)\d/.test(typed)) return { unread: SAY.notShape };
  if (/^\d+,\d+$/.test(typed) && !/,\d{3}$/.test(typed))
    return { unread: filled(SAY.comma, { number: typed.replace(",", ".") }) };
  // A unit may follow a number alone, where the question names it.
  const [, number, unit] = /^(.*[\d%).])\s*([a-zµ]+)\.?$/i.exec(typed) ?? [];
  if (unit) {
    const asked = question.replace(/<[^>]*>/g, "").toLowerCase().match(/[a-zµ]+/g) ?? [];
    const plain = /^[^a-z*/^()]*(?:e[+-]?\d+)?$/i.test(number);
    if (!plain || !asked.includes(unit.toLowerCase())) return { unread: SAY.unit };
  }
  try {
    const value = calculate(number ?? typed);
    return Number.isFinite(value) ? { value } : { unread: filled(SAY.infinite, { typed }) };
  } catch {
    return { unread: filled(SAY.unread, { typed }) };
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
  const axes = counted(SAY.axes, value.length);
  if (value.length !== answer.length)
    return filled(value.length < answer.length ? SAY.fewAxes : SAY.manyAxes, { axes });
  const sorted = (sizes) => [...sizes].sort((a, b) => a - b).join();
  if (sorted(value) === sorted(answer)) return SAY.order;
  const wrong = answer.flatMap((size, axis) => (size === value[axis] ? [] : [axis]));
  return filled(wrong.length === 1 ? SAY.oneAxis : SAY.someAxes, { axes, wrong: wrong.join(SAY.and) });
}

function sizeWords(value, answer) {
  const ratio = value / answer;
  if (ratio < 0) return SAY.sign;
  const far = ratio > 10 || ratio < 0.1;
  if (value > answer) return far ? SAY.farHigh : SAY.high;
  return far ? SAY.farLow : SAY.low;
}
