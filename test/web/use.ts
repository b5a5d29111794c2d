// A project that uses the installed package: compiled by tsc --strict, then run by node.
import {load, CusightError, Mat, constants, type Events, type cusMatch} from "cusight";

const cu = await load();
const picture = {rows: 60, cols: 80, type: constants.CUS_8UC1, data: Uint8Array.from({length: 4800}, (_, i) => (i * i) >> 5 ^ i)};
const part = {rows: 12, cols: 16, type: constants.CUS_8UC1, data: new Uint8Array(12 * 16)};
for (let y = 0; y < 12; ++y)
  part.data.set(picture.data.subarray((20 + y) * 80 + 30, (20 + y) * 80 + 46), 16 * y);
const matcher = new cu.Matcher([part], 60, 80, {method: constants.CUS_MATCH_SQDIFF, max_matches: 2});
matcher.run(picture);
const [best]: cusMatch[] = matcher.get(0, 2);
matcher.dispose();
const map: Mat = cu.heatmap(picture, picture, {full_scale: 510});
const events: Events = {x: Uint16Array.of(1, 2), y: Uint16Array.of(1, 2), p: Uint8Array.of(0, 1), t: BigInt64Array.of(0n, 7n)};
const stacker = new cu.EventStacker(4, 4, [{kind: constants.CUS_REPR_HISTOGRAM}, {kind: constants.CUS_REPR_TENCODE}]);
const [histogram, tencode]: Mat[] = stacker.stack(events, cu.eventWindows(events, {length: 2}, 4));
const {count, mask}: {count: Mat; mask: Mat} = cu.hsvCount(map, {lower: [0, 0, 0], upper: [179, 255, 255]});
const diff = new cu.SparseDiff(60, 80, constants.CUS_8UC1, 0, 0), encoder = new cu.DiffEncoder(60, 80, constants.CUS_8UC1, {threshold: 0});
encoder.reset(picture);
encoder.encode({...picture, data: picture.data.map((b, i) => i === 7 ? b + 3 : b)}, diff);
const changes: [Uint32Array, Uint8Array] = [diff.positions(), diff.values()];
let refused = "";
try {
  cu.heatmap(picture, part);
} catch (error) {
  refused = error instanceof CusightError ? error.code : "";
}
// @ts-expect-error: a picture is missing
const missing = () => cu.heatmap(picture);
// @ts-expect-error: no such option
const wrong = () => new cu.Matcher(part, 60, 80, {maximum: 2});
console.log(best.x, best.y, best.score, histogram.channels, tencode.channels, count.data[0], mask.rows, refused, typeof wrong, changes.join(" "));
