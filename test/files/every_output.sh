#!/usr/bin/env bash
# Every option and argument of every program that writes files, as the programs' own tables list them (--generate-files): outputs that
# are inputs or other outputs, by any name; names that are empty, folders, or in no folder; names that the program makes up.
# every_output.sh BUILD SOURCE
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
server=
at_end() { [ -z "$server" ] || kill "$server" 2>/dev/null; }

# How to call each: INPUT is a file that it reads (made by input_of), VALUE the output. An option that is not here fails the test.
declare -A calls=(
    [belt FOLDER]="VALUE --frames 3 --output side.avi"
    [belt --output]="side --frames 3 --output VALUE.avi"
    [contour --output]="INPUT.png right.png --shifts 8 --output VALUE.png"
    [contour --save-elevation]="INPUT.png right.png --shifts 8 --output side.png --save-elevation VALUE.png"
    [contour --save-depth]="INPUT.png right.png --shifts 8 --output side.png --save-depth VALUE.png"
    [contour --save-cloud]="INPUT.png right.png --shifts 8 --output side.png --save-cloud VALUE.ply"
    [contour --save-confidence]="INPUT.png right.png --shifts 8 --output side.png --save-confidence VALUE.png"
    [contour --save-lines]="INPUT.png right.png --shifts 8 --output side.png --save-lines VALUE.png"
    [contour --save-edges]="INPUT.png right.png --shifts 8 --output side.png --save-edges VALUE.png"
    [diffstream send --frame-checksums]="INPUT.avi --bind 127.0.0.1:0 --unpaced --frame-checksums VALUE.txt"
    [diffstream send --save-wire]="INPUT.avi --bind 127.0.0.1:0 --unpaced --save-wire VALUE.cusd"
    [diffstream view --output]="SENDER --frames 2 --key INPUT.key --output VALUE.avi"
    [diffstream view --frame-checksums]="SENDER --frames 2 --key INPUT.key --frame-checksums VALUE.txt"
    [diffstream demo --output]="INPUT.avi --output VALUE.avi"
    [diffstream demo --frame-checksums]="INPUT.avi --frame-checksums VALUE.txt"
    [diffstream demo --save-wire]="INPUT.avi --save-wire VALUE.cusd"
    [diffstream page FOLDER]="INPUT.cusd VALUE"
    [events --output]="INPUT.txt --events-per-frame 1000 --output VALUE.avi"
    [events --save-events]="INPUT.txt --save-events VALUE.h5"
    [events --triggers]="INPUT.txt --triggers VALUE.csv"
    [events convert OUTPUT]="INPUT.txt VALUE.raw"
    [events merge --output]="INPUT.raw --output VALUE.raw"
    [heatmap --output]="INPUT.avi --output VALUE.avi"
    [heatmap --report]="INPUT.avi --report VALUE.json"
    [heatmap --clips]="INPUT.avi --min-frames 3 --clips VALUE"
    [match --output]="INPUT.avi --roi 1,1,8,8 --method sqdiff --output VALUE.avi"
    [match --save-matches]="INPUT.avi --roi 1,1,8,8 --method sqdiff --output side.avi --save-matches VALUE.csv"
)

# Files to read, one of each kind: given.avi and so on.
made_events 64 48 5000 >given.txt
echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef >given.key
chmod 600 given.key
"$bin/cusight-heatmap" synthetic:64x48@30 --headless --device cpu --output given.avi >log 2>&1 || die "$(cat log)"
"$bin/cusight-heatmap" synthetic:64x48@2 --headless --device cpu --output given.png >log 2>&1 || die "$(cat log)"
"$bin/cusight-events" given.txt --headless --device cpu --events-per-frame 1000 --output given.raw >log 2>&1 || die "$(cat log)"
"$bin/cusight-diffstream" send given.avi --bind 127.0.0.1:0 --unpaced --device cpu --save-wire given.cusd >log 2>&1 || die "$(cat log)"
# Something moves in it, which --clips needs.
python3 - <<'END' || die "no film"
for f in range(40):
    rows = [[60] * 96 for _ in range(72)]
    if 12 <= f < 30:
        for y in range(20, 50):
            rows[y][2 * f:2 * f + 20] = [200] * 20
    open(f"f{f:02d}.ppm", "wb").write(b"P6 96 72 255\n" + bytes(v for row in rows for v in row for _ in range(3)))
END
"$bin/cusight-heatmap" f%02d.ppm --headless --device cpu --view side --no-legend --output given.avi >log 2>&1 || die "$(cat log)"
"$bin/cusight-diffstream" send given.avi --bind 127.0.0.1:0 --key given.key --loop --device cpu >/dev/null 2>sender &
server=$!
awaited grep -q "^listening on" sender
sender=$(sed -n 's/^listening on \([^,]*\).*/\1/p' sender)

# What each attempt begins with: the inputs, and links to them. The user's files are in ../given.
mkdir start && cp -p given.* start && cp given.png start/right.png
for file in given.*; do
    ln "start/$file" "start/hard.${file#*.}"
    ln -s "$file" "start/soft.${file#*.}"
done
ln -s . start/here
cat given.* >all
fresh() { cd "$work" && rm -rf "try-$program" && cp -a start "try-$program" && cd "try-$program" || exit 1; }
intact() { # the user's files
    local file
    cat given.* 2>/dev/null | cmp -s ../all && return
    for file in ../given.*; do cmp -s "$file" "${file#../}" || fail "$what changed ${file#../}: $1"; done
}
# attempt VALUE [MORE...]: calls the program with this output, and the ending that the table has, or with =VALUE without that; its exit
# code is in got.
attempt() {
    local value=$1 words=()
    shift
    for word in $call; do
        case $word in
            INPUT.*) word=given.${word#*.} ;;
            SENDER) word=$sender ;;
            VALUE*) if [ "$value" = "${value#=}" ]; then word=$value${word#VALUE}; else word=${value#=}; fi ;;
        esac
        words+=("$word")
    done
    got=0
    rm -rf side*
    timeout 60 "$bin/cusight-$program" ${command#-} "${words[@]}" "$@" ${common[$program $command]-} >said 2>&1 </dev/null || got=$?
}
# refused WHY: the last attempt ended with an error that names the option, and nothing was lost.
refused() {
    [ $got != 0 ] || fail "$what, $1: exit code 0"
    grep -qF -- "$name" said || fail "$what, $1: the message does not name it: $(cat said)"
    intact "$1"
    cases=$((cases + 1))
}
accepted() {
    [ $got = 0 ] || fail "$what, $1: exit code $got: $(cat said)"
    intact "$1"
    cases=$((cases + 1))
}
declare -A common=(
    [belt -]="--device cpu --headless" [contour -]="--device cpu --headless" [heatmap -]="--device cpu --headless"
    [match -]="--device cpu --headless" [events -]="--device cpu --headless" [diffstream demo]="--device cpu --headless"
    [diffstream send]="--device cpu" [diffstream view]="--headless"
)
# made_up FOLDER...: what the program has written there is refused where it would replace a file, an input even with --overwrite.
made_up() { # VALUE FILES...
    local value=$1 file
    shift
    for file in "$@"; do
        fresh
        mkdir -p "$(dirname "$file")"
        echo precious >"$file"
        attempt "$value"
        refused "a made-up name that is taken ($file)"
        grep -qsx precious "$file" || fail "$what replaced $file"
        attempt "$value" --overwrite
        accepted "--overwrite ($file)"
        grep -qsx precious "$file" && fail "$what --overwrite did not replace $file"
        [ -n "$input" ] || continue
        ln -f "$input" "$file"
        attempt "$value" --overwrite
        refused "a made-up name that is an input ($file)"
    done
}

# walk PROGRAM: all its options; the last line is how many, and of how many cases.
walk() {
    local program=$1 path=$bin/cusight-$1 options=0 cases=0
    table=$("$path" --generate-files) || { fail "$program has no table of its files: $table"; return; }
    # Options of --help with the name of a file are in the table, whether they read or write.
    for command in - $(sed -n 's/^\([a-z]*\) .*/\1/p' <<<"$table" | sort -u); do
        for name in $("$path" ${command#-} --help | sed -nE 's/^  (-[^ ]*, )?(--[a-z-]+),? (--[a-z-]+ )?(FILE|FOLDER|MASK).*/\2/p'); do
            grep -qE -e "^($command|-) $name " <<<"$table" || fail "$program $command: $name names files, but is not in the table"
        done
    done
    while read -r command name kind; do
        [ "$command" != "#" ] && [ "$kind" != input ] || continue
        options=$((options + 1))
        what="$program ${command#-} $name"
        what=${what/  / }
        call=${calls[$what]-}
        [ -n "$call" ] || { fail "$what writes, and this test does not know how to call it"; continue; }
        if [ "$kind" = folder ] && [[ $("$path" ${command#-} given.cusd probe 2>&1 </dev/null) == *"not available: this build"* ]]; then
            echo "skipped: $what: this build has no library for browsers"
            continue
        fi
        input=$(grep -o 'INPUT\.[a-z]*' <<<"$call")
        input=${input/INPUT/given}
        type=$(grep -o 'VALUE\.[a-z0-9]*' <<<"$call")
        type=${type#VALUE}

        fresh
        attempt "="
        refused "an empty name"
        grep -qF -e "$name is ''" said || fail "$what, an empty name: $(cat said)"
        if [ -n "$input" ] && [ "$kind" != folder ]; then
            for alias in "$input" "./$input" "here/$input" "hard.${input#*.}" "soft.${input#*.}"; do
                attempt "=$alias"
                refused "an output that is an input ($alias)"
                [ $got = 2 ] || fail "$what: $alias: exit code $got"
            done
        fi
        while read -r other_command other other_kind; do # another output of the same run
            [ "$other_command" = "$command" ] && [ "$other" != "$name" ] && [ "${other#--}" != "$other" ] || continue
            [ "$other_kind" != input ] && [ "$other_kind$kind" = "${other_kind/folder/}${kind/folder/}" ] || continue
            grep -q -e "$other" <<<"$call" && continue
            attempt "twice" "$other" "./twice$type"
            [ $got = 2 ] || fail "$what and $other are one file: exit code $got: $(cat said)"
            refused "two outputs with one name"
            [ ! -e "twice$type" ] || fail "$what and $other are one file, which is there"
        done <<<"$table"
        if [ "$kind" = folder ]; then
            echo precious >file
            attempt file
            refused "a file instead of a folder"
            attempt file/below
            refused "a folder in a file"
            grep -qsx precious file || fail "$what replaced a file by a folder"
            attempt made/below
            accepted "a folder that is made"
            mapfile -t files < <(find made -type f)
            [ ${#files[@]} -gt 0 ] || fail "$what has written nothing: $(cat said)"
            made_up made/below "${files[@]}"
        else
            attempt no/such/folder
            refused "no such folder"
            [ ! -e no ] || fail "$what has made a folder"
            mkdir "folder$type"
            attempt folder
            [ "$kind" = pictures ] || refused "a folder instead of a file"
            echo before >"done$type"
            attempt "done"
            accepted "a file that is replaced"
            grep -qsx before "done$type" && fail "$what did not replace a file"
        fi
        # All that was written is named, in text and in JSON.
        fresh
        attempt "named"
        accepted "a name"
        cp said text
        rm -rf named* side*
        attempt "named" --json
        grep -v '^{' said >notes
        grep '^{' said | tail -n 1 >json
        mapfile -t files < <(find . -newer right.png -type f | grep -vE '/(said|text|notes|json|right.png|given[.].*)$')
        for file in "${files[@]}"; do
            grep -qF -- "${file#./}" text || fail "$what has written ${file#./}, and its results do not say so: $(cat text)"
            python3 -c 'import json, sys
sys.exit(sys.argv[1] not in [f["file"] for f in json.load(open("json"))["files"]])' "${file#./}" ||
                fail "$what has written ${file#./}, which is not in its JSON: $(cat json)"
        done
        if [ "$kind" = pictures ]; then
            fresh
            attempt "=made/"
            accepted "numbered pictures"
            first=$(find made -name '*.png' | sort | head -n 1)
            [ -n "$first" ] || fail "$what wrote no numbered pictures"
            made_up "=made/" "$first"
        fi
    done <<<"$table"
    echo "walked $options $cases"
}

programs=0
for path in "$bin"/cusight-*; do
    program=${path#"$bin"/cusight-}
    walk "$program" >"$work/walked-$program" 2>&1 &
    programs=$((programs + 1))
    walks[programs]=$!
done
wait "${walks[@]}"
cd "$work" || exit 1
read -r options cases < <(awk '/^walked / { o += $2; c += $3 } END { print o, c }' walked-*)
grep -h "^skipped: " walked-*
grep -hv "^walked \|^skipped: " walked-* && failed=1
[ "$(cat walked-* | grep -c "^walked ")" = $programs ] || fail "not all programs were walked"
echo "$cases cases of $options options that write, of $programs programs"
[ $programs -ge 7 ] && [ "$options" -ge 25 ] || fail "programs or options are missing"
finish
