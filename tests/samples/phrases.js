// Follows each phrase that sets a view: gives its text, whether the view looks different
// then, and whether the view says so.
async () => {
    const found = [];
    for (const phrase of document.querySelectorAll("a.view-phrase")) {
        const live = document.querySelector(`${phrase.hash} > .attention-live`);
        const [status] = [...live.querySelectorAll(":scope > [role=status].view-hidden")];
        const look = () => {
            const copy = live.cloneNode(true);
            for (const said of copy.querySelectorAll(":scope > [role=status]")) said.remove();
            return copy.innerHTML + [...live.querySelectorAll("input, select")].map((e) => [e.value, e.checked]);
        };
        const before = look();
        phrase.click();
        // One frame for each setting, as the page takes, and then it is drawn.
        for (const _ of [...new URLSearchParams(phrase.dataset.set), 0, 0]) await new Promise(requestAnimationFrame);
        await new Promise((done) => setTimeout(done, 50));
        found.push([phrase.textContent, look() !== before, status.textContent.endsWith(phrase.textContent)]);
    }
    return found;
}
