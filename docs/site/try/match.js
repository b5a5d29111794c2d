// A rectangle of a picture, and all places that look like it. The same file is the page's part and the worker's, which searches: a part of
// one color is everywhere, which takes long.
import {load} from "./cusight/index.js";
import {canvasOf, element, onFile, pixels, say, show} from "./tools.js";

// The places of the rectangle's part, {x, y, angle, score}: centers.
function find(cu, {image, box, turned, least}) {
  const {x, y, width, height} = box, frame = cu.fromImage(image), gray = frame.data, part = new Uint8Array(width * height);
  for (let row = 0; row < height; ++row)
    part.set(gray.subarray((y + row) * image.width + x, (y + row) * image.width + x + width), row * width);
  const template = {rows: height, cols: width, type: cu.constants.CUS_8UC1, data: part};
  const options = {max_matches: 64, min_distance: Math.ceil(Math.min(width, height) / 2), score_limit: least};
  const ellipse = part.map((_, i) => 255 * (((2 * (i % width) + 1) / width - 1) ** 2 + ((2 * Math.floor(i / width) + 1) / height - 1) ** 2 <= 1));
  const matcher = turned // without the corners, which are other ground when they turn
    ? new cu.PoseMatcher(template, image.height, image.width, {...options, angles: {first: -180, last: 170, step: 10}, mask: {...template, data: ellipse}})
    : new cu.Matcher(template, image.height, image.width, options);
  matcher.run(frame);
  const found = turned ? matcher.get(64) : matcher.get(0, 64).map(one => ({...one, x: one.x + (width - 1) / 2, y: one.y + (height - 1) / 2, angle: 0}));
  [matcher, frame].forEach(one => one.dispose());
  return found;
}

if (typeof document === "undefined") {
  const library = load();
  onmessage = async ({data}) => {
    const begin = performance.now();
    try {
      postMessage({found: find(await library, data), took: performance.now() - begin});
    } catch (error) {
      postMessage({error: error.message});
    }
  };
}

function arrows() {
  const canvas = canvasOf(560, 360), context = canvas.getContext("2d");
  context.fillStyle = "#e9e4d8";
  context.fillRect(0, 0, canvas.width, canvas.height);
  [[90, 90, 0], [240, 80, 0.5], [400, 100, 1.6], [480, 260, 2.7], [320, 240, 4], [150, 250, 5.2]].forEach(([x, y, angle]) => {
    context.setTransform(new DOMMatrix().translate(x, y).rotate(angle * 180 / Math.PI));
    context.fillStyle = "#27445c";
    context.fillRect(-34, -8, 44, 16);
    context.fillStyle = "#c8553d";
    context.beginPath();
    [[8, -24], [38, 0], [8, 24]].forEach(point => context.lineTo(...point));
    context.fill();
  });
  return canvas;
}

export function start() {
  const canvas = element("match-picture");
  let image = pixels(arrows()), box = {x: 48, y: 58, width: 88, height: 64}, drag = null, waiting = 0, worker = null, busy = false;

  function clamp() {
    for (const [at, side] of [["x", "width"], ["y", "height"]]) {
      box[side] = Math.min(Math.max(Math.round(box[side]), 8), image[side]);
      box[at] = Math.min(Math.max(Math.round(box[at]), 0), image[side] - box[side]);
    }
  }

  function draw(found) {
    const context = show("match-picture", image);
    context.lineWidth = Math.max(2, image.width / 300);
    for (const {x, y, angle, score} of found) {
      context.setTransform(new DOMMatrix().translate(x + 0.5, y + 0.5).rotate(angle));
      context.strokeStyle = `hsl(${130 * (score - 0.5) * 2} 90% 42%)`;
      context.strokeRect(-box.width / 2, -box.height / 2, box.width, box.height);
    }
    context.resetTransform();
    context.setLineDash([6, 4]);
    context.strokeStyle = "#0b5fb5";
    context.strokeRect(box.x, box.y, box.width, box.height);
  }

  function received({data: {found, took, error}}) {
    busy = false;
    if (error) {
      say("match-says", error);
      return;
    }
    draw(found);
    const best = found.slice(0, 8).map(one => `${Math.round(one.x)}, ${Math.round(one.y)} (${one.score.toFixed(2)}${one.angle ? `, ${one.angle}°` : ""})`);
    say("match-says", `${found.length} places in ${Math.round(took)} ms: ${best.join("; ")}${found.length > 8 ? " ..." : ""}`);
  }

  function search() {
    clamp();
    draw([]);
    clearTimeout(waiting);
    say("match-says", "Searching ...");
    waiting = setTimeout(() => {
      if (busy || !worker) {
        worker?.terminate(); // with the search that nobody waits for
        worker = Object.assign(new Worker("match.js", {type: "module"}), {onmessage: received, onerror: error => say("match-says", `Stopped: ${error.message}`)});
      }
      busy = true;
      worker.postMessage({image: {width: image.width, height: image.height, data: image.data}, box, turned: element("turned").checked, least: Number(element("least").value)});
    }, 60);
  }

  const at = event => {
    const size = canvas.getBoundingClientRect(), scale = Math.min(size.width / image.width, size.height / image.height); // the rest is black
    return [(event.clientX - size.left - size.width / 2) / scale + image.width / 2, (event.clientY - size.top - size.height / 2) / scale + image.height / 2];
  };
  canvas.addEventListener("pointerdown", event => {
    drag = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag)
      return;
    const [x, y] = at(event);
    box = {x: Math.min(x, drag[0]), y: Math.min(y, drag[1]), width: Math.abs(x - drag[0]), height: Math.abs(y - drag[1])};
    clamp();
    draw([]);
  });
  canvas.addEventListener("pointerup", () => {
    drag = null;
    search();
  });
  canvas.addEventListener("keydown", event => {
    const step = {ArrowLeft: [-4, 0], ArrowRight: [4, 0], ArrowUp: [0, -4], ArrowDown: [0, 4]}[event.key];
    if (!step)
      return;
    event.preventDefault();
    const [across, down] = event.shiftKey ? ["width", "height"] : ["x", "y"];
    box[across] += step[0];
    box[down] += step[1];
    search();
  });
  onFile(element("match-file"), async file => {
    image = pixels(await createImageBitmap(file), 800);
    box = {x: image.width * 0.4, y: image.height * 0.4, width: image.width / 8, height: image.width / 8};
    search();
  });
  element("turned").addEventListener("change", search);
  element("least").addEventListener("change", search);
  search();
}
