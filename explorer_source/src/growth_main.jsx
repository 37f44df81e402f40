// Chapter 23 alone shows how heads grow: the others are spared this program.
import { Growth } from "./growth.jsx";
import { mount } from "./mount.js";

mount({ growth: Growth });
