// Brings every view of a page to life, once, also those that a notebook adds later.
// A new kind: one import and one entry here; its style is the component's `style`.
import { mount } from "./mount.js";
import { Cache } from "./cache.jsx";
import { Groups } from "./groups.jsx";
import { Mask } from "./mask.jsx";
import { Predict } from "./predict.jsx";
import { Rope } from "./rope.jsx";
import { Vectors } from "./vectors.jsx";
import { Weights } from "./weights.jsx";

mount({
  cache: Cache,
  groups: Groups,
  mask: Mask,
  predict: Predict,
  rope: Rope,
  vectors: Vectors,
  weights: Weights,
});
