declare global {
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}
import type {Functions, constants} from "./interface.js";

export * from "./interface.js";

/** Event columns: pixels, 0 negative or 1 positive, microseconds. */
export interface Events {
  x: Uint16Array;
  y: Uint16Array;
  p: Uint8Array;
  t: BigInt64Array;
}

export type Bytes = ArrayBuffer | ArrayBufferView;
export type Values = Uint8Array | Uint8ClampedArray | Int8Array | Uint16Array | Int16Array | Int32Array | Float32Array | Float64Array;

/** What a call takes as a matrix: a Mat; values with rows, cols and a type of the library; or ImageData, as 8UC3 in the order B, G, R. */
export type Picture = Mat | {rows: number; cols: number; type: number; data: Values} | {width: number; height: number; data: Uint8ClampedArray};

/** A matrix in the library's memory. */
export declare class Mat {
  readonly rows: number;
  readonly cols: number;
  /** constants.CUS_8UC3 and so on. */
  readonly type: number;
  readonly channels: number;
  /** The values in place, until the next call of the library. */
  readonly data: Values;
  /** An 8-bit matrix as ImageData; node has no such class and gets {width, height, data}. */
  imageData(): {width: number; height: number; data: Uint8ClampedArray};
  /** Makes this matrix a copy of another. */
  copy(from: Mat): void;
  dispose(): void;
  [Symbol.dispose](): void;
}

/** A call that was refused: the library's message, the number of its status and its name, such as CUS_ERROR_TYPE. */
export declare class CusightError extends Error {
  readonly status: number;
  readonly code: string;
}

/** The library, in one thread. */
export interface Library extends Functions {
  readonly constants: typeof constants;
  /** An empty matrix, or one of rows x cols of a type, whose values are not set. */
  Mat: new (rows?: number, cols?: number, type?: number) => Mat;
  /** The gray version of ImageData; with channels 3 B, G, R, with 4 also alpha. */
  fromImage(image: {width: number; height: number; data: Uint8ClampedArray}, channels?: 1 | 3 | 4): Mat;
}

export interface LoadOptions {
  /** Whether to load cusight-simd.wasm. Default: if WebAssembly has SIMD here. */
  simd?: boolean;
  /** The module or its bytes, instead of a file beside this one. */
  module?: Bytes | object;
  /** Another place of the files. */
  base?: string | URL;
}

/** Compiles the library; each call makes one with a memory of its own. */
export declare function load(options?: LoadOptions): Promise<Library>;
