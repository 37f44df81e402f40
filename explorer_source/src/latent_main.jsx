// The view of latents has a program of its own: chapter 13 alone shows it.
import { mount } from "./mount.js";
import { Latent } from "./latent.jsx";

mount({ latent: Latent });
