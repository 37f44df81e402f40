// Of what is found first for each query: the passage, and the text that it is cut from.
// The texts of all places are loaded.
(queries) => {
    const work = bookFinding.opening(bookPlaces);
    let step;
    do step = work.next(); while (!step.done);
    const book = step.value;
    return queries.flatMap((query) => bookFinding.find(book, query).slice(0, 5).map(({ id, match }) => {
        const { page, nth, title } = book.places[id];
        const text = bookTexts[bookFinding.partOf(page, nth)][nth % 40];
        return [query, text, bookFinding.passage(text, match, title)];
    }));
}
