#!/usr/bin/env bash
# The library for browsers in node: all golden rows, plain and SIMD; its interface; the fuzzers' seeds.
set -u
build=$1 source=$2
package=$build/web/package
[ -e "$package/cusight.wasm" ] || { echo "built without the library for browsers: skipped"; exit 77; }
command -v node > /dev/null || { echo "no node: skipped"; exit 77; }
code=0
node --expose-gc "$source/test/web/interface.mjs" "$package" "$source/test/golden/tables" "$source/fuzz/seeds/eventio" || code=1
node "$source/test/web/corpora.mjs" "$package" "$source"/fuzz/seeds/{eventio,eventio_hdf5,eventio_packets,live_viewer} || code=1
if [ -e "$build/web/pages/golden/golden.wasm" ]; then
    node "$source/test/web/golden.mjs" "$package" "$build/web/pages" || code=1
else
    echo "no libc++ for WebAssembly: without golden rows"
fi
exit $code
