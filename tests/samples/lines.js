() => {
    const counts = [];
    for (const p of document.querySelectorAll(".bd-article section > p")) {
        const head = p.previousElementSibling?.tagName == "H1" || /^Time:/.test(p.textContent);
        if (head || p.querySelector(".math, code")) continue;
        const range = document.createRange(), tops = new Map();
        const walker = document.createTreeWalker(p, NodeFilter.SHOW_TEXT);
        for (let node; (node = walker.nextNode()); )
            for (let i = 0; i < node.length; i++) {
                range.setStart(node, i); range.setEnd(node, i + 1);
                const box = range.getBoundingClientRect();
                const line = Math.round((box.top + box.bottom) / 16);
                tops.set(line, (tops.get(line) ?? 0) + 1);
            }
        counts.push(...[...tops.values()].slice(0, -1));
    }
    counts.sort((a, b) => a - b);
    return [counts.length, counts.at(counts.length >> 1), counts.at(-1)];
}
