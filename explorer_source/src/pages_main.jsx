// The view of a server's pages has a program of its own: chapter 17 alone shows it.
import { mount } from "./mount.js";
import { Pages } from "./pages.jsx";

mount({ pages: Pages });
