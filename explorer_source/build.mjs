// Builds the programs in attention_lib/course/views: `npm ci && npm run build`. They are in the
// repository, so only someone who changes a view needs this. Their first lines hold the
// licences of what is inside, and a hash of the sources, which a test compares. A page
// loads those that it uses, and an output of a notebook brings one: so a large view has
// a program of its own.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { build, transform } from "esbuild";

const sources = ["package-lock.json", ...readdirSync("src").map((name) => `src/${name}`)];
const hash = createHash("sha256");
for (const path of sources.sort()) hash.update(`${path}\0`).update(readFileSync(path)).update("\0");

const digest = hash.digest("hex");

const styles = {
  name: "styles as text",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    }),
};

const licences = ["preact"].map((name) => {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}`;
});

await build({
  entryPoints: {
    views: "src/main.jsx",
    align: "src/align_main.jsx",
    costs: "src/costs_main.jsx",
    flash: "src/flash_main.jsx",
    graph: "src/graph_main.jsx",
    growth: "src/growth_main.jsx",
    latent: "src/latent_main.jsx",
    museum: "src/museum_main.jsx",
    pages: "src/pages_main.jsx",
    pipe: "src/pipe_main.jsx",
    kernels: "src/kernels_main.jsx",
    reach: "src/reach_main.jsx",
    ring: "src/ring_main.jsx",
    sentence: "src/sentence_main.jsx",
    snapshots: "src/snapshots_main.jsx",
    split: "src/split_main.jsx",
  },
  outdir: "../attention_lib/course/views",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2020",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  plugins: [styles],
  define: { HASH: JSON.stringify(digest.slice(0, 12)) },
  banner: {
    js: `/*! Built from explorer_source, sha256 ${digest}.\n\nIt holds:\n\n${licences.join("\n\n")}\n*/`,
  },
});
