// Which head: a small picture of each, or two lists where there are many.
import { useEffect, useRef, useState } from "preact/hooks";
import { HEADS as SAY, filled } from "./strings.js";

const MANY = 48;
const INK = [45, 140, 210]; // seen on white and on black

export const headName = (at, layers, heads) =>
  filled(layers > 1 ? SAY.layerHead : SAY.oneHead, { layer: Math.floor(at / heads) + 1, head: (at % heads) + 1 });

export function Heads({ layers, heads, maps, chosen, choose }) {
  const [group] = useState(() => `heads-${Math.random().toString(36).slice(2)}`);
  const layer = Math.floor(chosen / heads);
  if (maps.length > MANY) {
    return (
      <div class="weights-controls">
        {layers > 1 && <List name={SAY.layer} count={layers} value={layer} choose={(i) => choose(i * heads + (chosen % heads))} />}
        {heads > 1 && <List name={SAY.head} count={heads} value={chosen % heads} choose={(i) => choose(layer * heads + i)} />}
      </div>
    );
  }
  return (
    <fieldset class="weights-heads">
      <legend class="view-hidden">{layers > 1 ? SAY.both : SAY.head}</legend>
      {Array.from({ length: layers }, (_, l) => (
        <div key={l} class="weights-layer">
          {layers > 1 && <span class="view-soft" aria-hidden="true">{filled(SAY.oneLayer, { layer: l + 1 })}</span>}
          {Array.from({ length: heads }, (_, h) => {
            const at = l * heads + h;
            return (
              <label key={h}>
                <input
                  type="radio"
                  name={group}
                  class="view-hidden"
                  checked={at === chosen}
                  aria-label={headName(at, layers, heads)}
                  onChange={() => choose(at)}
                />
                <span class="view-pick">
                  <Picture map={maps[at]} />
                  {layers > 1 ? `${l + 1}.${h + 1}` : h + 1}
                </span>
              </label>
            );
          })}
        </div>
      ))}
    </fieldset>
  );
}

function List({ name, count, value, choose }) {
  return (
    <label>
      {name}{" "}
      <select value={value} onChange={(event) => choose(+event.currentTarget.value)}>
        {Array.from({ length: count }, (_, i) => <option key={i} value={i}>{i + 1}</option>)}
      </select>
    </label>
  );
}

// One pixel a weight; the style makes it larger.
function Picture({ map }) {
  const canvas = useRef();
  const [height, width] = [map.length, map[0].length];
  useEffect(() => {
    const pen = canvas.current.getContext("2d");
    const top = Math.max(1e-9, ...map.map((row) => Math.max(...row)));
    const pixels = map.flat().flatMap((weight) => [...INK, Math.round((255 * weight) / top)]);
    pen.putImageData(new ImageData(new Uint8ClampedArray(pixels), width, height), 0, 0);
  }, [map]);
  return <canvas ref={canvas} width={width} height={height} aria-hidden="true" />;
}
