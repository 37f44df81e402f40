// Where everything stands, from the width, the number of words and the kind of matrices.
// Rows are words in every matrix, so one lit band runs through all. A product stands where
// its factors cross: what is multiplied from the left is to the left, from the right above.
const BANDS = {
  wide: [["x", "q", "s", "d", "m", "w", "o"]],
  column: [["x", "q", "s", "d"], ["m", "w", "o"]],
  phone: [["x", "q"], ["s", "d"], ["m", "w"], ["o"]],
};
// Inside a block: the stream, the joined heads and what they add, the MLP and what it adds.
const BLOCK = {
  wide: [["r", "c", "p", "a", "f", "y"]],
  column: [["r", "c", "p", "a", "f", "y"]],
  phone: [["r", "c", "p"], ["a", "f", "y"]],
};

export function layout(width, { rows, model, block }) {
  const kind = width >= 1340 ? "wide" : width < 560 ? "phone" : "column";
  const phone = kind === "phone";
  const columns = (id) => ("sdmw".includes(id) ? rows : "qkvo".includes(id) ? model.size : id === "c" ? model.heads * model.size : model.width);
  const share = (id) => ("sdmwqo".includes(id) ? 1 : 0.55); // of a column of the scores
  const bands = [...BANDS[kind], ...(block ? BLOCK[kind] : [])];
  const groups = [BANDS[kind], BLOCK[kind]]; // each with cells of one size
  const label = phone ? 60 : 68;
  const [row, gap] = phone ? [25, 12] : [28, 24];
  const [kRow, vRow] = [16, 18];
  const fan = phone ? 0 : 70; // room for the curves from weights to values
  const fixed = (band) =>
    label + (band.length - 1) * gap + (band.includes("o") && band.length > 1 ? fan : 0) + (band.includes("o") ? label : 0);
  const units = (band) => band.reduce((sum, id) => sum + columns(id) * share(id), 0);
  const unitOf = (group) => Math.min(34, ...group.map((band) => (width - fixed(band)) / units(band)));
  const blocks = {};
  const labels = [];
  let y = 0;
  for (const band of bands) {
    const top = Math.max(
      band.includes("s") ? model.size * kRow + 62 : 0,
      band.includes("o") ? rows * vRow + 44 : 0,
      18,
    );
    const unit = unitOf(groups.find((group) => group.includes(band)));
    let x = label;
    if (phone && band[0] === "o") x = blocks.w.x; // under the weights, so that the curves fall into the values
    labels.push({ x: x - 8, y: y + top, row });
    for (const id of band) {
      const column = unit * share(id);
      if (id === "o" && !phone) x += fan;
      const size = { width: column * columns(id), column };
      blocks[id] = { x, y: y + top, row, height: row * rows, ...size };
      if (id === "s") blocks.k = { x, y: y + top - 10 - model.size * kRow, row: kRow, height: model.size * kRow, ...size };
      if (id === "o") blocks.v = { x, y: y + top - 16 - rows * vRow, row: vRow, height: rows * vRow, ...size };
      x += size.width + gap;
    }
    const end = blocks[band.at(-1)];
    labels.at(-1).end = end.x + end.width + (band.includes("o") ? label : 6);
    y += top + row * rows + 54;
  }
  // In the middle of what there is.
  const spare = Math.max(0, (width - Math.max(...labels.map(({ end }) => end))) / 2);
  for (const place of Object.values(blocks)) place.x += spare;
  for (const place of labels) [place.x, place.end] = [place.x + spare, place.end + spare];
  return { blocks, labels, phone, height: y, width };
}
