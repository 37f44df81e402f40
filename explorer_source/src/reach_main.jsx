// The view of reach has a program of its own: chapter 16 alone shows it.
import { mount } from "./mount.js";
import { Reach } from "./reach.jsx";

mount({ reach: Reach });
