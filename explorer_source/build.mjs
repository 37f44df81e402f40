// Builds the programs in attention_lib/course/views: `npm ci && npm run build`. They are in
// the repository, so only someone who changes a view needs this. `runtime.js` is what all
// views share; each view has a small program of its own, which needs that one.
// `SHA256SUMS` names the sources and what was built from them: a test compares.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build, transform } from "esbuild";

const target = "../attention_lib/course/views";
const sources = readdirSync("src");
// A view is a component with a style sheet: `growth.jsx` and `growth.css`.
const kinds = sources
  .filter((name) => name.endsWith(".jsx"))
  .map((name) => name.slice(0, -".jsx".length))
  .filter((name) => sources.includes(`${name}.css`));

const styles = {
  name: "styles as text",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    }),
};

const output = { charset: "utf8", legalComments: "none", target: "es2020" };
const options = { ...output, bundle: true, jsx: "automatic", jsxImportSource: "preact", outdir: target, write: false };

// Minified once all that is unused is gone: else esbuild would choose names by that, too,
// and a change of one view would rename what stands in others.
async function write(name, held, given) {
  const { outputFiles } = await build({ ...options, format: "iife", ...given });
  const banner = `/*! Built from explorer_source.${held} */`;
  const { code } = await transform(outputFiles[0].text, { ...output, minify: true, banner });
  writeFileSync(`${target}/${name}.js`, code);
}

const runtime = { entryPoints: ["src/runtime.js"], plugins: [styles] };
const { metafile } = await build({ ...options, ...runtime, format: "esm", metafile: true });
const [{ exports }] = Object.values(metafile.outputs);
const shared = readFileSync("src/runtime.js", "utf8").match(/(?<=from ")[^"]+/g);

// What the runtime holds, a view takes from there. Only a pure call is left out if unused.
const taken = {
  name: "taken from the runtime",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /./ }, ({ path }) => {
      if (shared.includes(path) || path.startsWith("preact")) return { path: "runtime", namespace: "runtime" };
    });
    const lines = exports.map((name) => `export const ${name} = /* @__PURE__ */ (() => attentionRuntime.${name})();`);
    onLoad({ filter: /./, namespace: "runtime" }, () => ({ contents: lines.join("\n") }));
  },
};

const licences = ["preact"].map((name) => {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}`;
});

await write("runtime", `\n\nIt holds:\n\n${licences.join("\n\n")}\n`, { ...runtime, globalName: "attentionRuntime" });
for (const kind of kinds) {
  const name = kind[0].toUpperCase() + kind.slice(1);
  const contents = `import { mount } from "./mount.js";
    import { ${name} } from "./${kind}.jsx";
    mount("${kind}", ${name});`;
  await write(kind, "", { stdin: { contents, resolveDir: "src" }, plugins: [taken, styles] });
}

const files = ["build.mjs", "package-lock.json", ...sources.map((name) => `src/${name}`)];
files.push(...["runtime", ...kinds].map((name) => `${target}/${name}.js`));
const sum = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
writeFileSync("SHA256SUMS", files.sort().map((path) => `${sum(path)}  ${path}\n`).join(""));
