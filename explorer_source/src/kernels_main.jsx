// The view of kernels has a program of its own: chapter 20 alone shows it.
import { mount } from "./mount.js";
import { Kernels } from "./kernels.jsx";

mount({ kernels: Kernels });
