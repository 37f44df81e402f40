() => new Promise((done) => {
    let shift = 0;
    const add = (list) => list.getEntries().forEach((e) => { shift += e.value; });
    new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(shift), 200);
})
