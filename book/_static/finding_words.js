// What the search knows of English: a second language is a second table.
// What readers write, and the book's words for it. Where several are named, any will do.
globalThis.bookTheirs = {
  "positional encoding": ["positions"], "positional encodings": ["positions"], "positional embedding": ["positions"],
  "position ids": ["positions"], "tie": ["tying"], "tied": ["tying"], "lm head": ["weight tying", "logits"],
  "bpe": ["byte pair encoding"], "block size": ["context window"], "sequence length": ["context window", "length"],
  "dk": ["D", "d"], "square root": ["sqrt"], "n embd": ["d_model"], "hidden size": ["d_model"], "head size": ["head_dim"],
  "mha": ["multi head attention"], "multi head": ["several heads"], "multi headed": ["multi head", "several heads"], "multihead": ["multi head", "several heads"], "multiheaded": ["multi head", "several heads"], "selfattention": ["self attention"],
  "mqa": ["multi query attention"], "gqa": ["grouped queries"], "past key values": ["kv cache"], "rope": ["rotary positions"], "mla": ["latent attention"], "cache size": ["cache memory", "cache bytes"],
  "ffn": ["mlp"], "feed forward": ["mlp"], "skip connection": ["residual connection"], "layernorm": ["layer norm"],
  "layer normalization": ["layer norm"], "batchnorm": ["batch norm"], "pre ln": ["pre norm"], "post ln": ["post norm"], "preln": ["pre norm"], "postln": ["post norm"], "feedforward": ["mlp"], "kvcache": ["kv cache"], "warmup": ["warm up"],
  "look ahead": ["causal"], "subsequent": ["causal"], "future": ["causal"], "concatenate": ["concatenated"], "sum": ["added"],
  "official implementation": ["published code"], "lr": ["learning rate"], "decreasing": ["go down"], "decrease": ["go down"],
  "converge": ["go down"], "out of memory": ["memory"], "oom": ["memory"], "vanish": ["vanishing"], "slower": ["slow", "faster"],
  "gibberish": ["nonsense"], "garbage": ["nonsense"], "rubbish": ["nonsense"], "incorrect": ["wrong"], "differ": ["differs"], "differs": ["differ"], "speed up": ["faster"],
};
// Words that find nothing by themselves.
globalThis.bookStop = "a an and are as at be but by can do does did for from give given gives has have how i if in instead into is it " +
  "its me my no not of on one or should so than that the their then there this to use used using was we what when where " +
  "which who why with you your s t vs vs. get gets rather between difference different each only them " +
  "know really still also very always just am any want understand please anyone question doesn don isn";
// How much a word counts more in a title. Here askers' words are in the index, too.
globalThis.bookTitles = 1;
// Titles that many chapters share.
globalThis.bookMinor = "recap|exercises|quiz";
// What asks what something is.
globalThis.bookAsking = "^(what (is|are|does|do)|what's|how do(es)?|define|explain|understand(ing)?|(definition|meaning) of) |" +
  " (means?|meaning|works?|mechanism|explained|definition)(?=\\W*$)";
// What asks for a thing left out, where the words that say so find nothing by themselves.
globalThis.bookWithout = "(?!)";
// What readers look for in any book, without stop words, and where it is; words of the glossary
// that chapters say in another way.
globalThis.bookAims = {
  "install(ation|ing)?|set ?up|requirement|dependency|getting started|run( book| notebook| locally)?|python( version)?": "book/how-to-use.html#run-on-your-machine",
  "(run |google )?colab": "book/how-to-use.html#run-in-colab", "(run )?(gpu|cuda)": "book/how-to-use.html#on-a-gpu",
  "(download )?pdf|print": "book/how-to-use.html#read", "download( book| notebook)?": "book/how-to-use.html",
  "kv cache": "book/glossary.html#term-key-value-cache",
};
