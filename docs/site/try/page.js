// Loads the library and starts the tools, each in a file of its own, one after the other: the first picture comes first.
import {load} from "./cusight/index.js";
import {say} from "./tools.js";

const tools = ["motion", "difference", "match", "events", "exact"].map(name => import(`./${name}.js`));
try {
  const cu = await load();
  let first = 0;
  for (const tool of tools) {
    (await tool).start(cu);
    first ||= performance.now();
    await new Promise(done => setTimeout(done));
  }
  say("state", `cusight ${cu.version()}; first picture ${Math.round(first)} ms after the page was asked for`);
} catch (error) {
  say("state", `The library cannot be loaded: ${error.message}`);
}
