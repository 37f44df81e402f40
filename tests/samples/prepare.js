() => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    for (const formula of document.querySelectorAll(".katex"))
        formula.replaceWith(formula.textContent);
    const seen = new Set();
    for (const token of document.querySelectorAll(".highlight span:not(.line, .columns)")) {
        const ground = token.closest(".highlight").parentElement.className;
        const kind = `${token.className} on ${ground}`;
        if (seen.has(kind)) token.replaceWith(...token.childNodes);
        seen.add(kind);
    }
    // A third of a chapter's elements say nothing to axe: lines of code, places to break a
    // word, shapes of drawings; those of what can be pressed give it its size, and stay.
    for (const line of document.querySelectorAll(".highlight .line"))
        line.replaceWith(...line.childNodes);
    for (const place of document.querySelectorAll("wbr")) place.remove();
    const named = (e) => [...e.attributes].some(
        ({ name }) => name === "id" || name === "role" || name.startsWith("aria-"));
    const pressed = "svg :is([role], [tabindex], a) *";
    for (const shape of document.querySelectorAll("svg :is(path, rect, line, circle, use)"))
        if (!shape.childElementCount && !named(shape) && !shape.matches(pressed)) shape.remove();
    for (const group of [...document.querySelectorAll("svg g")].reverse())
        if (!group.childNodes.length && !named(group) && !group.matches("[tabindex]"))
            group.remove();
    const style = document.createElement("style");
    style.textContent = ".bd-article * { background-image: none !important }";
    document.head.append(style);
}
