// Loads the scripts with the texts of all places of each page, and returns their counts.
async (pages) => {
    const counts = [];
    for (const [page, places] of pages) {
        const parts = new Set(places.map((_, nth) => bookFinding.partOf(page, nth)));
        for (const part of parts) await new Promise((done) => {
            const script = document.createElement("script");
            const src = `../_static/places/${part}`;
            document.head.append(Object.assign(script, { src, onload: done, onerror: done }));
        });
        counts.push([...parts].flatMap((part) => bookTexts[part]).length);
    }
    return counts;
}
