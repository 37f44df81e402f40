// The view of recorded graphs has a program of its own: chapter 21 alone shows it.
import { mount } from "./mount.js";
import { Graph } from "./graph.jsx";

mount({ graph: Graph });
