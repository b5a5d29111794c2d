// node corpora.mjs PACKAGE FOLDER...: each file through the readers and decoders, as the fuzz targets do. Errors are right, traps are not.
import {readFile, readdir} from "node:fs/promises";
import {pathToFileURL} from "node:url";

const [folder, ...corpora] = process.argv.slice(2), {load, CusightError} = await import(pathToFileURL(`${folder}/index.js`).href);
const cu = await load();
let files = 0, events = 0, errors = 0, slowest = [0, ""];

function attempt(work) {
  try {
    work();
  } catch (error) {
    if (!(error instanceof CusightError))
      throw error;
    ++errors;
  }
}

for (const corpus of corpora)
  for (const name of (await readdir(corpus)).sort()) {
    const path = `${corpus}/${name}`, whole = new Uint8Array(await readFile(path)), begin = performance.now();
    try {
      for (const bytes of [whole, whole.subarray(1)]) // the first byte of a fuzzer's input chooses options
        for (const bad_events of [0, 1])
          attempt(() => {
            const reader = new cu.EventReader(bytes, {bad_events, max_memory: 2 ** 27, max_chunk: 2 ** 20});
            try {
              for (let n; (n = reader.read(65536).x.length) > 0; events += n);
              attempt(() => { while (reader.readTriggers(4096).length === 4096); });
              attempt(() => reader.seekTime(1000));
            } finally {
              reader.dispose();
            }
          });
      for (const format of ["EVT2", "EVT21", "EVT3", "EVT4", "DAT"])
        attempt(() => {
          const decoder = new cu.EventDecoder({format: cu.constants[`CUS_EVENTS_${format}`], bad_events: 1});
          for (let at = 0, got; at < whole.length; at += got.decoded.used) {
            got = decoder.run(whole.subarray(at), 65536);
            if (got.decoded.used === 0 && got.events.x.length === 0)
              break;
          }
          decoder.dispose();
        });
      attempt(() => {
        const viewer = new cu.Viewer({checksums: 1, max_frame_bytes: 2 ** 24});
        try {
          viewer.input(whole, () => viewer.output());
        } finally {
          viewer.dispose();
        }
      });
    } catch (error) {
      console.log(`${path}: ${error.stack}`);
      process.exit(1);
    }
    ++files;
    const took = performance.now() - begin;
    if (took > slowest[0])
      slowest = [took, path];
  }
console.log(`${files} files, ${errors} errors, no trap; ${events} events; slowest ${slowest[0].toFixed(0)} ms, ${slowest[1]}; memory ${cu.exports.memory.buffer.byteLength >> 20} MiB`);
if (files === 0)
  process.exitCode = 1;
