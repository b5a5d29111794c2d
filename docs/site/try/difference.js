// Two pictures: how many pixels, bytes and bits differ, and where.
import {count, element, example, onFile, pixels, say, show} from "./tools.js";

export function start(cu) {
  const pictures = {first: pixels(example(0)), second: pixels(example(0.04))}, names = {first: "the example", second: "the same, changed"};
  for (let i = 0; i < 4000; i += 4) // a few bytes by one level
    pictures.second.data[(i * 97) % 400000 & ~3] ^= 1;

  function compare() {
    const {first, second} = pictures, threshold = Number(element("threshold").value);
    show("second-picture", second);
    if (first.width !== second.width || first.height !== second.height) {
      say("difference-says", `${names.first} is ${first.width} x ${first.height}, ${names.second} ${second.width} x ${second.height}: expected the same size`);
      return;
    }
    const begin = performance.now(), [a, b] = [first, second].map(image => cu.fromImage(image, 4)), {rows, cols, type} = a;
    const encoder = new cu.DiffEncoder(rows, cols, type, {threshold}), diff = new cu.SparseDiff(rows, cols, type, 0, 0);
    encoder.reset(a);
    encoder.encode(b, diff);
    const bytes = diff.count(), view = cu.noiseView(a, b, threshold), values = [first.data, second.data], changed = new Uint8Array(rows * cols);
    let bits = 0, most = 0;
    for (const place of diff.positions()) {
      const at = place & ~3 | [2, 1, 0, 3][place & 3]; // B, G, R, A to R, G, B, A
      most = Math.max(most, Math.abs(values[0][at] - values[1][at]));
      changed[place >> 2] = 1;
      for (let left = values[0][at] ^ values[1][at]; left; left &= left - 1)
        ++bits;
    }
    const points = changed.reduce((sum, one) => sum + one, 0);
    show("difference-picture", view.imageData());
    say("difference-says", bytes === 0 ? `Equal: none of ${count(4 * rows * cols)} bytes differs${threshold ? ` by more than ${threshold}` : ""}`
      : `${count(points)} of ${count(rows * cols)} pixels differ, in ${count(bytes)} bytes and ${count(bits)} bits, by up to ${most}; ${(performance.now() - begin).toFixed(1)} ms`);
    [encoder, diff, view, a, b].forEach(one => one.dispose());
  }

  let next = "first"; // where a dropped picture goes
  for (const which of ["first", "second"])
    onFile(element(`${which}-file`), async file => {
      const place = element(`${which}-file`).files[0] === file ? which : next;
      next = place === "first" ? "second" : "first";
      [pictures[place], names[place]] = [pixels(await createImageBitmap(file, {colorSpaceConversion: "none", premultiplyAlpha: "none"})), file.name];
      compare();
    });
  element("threshold").addEventListener("input", event => {
    say("threshold-says", event.target.value);
    event.target.setAttribute("aria-valuetext", event.target.value);
    compare();
  });
  compare();
}
