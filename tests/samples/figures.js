() => {
    // How a figure reads: its letters' size on the screen, their contrast with what lies
    // below, and that of its lines and bars with the paper; faults are letters over each
    // other, or beyond the figure's edge.
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const over = (colour, opacity, ground) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const found = canvas.getImageData(0, 0, 1, 1).data;
        const share = opacity * found[3] / 255;
        return ground.map((c, i) => c * (1 - share) + found[i] * share);
    };
    const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const c = rgb[i] / 255;
        return sum + weight * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    }, 0);
    const contrast = (a, b) => {
        const [dark, bright] = [light(a), light(b)].sort((x, y) => x - y);
        return (bright + 0.05) / (dark + 0.05);
    };
    const paper = over(getComputedStyle(document.body).backgroundColor, 1, [255, 255, 255]);
    return [...document.querySelectorAll(".bd-article svg:is(.drawing, .diagram)")].map((svg) => {
        // Letters may stand over the edge of a figure that shows them there, not of the page.
        const beyond = getComputedStyle(svg).overflow === "visible";
        const frame = beyond
            ? { left: 0, right: innerWidth, top: -Infinity, bottom: Infinity }
            : svg.getBoundingClientRect();
        const shapes = [...svg.querySelectorAll("path, rect")].filter((e) => !e.closest("defs, pattern"));
        const words = [...svg.querySelectorAll("text")].filter((e) => e.textContent.trim());
        const boxes = words.map((e) => e.getBoundingClientRect());
        const told = words.map((word, index) => {
            const box = boxes[index], style = getComputedStyle(word), ctm = word.getScreenCTM();
            const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2);
            const below = shapes.filter((e) => e.compareDocumentPosition(word) & 4
                && getComputedStyle(e).fill !== "none"
                && e.isPointInFill(middle.matrixTransform(e.getScreenCTM().inverse())));
            const ground = below.reduce((colour, e) => {
                const { fill, fillOpacity } = getComputedStyle(e);
                return fill.startsWith("url") ? colour : over(fill, fillOpacity, colour);
            }, paper);
            return {
                size: parseFloat(style.fontSize) * Math.hypot(ctm.a, ctm.b),
                contrast: contrast(over(style.fill, 1, ground), ground),
                family: style.fontFamily,
            };
        });
        // A box is as high as the typeface; of slanted words it is no measure.
        const upright = words.map((e) => !/rotate\(-?(?!90)\d/.test(e.getAttribute("transform") ?? ""));
        const apart = (a, b) => a.right < b.left + 1 || b.right < a.left + 1
            || a.bottom < b.top + a.height / 2 || b.bottom < a.top + a.height / 2;
        const faults = words.flatMap((word, i) => boxes.flatMap((box, j) => (
            j < i && upright[i] && upright[j] && !apart(box, boxes[i])
                ? [`${words[j].textContent} over ${word.textContent}`] : [])));
        boxes.forEach((box, i) => {
            const spare = 0.3 * told[i].size, across = box.height > box.width ? spare : 1;
            const down = box.height > box.width ? 1 : spare;
            if (box.left < frame.left - across || box.right > frame.right + across
                || box.top < frame.top - down || box.bottom > frame.bottom + down) {
                faults.push(`${words[i].textContent} is cut`);
            }
        });
        // Lines and bars beside the paper; cells of a map may be as pale as it.
        const series = [...svg.querySelectorAll("path[style*='--figure-']")]
            .map((e) => getComputedStyle(e))
            .filter((style) => style.fillOpacity === "1")
            .map((style) => (style.stroke === "none" ? style.fill : style.stroke))
            .filter((colour) => colour.startsWith("rgb"))
            .map((colour) => contrast(over(colour, 1, paper), paper))
            .filter((ratio) => ratio > 1);
        return {
            filter: getComputedStyle(svg).filter,
            series,
            name: svg.closest("figure")?.id ?? svg.getAttribute("aria-label"),
            smallest: Math.min(...told.map((each) => each.size)),
            palest: Math.min(...told.map((each) => each.contrast)),
            families: [...new Set(told.map((each) => each.family))],
            faults,
        };
    });
}
