// All matrices as one picture, hidden from screen readers: what is chosen is said below it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { layout } from "./pipe_layout.js";
import { signed, short } from "./pipe_words.js";

const SQUARE = "sdmw"; // a row for each query, a column for each key

export function Picture({ model, values, words, row, column, place, head, reads, stages, stage, all, point, hold, tip }) {
  const box = useRef();
  const [mouse, setMouse] = useState(false); // is it on a cell?
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const plan = width ? layout(width, { rows: words.length, model, block: !!values.y }) : null;
  return (
    <div class="pipe-picture" ref={box} style={{ minHeight: `${plan?.height ?? 0}px` }}>
      {plan && <Drawing {...{ plan, model, values, words, row, column, place, head, reads, stage, all, hold }} point={(found) => (setMouse(!!found?.id), point(found))} />}
      {mouse && place && <Tip {...{ plan, place }}>{tip}</Tip>}
      {plan && stages(plan.blocks)}
    </div>
  );
}

// What a cell is, beside it: at its left where the picture ends.
function Tip({ plan, place: { id, word, key, part }, children }) {
  const { x, y, row, column } = plan.blocks[id];
  const [r, c] = id === "k" ? [part, key] : id === "v" ? [key, part] : [word, SQUARE.includes(id) ? key : part];
  const [left, top] = [x + (c + 1) * column + 6, y + (r + 1) * row + 6];
  const side = left > plan.width - 240 ? { right: `${plan.width - left + column + 12}px` } : { left: `${left}px` };
  return <div class="pipe-tip" aria-hidden="true" style={{ top: `${top}px`, ...side }}>{children}</div>;
}

function Drawing({ plan, model, values, words, row, column, place, head, reads, stage, all, point, hold }) {
  const { blocks, labels, phone } = plan;
  const { k, v, w, o, s } = blocks;
  const last = words.length - 1;
  const at = (event) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const [px, py] = [event.clientX - left, event.clientY - top];
    for (const [id, of] of Object.entries(blocks)) {
      const c = Math.floor((px - of.x) / of.column);
      const r = Math.floor((py - of.y) / of.row);
      if (c < 0 || r < 0 || px >= of.x + of.width || py >= of.y + of.height) continue;
      // Keys are columns: a word each. Values are rows.
      if (id === "k") return { id, word: row, key: c, part: r };
      if (id === "v") return { id, word: row, key: r, part: c };
      return SQUARE.includes(id) ? { id, word: r, key: c } : { id, word: r, part: c };
    }
    const label = labels.find(({ y, row: size }) => py >= y && py < y + size * words.length);
    return label && { word: Math.min(last, Math.floor((py - label.y) / label.row)) };
  };
  const shown = (id) => (r) => (id === "k" || id === "v" ? reads.kept(r) : reads.made(r));
  const turned = values.k[0].map((_, c) => values.k.map((line) => line[c]));
  const next = Object.keys(blocks).filter((id) => !"kvow".includes(id) && id !== "y");
  return (
    <svg
      width={plan.width}
      height={plan.height}
      aria-hidden="true"
      onPointerMove={(event) => event.pointerType === "mouse" && point(at(event))}
      onPointerLeave={() => point(null)}
      onClick={(event) => {
        const found = at(event);
        if (found) hold(found);
      }}
    >
      {labels.map(({ x, y, row: size, end }, i) => (
        <g key={i}>
          <rect class="pipe-band" x={x - 54} y={y + row * size} width={end - x + 54} height={size} rx="5" />
          {words.map((word, r) => (
            <text key={r} class={`pipe-label${r === row ? " pipe-on" : ""}${reads.made(r) || reads.kept(r) ? "" : " pipe-later"}`} x={x} y={y + (r + 0.5) * size} text-anchor="end">{word}</text>
          ))}
        </g>
      ))}
      {/* on to the next stage, where that is in the same band */}
      {next.map((id) => {
        const [one, two] = [blocks[id], Object.values(blocks).find((b) => b.y === blocks[id].y && b.x > blocks[id].x && b.height === blocks[id].height)];
        return two && <path key={id} class="pipe-next" d={`M${(one.x + one.width + two.x) / 2 - 3},${one.y + (row + 0.5) * one.row - 5} l6,5 l-6,5`} />;
      })}
      {words.map((word, j) => (
        <g key={j} class={reads.kept(j) ? null : "pipe-off"}>
          <text class={`pipe-small${j === column ? " pipe-on" : ""}`} data-tone="k" transform={`translate(${k.x + (j + 0.5) * k.column + 3},${k.y - 6}) rotate(-48)`}>{word}</text>
          <text class={`pipe-small${j === column ? " pipe-on" : ""}`} data-tone="v" x={v.x + v.width + 8} y={v.y + (j + 0.5) * v.row}>{word}</text>
        </g>
      ))}
      <text class="pipe-name" data-tone="k" x={k.x - 8} y={k.y + k.height / 2} text-anchor="end">Kᵀ</text>
      <text class="pipe-name" data-tone="v" x={v.x + 2} y={v.y - 12}>V</text>
      {/* weights carry values: a line as wide as the weight */}
      {values.w[row].map((share, j) => {
        if (!share) return null;
        const [fx, fy] = [w.x + (j + 0.5) * w.column, w.y + (phone ? words.length : row) * w.row];
        const [tx, ty] = [v.x - 4, v.y + (j + 0.5) * v.row];
        const bend = phone ? `${fx},${(fy + ty) / 2} ${tx - 46},${ty}` : `${fx},${ty + 8} ${fx + 30},${ty}`;
        return <path key={j} class="pipe-flow" d={`M${fx},${fy} C${bend} ${tx},${ty}`} style={{ strokeWidth: 0.75 + 8 * share, strokeOpacity: 0.16 + 0.6 * share }} />;
      })}
      {Object.entries(blocks).map(([id, block]) => (
        <Matrix
          key={id}
          {...{ id, block, all, stage, place }}
          values={id === "k" ? turned : values[id]}
          row={id === "k" ? null : id === "v" ? column : row}
          column={SQUARE.includes(id) || id === "k" ? column : null}
          marked={id === "c" ? head : null}
          size={model.size}
          shown={shown(id)}
          read={SQUARE.includes(id) ? reads.kept : null}
          fresh={reads.fresh}
        />
      ))}
      {/* one score: its query from the left, its key from above */}
      <rect class="pipe-frame" data-tone="k" x={k.x + column * k.column} y={k.y} width={k.column} height={s.y + (row + 1) * s.row - k.y} rx="3" />
    </svg>
  );
}

// Where the letters on a cell change from black to white in a light page, and from white
// to black in a dark one, for each hue: so strong its colour must be. Off the band, later.
const CHANGE = { x: [0.855, 0.575], q: [0.805, 0.565], k: [0.895, 0.545], w: [0.785, 0.555], v: [0.885, 0.525] };
const hue = (id) => ("sdmw".includes(id) ? "w" : "vocp".includes(id) ? "v" : "qk".includes(id) ? id : "x");
const ground = (strength, id, on) => {
  const [light, dark] = CHANGE[hue(id)];
  return strength >= light + (on ? 0 : 0.02) ? " pipe-high" : strength >= dark + (on ? 0 : 0.07) ? " pipe-mid" : " pipe-low";
};

// Filled cells are above zero, hollow ones below: the sign needs no colour.
function Matrix({ id, block, values, row, column, all, stage, place, marked, size, shown, read, fresh }) {
  const { x, y, row: high, column: wide } = block;
  const finite = values.flat().filter(Number.isFinite).map(Math.abs);
  const top = id === "w" ? 1 : Math.max(1e-9, ...finite);
  const text = id === "w" ? short : signed;
  const room = wide >= (id === "w" ? 18 : 24) && high >= 20;
  return (
    <g data-tone={id} data-matrix={id}>
      {stage === id && <rect class="pipe-ring" x={x - 3} y={y - 3} width={block.width + 6} height={block.height + 6} rx="5" />}
      {marked !== null && <rect class="pipe-ring" x={x + marked * size * wide} y={y - 2} width={size * wide} height={block.height + 4} rx="4" />}
      {values.map((line, r) =>
        line.map((value, c) => {
          const word = id === "k" ? c : r;
          if (!shown(word) || (read && !read(c))) return null;
          const on = id === "k" ? c === column : r === row;
          const strength = Math.min(1, Math.abs(value) / top);
          const hidden = value === -Infinity;
          const here = place?.id === id && (id === "k" ? place.part === r && place.key === c : "v" === id ? place.key === r && place.part === c : place.word === r && (place.key ?? place.part) === c);
          const [left, up] = [x + c * wide + 1, y + r * high + 1];
          const [w, h] = [wide - 2, high - 2];
          return (
            <g key={`${r}-${c}`} class={on || all ? null : "pipe-dim"}>
              {hidden ? (
                <path class="pipe-hidden" d={`M${left + w / 2 - 3},${up + h / 2 - 3} l6,6 m0,-6 l-6,6`} />
              ) : value < 0 ? (
                <rect class="pipe-below" x={left + 1} y={up + 1} width={w - 2} height={h - 2} rx="2" style={{ strokeOpacity: 0.25 + 0.75 * strength }} />
              ) : (
                <rect class="pipe-above" x={left} y={up} width={w} height={h} rx="2.5" style={{ fillOpacity: 0.08 + 0.92 * strength }} />
              )}
              {room && (on || all) && !hidden && (
                <text class={`pipe-value${value < 0 ? "" : ground(0.08 + 0.92 * strength, id, on)}${c === column ? " pipe-here" : ""}`} x={x + (c + 0.5) * wide} y={y + (r + 0.5) * high}>{text(value)}</text>
              )}
              {here && <rect class="pipe-cell" x={left - 1} y={up - 1} width={w + 2} height={h + 2} rx="3" />}
              {fresh === word && (id === "k" || id === "v") && <rect class="pipe-fresh" x={left} y={up} width={w} height={h} rx="2" />}
            </g>
          );
        }),
      )}
    </g>
  );
}
