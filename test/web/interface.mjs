// node --expose-gc interface.mjs PACKAGE TABLES SEEDS: the interface for JavaScript, with golden rows that are computed through its classes.
import assert from "node:assert/strict";
import {readFile} from "node:fs/promises";
import {pathToFileURL} from "node:url";
import {Worker, isMainThread, parentPort, workerData} from "node:worker_threads";

const [folder, tables, seeds] = isMainThread ? process.argv.slice(2) : workerData;
const {load, CusightError, constants} = await import(pathToFileURL(`${folder}/index.js`).href);
const cu = await load(), other = await load();

// test/golden/golden.hpp: splitmix64.
function numbers(seed) {
  let state = BigInt(seed);
  const low = value => BigInt.asUintN(64, value), next = () => {
    state = low(state + 0x9e3779b97f4a7c15n);
    let z = low((state ^ state >> 30n) * 0xbf58476d1ce4e5b9n);
    z = low((z ^ z >> 27n) * 0x94d049bb133111ebn);
    return Number(low(z ^ z >> 31n) >> 32n);
  };
  return Object.assign(next, {below: n => next() % n});
}
const crc = (...parts) => parts.reduce((sum, part) => cu.crc32c(sum, part), 0).toString(16).padStart(8, "0");
const type = (depth, channels) => depth + (channels - 1 << 3);
let equal = 0;

async function rowsOf(module, compute) {
  const rows = new Set((await readFile(`${tables}/${module}.csv`, "utf8")).trim().split("\n"));
  compute((...line) => {
    assert(rows.has(line.join(",")), `${module} has no row ${line.join(",")}`);
    ++equal;
  });
}

async function goldenRows() {
  await rowsOf("framediff", row => {
    for (const [rows, cols, channels] of [[1, 1, 1], [1, 77, 3], [63, 65, 4], [130, 257, 3], [241, 333, 1]])
      for (const percent of [3, 60]) {
        const next = numbers(30), pictures = [Uint8Array.from({length: rows * cols * channels}, () => next())], shape = {rows, cols, type: type(0, channels)};
        for (let k = 1; k < 4; ++k)
          pictures.push(pictures.at(-1).map(b => next.below(100) < percent ? b + (next() & 1 ? next.below(41) - 20 : next.below(256)) : b));
        const name = `${rows}x${cols},8UC${channels}`, [prev, cur] = pictures.map(data => ({...shape, data}));
        for (const [threshold, min_neighbors] of [[0, 0], [20, 0], [20, 3]]) {
          const encoder = new cu.DiffEncoder(rows, cols, shape.type, {threshold, min_neighbors}), decoder = new cu.DiffDecoder(rows, cols, shape.type);
          const diff = new cu.SparseDiff(rows, cols, shape.type, 0, 1), parts = [];
          for (const data of pictures) {
            encoder.encode({...shape, data}, diff);
            decoder.decode(diff);
            const mask = cu.read("cusSparseDiff", diff.at).mask;
            parts.push(diff.positions(), diff.values(), cu.view("u8", mask.data, mask.rows * mask.cols).slice(), encoder.reference().data.slice(), decoder.frame().data.slice());
          }
          row("cusDiffEncode and cusDiffDecode", `threshold=${threshold} min_neighbors=${min_neighbors}; ${percent} % change`, 30, name, crc(...parts));
        }
        for (const full_scale of percent === 60 ? [765, 510, 1000] : [])
          row("cusHeatmap", `full_scale=${full_scale}`, 30, name, crc(cu.heatmap(prev, cur, {full_scale}).data));
        for (const threshold of percent === 60 ? [0, 30] : [])
          row("cusNoiseView", `threshold=${threshold}`, 30, name, crc(cu.noiseView(prev, cur, threshold).data));
      }
  });
  await rowsOf("hsv", row => {
    const ranges = {blues: [[100, 80, 50], [130, 255, 255]], reds: [[170, 40, 40], [10, 255, 255]], all: [[0, 0, 0], [179, 255, 255]],
                    "dark grays": [[0, 0, 0], [179, 20, 100]]};
    for (const [rows, cols] of [[1, 1], [7, 33], [61, 130], [240, 321]]) {
      const next = numbers(40), data = new Uint8Array(3 * rows * cols);
      for (let i = 0; i < rows * cols; ++i) {
        const n = next();
        data.set([0, 1, 2].map(c => n & 3 ? n >>> 2 + 8 * c : (n >>> 24) + (n >>> 8 * c & 7)), 3 * i);
      }
      for (const [name, [lower, upper]] of Object.entries(ranges)) {
        const {count, mask} = cu.hsvCount({rows, cols, type: constants.CUS_8UC3, data}, {lower, upper});
        row("cusHsvCount", `range=${name}`, 40, `${rows}x${cols}`, "8UC3", crc(mask.data, count.data));
      }
    }
  });
  await rowsOf("remap", row => {
    for (const [rows, cols] of [[1, 1], [7, 33], [61, 130]])
      for (let channels = 1; channels <= 4; ++channels) {
        const next = numbers(90), bytes = Uint8Array.from({length: rows * cols * channels}, () => next());
        const place = (x, y) => [(250 * x + 21 * y - 300) / 256, (251 * y - 19 * x + 201) / 512];
        const map = {rows, cols, type: constants.CUS_32FC2, data: Float32Array.from({length: rows * cols}, (_, i) => place(i % cols, Math.floor(i / cols))).fill(0)};
        map.data = new Float32Array(2 * rows * cols);
        for (let i = 0; i < rows * cols; ++i)
          map.data.set(place(i % cols, Math.floor(i / cols)), 2 * i);
        for (const [depth, data] of [[constants.CUS_8U, bytes], [constants.CUS_32F, Float32Array.from(bytes, b => b / 256)]])
          row("cusRemap", "turned", 90, `${rows}x${cols}`, `${depth ? "32F" : "8U"}C${channels}`, crc(cu.remap({rows, cols, type: type(depth, channels), data}, map).data));
      }
  });
}

function errors() {
  const gray = {rows: 4, cols: 6, type: 0, data: new Uint8Array(24)};
  const refused = (work, status, text) => assert.throws(work, error => error instanceof CusightError && error.code === `CUS_ERROR_${status}` &&
    error.status === constants[error.code] && error.message === text);
  refused(() => cu.heatmap(gray, {...gray, rows: 3, data: new Uint8Array(18)}), "SIZE", "cusHeatmap: cur is 3 x 6 (rows x cols), expected 4 x 6 like prev");
  refused(() => cu.heatmap(null, gray), "NULL", "cusHeatmap: prev is NULL");
  refused(() => new cu.EventReader(new Uint8Array(0)), "FORMAT", "cusEventReaderOpen: the file is empty");
  refused(() => new cu.Mat(1 << 20, 1 << 20, 0), "NO_MEMORY", "cusMatCreate: 1048576 x 1048576 (rows x cols) 8UC1 exceeds the address space");
  refused(() => new cu.Matcher(gray, 1 << 15, 1 << 15), "SIZE",
          "cusMatcherCreate: 32768 x 32768 pixels are more than WebAssembly's memory allows, expected at most 16777216");
  assert.throws(() => cu.heatmap(new other.Mat(4, 6, 0), gray), /no object of this library's class Mat/);
  assert.throws(() => new cu.DiffEncoder(4, 6, 0).encode(gray, null), /null is no object of this library's class SparseDiff/);
  assert.throws(() => new cu.MotionDetector(1024, 480, 640, 0), /1024 x 480 x 640 pixels are more/);
  assert.throws(() => new cu.EventStacker(4096, 4096, [{kind: 0}]), /at most 4194304/);
  assert.throws(() => new cu.Matcher(gray, 4, 6, {maximum: 1}), /cusMatcherOptions has no maximum, only method, /);
  assert.throws(() => cu.heatmap({...gray, rows: 5}, gray), /a picture of 5 x 6 has 24 values in Uint8Array, expected 30 in Uint8Array/);
}

// What the library leaves out here is refused by name. A seed's first byte is the fuzzer's.
async function leftOut() {
  for (const [seed, text] of [["h5_dsec_gzip", /deflate: this build lacks zlib/], ["h5_chunk_without_extent", /Blosc: this build lacks libblosc/]]) {
    const bytes = (await readFile(`${seeds}/${seed}`)).subarray(1);
    assert.throws(() => new cu.EventReader(bytes), error => error.code === "CUS_ERROR_UNSUPPORTED" && text.test(error.message));
  }
}

function images() {
  const width = 5, height = 3, data = Uint8ClampedArray.from({length: 60}, (_, i) => i % 4 === 3 ? 255 : 7 * i), image = {width, height, data};
  assert.deepEqual(cu.fromImage(image, 3).imageData().data, data);
  assert.deepEqual(cu.fromImage(image, 4).imageData().data, data);
  assert.equal(cu.fromImage(image).data[1], (4899 * data[4] + 9617 * data[5] + 1868 * data[6] + 8192) >> 14);
  assert.equal(cu.heatmap(image, image).data[0], 255);
}

// Objects that nobody holds are freed, and disposing twice does no harm.
async function memory() {
  const template = {rows: 8, cols: 8, type: 0, data: new Uint8Array(64).map((_, i) => i)};
  const some = () => Array.from({length: 20}, () => new cu.Matcher(template, 400, 400, {algorithm: constants.CUS_MATCH_FFT}));
  const settle = async () => {
    for (let i = 0; i < 5; ++i) {
      gc();
      await new Promise(done => setTimeout(done, 5));
    }
  };
  const kept = some();
  kept.forEach(one => (one[Symbol.dispose](), one.dispose()));
  assert.throws(() => kept[0].run(template), /matcher is NULL/);
  const before = cu.exports.memory.buffer.byteLength;
  for (let round = 0; round < 10; ++round) {
    some();
    await settle();
  }
  assert(cu.exports.memory.buffer.byteLength <= 2 * before, `${before} bytes became ${cu.exports.memory.buffer.byteLength}`);
}

await goldenRows();
if (isMainThread) {
  errors();
  await leftOut();
  images();
  await memory();
  const there = await new Promise((done, failed) => new Worker(new URL(import.meta.url), {workerData: [folder, tables, seeds]}).once("message", done).once("error", failed));
  assert.equal(there, equal);
  console.log(`${equal} golden rows through the classes, and as many in a worker`);
} else {
  parentPort.postMessage(equal);
}
