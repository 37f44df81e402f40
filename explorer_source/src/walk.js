// Arrow keys walk through the cells of a table body: to the next cell, or the button in it.
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function walk(event) {
  const cell = event.target.closest("td");
  const move = MOVES[event.key];
  if (!cell || !move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const row = cell.closest("tbody").rows[cell.parentNode.sectionRowIndex + move[0]];
  const next = row?.cells[cell.cellIndex + move[1]];
  if (next?.tagName === "TD") (next.querySelector("button") ?? next).focus();
}
