// Brings every view of a page to life, once, also those that a notebook adds later.
import { mount } from "./mount.js";

mount({});
