// An event recording, or events of the example, in every representation.
import {count, element, example, onFile, pixels, play, say, show} from "./tools.js";

const MOST = 2 ** 24; // events that are kept

function joined(parts) {
  const total = parts.reduce((sum, part) => sum + part.x.length, 0);
  return Object.fromEntries([..."xypt"].map(key => {
    const whole = new parts[0][key].constructor(total);
    parts.reduce((at, part) => (whole.set(part[key], at), at + part.x.length), 0);
    return [key, whole];
  }));
}

// The example's events, of 1.5 seconds.
function made(cu) {
  const first = pixels(example(0)), generator = new cu.EventGenerator(first.height, first.width, {leak_rate: 0.1, shot_rate: 1});
  const parts = Array.from({length: 46}, (_, i) => {
    const gray = cu.fromImage(pixels(example(i / 30))), part = generator.push(gray, Math.round(i * 1e6 / 30));
    gray.dispose();
    return part;
  });
  generator.dispose();
  return {name: "the example", events: joined(parts), width: first.width, height: first.height};
}

// Values of any type and number of channels as colors: the first half of the channels against the second, or positive against negative.
function colored(frame) {
  const {rows, cols, channels, data} = frame, image = new ImageData(cols, rows), values = new Float32Array(2 * rows * cols);
  let most = 0;
  for (let i = 0; i < rows * cols; ++i) {
    for (let k = 0; k < channels; ++k) {
      const value = data[i * channels + k], second = channels % 2 === 0 && k >= channels / 2;
      values[2 * i + (second || value < 0)] += Math.abs(value);
    }
    most = Math.max(most, values[2 * i], values[2 * i + 1]);
  }
  for (let i = 0; i < rows * cols; ++i) {
    const [warm, cold] = [values[2 * i], values[2 * i + 1]].map(value => 255 * Math.sqrt(value / (most || 1)));
    image.data.set([warm, 0.45 * (warm + cold), cold, 255], 4 * i);
  }
  return image;
}

export function start(cu) {
  const slider = element("time"), list = element("representation"), kinds = Object.entries(cu.constants).filter(([name]) => name.startsWith("CUS_REPR_"));
  let recording = null, stacker = null, now = 0, last = 0;
  for (const [, kind] of kinds)
    list.add(new Option(cu.representationName(kind).replaceAll("_", " "), kind));

  function prepare() {
    stacker?.dispose();
    stacker = new cu.EventStacker(recording.height, recording.width, [{kind: Number(list.value)}]);
  }

  function index(time) {
    let low = 0, high = recording.events.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (recording.events.t[middle] < time)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  function draw() {
    const {events} = recording, begin = performance.now(), from = events.t[0] + BigInt(Math.round(now)), window = 1000 * Number(element("window").value);
    const first = index(from), end = index(from + BigInt(window));
    const part = Object.fromEntries([..."xypt"].map(key => [key, events[key].subarray(first, end)]));
    const [frame] = stacker.stack(part, [{first: 0, last: end - first}]), took = performance.now() - begin;
    show("events-picture", Number(list.value) === cu.constants.CUS_REPR_TENCODE ? frame.imageData() : colored(frame));
    frame.dispose();
    slider.value = 1000 * now / recording.length;
    slider.setAttribute("aria-valuetext", `${(now / 1e6).toFixed(2)} s`);
    say("events-says", `${recording.name}, ${recording.width} x ${recording.height}: ${(now / 1e6).toFixed(2)} of ${(recording.length / 1e6).toFixed(2)} s, ` +
      `${count(end - first)} of ${count(events.t.length)}${recording.cut ? " (the first)" : ""} events, ${took.toFixed(1)} ms`);
  }

  function open(opened) {
    const {t} = opened.events;
    recording = {...opened, length: Math.max(t.length ? Number(t[t.length - 1] - t[0]) : 0, 1)};
    now = 0;
    prepare();
    draw();
  }

  onFile(element("events-file"), async file => {
    const bytes = new Uint8Array(await file.arrayBuffer()), begin = performance.now(), reader = new cu.EventReader(bytes, {bad_events: cu.constants.CUS_BAD_EVENTS_SKIP});
    try {
      const parts = [], info = reader.info();
      let total = 0;
      for (let part; total < MOST && (part = reader.read(2 ** 20)).x.length; total += part.x.length)
        parts.push(part);
      if (total === 0)
        throw new Error(`${file.name} has no events`);
      const side = key => info[key === "x" ? "width" : "height"] || 1 + parts.reduce((most, part) => part[key].reduce((a, b) => Math.max(a, b), most), 0);
      open({name: `${file.name} (${cu.eventFormatName(info.format)}, read in ${Math.round(performance.now() - begin)} ms)`, events: joined(parts),
            width: side("x"), height: side("y"), cut: total >= MOST});
    } finally {
      reader.dispose();
    }
  });
  list.addEventListener("change", () => { prepare(); draw(); });
  element("window").addEventListener("input", event => {
    say("window-says", `${event.target.value} ms`);
    event.target.setAttribute("aria-valuetext", `${event.target.value} ms`);
    draw();
  });
  slider.addEventListener("input", () => { now = recording.length * slider.value / 1000; draw(); });
  open(made(cu));
  play(element("events"), element("events-pause"), time => {
    now = (now + 1000 * Math.min(time - last, 50)) % recording.length;
    last = time;
    draw();
  });
}
