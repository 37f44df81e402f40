() => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const found = [];
    for (const view of document.querySelectorAll(".attention-live")) {
        const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const { parentElement: part, textContent } = walker.currentNode;
            const isSeen = part.checkVisibility({ visibilityProperty: true });
            // A model reads these; letters of a drawing are named on the page.
            if (isSeen && !part.closest("code, pre, svg, .pipe-word, .sentence-text"))
                found.push(textContent.trim());
        }
        for (const part of view.querySelectorAll("[aria-label]"))
            found.push(part.getAttribute("aria-label"));
    }
    return found;
}
