// Follows each phrase that sets a view, once all views are there: names those after which
// the view looks as before, or does not say so.
async () => {
    const found = [], frame = () => new Promise(requestAnimationFrame);
    const phrases = [...document.querySelectorAll("a.view-phrase")];
    const lives = phrases.map(({ hash }) => () => document.querySelector(`${hash} > .attention-live`));
    for (let n = 0; n < 600 && !lives.every((live) => live()); n++) await frame();
    for (const [number, phrase] of phrases.entries()) {
        const live = lives[number]();
        if (!live) return [`${phrase.textContent} has no view`];
        const [status] = [...live.querySelectorAll(":scope > [role=status].view-hidden")];
        const look = () => {
            const copy = live.cloneNode(true);
            for (const said of copy.querySelectorAll(":scope > [role=status]")) said.remove();
            return copy.innerHTML + [...live.querySelectorAll("input, select")].map((e) => [e.value, e.checked]);
        };
        const before = look();
        phrase.click();
        // One frame for each setting, as the page takes, and then it is drawn.
        for (const _ of [...new URLSearchParams(phrase.dataset.set), 0, 0]) await frame();
        await new Promise((done) => setTimeout(done, 50));
        if (look() === before) found.push(`${phrase.textContent} changes nothing`);
        if (!status.textContent.endsWith(phrase.textContent)) found.push(`${phrase.textContent} is not said`);
    }
    return found;
}
