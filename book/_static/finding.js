// The search: results while typing, in the dialog of Ctrl+K and on the search's own page.
// `contents.js` fetches this file, its words, MiniSearch and the list of places at a field's first
// use; the texts of a page's part come when one of its places is found. All are scripts, which
// a page opened as a file may load too. `tools/site/finding.py` runs `bookFinding.write`.
globalThis.bookFinding = (() => {
  const { say } = globalThis;
  const THEIRS = globalThis.bookTheirs; // finding_words.js is fetched before
  const HAN = /\p{Script=Han}/u;
  const stop = globalThis.bookStop.split(" ");
  const MINOR = new RegExp(`^(${globalThis.bookMinor})$`, "i");
  const ASKING = new RegExp(globalThis.bookAsking, "gi");
  const WITHOUT = new RegExp(globalThis.bookWithout, "i");
  const AIMS = Object.entries(globalThis.bookAims).map(([said, place]) => [new RegExp(`^(${said})$`), place]);
  const FIELDS = { title: globalThis.bookTitles, page: 0.8, text: 1 };
  const WEIGHTS = [1.3, 1.4, 1.3, 0.4]; // by group, of the four kinds of places
  const PARTS = 0.5; // a name's words, not the name
  const LINKED = 0.2; // of the score of a section that a question names, and the other way round
  const LONGER = 0.1; // a word's longer forms, where the book has the word
  const SHORT = 3; // letters of a word that may go on
  const BEST = 3, WEAK = 0.05; // places in the first group; what the last ones score of the first
  const LONG = 168, LONGEST = 60; // letters of a passage, and of a formula there
  const PAUSE = 120; // milliseconds without a new letter
  const PIECE = 6; // milliseconds of work at a time
  const PART = 40; // places whose texts come in one script
  const partOf = (page, nth) => page.replace(/html$/, `${Math.floor(nth / PART)}.js`);

  // ---- Words ----

  // Chinese has no spaces: two neighbouring characters are a word, but not across one that only joins.
  const JOINING = new RegExp(stop.filter((word) => HAN.test(word)).join("|") || "(?!)", "g");
  const RUN = /\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}_])+/gu;
  const pairs = (run) => (run.length > 1 && HAN.test(run) ? [...run].slice(1).map((second, at) => run[at] + second) : [run]);
  // Lower case; √ is a word, a plural is one thing, and so are -ize and -ise, 4,096 and 4096. A name of
  // several words is these, too.
  const split = (text) => (text.replace(/√/g, " sqrt ").replace(/(\d),(?=\d{3}\b)/g, "$1").replace(JOINING, " ").match(RUN) ?? []).flatMap(pairs).map((word) => {
    const parts = word.replace(/(\p{Ll})(\p{Lu})/gu, "$1_$2").split("_").filter(Boolean).map(plain);
    return parts.length > 1 ? [[plain(word)], parts] : [parts];
  });
  const words = (text) => split(text).flat(2);
  // What a question or a title is about, to compare them: "without" a thing is not about what it is.
  const subject = (text) => (WITHOUT.test(text) ? "- " : "") + split(text.replace(ASKING, "")).map(([way]) => way.join()).filter((word) => !/^(an?|the)$/.test(word)).join(" ");
  const plain = (word) => single(word.toLowerCase());
  const single = (word) => (word.length > 3 ? word.replace(/ies$/, "y").replace(/([^siu])s$/, "$1") : word)
    .replace(/iz(?=e|ing|ation)/, "is");
  const STOP = new Set(stop.map(plain));
  const stem = (word) => {
    const short = word.replace(/(?:ing|ed|ation|e)$/, "");
    return short.length > 3 ? short.replace(/([^aeiouls])\1$/, "$1") : word;
  };

  // The longest phrases first.
  const SAME = Object.entries(THEIRS).map(([theirs, ours]) => [words(theirs), ours.map(words)])
    .sort(([a], [b]) => b.length - a.length);

  // The words of all texts, sorted, and the numbers of the texts that hold each. A word is a capital
  // letter, which says how many letters it shares with the word before, and its other letters. Numbers are
  // bits, six to a character: how many there are (Elias gamma code), then the one in the middle, those before
  // it and those after it (interpolative code: the fewer numbers are possible, the fewer bits).
  const CAPITAL = 65, FIRST = 35, BACKSLASH = 92; // which JSON writes as two
  // Of the numbers from 0 that are less than a range, the first ones take this many bits, the others one more.
  const shortest = (range) => 31 - Math.clz32(range);
  const shorter = (range) => 2 ** (shortest(range) + 1) - range;
  const inBits = (number, length) => (length ? number.toString(2).padStart(length, "0") : "");
  const coded = (numbers, from, to) => {
    if (!numbers.length) return "";
    const nth = numbers.length >> 1, range = to - from - numbers.length + 1, own = numbers[nth] - from - nth;
    const isShort = own < shorter(range), bits = inBits(isShort ? own : own + shorter(range), shortest(range) + !isShort);
    return bits + coded(numbers.slice(0, nth), from, numbers[nth]) + coded(numbers.slice(nth + 1), numbers[nth] + 1, to);
  };
  const pack = (texts) => {
    const places = new Map();
    for (const [number, text] of texts.entries())
      for (const word of new Set(words(text.replace(/\d+\.\d+/g, " ")))) // nobody looks for 0.25
        if (!STOP.has(word)) (places.get(word) ?? places.set(word, []).get(word)).push(number);
    const all = [...places].sort(([a], [b]) => (a < b ? -1 : 1));
    const letters = all.map(([word], at) => {
      const last = all[at - 1]?.[0] ?? "";
      let same = 0;
      while (same < 25 && same < word.length && word[same] === last[same]) same++;
      return String.fromCharCode(CAPITAL + same) + word.slice(same);
    });
    const bits = all.map(([, numbers]) => {
      const count = numbers.length.toString(2);
      return "0".repeat(count.length - 1) + count + coded(numbers, 0, texts.length);
    }).join("");
    return [letters.join(""), bits.padEnd(Math.ceil(bits.length / 6) * 6, "0").replace(/.{6}/g, (six) => {
      const code = FIRST + parseInt(six, 2);
      return String.fromCharCode(code < BACKSLASH ? code : code + 1);
    })];
  };
  // The words, one by one, and the numbers of the texts that hold each.
  const unpack = function* ([letters, digits], all) {
    let at = 0, word = "";
    const bit = () => {
      const code = digits.charCodeAt(at / 6);
      return (((code < BACKSLASH ? code : code - 1) - FIRST) >> (5 - (at++ % 6))) & 1;
    };
    const zeros = () => (bit() ? 0 : 1 + zeros());
    const number = (length, begun = 0) => (length ? number(length - 1, 2 * begun + bit()) : begun);
    const numbers = (held, from, to) => {
      if (!held) return [];
      const nth = held >> 1, range = to - from - held + 1, own = number(shortest(range));
      const middle = from + nth + (own < shorter(range) ? own : 2 * own + bit() - shorter(range));
      return [...numbers(nth, from, middle), middle, ...numbers(held - nth - 1, middle + 1, to)];
    };
    for (const [, same, rest] of letters.matchAll(/([A-Z])([^A-Z]*)/g)) {
      word = word.slice(0, same.charCodeAt(0) - CAPITAL) + rest;
      yield [word, numbers(number(zeros(), 1), 0, all)];
    }
  };
  // A formula as one would type it, from the inner braces to the outer ones: W_Kᵀ, e^(s − m), √(a + b).
  // One that cannot be said so, or not shortly, is left out: "…".
  // Its spaces do not break, so a passage never ends inside.
  const SIGNS = Object.fromEntries(("sqrt √,infty ∞,times ×,cdot ·,le ≤,ge ≥,approx ≈,odot ⊙,top ᵀ,sum Σ,partial ∂,mid |,dots …,ldots …,ell ℓ," +
    "alpha α,beta β,gamma γ,delta δ,epsilon ε,varepsilon ε,theta θ,lambda λ,mu μ,pi π,sigma σ,tau τ,varphi φ,phi φ,Phi Φ,omega ω")
    .split(",").map((pair) => pair.split(" ")));
  const FUNCTION = /^(ln|log|exp|sin|cos|tanh|max|min)$/;
  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const bound = (text) => (/^([\p{Lu}\p{Ll}\d.]+|\([^()]*\))$/u.test(text) ? text : `(${text})`);
  const small = { // what stands below or above
    _: (text) => `_${/^\w+$/.test(text) ? text : bound(text)}`,
    "^": (text) => (/^-?\d+$/.test(text) ? text.replace("-", "⁻").replace(/\d/g, (digit) => RAISED[digit]) : `^${text.length > 1 ? `(${text})` : text}`),
  };
  const formula = (tex) => {
    let text = tex.replace(/\{,\}/g, ",").replace(/\\[,;: !]|\\q?quad\b|~/g, " ").replace(/([_^])(\w)/g, "$1{$2}")
      .replace(/(?<=([\w)}])?)\\([a-z]+)(?=(\s*\\)?)/gi, (all, before, name, next) =>
        SIGNS[name] ?? (FUNCTION.test(name) ? `${before ? " " : ""}${name}${next ? " " : ""}` : all));
    for (let before; before !== text; ) {
      before = text;
      text = text.replace(/\\(?:mathrm|text)\s*\{([^{}\\]*)\}/g, "$1")
        .replace(/√\s*\{([^{}\\]*)\}/g, (_, root) => `√${bound(root)}`).replace(/√ /g, "√")
        .replace(/\\[td]?frac\s*\{([^{}\\]*)\}\s*\{([^{}\\]*)\}(?=\s*([^\s+=,.)}-]?))/g, (_, over, under, next) =>
          (next ? `(${bound(over)}/${bound(under)}) ` : `${bound(over)}/${bound(under)}`))
        .replace(/([_^])\{([^{}\\]*)\}(?=([\p{L}\p{N}]?))/gu, (_, place, text, next) => small[place](text) + (next && " "));
    }
    text = text.replace(/\^ᵀ/g, "ᵀ").replace(/-/g, "−").replace(/\s+/g, " ").trim().replaceAll(" ", "\u00a0");
    return /[\\{}&]/.test(text) || text.length > LONGEST ? "…" : text;
  };
  // The name of an entry of the library: its anchor without the module.
  const nameOf = (anchor) => anchor.match(/^attention_lib\.\w+\.(.+)/)?.[1];
  // When the site is built: from each page's places, with heading, code and text, to the
  // scripts, by name. \ue000 stands around a formula.
  const line = (text) => text.replace(/\s+/g, " ").trim().replace(/\ue000(.*?)\ue000/gu, (_, tex) => formula(tex));
  const NAME = /\b(?:\w+\.)*[A-Za-z]+_\w+|\b[A-Za-z]\w*\.[A-Za-z]\w*|\b[A-Z][a-z]+[A-Z]\w*/g;
  const write = (pages) => {
    const scripts = {}, all = [], indexed = [], titles = [];
    const list = pages.map(([page, places]) => {
      const found = places.map(([anchor, heading, code, text, asked, ...see]) => {
        const [, number, title] = line(heading).match(/^((?:\d+\.)*\d+ )?(.*)/u);
        const names = [...new Set(code.match(NAME))].filter((name) => !text.includes(name));
        all.push(`${line(text)}\n${names.join(", ")}`);
        indexed.push(`${all.at(-1)} ${asked}`); // askers' words, which no page shows
        titles.push([page, title]);
        return [anchor, number?.trim() ?? "", nameOf(anchor) ? "" : title, see];
      });
      const own = all.slice(all.length - places.length);
      for (let nth = 0; nth < own.length; nth += PART) {
        const part = partOf(page, nth), texts = JSON.stringify(own.slice(nth, nth + PART));
        scripts[`_static/places/${part}`] = `(globalThis.bookTexts ??= {})["${part}"] = ${texts};\n`;
      }
      return [page, found];
    });
    // An entry of the glossary knows the section to read on, and a question knows those that
    // say more: their numbers among all places.
    list.flatMap(([, found]) => found).forEach((entry) => {
      for (const [address, title] of entry.pop()) {
        const number = titles.findIndex((its) => its[1] === line(title) && its[0].endsWith(address));
        if (number >= 0) entry.push(number);
      }
    });
    return { ...scripts, "_static/places.js": `var bookPlaces = ${JSON.stringify([list, pack(indexed)])};\n` };
  };

  // ---- Finding ----

  const kind = (address, level) =>
    /#attention_lib\./.test(address) ? 3 : /#term-|\/notation/.test(address) ? 2
      : /\/questions\.html#/.test(address) ? 1 : 0;
  const LISTS = /^book\/(api|sources|bibliography|speed|reproduces|teach|how-to|index)/;

  // The index, in steps after which a browser may do something else. MiniSearch's own way, text
  // by text, takes ten times as long: here its table gets each word once, with its places.
  const opening = function* ([pages, packed]) {
    const places = [], lengths = [], table = new Map(); // by word, field and place: how often
    const held = (word, field) => {
      const fields = table.get(word) ?? table.set(word, new Map()).get(word);
      return fields.get(field) ?? fields.set(field, new Map()).get(field);
    };
    const add = (found, field, id) => {
      const times = found.get(id) ?? 0;
      if (!times) lengths[id][field] += 1;
      found.set(id, times + 1);
    };
    for (const [page, found] of pages) {
      const whole = found.length ? words(found[0][2]) : [];
      for (const [nth, [anchor, number, said, ...see]] of found.entries()) {
        const title = said || nameOf(anchor), id = places.length, address = nth ? `${page}#${anchor}` : page, group = kind(address);
        const part = MINOR.test(title) ? 0.5 : group === 1 && !/[?？]$/.test(title) ? 0.2 : 1;
        const weight = WEIGHTS[group] * part * (!group && (!nth || LISTS.test(page)) ? 0.6 : 1);
        // In Chinese an entry of the glossary has its English name, too.
        const names = [title, ...(group === 2 ? title.match(/[ -~]+|[^ -~]+/g) : group === 1 ? title.split(/[?？]/).slice(0, -1) : [])];
        // Of a name in code the parts say less than the name.
        const all = words(title).filter((word) => !STOP.has(word));
        const codes = group === 3 && split(title).map(([[name]]) => name);
        const own = codes ? all.filter((word) => codes.includes(word)) : all;
        places.push({ address, page, nth, title, number, from: nth ? found[0][2] : "", group, weight, see, subjects: part < 1 ? [] : names.map(subject), words: [...new Set(own)] });
        lengths.push([0, 0, 0]);
        for (const word of own) add(held(word, 0), 0, id);
        for (const word of [...(nth ? whole : []), ...(codes ? all : [])]) add(held(word, 1), 1, id);
        yield;
      }
    }
    for (const [word, ids] of unpack(packed, places.length)) {
      for (const id of ids) add(held(word, 2), 2, id);
      yield;
    }
    const fields = Object.keys(FIELDS), count = places.length;
    const index = MiniSearch.loadJS({
      documentCount: count, nextId: count, documentIds: [...places.keys()], fieldLength: lengths, storedFields: {}, dirtCount: 0,
      fieldIds: Object.fromEntries(fields.map((name, field) => [name, field])), serializationVersion: 2, index: [],
      averageFieldLength: fields.map((_, field) => lengths.reduce((sum, its) => sum + its[field], 0) / count),
    }, { fields, processTerm: (word) => word, tokenize: (list) => [list].flat() });
    for (const [word, its] of table) yield index._index.set(word, its);
    return { places, index };
  };
  // A piece of the work, so short that a slow phone answers to a letter in between; then the next.
  const inPieces = (work, done) => {
    const until = performance.now() + PIECE;
    let step;
    do step = work.next(); while (!step.done && performance.now() < until);
    if (step.done) setTimeout(done, 0, step.value);
    else setTimeout(inPieces, 0, work, done);
  };

  // One word: the places that hold it, its beginning, its stem or, if none, one letter other.
  const look = (index, word) => {
    const found = new Map();
    const add = (query, options, part) => {
      for (const { id, score, match } of index.search(query, { boost: FIELDS, ...options }))
        better(found, id, { score: score * part, match });
    };
    const weights = index._index.has(word) ? { weights: { prefix: LONGER, fuzzy: 0 } } : {};
    add(word, { prefix: word.length >= SHORT || (word.length === 1 && HAN.test(word)), ...weights }, 1);
    if (stem(word) !== word) add(stem(word), { prefix: true }, 0.7);
    if (!found.size && word.length > 3) add(word, { fuzzy: 1, prefix: true }, 0.7);
    // Or two words without their space.
    for (let at = SHORT; !found.size && at <= word.length - SHORT; at++) {
      const two = [word.slice(0, at), word.slice(at)];
      if (two.every((part) => index.search(part).length)) return lookAll(index, two);
    }
    return found;
  };
  const better = (found, id, { score, match }) => {
    const old = found.get(id);
    found.set(id, { score: Math.max(score, old?.score ?? 0), match: { ...old?.match, ...match } });
  };

  // Several words that mean one thing: more of them are better.
  const lookAll = (index, all) => {
    const found = new Map();
    for (const word of all)
      for (const [id, { score, match }] of look(index, word)) {
        const old = found.get(id) ?? { score: 0, match: {} };
        found.set(id, { score: old.score + score / all.length, match: { ...old.match, ...match } });
      }
    return found;
  };

  // A question as a list of things asked for, each said in one way or in several.
  const asked = (query) => {
    // "n_embd" is "n embd" in the table.
    const things = [], said = split(query).flatMap((ways) => (SAME.some(([theirs]) => theirs.join() === ways.at(-1).join())
      ? ways.at(-1).map((word) => [[word]]) : [ways]));
    for (let at = 0; at < said.length; ) {
      const rest = said.slice(at).map(([[word]]) => word);
      const same = SAME.find(([theirs]) => theirs.every((word, nth) => word === rest[nth]));
      const length = same ? same[0].length : 1;
      const ways = same ? [same[0], ...same[1]] : said[at];
      ways.isName = !same && ways.length > 1;
      if (length > 1 || !STOP.has(rest[0])) things.push(ways);
      at += length;
    }
    return things.length ? things : said;
  };

  const isBegun = (index, word) => !index._index.atPrefix(stem(word)).keys().next().done;
  // A word that the book has not, with one letter put right.
  const mended = (index, word) => (word.length <= SHORT || isBegun(index, word) ? word : [...index._index.fuzzyGet(word, 1).keys(), word][0]);

  // The places whose titles are what is asked for, or that the table names: the higher, the better.
  const wanted = ({ places, index }, query) => {
    const about = subject(query).split(" ").map((word) => mended(index, word)).join(" ");
    const whole = words(query).filter((word) => !STOP.has(word)).join(" ");
    const aim = AIMS.find(([said]) => said.test(whole))?.[1];
    const same = SAME.find(([theirs]) => theirs.join(" ") === about)?.[1] ?? [];
    const all = new Set([about, ...same.map((ours) => ours.join(" "))]);
    const isQuestion = query.search(ASKING) >= 0;
    const found = new Map();
    for (const [id, { address, nth, group, subjects }] of places.entries()) {
      const isAim = address === aim;
      if (isAim || subjects.some((subject) => subject && all.has(subject))) found.set(id, [isAim ? 6 : nth || isQuestion ? 3 : 5, 2, 4, 1][group]);
    }
    return found;
  };

  const find = ({ places, index }, query) => {
    const hits = new Map();
    let whole = 0;
    const things = asked(query), absent = [];
    for (const ways of things) {
      const isKnown = ways.flat().some((word) => HAN.test(word) || isBegun(index, word));
      if (things.length > 1 && !isKnown) absent.push(ways[0].join(" "));
      const found = new Map();
      const less = ways.isName && index._index.has(ways[0][0]) ? PARTS : 1; // where the book has the name
      for (const [nth, way] of ways.entries())
        for (const [id, { score, match }] of lookAll(index, way))
          better(found, id, { score: score * (nth ? less : 1), match });
      const best = Math.max(0, ...[...found.values()].map(({ score }) => score));
      whole += best;
      for (const [id, { score, match }] of found) {
        const hit = hits.get(id) ?? hits.set(id, { id, score: 0, part: 0, held: 0, match: {} }).get(id);
        hit.score += score;
        hit.part += best;
        hit.held += 1;
        Object.assign(hit.match, match);
      }
    }
    for (const hit of hits.values()) {
      const place = places[hit.id];
      const titled = place.words.filter((word) => hit.match[word]?.includes("title")).length;
      hit.score *= (hit.part / whole) * Math.exp(hit.held / things.length) * (1 + titled / (place.words.length + things.length) / 2) * place.weight;
    }
    // A question and the section that says more are better where both are found.
    const more = new Map();
    for (const hit of hits.values())
      for (const id of places[hit.id].group === 1 ? places[hit.id].see : []) {
        const other = hits.get(id);
        for (const [one, two] of other ? [[hit, other], [other, hit]] : []) more.set(one, Math.max(more.get(one) ?? 0, two.score * LINKED));
      }
    for (const [hit, score] of more) hit.score += score;
    const meant = wanted({ places, index }, query);
    for (const id of meant.keys()) if (!hits.has(id)) hits.set(id, { id, score: 0, match: {} });
    const rank = ({ id }) => meant.get(id) ?? 0;
    const all = [...hits.values()].sort((a, b) => rank(b) - rank(a) || b.score - a.score);
    // After a definition, the section that it names.
    const entry = all.find(({ id }) => meant.has(id) && places[id].group === 2 && places[id].see.length);
    const [next] = entry ? places[entry.id].see : [];
    const on = entry && { score: entry.score, match: {}, ...hits.get(next), id: next };
    for (const hit of entry ? [entry, on] : []) hit.isAnswer = true;
    const list = all.flatMap((hit) => (hit === entry ? [entry, on] : hit.id === on?.id ? [] : [hit]));
    return Object.assign(list, { absent });
  };

  // ---- Showing ----

  const marked = (text, match) => {
    const line = document.createElement("span");
    let end = 0;
    const spans = []; // those that touch are one
    for (const { 0: run, index } of text.matchAll(new RegExp(`${RUN.source}|√`, "gu")))
      for (const [nth, part] of pairs(run).entries()) {
        const from = index + nth, to = from + part.length;
        if (!words(part).some((word) => match[word])) continue;
        if (spans.at(-1)?.[1] >= from) spans.at(-1)[1] = to;
        else spans.push([from, to]);
      }
    for (const [from, to] of spans) {
      const mark = document.createElement("mark");
      mark.textContent = text.slice(from, to);
      line.append(text.slice(end, from), mark);
      end = to;
    }
    line.append(text.slice(end));
    return line;
  };

  // The last place up to this one where a text may be cut.
  const gap = (text, at) => {
    while (at > 0 && !/[ \p{Script=Han}，。；：、]/u.test(text[at])) at -= 1;
    return at;
  };
  const SENTENCE = /(?<=[.?!] )(?=\S)|(?<=[。？！])(?![”）])/u;
  // Of a place's text what begins with the sentence that has most of the words, or its
  // beginning, where the title has as many; without any in both, the names in its code.
  const passage = (text, match, title = "", room = LONG) => {
    const [prose, code] = text.split("\n");
    const held = (part) => new Set(words(part).filter((word) => match[word])).size;
    const sentences = prose.split(SENTENCE);
    const counts = sentences.map((sentence) => (/^\s*→/.test(sentence) ? 0 : held(sentence))); // "→ Chapter 1" answers nothing
    const most = Math.max(...counts);
    if (held(title) >= Math.max(most, 1)) return passage(`${prose}\n`, {});
    const names = most ? [] : code.split(", ").filter(held);
    if (names.length) return `${say("code")} ${names.join(", ")}`;
    const long = HAN.test(prose) ? room / 2 : room; // a Chinese character is as wide as two letters
    const lengths = sentences.slice(0, counts.indexOf(most)).map((sentence) => sentence.length);
    let from = lengths.reduce((sum, length) => sum + length, 0);
    // At the end of a text there is room for what stands before.
    while (lengths.length && prose.length - from + lengths.at(-1) <= long) from -= lengths.pop();
    const pieces = prose.slice(from).split(/(?<=[\s，；：])/u);
    const before = most && pieces.slice(0, Math.max(0, pieces.findIndex(held))).join("").length;
    const isLate = before > long / 2 && prose.length - from > long;
    const start = isLate ? gap(prose, Math.min(from + before - long / 3, prose.length - long)) : from;
    const end = prose.length > start + long ? gap(prose, start + long) : prose.length;
    return (start > from ? "… " : "") + prose.slice(start, end).trim() + (end < prose.length ? " …" : "");
  };

  // An entry begins with its first sentence; what is found behind it follows.
  const opened = (text, match, title) => {
    const first = text.split("\n")[0].split(SENTENCE)[0], room = LONG - first.length;
    const holds = (part) => words(part).some((word) => match[word]);
    const [prose, code] = text.slice(first.length).split("\n");
    const rest = `${prose}\n${holds(title) ? "" : code}`; // its title says more than names in its code
    return holds(first) || room < LONG / 4 || !holds(rest) ? passage(`${first}\n`, {}) : `${first.trim()} … ${passage(rest, match, "", room)}`;
  };

  const script = (address) => new Promise((done) => {
    const tag = document.createElement("script");
    Object.assign(tag, { src: address, onload: done, onerror: done });
    document.head.append(tag);
  });

  const start = (book, form, list, said, most) => {
    const root = document.documentElement.dataset.content_root ?? "./";
    const input = form.querySelector("input");
    const titles = say("groups").split("|");
    const texts = {}; // by part of a page: asked for once
    const textsOf = (part) => (texts[part] ??= script(`${root}_static/places/${part}`)
      .then(() => globalThis.bookTexts?.[part] ?? []));
    let options = [], at = -1, turn = 0;

    const move = (to) => {
      options[at]?.setAttribute("aria-selected", "false");
      at = options.length ? (to + options.length) % options.length : -1;
      if (at < 0) return input.removeAttribute("aria-activedescendant");
      options[at].setAttribute("aria-selected", "true");
      input.setAttribute("aria-activedescendant", options[at].id);
      if (to) options[at].scrollIntoView({ block: "nearest" });
      else list.scrollTop = 0;
    };
    const entry = ({ id, match, isAnswer }, mine) => {
      const place = book.places[id], option = document.createElement("a");
      Object.assign(option, { id: `${list.id}-${id}`, href: root + place.address, tabIndex: -1 });
      option.setAttribute("role", "option");
      option.classList.toggle("book-answer", isAnswer ?? false);
      option.setAttribute("aria-selected", "false");
      const title = document.createElement("b"), text = document.createElement("p");
      title.append(place.number ? `${place.number} ` : "", marked(place.title, match));
      option.append(title);
      if (place.from) option.append(" ", Object.assign(document.createElement("i"), { textContent: place.from }));
      option.append(text);
      const part = partOf(place.page, place.nth);
      const fill = () => mine === turn && textsOf(part).then((all) => {
        const found = all[place.nth % PART];
        const isEntry = /#(term-|attention_lib)/.test(place.address);
        const shown = found && (isAnswer && isEntry ? found.split("\n")[0] : (isEntry ? opened : passage)(found, match, place.title));
        if (mine === turn && found) text.append(marked(shown, match));
      });
      // While a reader still types, texts of what is found on the way are not fetched.
      if (texts[part]) fill();
      else setTimeout(fill, PAUSE);
      return option;
    };
    const show = () => {
      const mine = (turn += 1), query = input.value.trim();
      const found = query ? find(book, query) : [];
      const groups = [found.slice(0, BEST), [], [], [], []];
      for (const hit of found.slice(BEST)) {
        const group = groups[book.places[hit.id].group + 1];
        if (group.length < most && hit.score > WEAK * found[0].score) group.push(hit);
      }
      list.replaceChildren(...groups.flatMap((hits, group) => {
        if (!hits.length) return [];
        const part = document.createElement("div"), name = document.createElement("p");
        part.setAttribute("role", "group");
        part.setAttribute("aria-label", titles[group]);
        Object.assign(name, { textContent: titles[group], className: "book-found-name", ariaHidden: "true" });
        part.append(name, ...hits.map((hit) => entry(hit, mine)));
        return [part];
      }));
      options = [...list.querySelectorAll("[role=option]")];
      input.setAttribute("aria-expanded", String(options.length > 0));
      said.textContent = !query ? "" : options.length ? say(options.length === 1 ? "foundOne" : "found", { n: options.length }) : say("nothing");
      if (options.length && found.absent.length) said.append(say("absent", { words: found.absent.join(", ") }));
      at = -1;
      move(0);
    };

    input.addEventListener("input", (event) => event.isComposing || show());
    input.addEventListener("compositionend", show);
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.isComposing || !options.length) return; // an input method is at work
      if (step) move(at + step);
      else if (event.key === "Enter") options[at].click();
      else return;
      event.preventDefault();
    });
    list.addEventListener("click", (event) => event.target.closest("a") && form.closest("dialog")?.close());
    show();
  };

  // Each field gets a list, and a line that says how many.
  const attach = (book) => {
    for (const [nth, form] of [...document.querySelectorAll("form.bd-search")].entries()) {
      const list = document.createElement("div"), said = document.createElement("p");
      const input = form.querySelector("input"), inDialog = !!form.closest("dialog");
      Object.assign(list, { id: `book-found-${nth}`, className: "book-found", role: "listbox", ariaLabel: say("list") });
      Object.assign(said, { className: "book-found-said", role: "status" });
      const roles = { role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list" };
      for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);
      form.after(said, list);
      start(book, form, list, said, inDialog ? 3 : 12);
    }
  };

  return { write, partOf, opening, find, passage, begin: (book) => inPieces(opening(book), attach) };
})();
if (globalThis.bookPlaces) bookFinding.begin(bookPlaces);
