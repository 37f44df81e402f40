// One chapter shows its training: the others are spared this program.
import { mount } from "./mount.js";
import { Snapshots } from "./snapshots.jsx";

mount({ snapshots: Snapshots });
