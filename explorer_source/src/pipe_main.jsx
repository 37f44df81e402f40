// The pipeline has a program of its own: pages without it are spared its weight.
import { mount } from "./mount.js";
import { Pipe } from "./pipe.jsx";

mount({ pipe: Pipe });
