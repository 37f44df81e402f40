// In how many steps the index is made, and what it finds, beside one that MiniSearch makes
// by itself of the same words.
([query]) => {
    let steps = 0, step;
    const work = bookFinding.opening(bookPlaces);
    do step = work.next(); while (!step.done && ++steps);
    const { places, index } = step.value;
    const fields = ["title", "page", "text"];
    const texts = places.map((_, id) => ({ id, title: [], page: [], text: [] }));
    for (const [word, held] of index._index)
        for (const [field, found] of held)
            for (const [id, times] of found)
                for (let nth = 0; nth < times; nth++) texts[id][fields[field]].push(word);
    const again = new MiniSearch({
        fields, processTerm: (word) => word, tokenize: (list) => [list].flat(), stringifyField: (list) => list,
    });
    again.addAll(texts);
    const found = (one) => bookFinding.find({ places, index: one }, query).map(({ id, score }) => [id, score]);
    return [steps, found(index), found(again)];
}
