// The view of a ring of processes has a program of its own: chapter 22 alone shows it.
import { mount } from "./mount.js";
import { Ring } from "./ring.jsx";

mount({ ring: Ring });
