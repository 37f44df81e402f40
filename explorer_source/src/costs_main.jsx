// The view of costs has a program of its own: chapter 18 alone shows it.
import { mount } from "./mount.js";
import { Costs } from "./costs.jsx";

mount({ costs: Costs });
