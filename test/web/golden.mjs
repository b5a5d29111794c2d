// node golden.mjs PACKAGE PAGES: all golden rows through the package, with and without SIMD.
import {readFile, readdir} from "node:fs/promises";
import {pathToFileURL} from "node:url";

const [folder, pages] = process.argv.slice(2), start = path => import(pathToFileURL(path).href);
const {load} = await start(`${folder}/index.js`), script = await readFile(`${pages}/golden.js`, "utf8"); // for node 18, a module only by its address:
const {runGolden} = await import(`data:text/javascript,${encodeURIComponent(script)}`);
const names = (await readdir(`${pages}/golden`)).filter(name => name.endsWith(".csv"));
const tables = Object.fromEntries(await Promise.all(names.map(async name => [name.slice(0, -4), await readFile(`${pages}/golden/${name}`, "utf8")])));

const {classesOf} = await import("./classes.mjs"), own = await start(`${folder}/cusight.js`);

for (const [simd, classes] of [[false, false], [true, false], [true, true]]) {
  const library = await load({simd}), served = {classes: 0, direct: 0};
  let equal = 0, rows = 0, left = [], different = [];
  await runGolden(library, await readFile(`${pages}/golden/golden.wasm`), tables, seen => {
    equal += seen.equal, rows += seen.rows, left.push(...seen.left), different.push(...seen.different);
  }, classes ? classesOf(library, own, served) : undefined);
  console.log(`node ${process.version}, ${simd ? "SIMD" : "plain"}: ${equal} of ${rows} rows equal, ${left.length} left out (chunks decoded by a GPU alone)` +
    (classes ? `; ${served.classes} calls by the interface for JavaScript, ${served.direct} by the module` : ""));
  different.slice(0, 10).forEach(line => console.log("different:", line));
  if (different.length || equal + left.length !== rows || left.some(line => !/Metavision|HDF5/.test(line)))
    process.exitCode = 1;
}
