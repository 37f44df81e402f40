// The view of an alignment has a program of its own: chapter 14 alone shows it.
import { mount } from "./mount.js";
import { Align } from "./align.jsx";

mount({ align: Align });
