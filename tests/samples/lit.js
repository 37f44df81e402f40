// The least contrast of the numbers in lit cells: on the colour of the cell, over the band.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const mix = (...layers) => {
    for (const [colour, alpha] of layers) {
      canvas.globalAlpha = alpha;
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) =>
      v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const band = getComputedStyle(document.querySelector(".pipe-band")).fill;
  return [...document.querySelectorAll(".pipe-value")].map((text) => {
    const cell = text.parentNode.querySelector(".pipe-above");
    const style = cell && getComputedStyle(cell);
    const lights = [
      mix([band, 1], ...(cell ? [[style.fill, Number(style.fillOpacity)]] : [])),
      mix([getComputedStyle(text).fill, 1]),
    ].sort();
    return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
  });
}
