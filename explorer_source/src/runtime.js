// What all views share: the global `attentionRuntime`. A page loads it once, and each
// output of a notebook brings it along, before the program of its view. What is
// imported by a view and stands here is not built into that view's own program.
export { Fragment, jsx, jsxs } from "preact/jsx-runtime";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export * from "./fill.js";
export { ONOFF, useLinked, useReached, useSettings } from "./frame.jsx";
export * from "./mount.js";
export * from "./numbers.js";
export * from "./temperature.jsx";
export * from "./walk.js";
