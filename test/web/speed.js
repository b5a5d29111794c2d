// Times of the library in node and in pages, in milliseconds, the least of several; docs/web.md has them beside native ones.
//     node -e 'import("./speed.js").then(async m => console.log(m.speed(await (await import("PACKAGE/index.js")).load({simd: true}))))'
export function speed(cu) {
  const {constants} = cu, rows = 1080, cols = 1920, best = (times, work) => Math.min(...Array.from({length: times}, () => {
    const begin = performance.now();
    work();
    return performance.now() - begin;
  }));
  const noise = new cu.Mat(rows, cols, constants.CUS_8UC3), other = new cu.Mat(rows, cols, constants.CUS_8UC3), map = new cu.Mat();
  for (let i = 0, n = 1, {data} = noise; i < data.length; ++i)
    data[i] = 128 + 60 * Math.sin(i / 977) + ((n = Math.imul(n, 1664525) + 1013904223 | 0) >>> 27);
  other.copy(noise);
  other.data.subarray(0, 300000).forEach((_, i, all) => { all[i] ^= 16; });
  const heatmap = best(20, () => cu.heatmap(noise, other, null, {dst: map}));
  const image = {width: cols, height: rows, data: new Uint8ClampedArray(4 * rows * cols).fill(99)};
  const heatmapOfImages = best(10, () => cu.heatmap(image, image, null, {dst: map}));
  const gray = new cu.Mat(rows, cols, constants.CUS_8UC1), part = new Uint8Array(4096);
  gray.data.set(noise.data.subarray(0, rows * cols));
  for (let y = 0; y < 64; ++y)
    part.set(gray.data.subarray((500 + y) * cols + 900, (500 + y) * cols + 964), 64 * y);
  const matcher = new cu.Matcher({rows: 64, cols: 64, type: constants.CUS_8UC1, data: part}, rows, cols), match = best(8, () => matcher.run(gray));
  const detector = new cu.MotionDetector(1, rows, cols, constants.CUS_8UC3), motion = best(10, () => detector.run([noise]));
  // EVT3: a row's events one by one, with times. 2 ^ 22 words.
  const words = new Uint16Array(1 << 22);
  for (let i = 0; i < words.length; ++i)
    words[i] = i % 64 === 0 ? 0x8000 | i >> 16 : i % 64 === 1 ? 0x6000 | i >> 6 & 0xfff : i % 64 === 2 ? i >> 7 & 511 : 0x2000 | (i * 7) % 1280 | (i & 1) << 11;
  let decoded = 0;
  const evt3 = best(4, () => {
    const decoder = new cu.EventDecoder({format: constants.CUS_EVENTS_EVT3, width: 1280, height: 720, bad_events: 1}), piece = new Uint8Array(words.buffer);
    decoded = 0;
    for (let at = 0; at < piece.length; at += 1 << 20)
      decoded += decoder.run(piece.subarray(at, at + (1 << 20)), 1 << 19).decoded.count;
    decoder.dispose();
  });
  return {heatmap, heatmapOfImages, match, motion, evt3, millionEventsASecond: decoded / evt3 / 1000};
}
