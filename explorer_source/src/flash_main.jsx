// The view of tiles has a program of its own: chapter 15 alone shows it.
import { mount } from "./mount.js";
import { Flash } from "./flash.jsx";

mount({ flash: Flash });
