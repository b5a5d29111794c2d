// Runs the golden rows on the library: golden.wasm makes the inputs and calls the functions of the library's module, in whose memory it
// lives. functionOf: what serves a function, if not the module itself. rows: {module: text of its table}. Calls report({module, equal, different: [line...], left}) after each module.
const PLACE = 512; // pages before its memory: --global-base in web/CMakeLists.txt

export async function runGolden(library, wasm, tables, report, functionOf = name => library.exports[name]) {
  const {exports} = library, {memory} = exports;
  exports.free(exports.malloc(1)); // the allocator takes what it has now
  memory.grow(PLACE + 64 - memory.buffer.byteLength / 65536);
  let own = null;
  const module = await WebAssembly.compile(wasm), env = {memory};
  for (const {name} of WebAssembly.Module.imports(module).filter(one => one.module === "env" && one.kind === "function"))
    env[name] = exports[name] ? functionOf(name) : () => { throw new Error(`${name} is not in the module`); };
  env.cusEventPipelineCreate = (...given) => { // the sink is a function of golden.wasm
    const table = exports.__indirect_function_table, sink = table.grow(1);
    table.set(sink, own.__indirect_function_table.get(given[6]));
    return exports.cusEventPipelineCreate(...given.slice(0, 6), sink, given[7]);
  };
  const wasi_snapshot_preview1 = new Proxy({}, {get: () => () => 8});
  own = (await WebAssembly.instantiate(module, {env, wasi_snapshot_preview1})).exports;
  own._initialize();
  own.free(own.malloc(1));
  for (let i = 0, count; (count = own.golden_module(i)) >= 0; ++i) {
    const name = library.text(own.golden_text()), rows = new Set(tables[name].trim().split("\n").slice(1));
    const seen = {module: name, rows: rows.size, equal: 0, different: [], left: []};
    for (let row = 0; row < count; ++row) {
      if (!own.golden_run(row, 0)) {
        seen.left.push(library.text(own.golden_text()));
        continue;
      }
      const tight = library.text(own.golden_text());
      own.golden_run(row, 1);
      const wrong = [tight, library.text(own.golden_text())].filter(line => !rows.has(line));
      seen.equal += wrong.length === 0;
      seen.different.push(...wrong);
    }
    await report(seen);
  }
}
