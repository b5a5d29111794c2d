// The page: controls, figures and plots around a player.
//
// The part of the address after # is never sent with the page's requests: token=... is what the sender asks for, and checksums
// makes window.viewer.frames list the checksum of each picture.
"use strict";

const element = id => document.getElementById(id);
const settings = Object.fromEntries(location.hash.slice(1).split("&").map(part => [part.split("=")[0], part.split("=")[1] ?? true]));
const recorded = window.CUSIGHT_RECORDING; // in a page that plays a session without a server
const canvases = {picture: element("picture"), heatmap: element("heatmap")};
const HISTORY = 60; // seconds of the plots

const viewer = window.viewer = {frames: [], checksums: [], painted: 0, connects: 0, paused: false, view: "picture", info: null, broken: null, exact: 0, bound: 0};

// ---- The player, in a worker if there can be one ----

const inWorker = location.protocol !== "file:" && typeof canvases.picture.transferControlToOffscreen === "function";
let post = () => {}; // until the decoder is here

function decodeBase64(text) {
  return Uint8Array.from(atob(text), c => c.charCodeAt(0));
}

function load(script) {
  return new Promise((loaded, failed) => {
    const element = document.createElement("script");
    element.onload = loaded;
    element.onerror = () => failed(new Error(`${script} cannot be loaded`));
    element.src = script;
    document.head.append(element);
  });
}

async function start() {
  const source = recorded ? {module: decodeBase64(recorded.module)} : {base: location.href};
  const options = {checksums: Boolean(settings.checksums)};
  if (inWorker) {
    const worker = new Worker("worker.js");
    worker.onmessage = event => receive(event.data);
    worker.onerror = event => setState("The decoder stopped: " + event.message);
    post = (message, transfer = []) => worker.postMessage(message, transfer);
    const offscreen = Object.fromEntries(Object.entries(canvases).map(([name, canvas]) => [name, canvas.transferControlToOffscreen()]));
    post({kind: "start", source, canvases: offscreen, settings: options}, Object.values(offscreen));
  } else {
    await load("cusight.js");
    await load("player.js");
    const player = new Player(await Decoder.create(source), canvases, options, receive);
    post = message => player.receive(message);
  }
  if (recorded)
    playSession(decodeBase64(recorded.session), recorded.name);
  else
    connect();
}

// ---- The connection ----

let retry = 0, live = false, ended = ""; // ended: what has ended, "" while it comes

function connect() {
  live = true;
  ++viewer.connects;
  const address = new URL("live", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.search = typeof settings.token === "string" ? "?token=" + encodeURIComponent(settings.token) : "";
  address.hash = "";
  post({kind: "connect", address: address.href});
}

function reconnectLater(text) {
  setState(text);
  retry = Math.min(retry + 1, 5);
  setTimeout(() => live && connect(), 500 * retry);
}

function playSession(bytes, name) {
  live = false;
  setState("Playing " + name);
  post({kind: "play", bytes});
}

function setState(text) {
  element("state").textContent = text;
}

// ---- What the player says ----

function receive(message) {
  switch (message.kind) {
  case "connected":
    retry = 0;
    ended = "";
    viewer.info = message.info;
    viewer.broken = null; // of an earlier stream
    viewer.exact = 0;
    setBadge();
    element("size").textContent = `${message.info.cols} × ${message.info.rows}`;
    if (live)
      setState("Live" + (message.info.rate_millihertz ? `, ${message.info.rate_millihertz / 1000} frames/s at the source` : ""));
    break;
  case "checked": check(message.info); break;
  case "report": report(message); break;
  case "painted": ++viewer.painted; viewer.sequence = message.sequence; break;
  case "checksums": viewer.frames.push(...message.frames); break;
  case "checksum": viewer.checksums.push(message); break;
  case "ended":
    ended = live ? "video" : "session";
    setState(`The ${ended} has ended`);
    break;
  case "failed":
    setState(message.text);
    if (message.final)
      live = false;
    break;
  case "closed":
    if (!live)
      break;
    ended &&= message.reason || ended;
    reconnectLater(ended ? `The ${ended} has ended` : message.opened ? "Connection lost; trying again ..." :
      "Not connected: no sender, it has no room, or it refuses this address or token. Trying again ...");
    break;
  }
}

function check(info) {
  if (info.exact)
    viewer.exact = info.checked;
  else
    viewer.broken = viewer.broken ?? info.checked;
  errors.push({time: performance.now() / 1000, value: info.exact ? info.error_bound : 255, exact: info.exact});
  viewer.bound = info.error_bound;
  element("checked").textContent = `frame ${info.checked}`;
  setBadge();
}

// What the picture has of the camera's: it is what was sent, bit for bit, and the sender leaves out changes up to its threshold.
function asSent() {
  return viewer.bound === 0 ? "exact: all changes are sent"
    : viewer.bound < 255 ? `as sent; changes up to ${viewer.bound} are not sent` : "as sent; what counts as noise is not sent";
}

function setBadge() {
  const badge = element("badge");
  const [text, kind] = viewer.broken !== null ? [`broken at frame ${viewer.broken}`, "broken"]
    : viewer.exact ? [asSent(), "exact"] : ["not checked yet", "unknown"];
  if (badge.textContent !== text)
    badge.textContent = text;
  if (badge.className !== "badge " + kind) // screen readers hear of changes, not of each check
    element("spoken").textContent = {exact: "The picture is " + text, broken: "The picture is " + text}[kind] ?? "";
  badge.className = "badge " + kind;
}

// ---- Figures and plots ----

const rates = [], errors = [];

function report({info, seconds, frames, bytes, changed, painted, decodeMs, paintMs}) {
  viewer.info = info;
  const now = performance.now() / 1000;
  rates.push({time: now, value: 8e-6 * bytes / seconds, frames, changed, seconds, bytes, decodeMs, paintMs, painted});
  for (const list of [rates, errors])
    while (list.length > 1 && list[0].time < now - HISTORY)
      list.shift();
  const second = rates.slice(-4), sum = name => second.reduce((total, r) => total + r[name], 0);
  if (info.sequence > 0) {
    element("sequence").textContent = String(info.sequence);
    element("rate").textContent = `${(sum("frames") / sum("seconds")).toFixed(1)} frames/s`;
    element("bandwidth").textContent = `${(8e-6 * sum("bytes") / sum("seconds")).toFixed(2)} Mbit/s`;
    element("changed").textContent = sum("frames") ? `${(100 * sum("changed") / sum("frames")).toFixed(2)} %` : "–";
    viewer.decodeMs = sum("frames") ? sum("decodeMs") / sum("frames") : 0;
    viewer.paintMs = sum("painted") ? sum("paintMs") / sum("painted") : 0;
    element("decoding").textContent = sum("frames") ? `${viewer.decodeMs.toFixed(2)} + ${viewer.paintMs.toFixed(2)} ms` : "–";
  }
  plot(element("bandwidth-plot"), rates, false);
  plot(element("error-plot"), errors, true);
}

// A scale that ends in 1, 2 or 5 times a power of ten.
function scaleFor(largest) {
  const power = 10 ** Math.floor(Math.log10(Math.max(largest, 0.01)));
  return power * [1, 2, 5, 10].find(step => step * power >= largest);
}

function plot(canvas, points, dots) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (width === 0)
    return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const style = getComputedStyle(document.documentElement), color = name => style.getPropertyValue(name).trim();
  const context = canvas.getContext("2d"), now = performance.now() / 1000;
  const top = scaleFor(Math.max(...points.map(p => p.value), dots ? 1 : 0.1)), left = 42, bottom = height - 10;
  const x = time => left + (width - left - 10) * (1 - (now - time) / HISTORY);
  const y = value => bottom - (bottom - 12) * value / top;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of [0, top / 2, top]) {
    context.strokeStyle = color("--line");
    context.fillStyle = color("--faint");
    context.beginPath();
    context.moveTo(left, y(value));
    context.lineTo(width - 10, y(value));
    context.stroke();
    context.fillText(String(Number(value.toPrecision(3))), left - 6, y(value));
  }
  const seen = points.filter(p => p.time >= now - HISTORY);
  context.strokeStyle = color("--accent");
  context.lineWidth = 2;
  context.beginPath();
  seen.forEach((p, i) => i ? context.lineTo(x(p.time), y(p.value)) : context.moveTo(x(p.time), y(p.value)));
  context.stroke();
  context.lineWidth = 1;
  for (const p of dots ? seen : []) {
    context.fillStyle = color(p.exact ? "--good" : "--bad");
    context.beginPath();
    context.arc(x(p.time), y(p.value), 4, 0, 7);
    context.fill();
  }
}

// ---- Controls ----

function setView(view) {
  viewer.view = view;
  element("stage").className = view;
  for (const button of document.querySelectorAll("[data-view]"))
    button.setAttribute("aria-pressed", String(button.dataset.view === view));
  post({kind: "view", view});
}

function setPaused(paused) {
  viewer.paused = paused;
  element("pause").setAttribute("aria-pressed", String(paused));
  element("pause").textContent = paused ? "Continue" : "Pause";
  element("step").disabled = !paused;
  post({kind: "pause", paused});
}

function shown() {
  return canvases[viewer.view === "heatmap" ? "heatmap" : "picture"];
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A canvas that a worker paints cannot be read here, but it can be drawn on another.
function save() {
  const from = shown(), copy = document.createElement("canvas");
  [copy.width, copy.height] = [viewer.info.cols, viewer.info.rows];
  copy.getContext("2d").drawImage(from, 0, 0);
  copy.toBlob(blob => download(blob, `${viewer.view === "heatmap" ? "heatmap" : "frame"}-${viewer.sequence}.png`));
}

let recorder = null;

function record() {
  if (recorder) {
    recorder.stop();
    return;
  }
  const parts = [];
  recorder = new MediaRecorder(shown().captureStream());
  recorder.ondataavailable = event => parts.push(event.data);
  recorder.onstop = () => {
    download(new Blob(parts, {type: "video/webm"}), "cusight.webm");
    recorder = null;
    element("record").setAttribute("aria-pressed", "false");
    element("record").textContent = "Record";
  };
  recorder.start();
  element("record").setAttribute("aria-pressed", "true");
  element("record").textContent = "Stop";
}

const actions = {
  pause: () => setPaused(!viewer.paused),
  step: () => viewer.paused && post({kind: "step"}),
  fullscreen: () => document.fullscreenElement ? document.exitFullscreen() : element("stage").requestFullscreen(),
  save: () => viewer.sequence && save(),
  record: () => typeof MediaRecorder === "function" && viewer.info && record(),
};
const keys = {" ": "pause", ArrowRight: "step", f: "fullscreen", s: "save", r: "record"};

for (const [id, action] of Object.entries(actions))
  element(id).addEventListener("click", action);
for (const button of document.querySelectorAll("[data-view]"))
  button.addEventListener("click", () => setView(button.dataset.view));
element("step").disabled = true;
element("open").addEventListener("change", async event => {
  const [file] = event.target.files;
  if (file)
    playSession(new Uint8Array(await file.arrayBuffer()), file.name);
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || (event.key === " " && event.target.closest("button, .button")))
    return;
  const view = {1: "picture", 2: "heatmap", 3: "both"}[event.key];
  if (view)
    setView(view);
  else if (keys[event.key])
    actions[keys[event.key]]();
  else
    return;
  event.preventDefault();
});
start().catch(error => setState(error.message));
