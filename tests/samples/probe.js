async () => {
    await document.fonts.ready;
    const all = (css) => [...document.querySelectorAll(css)];
    const wide = (e) => e.scrollWidth > e.clientWidth + 1;
    const right = (e) => e.getBoundingClientRect().right;
    const tex = (e) => e.querySelector("annotation")?.textContent;
    const frames = [document.documentElement, ...all("main, .bd-article-container")];
    const bare = all(".math").filter((e) => !e.querySelector(".katex-html"));
    const silent = all(".katex").filter((e) => !e.querySelector(".katex-mathml math"));
    // Pictures further down are fetched when the reader comes near.
    await Promise.all(all("img").map((e) => {
        e.loading = "eager";
        return e.decode().catch(() => null);
    }));
    // The pipe leaves the column on purpose where it has the room: it may fill the window.
    const pipes = innerWidth < 1440 ? [] : all('[data-kind="pipe"]').filter((e) => right(e) <= innerWidth);
    for (const pipe of pipes) pipe.style.display = "none";
    const sideways = frames.filter(wide).map((e) => e.tagName);
    for (const pipe of pipes) pipe.style.display = "";
    const folded = all("details:not([open])");
    for (const part of folded) part.open = true;
    const column = Math.min(...all(".bd-article-container").map(right), innerWidth);
    const cut = all(".katex-display").filter((e) => e.scrollWidth > e.clientWidth
        || right(e) > column || [...e.querySelectorAll(".katex-base")].some(
            (part) => right(part) > right(e) + 1));
    for (const part of folded) part.open = false;
    return {
        "sideways scroll": sideways,
        "cut formula": cut.map(tex),
        "formula": [...bare, ...all(".katex-error")].map((e) => e.textContent),
        "image": all("img").filter((e) => !e.naturalWidth).map((e) => e.src),
        "screen reader": silent.map((e) => e.textContent),
    };
}
