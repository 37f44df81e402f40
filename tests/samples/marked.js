async () => {
    const marked = [], last = document.documentElement.scrollHeight - innerHeight;
    for (let n = 0; n <= 24; n++) {
        scrollTo(0, last * n / 24);
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        const active = document.querySelectorAll("#pst-page-toc-nav .active");
        const heads = [...document.querySelectorAll(".bd-article :is(h2, h3)")];
        const quarter = innerHeight / 4;
        const read = heads.filter((h) => h.getBoundingClientRect().top <= quarter);
        const seen = [...active].filter((link) => link.checkVisibility());
        marked.push([seen.map((link) => link.hash.slice(1)),
                     (read.at(-1) ?? heads[0]).parentElement.id, n]);
    }
    return marked;
}
