#!/usr/bin/env bash
# `npm pack` gives a package that an empty project installs and uses from TypeScript, with types that tsc --strict accepts.
set -u
build=$1 source=$2
[ -e "$build/web/package/cusight.wasm" ] || { echo "built without the library for browsers: skipped"; exit 77; }
for program in node npm tsc; do
    command -v $program > /dev/null || { echo "no $program: skipped"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}
cd "$work" || exit 1
export npm_config_cache=$work/cache npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
npm pack --silent "$build/web/package" > packed || fail "npm pack"
tar -tzf "$(cat packed)" | sort > files
for file in LICENSE cusight.js cusight.wasm cusight-simd.wasm index.d.ts index.js interface.d.ts package.json sbom.spdx.json; do
    grep -qx "package/$file" files || fail "the package lacks $file: $(cat files)"
done
! grep -vE '^package/(LICENSE[.a-z-]*|index[.]js|cusight[.]js|cusight(-simd)?[.]wasm|(index|interface)[.]d[.]ts|package[.]json|sbom[.]spdx[.]json)$' files || fail "the package has other files"
tar -xzf "$(cat packed)" package/sbom.spdx.json
python3 "$source/test/packaging/sbom.py" package/sbom.spdx.json=cusight-npm,zstd,wasi-libc || fail "sbom.spdx.json"
echo '{"type": "module", "private": true}' > package.json
npm install --silent "./$(cat packed)" || fail "npm install"
cp "$source/test/web/use.ts" .
tsc --strict --target es2022 --module node16 --moduleResolution node16 use.ts || fail "tsc does not accept the types"
said=$(node use.js) || fail "node use.js"
expected="30 20 0 2 3 4800 60 CUS_ERROR_SIZE function 7 3"
[ "$said" = "$expected" ] || fail "it prints '$said', expected '$expected'"
# What a page loads: the script and one module.
for module in cusight cusight-simd; do
    bytes=$(cat node_modules/cusight/{index.js,cusight.js,$module.wasm} | gzip -9 | wc -c)
    [ "$bytes" -le 400000 ] || fail "$module has $bytes bytes with gzip -9, expected at most 400000"
    echo "$module.wasm and the scripts: $bytes bytes with gzip -9"
done
