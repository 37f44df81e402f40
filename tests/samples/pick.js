(seen) => {
    const known = new Set(seen), fresh = [], looks = new Map();
    const look = (e) => {
        if (!e) return "";
        if (!looks.has(e)) {
            const { backgroundColor, opacity, filter } = getComputedStyle(e);
            const own = `${backgroundColor} ${opacity} ${filter}`.replace(
                "rgba(0, 0, 0, 0) 1 none", "");
            looks.set(e, own + look(e.parentElement));
        }
        return looks.get(e);
    };
    for (const e of document.querySelectorAll("[data-pick]")) delete e.dataset.pick;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const own = new Set();
    while (texts.nextNode())
        if (texts.currentNode.data.trim()) own.add(texts.currentNode.parentElement);
    for (const e of own) {
        if (!e.checkVisibility({ visibilityProperty: true })) continue;
        const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(e);
        const large = parseFloat(fontSize) > 18 && fontSize + fontWeight;
        const link = e.closest("a");
        const beside = link && getComputedStyle(link.parentElement).color;
        const around = link && textDecorationLine + beside;
        const way = [color, large, around, look(e)];
        if (known.has(way.join())) continue;
        known.add(way.join());
        fresh.push(way.join());
        e.dataset.pick = "";
    }
    return fresh;
}
