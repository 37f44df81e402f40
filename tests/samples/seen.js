() => new Promise((done) => {
    const asked = performance.getEntriesByType("resource").filter((e) => e.name.includes(".js"));
    new PerformanceObserver((list) => done([
        list.getEntries().at(-1).startTime, Math.min(...asked.map((e) => e.startTime)),
    ])).observe({ type: "largest-contentful-paint", buffered: true });
})
