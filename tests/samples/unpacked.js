// The places that hold each word in their text, as a reader's browser unpacks them.
(pages) => {
    const script = bookFinding.write(pages)["_static/places.js"];
    const work = bookFinding.opening(JSON.parse(script.replace(/^var bookPlaces = |;\s*$/g, "")));
    let step;
    do step = work.next(); while (!step.done);
    const texts = [...step.value.index._index].filter(([, fields]) => fields.has(2));
    return Object.fromEntries(texts.map(([word, fields]) => [word, [...fields.get(2).keys()]]));
}
