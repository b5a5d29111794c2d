import {load as start} from "./cusight.js";

export {CusightError, Mat, constants} from "./cusight.js";
export const load = options => start({base: import.meta.url, ...options});
