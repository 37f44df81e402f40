// The slider of the temperature: which of these the weights are made with.
export const TEMPERATURES = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10];
export const ONE = TEMPERATURES.indexOf(1);

export function Temperature({ name, heat, choose }) {
  return (
    <label>
      {name}{" "}
      <input
        type="range"
        min="0"
        max={TEMPERATURES.length - 1}
        value={heat}
        aria-valuetext={String(TEMPERATURES[heat])}
        onInput={(event) => choose(+event.currentTarget.value)}
      />{" "}
      <output class="view-number" aria-live="off">{TEMPERATURES[heat]}</output>
    </label>
  );
}
