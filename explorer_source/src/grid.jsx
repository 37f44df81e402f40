// The map: a table to walk through with arrow keys, of which one cell is in the tab order.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { MAP, fill, filled } from "./strings.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function Grid({ name, sentence, map, allowed, top, row, column, held, setPlace }) {
  const { queries, keys, keyLabels } = sentence;
  const table = useRef();
  const walked = useRef(false);
  useLayoutEffect(() => {
    if (walked.current) table.current.querySelector('td[tabindex="0"]').focus();
    walked.current = false;
  }, [row, column]);
  const box = useRef();
  const [shown, again] = [useRef(false), useRef()];
  const edges = () => {
    const { scrollLeft, scrollWidth, clientWidth } = box.current;
    const more = [scrollLeft > 1 && "left", scrollLeft + clientWidth < scrollWidth - 1 && "right"];
    box.current.parentNode.dataset.more = more.filter(Boolean).join(" ");
  };
  useEffect(() => {
    const watch = new ResizeObserver(() => {
      // First when it is shown: a map far below would be laid out to be measured.
      if (!shown.current) again.current();
      shown.current = true;
      edges();
    });
    watch.observe(box.current);
    watch.observe(table.current);
    return () => watch.disconnect();
  }, []);
  // Brings the row's strongest cell into sight: the map moves, never the page.
  const reveal = (line) => {
    const cell = table.current.tBodies[0].rows[line].cells[1 + map[line].indexOf(Math.max(...map[line]))];
    const [seen, whole] = [cell, box.current].map((element) => element.getBoundingClientRect());
    const words = cell.parentNode.cells[0].offsetWidth;
    if (seen.left < whole.left + words || seen.right > whole.left + box.current.clientWidth)
      box.current.scrollLeft += seen.left - whole.left - (words + box.current.clientWidth - seen.width) / 2;
    edges();
  };
  again.current = () => reveal(row);
  useEffect(() => {
    if (shown.current) reveal(row);
  }, [map]);

  const walk = (event) => {
    if (event.key === "Escape") return setPlace({ row, column, held: false });
    const [down, right] = MOVES[event.key] ?? [0, 0];
    let next = [row + down, column + right];
    if (event.key === "Home") next = [event.ctrlKey ? 0 : row, 0];
    else if (event.key === "End") next = [event.ctrlKey ? queries.length - 1 : row, keys.length - 1];
    else if (!MOVES[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    walked.current = true;
    setPlace({
      row: Math.min(Math.max(next[0], 0), queries.length - 1),
      column: Math.min(Math.max(next[1], 0), keys.length - 1),
      held,
    });
  };
  const cellOf = (event) => {
    const cell = event.target.closest("td, tbody th");
    return cell && { row: cell.parentNode.sectionRowIndex, column: Math.max(cell.cellIndex - 1, 0) };
  };
  const point = (event) => {
    const cell = !held && event.pointerType === "mouse" && cellOf(event);
    if (cell) setPlace({ ...cell, held: false });
  };
  const click = (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    setPlace({ ...cell, held: !(held && cell.row === row) });
    if (event.target.closest("th")) reveal(cell.row);
  };

  return (
    <div class={`weights-map${keys.length <= 8 ? " weights-large" : ""}`}>
      <div class="weights-edges">
        <div class="weights-scroll" ref={box} onScroll={edges}>
          <table
            ref={table}
            role="grid"
            aria-label={filled(MAP.table, { name })}
            class="weights-grid"
            onKeyDown={walk}
            onPointerOver={point}
            onClick={click}
          >
            <thead>
              <tr>
                <th scope="col" class="weights-corner">{MAP.key}<br />{MAP.query}</th>
                {keys.map((word, j) => (
                  <th key={j} scope="col" class={j === column ? "weights-here" : null}><span>{word}</span></th>
                ))}
              </tr>
            </thead>
            <tbody>
              {map.map((weights, i) => (
                <Line
                  key={i}
                  word={queries[i]}
                  allowed={allowed?.[i]}
                  {...{ weights, top }}
                  chosen={i === row}
                  column={i === row ? column : -1}
                  numbers={keyLabels.length <= 8}
                />
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <p class="weights-scale view-soft view-number">
        {fill(MAP.scale, { ramp: <span class="weights-ramp" />, top: top.toFixed(2) })}
        {allowed?.some((line) => line.includes(false)) && <span class="weights-hidden-key"><span /> {MAP.hidden}</span>}
      </p>
    </div>
  );
}

// One query. The line that did not change is not drawn again: there may be forty.
function Line({ word, weights, allowed, top, chosen, column, numbers }) {
  return useMemo(
    () => (
      <tr aria-selected={chosen} class={chosen ? "weights-chosen" : null}>
        <th scope="row">{word}</th>
        {weights.map((weight, j) => {
          const hidden = allowed && !allowed[j];
          return (
            <td
              key={j}
              tabIndex={j === column ? 0 : -1}
              class={hidden ? "weights-hidden" : null}
              style={hidden ? null : { "--w": weight / top }}
              aria-label={hidden ? MAP.hidden : weight.toFixed(3)}
            >
              {numbers && !hidden ? weight.toFixed(2) : null}
            </td>
          );
        })}
      </tr>
    ),
    [word, weights, allowed, top, chosen, column, numbers],
  );
}
