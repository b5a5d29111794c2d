// Loads the library and starts the tools, each in a file of its own.
import {load} from "./cusight/index.js";
import {element} from "./tools.js";

const start = performance.now();
try {
  const cu = await load();
  await Promise.all(["motion", "match", "events", "difference", "exact"].map(async name => (await import(`./${name}.js`)).start(cu)));
  element("state").textContent = `cusight ${cu.version()}, loaded in ${Math.round(performance.now() - start)} ms`;
} catch (error) {
  element("state").textContent = `The library cannot be loaded: ${error.message}`;
}
