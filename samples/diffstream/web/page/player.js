// Decodes live video with the library (cusight.js) and paints it. Runs in a worker (worker.js), or in the page itself where there are no
// workers: in a page opened as a file.
"use strict";

// A viewer of the library and its pictures.
class Decoder {
  static UPDATES = ["nothing", "connected", "frame", "base missing", "ended", "checked"];

  static async create(options) {
    return new Decoder(await cusight.load(options));
  }

  constructor(library) {
    Object.assign(this, {cu: library, viewer: new library.Viewer({max_frame_bytes: 2 ** 28, checksums: 1}), heatmap: new library.Mat(),
                         view: new library.Mat(), previous: new library.Mat()});
  }

  // Calls onUpdate(name) for each update in the bytes. Throws the decoder's error.
  input(bytes, onUpdate) { this.viewer.input(bytes, update => onUpdate(Decoder.UPDATES[update])); }
  output() { return this.viewer.output(); }
  info() { return this.viewer.query(); }
  frame() { return this.viewer.frame({view: this.view}); }
  checksum() { return this.cu.crc32c(0, this.frame().data); }

  // The picture, or the heatmap of what has changed since the last one, as ImageData.
  image(which) {
    const frame = this.frame(), {previous} = this;
    if (which === "picture")
      return frame.imageData();
    const same = ["rows", "cols", "type"].every(key => previous[key] === frame[key]);
    this.cu.heatmap(same ? previous : frame, frame, null, {dst: this.heatmap});
    previous.copy(frame);
    return this.heatmap.imageData();
  }
}

// Splits a recorded session into its messages: [first byte, end] of each.
function messagesOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), found = [];
  for (let at = 0; at + 48 <= bytes.length;) {
    const end = at + 48 + view.getUint32(at + 8, true);
    found.push([at, Math.min(end, bytes.length)]);
    at = end;
  }
  return found;
}

// One viewer. `canvases` has a canvas each for picture and heatmap; post(message) tells the page what happens.
class Player {
  static ACKNOWLEDGE = 32 * 1024; // bytes decoded, before the sender is told: WebSocket::ACKNOWLEDGE there
  static REPORT = 250;            // ms between reports

  constructor(decoder, canvases, settings, post) {
    Object.assign(this, {decoder, canvases, post, paused: false, view: "picture", dirty: false, painting: false});
    this.contexts = Object.fromEntries(Object.entries(canvases).map(([name, canvas]) => [name, canvas.getContext("2d", {alpha: false})]));
    this.log = settings.checksums ? [] : null;
    this.connections = 0;
    this.resetCounts();
    setInterval(() => this.report(), Player.REPORT);
  }

  resetCounts() {
    this.counts = {frames: 0, bytes: 0, changed: 0, painted: 0, decodeMs: 0, paintMs: 0};
    this.since = performance.now();
  }

  report() {
    const now = performance.now();
    this.post({kind: "report", info: this.decoder.info(), ...this.counts, seconds: (now - this.since) / 1000});
    this.resetCounts();
    if (this.log && this.log.length > 0)
      this.post({kind: "checksums", frames: this.log.splice(0)});
  }

  decode(bytes) {
    const start = performance.now();
    this.counts.bytes += bytes.length;
    this.decoder.input(bytes, update => this.updated(update));
    this.counts.decodeMs += performance.now() - start;
    if (this.dirty)
      this.schedule();
  }

  updated(update) {
    const info = this.decoder.info();
    if (update === "frame") {
      ++this.counts.frames;
      this.counts.changed += info.is_key_frame ? 0 : info.changed / (info.rows * info.cols * (1 + (info.type >> 3)));
      this.dirty = true;
      if (this.log)
        this.log.push([info.sequence, this.decoder.checksum()]);
    } else if (update === "connected") {
      for (const canvas of Object.values(this.canvases))
        [canvas.width, canvas.height] = [info.cols, info.rows];
    }
    if (update !== "frame")
      this.post({kind: update, info});
  }

  // ---- Painting: at most once per refresh of the screen ----

  schedule() {
    if (this.painting || this.paused)
      return;
    this.painting = true;
    const paint = () => {
      this.painting = false;
      if (!this.paused)
        this.paint();
    };
    if (typeof requestAnimationFrame === "function")
      requestAnimationFrame(paint);
    else
      setTimeout(paint, 16);
  }

  paint() {
    const start = performance.now(), info = this.decoder.info();
    if (info.sequence === 0)
      return;
    for (const [name, context] of Object.entries(this.contexts))
      if (this.view === name || this.view === "both")
        context.putImageData(this.decoder.image(name), 0, 0);
    this.dirty = false;
    ++this.counts.painted;
    this.counts.paintMs += performance.now() - start;
    this.post({kind: "painted", sequence: info.sequence});
  }

  // ---- A live stream ----

  connect(address) {
    const connection = ++this.connections;
    const socket = this.socket = new WebSocket(address);
    let received = 0, acknowledged = 0, opened = false;
    socket.binaryType = "arraybuffer";
    const send = () => {
      const bytes = this.decoder.output();
      if (bytes.length > 0)
        socket.send(bytes);
    };
    socket.onopen = () => {
      opened = true;
      this.decoder.viewer.reconnect();
      send();
    };
    socket.onmessage = event => {
      if (typeof event.data === "string")
        return;
      try {
        this.decode(new Uint8Array(event.data));
      } catch (error) {
        this.post({kind: "failed", text: error.message});
        socket.close();
        return;
      }
      send();
      received += event.data.byteLength;
      // The sender limits what is on its way, so that a slow tab gets fewer frames instead of a growing delay.
      if (received - acknowledged >= Player.ACKNOWLEDGE) {
        socket.send(String(received));
        acknowledged = received;
      }
    };
    socket.onclose = event => {
      if (connection === this.connections)
        this.post({kind: "closed", opened, reason: event.reason});
    };
  }

  disconnect() {
    ++this.connections;
    if (this.socket)
      this.socket.close();
    this.socket = null;
  }

  // ---- A recorded session ----

  play(bytes) {
    this.disconnect();
    this.recording = {bytes, messages: messagesOf(bytes), next: 0};
    clearInterval(this.clock);
    this.decoder.viewer.reconnect();
    if (this.advance("connected"))
      this.clock = setInterval(() => this.paused || this.advance("frame"), 1e6 / (this.decoder.info().rate_millihertz || 25000));
  }

  // Decodes up to and including the next message with this result, and the checksum after it. Returns whether there was one.
  advance(wanted) {
    const {bytes, messages} = this.recording;
    let reached = false;
    const isChecksum = at => bytes[at + 6] === 6;
    try {
      while (this.recording.next < messages.length && (!reached || isChecksum(messages[this.recording.next][0]))) {
        const [start, end] = messages[this.recording.next++], before = this.decoder.info().sequence;
        this.decode(bytes.subarray(start, end));
        const info = this.decoder.info();
        reached = reached || (wanted === "connected" ? info.rows > 0 : info.sequence !== before);
      }
    } catch (error) {
      this.post({kind: "failed", text: error.message});
      reached = false;
    }
    if (!reached)
      clearInterval(this.clock);
    return reached;
  }

  // ---- What the page asks for ----

  receive(message) {
    switch (message.kind) {
    case "connect": this.connect(message.address); break;
    case "disconnect": this.disconnect(); break;
    case "play": this.play(message.bytes); break;
    case "view": this.view = message.view; this.paint(); break;
    case "pause": this.paused = message.paused; if (!this.paused) this.schedule(); break;
    case "step":
      if (this.recording)
        this.advance("frame");
      this.paint();
      break;
    case "checksum": this.post({kind: "checksum", sequence: this.decoder.info().sequence, value: this.decoder.checksum()}); break;
    case "stall": { // for tests: a tab that is too busy
      const end = performance.now() + message.milliseconds;
      while (performance.now() < end);
      break;
    }
    }
  }
}
