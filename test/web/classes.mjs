// Serves golden.wasm's calls by the classes and functions of the interface for JavaScript: addresses become what a program would pass, and
// what is returned goes where the call in C says. Calls of other shapes go to the module directly. Counts both in `served`.
const SERVED = "_cnlmdsahHMNA";

// The second argument is the module cusight.js itself.
export function classesOf(library, {functions, structs, CusightError}, served) {
  const {exports} = library, objects = new Map(), word = at => library.view("u32", at, 1);

  // The values of a matrix, without padding.
  function picture(at) {
    if (at === 0)
      return null;
    const {rows, cols, type, step, data} = library.read("cusMat", at), bytes = cols * exports.cusTypeSize(type), tight = new Uint8Array(rows * bytes);
    for (let y = 0; y < rows; ++y)
      tight.set(library.view("u8", data + y * step, bytes), y * bytes);
    const mat = new library.Mat(rows, cols, type), {data: values} = mat;
    return {rows, cols, type, data: new values.constructor(tight.buffer), mat: mat.dispose()};
  }

  function values(name, at) {
    if (at === 0)
      return null;
    const read = library.read(name, at);
    for (const [key, [, what]] of Object.entries(structs[name][1]))
      if (what === "m" && read[key])
        read[key] = picture(read[key]);
    return read;
  }

  // Copies a result to the matrix at an address, which has memory of its own or becomes that.
  function put(mat, at) {
    if (library.read("cusMat", at).data === 0 || library.read("cusMat", at).data === null)
      library.check(exports.cusMatCreate(at, mat.rows, mat.cols, mat.type, 0));
    library.check(exports.cusMatCopy(mat.at, at, 0));
  }

  function call(name, raw) {
    const [, ...parameters] = functions[name].split(" ").map(one => one.split(":")), given = [], into = {};
    const many = i => raw[parameters.findIndex(([kind], k) => k > i && kind === "c")];
    const list = (i, bytes, read) => Array.from({length: many(i)}, (_, k) => read(raw[i] + k * bytes));
    parameters.forEach(([kind, key, extra], i) => {
      switch (kind) {
      case "n": case "l": given.push(raw[i]); break;
      case "m": given.push(picture(raw[i])); break;
      case "d": given.push(list(i, structs.cusMat[0], picture)); break;
      case "s": given.push(values(extra, raw[i])); break;
      case "a": given.push(list(i, structs[extra][0], at => values(extra, at))); break;
      case "A": given.push(many(i)); break;
      case "h": given.push(objects.get(raw[i])); break;
      case "M": if (raw[i] === 0) into[key] = null; break;
      }
    });
    const [first] = parameters;
    if (first[0] === "H") {
      const made = new library[name.replace(/^cus|Create$/g, "")](...given);
      objects.set(made.at, made);
      word(raw[0])[0] = made.at;
      return;
    }
    if (/(Destroy|Close)$/.test(name)) {
      given[0]?.dispose();
      objects.delete(raw[0]);
      return;
    }
    given.push(into);
    const stem = first[0] === "h" ? name.startsWith(first[2]) ? first[2] : first[2].replace(/[A-Z][a-z0-9]*$/, "") : "cus", method = name.slice(stem.length);
    const target = first[0] === "h" ? given.shift() : library, got = target[method[0].toLowerCase() + method.slice(1)](...given);
    const outs = parameters.map(([kind, key], i) => [kind, key, i]).filter(([kind, key]) => "MNA".includes(kind) && into[key] !== null);
    const lists = outs.some(([kind]) => kind === "A"), named = outs.filter(([, key]) => !(lists && ["count", "found"].includes(key)));
    for (const [kind, key, i] of outs) {
      const value = lists && !named.some(one => one[1] === key) ? got.length : named.length === 1 ? got : got[key], extra = parameters[i][2];
      if (kind === "M")
        put(value, raw[i]);
      else if (kind === "A")
        value.forEach((one, k) => library.write(extra, raw[i] + k * structs[extra][0], one));
      else if (raw[i])
        library.view(extra, raw[i], 1)[0] = /64$/.test(extra) && extra[0] !== "f" ? BigInt(value) : value;
    }
  }

  return name => {
    const words = functions[name]?.split(" ") ?? [], kinds = words.slice(1).map(one => one[0]), direct = exports[name];
    const shaped = "iv".includes(words[0]) && kinds.length && kinds.every(kind => SERVED.includes(kind)) && !/^cusMat[A-Z]|SparseDiff|EventDecoderRun|MotionDetectorGet/.test(`${name} ${functions[name]}`);
    if (!shaped)
      return (...raw) => (++served.direct, direct(...raw));
    return (...raw) => {
      const at = kinds[0] === "h" ? raw[0] : null;
      if (at && !objects.has(at))
        return direct(...raw);
      ++served.classes;
      try {
        call(name, raw);
        return 0;
      } catch (error) {
        if (error instanceof CusightError)
          return error.status;
        throw error;
      }
    };
  };
}
