// The golden rows, in a worker. The same file is the page's part and the worker's.
const MODULES = ["integral", "match", "framediff", "hsv", "stereo", "events", "eventgen", "raw", "motion", "remap", "pose", "video"];

export async function start() {
  const {element, say} = await import("./tools.js");
  element("check").addEventListener("click", event => {
    const begin = performance.now(), sums = {plain: 0, simd: 0, rows: 0, left: 0, different: 0};
    event.target.disabled = true;
    element("rows").replaceChildren();
    say("exact-says", "Computing ...");
    const worker = new Worker("exact.js", {type: "module"});
    worker.onerror = error => say("exact-says", `Stopped: ${error.message}`);
    worker.onmessage = ({data}) => {
      if (data.done) {
        event.target.disabled = false;
        worker.terminate();
        say("exact-says", `${sums.simd} of ${sums.rows} rows equal with SIMD, ${sums.plain} without; ${sums.left} are of decoders for a GPU alone, ` +
          `${sums.different} differ; ${((performance.now() - begin) / 1000).toFixed(1)} s`);
        return;
      }
      const line = element(`row-${data.module}`) ?? element("rows").appendChild(Object.assign(document.createElement("tr"), {id: `row-${data.module}`}));
      if (!line.children.length)
        line.append(...[data.module, "", "", data.rows].map(text => Object.assign(document.createElement("td"), {textContent: text})));
      line.children[data.simd ? 2 : 1].textContent = data.equal;
      sums[data.simd ? "simd" : "plain"] += data.equal;
      sums.different += data.different.length;
      if (data.simd)
        [sums.rows, sums.left] = [sums.rows + data.rows, sums.left + data.left.length];
    };
  });
}

if (typeof document === "undefined") {
  const [{load}, {runGolden}] = await Promise.all([import("./cusight/index.js"), import("./golden.js")]);
  const get = async (name, kind) => (await fetch(`golden/${name}`))[kind]();
  const tables = Object.fromEntries(await Promise.all(MODULES.map(async name => [name, await get(`${name}.csv`, "text")])));
  for (const simd of [false, true])
    await runGolden(await load({simd}), await get("golden.wasm", "arrayBuffer"), tables, seen => postMessage({...seen, simd}));
  postMessage({done: true});
}
