// The sentence has a program of its own: the first page needs no other.
import { mount } from "./mount.js";
import { Sentence } from "./sentence.jsx";

mount({ sentence: Sentence });
