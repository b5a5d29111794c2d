// The library as a module: load() compiles cusight.wasm and makes a class of each kind of object, and a function of each other
// function, from the description in interface.js, which is written before this text. index.d.ts has the types.

if (!Symbol.dispose) // node 18
  Symbol.dispose = Symbol.for("Symbol.dispose");

const VIEWS = {u8: Uint8Array, i8: Int8Array, u16: Uint16Array, i16: Int16Array, i32: Int32Array, u32: Uint32Array, f32: Float32Array,
               f64: Float64Array, i64: BigInt64Array, u64: BigUint64Array};
const DEPTHS = ["u8", "i8", "u16", "i16", "i32", "f32", "f64", "u16"]; // CUS_8U and so on; the bits of 16F
const depthOf = type => VIEWS[DEPTHS[type & 7]], channelsOf = type => (type >> 3 & 511) + 1;
const BYTES = {u8: 1, i8: 1, text: 1, u16: 2, i16: 2, i64: 8, u64: 8, f64: 8};

/** A call that the library refused: its message, and the number and name of its status. */
export class CusightError extends Error {
  constructor(message, status, name) {
    super(message);
    this.name = "CusightError";
    this.status = status;
    this.code = name;
  }
}

// (module (func (result v128) (i32x4.splat (i32.const 0))))
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 17, 11]);

async function read(url) {
  if (url.protocol === "file:" && typeof process === "object")
    return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok)
    throw new Error(`${url} cannot be loaded: ${answer.status}`);
  return answer.arrayBuffer();
}

// base: where cusight.wasm and cusight-simd.wasm are; module: its bytes or a WebAssembly.Module instead.
export async function load({simd = WebAssembly.validate(SIMD), module, base} = {}) {
  const bytes = module ?? await read(new URL(simd ? "cusight-simd.wasm" : "cusight.wasm", base));
  const compiled = bytes instanceof WebAssembly.Module ? bytes : await WebAssembly.compile(bytes);
  const clock_time_get = (id, precision, at) => {
    new DataView(exports.memory.buffer).setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
    return 0;
  };
  const wasi_snapshot_preview1 = new Proxy({clock_time_get}, {get: (known, name) => known[name] ?? (() => 8)}); // EBADF: there are no files
  const {exports} = await WebAssembly.instantiate(compiled, {wasi_snapshot_preview1});
  exports._initialize();
  return new Library(exports);
}

class Library {
  constructor(exports) {
    this.exports = exports;
    this.constants = constants;
    this.registry = new FinalizationRegistry(free => free());
    const library = this, own = {};
    this.Mat = class extends Mat {
      static title = "Mat";
      constructor(...given) { super(library, ...given); }
    };
    for (const [name, words] of Object.entries(functions)) {
      const [result, ...parameters] = words.split(" ").map(word => word.split(":"));
      const [kind, , handle] = parameters[0] ?? [], create = /(Create|OpenMemory)$/.test(name), end = /(Destroy|Close|Release)$/.test(name);
      if (/^cusMat[A-Z]/.test(name))
        continue;
      const object = create ? name.replace(/(Create|OpenMemory)$/, "") : kind === "h" ? handle : null;
      if (!object) {
        this[name[3].toLowerCase() + name.slice(4)] = (...given) => this.call(name, result, parameters, given);
        continue;
      }
      const made = own[object] ??= classOf(this, object);
      if (create || end) {
        made[create ? "create" : "end"] = {name, result, parameters};
      } else {
        const stem = name.startsWith(object) ? object : object.replace(/[A-Z][a-z0-9]*$/, "");
        const method = name.slice(stem.length);
        made.prototype[method[0].toLowerCase() + method.slice(1)] ??= function (...given) {
          return library.call(name, result, parameters, [this, ...given]);
        };
      }
    }
  }

  // ---- Memory ----

  view(kind, at, count) { return new VIEWS[kind](this.exports.memory.buffer, at, count); }

  malloc(bytes) {
    const at = this.exports.malloc(Math.max(bytes, 1)) >>> 0;
    if (at === 0)
      throw new CusightError(`no memory for ${bytes} bytes`, constants.CUS_ERROR_NO_MEMORY, "CUS_ERROR_NO_MEMORY");
    return at;
  }

  // Memory that `frees` lists.
  room(bytes, frees) {
    const at = this.malloc(bytes);
    frees.push(at);
    return at;
  }
  take(bytes, frees) { // zeroed
    const at = this.room(bytes, frees);
    this.view("u8", at, bytes).fill(0);
    return at;
  }

  // The address of a copy, or of what is in the library's memory already, such as the data of a Mat.
  copy(array, frees) {
    let bytes = ArrayBuffer.isView(array) ? new Uint8Array(array.buffer, array.byteOffset, array.byteLength) : new Uint8Array(array);
    if (bytes.buffer === this.exports.memory.buffer) {
      if (!frees.keep)
        return bytes.byteOffset;
      bytes = bytes.slice();
    }
    const at = this.room(bytes.length, frees);
    this.view("u8", at, bytes.length).set(bytes);
    return at;
  }

  string(text, frees) { return this.copy(new TextEncoder().encode(text + "\0"), frees); }

  text(at) {
    const bytes = this.view("u8", at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  move(to, from, bytes) {
    if (from) // a matrix that is left out stays empty
      this.view("u8", to, bytes).set(this.view("u8", from, bytes));
  }

  release(frees) { frees.splice(0).forEach(at => this.exports.free(at)); }

  check(status) {
    if (status)
      throw new CusightError(this.text(this.exports.cusLastError()), status, this.text(this.exports.cusStatusName(status)));
  }

  // An object of this library: addresses of another one's memory mean nothing here.
  own(given, kind) {
    if (!(given instanceof kind))
      throw new TypeError(`${given} is no object of this library's class ${kind.title}`);
    return given;
  }

  // ---- Values ----

  // The address of a cusMat of a Mat, ImageData, or {rows, cols, type, data}; 0 for null.
  picture(given, frees) {
    if (given === null || given === undefined)
      return 0;
    if (given instanceof Mat)
      return this.own(given, this.Mat).at;
    if (given.width !== undefined) { // ImageData: as B, G, R
      const at = this.take(structs.cusMat[0], frees), count = given.width * given.height;
      const from = this.malloc(4 * count), to = this.room(3 * count, frees);
      this.view("u8", from, 4 * count).set(given.data);
      this.exports.web_from_rgba(from, to, count, 3);
      this.exports.free(from);
      this.write("cusMat", at, {rows: given.height, cols: given.width, type: constants.CUS_8UC3, step: 3 * given.width, data: to});
      return at;
    }
    const {rows, cols, type, data} = given, values = rows * cols * channelsOf(type);
    if (!(data instanceof depthOf(type) || data instanceof Uint8ClampedArray) || data.length !== values)
      throw new TypeError(`a picture of ${rows} x ${cols} has ${data?.length} values in ${data?.constructor.name}, expected ${values} in ${depthOf(type).name}`);
    const at = this.take(structs.cusMat[0], frees);
    this.write("cusMat", at, {rows, cols, type, step: data.byteLength / rows, data: this.copy(data, frees)});
    return at;
  }

  write(name, at, values, frees = []) {
    const memory = () => new DataView(this.exports.memory.buffer);
    const put = (what, at, value) => {
      if (what in structs)
        this.write(what, at, value, frees);
      else if (what === "m")
        memory().setUint32(at, this.picture(value, frees), true);
      else if (what === "z")
        memory().setUint32(at, value === null ? 0 : this.string(value, frees), true);
      else if (what[0] === "*")
        memory().setUint32(at, value === null ? 0 : this.struct(what.slice(1), value, frees), true);
      else if (what[0] === "p")
        memory().setUint32(at, value === null ? 0 : typeof value === "number" ? value : this.copy(value, frees), true);
      else
        this.view(what, at, 1)[0] = /64$/.test(what) && what[0] !== "f" ? BigInt(value) : value;
    };
    for (const [key, value] of Object.entries(values)) {
      const [offset, what, count] = structs[name][1][key] ?? [];
      if (what === undefined)
        throw new TypeError(`${name} has no ${key}, only ${Object.keys(structs[name][1]).join(", ")}`);
      for (let i = 0; i < count; ++i)
        put(what, at + offset + i * (BYTES[what] ?? 4), count > 1 ? value[i] : value);
    }
  }

  read(name, at) {
    const get = (what, at) => {
      if (what in structs)
        return this.read(what, at);
      const value = this.view(VIEWS[what] ? what : "u32", at, 1)[0];
      return typeof value === "bigint" ? Number.isSafeInteger(Number(value)) ? Number(value) : value : !VIEWS[what] && value === 0 ? null : value; // an address
    };
    if (name === "cusEventArrays") {
      const count = get("u32", at + structs[name][1].count[0]);
      return Object.fromEntries(["x", "y", "p", "t"].map(key => {
        const [offset, what] = structs[name][1][key];
        return [key, this.view(what.slice(1), get("u32", at + offset), count).slice()];
      }));
    }
    return Object.fromEntries(Object.entries(structs[name][1]).map(([key, [offset, what, count]]) => [key, what === "text" ? this.text(at + offset)
      : count > 1 ? Array.from({length: count}, (_, i) => get(what, at + offset + i * (BYTES[what] ?? 4))) : get(what, at + offset)]));
  }

  // The address of a struct with these values, and its defaults for others.
  struct(name, values, frees) {
    const at = this.take(structs[name][0], frees), defaults = name.replace(/Options$/, "") + "Defaults";
    if (functions[defaults])
      this.exports[defaults](at, values.kind ?? 0);
    this.write(name, at, name === "cusEventArrays" ? {count: values.x.length, ...values} : values, frees);
    return at;
  }

  structs(name, list, frees) {
    const [bytes] = structs[name], at = this.take(bytes * list.length, frees);
    list.forEach((values, i) => this.move(at + i * bytes, this.struct(name, values, frees), bytes));
    return at;
  }

  // ---- Calls ----

  // Takes JavaScript's arguments in the order of `parameters`; the last one may name matrices to be written: {dst: mat}, or null for none.
  call(name, result, parameters, given, keep = null) {
    const inputs = parameters.filter(([kind]) => !"_cMOFSNBEH".includes(kind)).map(([, key]) => key);
    const frees = keep ?? [], after = [], outs = {}, into = given[inputs.length] ?? {};
    let next = 0, count = 0;
    // Sizes of memory are numbers of 32 bits here: so many bytes a pixel do not exceed them.
    const sides = parameters[0]?.[0] === "H" ? given.filter((_, i) => /^(max_)?(rows|cols)$|cameras/.test(inputs[i])) : [];
    const area = sides.reduce((product, side) => product * side, 1), most = name === "cusEventStackerCreate" ? 2 ** 22 : 2 ** 24;
    if (area > most)
      throw new CusightError(`${name}: ${sides.join(" x ")} pixels are more than WebAssembly's memory allows, expected at most ${most}`, constants.CUS_ERROR_SIZE, "CUS_ERROR_SIZE");
    try {
      const values = parameters.map(([kind, key, extra]) => {
        switch (kind) {
        case "_": return 0;
        case "c": return count;
        case "n": return count = given[next++] ?? 0;
        case "l": return BigInt(given[next++] ?? 0);
        case "h": return this.own(given[next++], this[extra.slice(3)]).at;
        case "m": return this.picture(given[next++], frees);
        case "d": {
          const list = [given[next++]].flat(), [bytes] = structs.cusMat, at = this.take(bytes * list.length, frees);
          list.forEach((one, i) => this.move(at + i * bytes, this.picture(one, frees), bytes));
          count = list.length;
          return at;
        }
        case "z": case "p": case "s": {
          let value = given[next++] ?? null;
          if (value === null)
            return 0;
          if (kind === "s")
            return this.struct(extra, value, frees);
          if (Array.isArray(value))
            value = VIEWS[extra].from(value, extra === "i64" ? BigInt : Number);
          count = value.byteLength / (BYTES[extra] ?? 4);
          return kind === "z" ? this.string(value, frees) : this.copy(value, frees);
        }
        case "a": {
          const list = given[next++];
          count = list.length;
          return this.structs(extra, list, frees);
        }
        case "A": case "B": {
          count = kind === "A" ? given[next++] : count;
          const [bytes] = structs[extra], at = this.take(bytes * count, frees);
          after.push(() => outs[key] = Array.from({length: outs.found ?? outs.count}, (_, i) => this.read(extra, at + i * bytes)));
          return at;
        }
        case "E": {
          const at = this.room(count * (BYTES[extra] ?? 4), frees);
          after.push(() => outs[key] = this.view(extra, at, outs.count).slice());
          return at;
        }
        case "F": {
          const list = given[0].given[2].map(() => new this.Mat()), [bytes] = structs.cusMat, at = this.take(bytes * list.length, frees);
          after.push(() => list.forEach((mat, i) => this.move(mat.at, at + i * bytes, bytes)));
          outs[key] = list;
          return at;
        }
        case "M": case "O": {
          if (into[key] === null || (kind === "O" && !into[key]))
            return 0;
          outs[key] = into[key] ?? new this.Mat();
          return outs[key].at;
        }
        case "S": {
          const at = this.take(structs[extra][0], frees);
          after.unshift(() => outs[key] = this.read(extra, at));
          return at;
        }
        default: { // N, H
          const at = this.take(8, frees);
          after.unshift(() => outs[key] = kind === "H" ? this.view("u32", at, 1)[0] : Number(this.view(extra, at, 1)[0]));
          return at;
        }
        }
      });
      const struct = result[0] === "s" ? this.take(structs[result[2]][0], frees) : 0;
      const returned = this.exports[name](...struct ? [struct, ...values] : values);
      const lists = parameters.some(([kind]) => "ABE".includes(kind));
      if (!lists)
        result[0] === "i" && this.check(returned);
      after.forEach(step => step());
      if (lists && !(outs.found ?? outs.count)) // what precedes damage is delivered; the next call has the error
        this.check(returned);
      if (result[0] !== "i")
        return struct ? this.read(result[2], struct) : result[0] === "z" ? this.text(returned) : returned >>> 0;
      if (lists)
        delete outs.found, delete outs.count;
      const names = Object.keys(outs);
      return names.length === 0 ? undefined : names.length === 1 ? outs[names[0]] : outs;
    } finally {
      if (!keep)
        this.release(frees);
    }
  }

  // The gray version of ImageData, as a Mat; channels 3: B, G, R; 4: with alpha.
  fromImage(image, channels = 1) {
    const mat = new this.Mat(image.height, image.width, constants.CUS_8UC1 + 8 * (channels - 1)), from = this.malloc(image.data.length);
    this.view("u8", from, image.data.length).set(image.data);
    this.exports.web_from_rgba(from, mat.fields().data, image.width * image.height, channels);
    this.exports.free(from);
    return mat;
  }
}

// ---- Matrices ----

export class Mat {
  // Empty, or rows x cols of a type.
  constructor(library, rows, cols, type) {
    this.cu = library;
    this.at = library.take(structs.cusMat[0], []);
    const {exports} = library, {at} = this;
    library.registry.register(this, this.free = () => { exports.cusMatRelease(at); exports.free(at); }, this);
    if (rows !== undefined)
      library.check(exports.cusMatCreate(at, rows, cols, type, 0));
  }
  fields() { return this.cu.read("cusMat", this.at); }
  get rows() { return this.fields().rows; }
  get cols() { return this.fields().cols; }
  get type() { return this.fields().type; }
  get channels() { return channelsOf(this.type); }

  // The values in place: valid until the next call of the library. Rows of a view may be padded; then it is a copy.
  get data() {
    const {rows, cols, type, step, data} = this.fields(), kind = depthOf(type), width = cols * channelsOf(type), {buffer} = this.cu.exports.memory;
    if (rows < 2 || step === width * kind.BYTES_PER_ELEMENT)
      return new kind(buffer, data, rows * width);
    const copy = new kind(rows * width);
    for (let y = 0; y < rows; ++y)
      copy.set(new kind(buffer, data + y * step, width), y * width);
    return copy;
  }

  // Makes this matrix a copy of another.
  copy(from) { this.cu.check(this.cu.exports.cusMatCopy(from.at, this.at, 0)); }

  // An 8-bit matrix as ImageData (in node: {width, height, data}).
  imageData() {
    const {rows, cols, type} = this.fields(), bytes = 4 * rows * cols, to = this.cu.malloc(bytes), {cu: library} = this;
    library.exports.web_to_rgba(this.fields().data, to, rows * cols, channelsOf(type));
    const data = new Uint8ClampedArray(library.exports.memory.buffer, to, bytes).slice();
    library.exports.free(to);
    return typeof ImageData === "function" ? new ImageData(data, cols, rows) : {width: cols, height: rows, data};
  }

  dispose() {
    if (this.at) {
      this.cu.registry.unregister(this);
      this.free();
    }
    this.at = 0;
  }
  [Symbol.dispose]() { this.dispose(); }
}

// ---- Objects ----

function classOf(library, name) {
  const own = METHODS[name] ?? {}, isStruct = name in structs;
  const made = library[name.slice(3)] = class {
    static title = name.slice(3);
    constructor(...given) {
      const {create, end} = made, keep = Object.assign([], {keep: true}), {exports} = library;
      this.given = given;
      if (isStruct)
        this.at = library.take(structs[name][0], keep);
      try {
        const result = library.call(create.name, create.result, create.parameters, isStruct ? [this, ...given] : given, keep);
        this.at ??= result;
      } catch (error) {
        library.release(keep);
        throw error;
      }
      const {at} = this; // what the object was given stays as long as it does
      library.registry.register(this, this.free = () => { exports[end.name](at); library.release(keep); }, this);
    }
    dispose() {
      if (this.at) {
        library.registry.unregister(this);
        this.free();
      }
      this.at = 0;
    }
    [Symbol.dispose]() { this.dispose(); }
  };
  for (const [key, method] of Object.entries(own))
    made.prototype[key] = function (...given) {
      const frees = [];
      try {
        return method.call(this, library, frees, ...given);
      } finally {
        library.release(frees);
      }
    };
  return made;
}

// Where a call's shape in C is not that of a call in JavaScript.
const METHODS = {
  cusEventDecoder: {
    run(library, frees, bytes, capacity) {
      const columns = {x: 2, y: 2, p: 1, t: 8}, at = {capacity};
      for (const [key, size] of Object.entries(columns))
        at[key] = library.room(capacity * size, frees);
      const buffers = library.struct("cusEventBuffers", at, frees), out = library.take(structs.cusEventDecoded[0], frees);
      const status = library.exports.cusEventDecoderRun(this.at, library.copy(bytes, frees), bytes.byteLength, buffers, out, 0);
      const decoded = library.read("cusEventDecoded", out), {x, y, p, t} = at, events = library.struct("cusEventArrays", {x, y, p, t, count: decoded.count}, frees);
      if (status !== constants.CUS_ERROR_CAPACITY && decoded.count === 0)
        library.check(status);
      return {events: library.read("cusEventArrays", events), decoded};
    },
  },
  cusSparseDiff: {
    positions(library) { return library.view("u32", library.read("cusSparseDiff", this.at).positions.data, this.count()).slice(); },
    values(library) { return library.view("u8", library.read("cusSparseDiff", this.at).values.data, this.count()).slice(); },
  },
  cusMotionDetector: {
    get(library, frees, camera = 0) {
      const most = this.given[4]?.max_boxes ?? 64, at = library.take(structs.cusMotionStatus[0], frees);
      const [boxes, tracks] = ["cusMotionBox", "cusMotionTrack"].map(name => [name, library.take(most * structs[name][0], frees)]);
      library.check(library.exports.cusMotionDetectorGet(this.at, camera, 1, at, boxes[1], tracks[1], 0));
      const status = library.read("cusMotionStatus", at);
      const list = ([name, at], length) => Array.from({length}, (_, i) => library.read(name, at + i * structs[name][0]));
      return {status, boxes: list(boxes, status.boxes), tracks: list(tracks, status.tracks)};
    },
  },
  cusViewer: {
    input(library, frees, data, updated) {
      const at = library.copy(data, frees), out = library.take(8, frees);
      for (let from = 0; from < data.byteLength;) {
        library.check(library.exports.cusViewerInput(this.at, at + from, data.byteLength - from, out, out + 4));
        const [used, update] = library.view("u32", out, 2);
        from += used;
        if (update)
          updated(update);
      }
    },
    output(library, frees) {
      const out = library.take(8, frees);
      library.check(library.exports.cusViewerOutput(this.at, out, out + 4));
      const [at, size] = library.view("u32", out, 2), bytes = library.view("u8", at, size).slice();
      library.check(library.exports.cusViewerSent(this.at, size));
      return bytes;
    },
  },
};
