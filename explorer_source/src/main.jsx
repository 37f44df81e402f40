// Brings every view of a page to life, once, also those that a notebook adds later.
// A new kind: one import and one entry here; its style is the component's `style`.
import { mount } from "./mount.js";
import { Predict } from "./predict.jsx";
import { Weights } from "./weights.jsx";

mount({
  predict: Predict,
  weights: Weights,
});
