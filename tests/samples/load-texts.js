// Loads the script with the texts of each page.
async (pages) => {
    for (const [page] of pages) await new Promise((done) => {
        const script = document.createElement("script");
        const src = `../_static/places/${page.replace(/html$/, "js")}`;
        document.head.append(Object.assign(script, { src, onload: done, onerror: done }));
    });
}
