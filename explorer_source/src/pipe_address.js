import { TEMPERATURES } from "./temperature.jsx";

// The state in the address: #pipe=4.1.w&mask=causal&head=1&scale=off&t=0.5&text=the+cat+ran
export function fromAddress(first) {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("pipe")) return null;
  const [word, key, stage, part] = given.get("pipe").split(".");
  const whole = (text, other) => (/^\d$/.test(text ?? "") ? +text : other);
  const found = { word: whole(word, first.word), key: whole(key, null), stage: /^[rxqkvsdmwocpafy]$/.test(stage) ? stage : null, part: whole(part, 0) };
  for (const name of ["mask", "text", "flip"]) if (given.has(name)) found[name] = given.get(name);
  for (const name of ["head", "step"]) if (given.has(name)) found[name] = whole(given.get(name), 0);
  const heat = Number(given.get("t"));
  if (TEMPERATURES.includes(heat)) found.heat = heat; // else the slider would show another one
  if (given.has("scale")) found.scaled = given.get("scale") !== "off";
  if (given.has("cache")) found.anew = given.get("cache") === "off";
  return found;
}

export function toAddress(state, first) {
  const { word, key, stage, part, heat, scaled, anew } = state;
  const parts = { pipe: [word, key ?? "", stage ?? "", part || ""].join(".").replace(/\.+$/, "") };
  for (const name of ["text", "mask", "head", "flip", "step"]) if (state[name] !== first[name]) parts[name] = state[name];
  if (heat !== first.heat) parts.t = heat;
  if (scaled !== first.scaled) parts.scale = scaled ? "on" : "off";
  if (anew) parts.cache = "off";
  return `#${new URLSearchParams(parts)}`;
}
