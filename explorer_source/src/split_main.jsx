// The view of numbered cells has a program of its own: chapter 4 alone shows it.
import { mount } from "./mount.js";
import { Split } from "./split.jsx";

mount({ split: Split });
