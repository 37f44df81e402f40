// The lines of code that go on below in the middle of a name.
() => [...document.querySelectorAll(".cell_input .line")].filter((line) => {
    const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT), range = new Range();
    let before = " ", bottom = Infinity;
    while (texts.nextNode())
        for (const [nth, letter] of [...texts.currentNode.data].entries()) {
            range.setStart(texts.currentNode, nth);
            range.setEnd(texts.currentNode, nth + 1);
            const box = range.getBoundingClientRect();
            if (!box.width) continue;
            if (box.top >= bottom && /\w\w/.test(before + letter)) return true;
            [before, bottom] = [letter, box.bottom];
        }
    return false;
}).map((line) => line.textContent.trim())
