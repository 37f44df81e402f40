// The bug museum has a program of its own: chapter 19 alone shows it.
import { mount } from "./mount.js";
import { Museum } from "./museum.jsx";

mount({ museum: Museum });
