#!/usr/bin/env bash
# cusight-contour: the range of shifts that it finds, pictures that are no pair, and maps that are mostly holes. Arguments: the build folder,
# the source folder.
# shellcheck source=SCRIPTDIR/support.sh
. "$(dirname "$0")/support.sh"
need_programs

# Noise that shifts by 20 pixels to the left, and in the middle by 70; the same side by side; other noise.
python3 - <<'END'
import random
W, H = 320, 160
def noise(seed):
    r = random.Random(seed)
    return [bytes(r.randrange(256) for _ in range(W + 100)) for _ in range(H)]
def save(name, rows):
    with open(name, "wb") as f:
        f.write(b"P5 %d %d 255\n" % (len(rows[0]), len(rows)) + b"".join(rows))
far, near, other = noise(1), noise(2), noise(3)
left, right = [], []
for y in range(H):
    l, r = bytearray(far[y][:W]), bytearray(far[y][20:W + 20])
    if 40 <= y < 120:
        l[120:220] = near[y][:100]
        r[50:150] = near[y][:100]
    left.append(bytes(l))
    right.append(bytes(r))
save("left.pgm", left)
save("right.pgm", right)
save("other.pgm", [row[:W] for row in other])
save("both.pgm", [a + b for a, b in zip(left, right)])
save("single.pgm", [a[:W] + b[:W] for a, b in zip(other, near)])
save("large.pgm", [random.Random(y).randbytes(1024) for y in range(520)])
END
contour() { # CODE TEXT ARGUMENT...
    local code=$1 text=$2
    shift 2
    rm -f c.png
    says "$code" "$text" "$bin/cusight-contour" "$@" --device cpu --headless --output c.png
}
# found LOW HIGH: the shifts tried, found from the pair, are so many.
found() {
    local n
    n=$(sed -n 's/^shifts tried: \([0-9]*\), found from the pair$/\1/p' said)
    [ "${n:-0}" -ge "$1" ] && [ "$n" -le "$2" ] || fail "expected $1 to $2 shifts: $(cat said)"
}

echo "-- the range"
contour 0 "shifts: 19.9 to 70.1 pixels" left.pgm right.pgm
found 71 100
grep -q "of the pixels have no shift" said && fail "a good pair is warned of: $(cat said)"
contour 0 "shifts: 19.9 to 70.1 pixels" both.pgm
found 71 100
contour 0 "shifts: " left.pgm right.pgm --reduce 2
found 36 60
contour 0 "shifts: 19.8 to 70 pixels" right.pgm left.pgm --direction right
found 71 100
contour 0 "shifts: 0 to 0 pixels" left.pgm left.pgm
found 1 24
contour 0 "shifts tried: 80" left.pgm right.pgm --shifts 80
grep -q found said && fail "a given range is said to be found"
contour 2 "--preset is 'classic', expected one of the encoder, such as veryfast; --stereo-preset chooses the stereo options" \
    left.pgm right.pgm --preset classic
contour 2 "unknown option --encoder-preset: it is --preset now" left.pgm right.pgm --encoder-preset fast
contour 0 "shifts tried: 80" left.pgm right.pgm --shifts 80 --stereo-preset classic --window 21 --fill once --lines modulo
contour 0 "shifts: 19.8 to 70.1 pixels" left.pgm right.pgm --stereo-preset smooth --save-lines smooth.png
contour 0 "shifts: " left.pgm right.pgm --stereo-preset best --save-lines best.png
contour 0 "shifts: " left.pgm right.pgm --save-lines auto.png
cmp -s auto.png best.png || fail "the preset auto is not best"
for option in --window-size=17 --agreement=edge --aggregation=window; do # which best cannot have
    contour 0 "shifts: " left.pgm right.pgm "$option" --save-lines auto.png
    contour 0 "shifts: " left.pgm right.pgm "$option" --stereo-preset smooth --save-lines smooth.png
    cmp -s auto.png smooth.png || fail "the preset auto is not smooth with $option"
done
contour 0 "shifts tried: 80" left.pgm right.pgm --shifts 80 --aggregation paths --paths 8 --p1 20 --p2 300 --window 5
contour 0 "545 million pixels times shifts: windows decide, as with --stereo-preset smooth" large.pgm large.pgm --shifts 1024
contour 2 "--aggregation paths needs --agreement census and a --window-size of at most 15" left.pgm right.pgm \
    --stereo-preset best --window 17
contour 2 "--aggregation paths needs --agreement census" left.pgm right.pgm --aggregation paths --agreement edge
contour 2 "--shifts is '1025', expected an integer from 0 to 1024" left.pgm right.pgm --shifts 1025
contour 2 "--shifts is 200, expected at most the 160 columns" left.pgm right.pgm --reduce 2 --shifts 200

echo "-- what is no pair"
contour 3 "near objects shift to the right: exchange the images, or set --direction right" right.pgm left.pgm
contour 3 "single.pgm looks like no side-by-side pair" single.pgm
contour 3 "LEFT and RIGHT look like no rectified pair" left.pgm other.pgm
[ ! -e c.png ] || fail "a map of no pair is written"
contour 0 "of the pixels have no shift that both images agree on, so the window has 21 x 21 pixels" left.pgm other.pgm --shifts 40 --stereo-preset smooth
contour 0 "of the pixels have no shift that both images agree on: try to leave out --shifts" left.pgm other.pgm --shifts 40
says 0 "the first frame does not tell how far points shift: trying 30 shifts" "$bin/cusight-contour" synthetic:192x60@3 --device cpu --headless --output c.mp4

echo "-- rectification"
matrix() { printf '%s: !!opencv-matrix\n   rows: %s\n   cols: %s\n   dt: d\n   data: [ %s ]\n' "$@"; }
intrinsics() {
    printf '%%YAML:1.0\n---\n'
    for k in 1 2; do
        matrix M$k 3 3 "100., 0., 159.5, 0., 100., 79.5, 0., 0., 1."
        matrix D$k 1 5 "0., 0., 0., 0., 0."
    done
}
extrinsics() { matrix R 3 3 "1., 0., 0., 0., 1., 0., 0., 0., 1." && matrix T 3 1 "-100., 0., 0."; }
intrinsics >intrinsics.yml
{ printf '%%YAML:1.0\n---\n' && extrinsics; } >extrinsics.yml
{ intrinsics && extrinsics; } >stereo.yml
camera() { printf 'cam%s:\n  camera_model: %s\n  distortion_coeffs: [0.0, 0.0, 0.0, 0.0]\n  distortion_model: radtan\n  intrinsics: [100.0, 100.0, 159.5, 79.5]\n  resolution: [320, 160]\n' "$@"; }
camera 0 pinhole >one.yaml
{ camera 0 pinhole && camera 1 pinhole && printf '  T_cn_cnm1:\n  - [1.0, 0.0, 0.0, -0.1]\n  - [0.0, 1.0, 0.0, 0.0]\n  - [0.0, 0.0, 1.0, 0.0]\n  - [0.0, 0.0, 0.0, 1.0]\n'; } >camchain.yaml
{ camera 0 omni && camera 1 pinhole; } >omni.yaml
# distances: the cloud's points lie at 10 / 20 m, or at 10 / 70 m in the middle.
distances() {
    python3 - <<'END' || fail "the distances are wrong"
import struct
head, data = open("cloud.ply", "rb").read().split(b"end_header\n", 1)
near = far = n = 0
for i in range(0, len(data), 15):
    z = struct.unpack_from("<3f", data, i)[2]
    n += 1
    far += abs(z - 10 / 20) < 0.02
    near += abs(z - 10 / 70) < 0.005
assert n > 30000 and far > 0.7 * n and near > 0.05 * n, (n, far, near)
END
}
contour 0 "rectified: cameras 0.1 m apart, focal length 100.0 pixels" left.pgm right.pgm --calibration stereo.yml --unit 0.001 --save-cloud cloud.ply --save-depth depth.png --save-confidence confidence.png
distances
contour 0 "rectified: cameras 0.1 m apart" left.pgm right.pgm --calibration intrinsics.yml --extrinsics extrinsics.yml --unit 0.001 --save-cloud cloud.ply
distances
contour 0 "rectified: cameras 0.1 m apart" left.pgm right.pgm --calibration camchain.yaml --save-cloud cloud.ply
distances
contour 3 "intrinsics.yml has no R and T" left.pgm right.pgm --calibration intrinsics.yml
contour 3 "extrinsics.yml has no camera matrices of two cameras" left.pgm right.pgm --calibration extrinsics.yml
contour 3 "one.yaml has one camera" left.pgm right.pgm --calibration one.yaml
contour 3 "cam0 is omni with radtan, expected pinhole" left.pgm right.pgm --calibration omni.yaml
contour 3 "is no YAML, XML or JSON" left.pgm right.pgm --calibration left.pgm
contour 3 "missing.yml: No such file or directory" left.pgm right.pgm --calibration missing.yml

echo "-- calibrations of strangers"
hostile() { contour 3 "$1" left.pgm right.pgm --calibration "$2"; } # TEXT FILE
mkfifo pipe.yml
hostile "pipe.yml is a pipe, expected a regular file" pipe.yml
hostile "/dev/zero is a device, expected a regular file" /dev/zero
hostile ". is a folder, expected a regular file" .
{ cat stereo.yml && head -c 1100000 /dev/zero | tr '\0' ' '; } >large.yml
hostile "bytes, expected at most 1048576" large.yml
contour 3 "bytes, expected at most 1048576" left.pgm right.pgm --calibration intrinsics.yml --extrinsics large.yml
python3 - <<'END'
deep, head = 100000, "%YAML:1.0\n---\n"
files = {"brackets.yml": head + "a: " + "[" * deep, "closed.yml": head + "a: [" + '"]", [' * deep, "braces.json": "{" + '"a":{' * deep,
         "tags.xml": "<?xml version=\"1.0\"?>\n<opencv_storage>" + "<a>" * deep, "dashes.yml": head + "- " * deep,
         "steps.yml": head + "".join(" " * i + "a:\n" for i in range(1400)),
         "keys.yml": head + "a: " * deep, "anchors.yml": head + "a: &a 1\n" + "".join("b%d: [*a, *a]\n" % i for i in range(300)),
         "entities.xml": '<?xml version="1.0"?>\n<!DOCTYPE a [' + "".join('<!ENTITY a%d "&a%d;&a%d;">' % (i + 1, i, i) for i in range(30)) + "]><opencv_storage>&a30;</opencv_storage>",
         "base64.yml": head + 'M1: !!binary "' + "A" * deep + '"\n', "quotes.yml": head + 'a: "' + "x" * deep, "nul.yml": head + "a: \0\0\0\n"}
for name, text in files.items():
    open(name, "w").write(text)
END
for file in brackets.yml closed.yml braces.json tags.xml dashes.yml steps.yml entities.xml quotes.yml nul.yml; do
    hostile "$file is no YAML, XML or JSON of a calibration: line " $file
done
for file in keys.yml anchors.yml base64.yml; do hostile "$file has no camera matrices" $file; done
edited() { sed "$1" stereo.yml >edited.yml && ! cmp -s stereo.yml edited.yml || fail "sed $1 changes nothing"; }
without() { # TEXT SED...: the calibration with that change
    edited "$2"
    hostile "edited.yml: $1" edited.yml
}
without "data of M1 has values that are no finite numbers" 's/100., 0., 159.5/.NaN, 0., 159.5/'
without "data of M1 has values that are no finite numbers" 's/100., 0., 159.5/.Inf, 0., 159.5/'
without "the matrix of the left camera has the focal lengths 0 and 100" 's/100., 0., 159.5/0., 0., 159.5/'
without "the matrix of the left camera has the focal lengths 0 and 0 and the last row 0 0 0" 's/100., 0., 159.5, 0., 100., 79.5, 0., 0., 1./0., 0., 0., 0., 0., 0., 0., 0., 0./'
without "R is no rotation: R times its transpose is 0.0201 off" 's/1., 0., 0., 0., 1., 0., 0., 0., 1. \]/1.01, 0., 0., 0., 1., 0., 0., 0., 1. ]/;'
without "R is no rotation" 's/1., 0., 0., 0., 1., 0., 0., 0., 1. \]/-1., 0., 0., 0., 1., 0., 0., 0., 1. ]/'
without "T has the length 0, expected" 's/-100., 0., 0./0., 0., 0./'
without "data of T has values that are no finite numbers" 's/-100., 0., 0./-100., .NaN, 0./'
without "M1 is 1e+09 x 3, expected 1 to 16 rows and columns" 's/rows: 3/rows: 1000000000/'
without "M1 is -3 x 3, expected 1 to 16" 's/rows: 3/rows: -3/'
without "data of M1 has 9 numbers, expected 12" 's/rows: 3/rows: 4/'
without "the left camera has 3 numbers for its distortion, expected 4, 5, 8, 12 or 14" 's/cols: 5/cols: 3/; s/0., 0., 0., 0., 0. \]/0., 0., 0. ]/'
{ cat stereo.yml && printf 'image_width: -320\nimage_height: 160\n'; } >edited.yml
hostile "the images are -320 x 160, expected sides from 1 to 65536" edited.yml
edited 's/100., 0., 159.5, 0., 100., 79.5/1e300, 0., 159.5, 0., 1e-300, 79.5/'
hostile "calibration" edited.yml
sed 's/intrinsics: \[100.0/intrinsics: [.nan/' camchain.yaml >edited.yaml
hostile "intrinsics of cam0 has values that are no finite numbers" edited.yaml
sed 's/0.0, -0.1\]/0.0, 0.0]/' camchain.yaml >edited.yaml
hostile "T has the length 0" edited.yaml
# The same in XML and JSON, and nothing but errors of what is damaged.
python3 - <<'END'
import random, re
text = open("stereo.yml").read()
matrices = re.findall(r"(\w+): !!opencv-matrix\s+rows: (\d+)\s+cols: (\d+)\s+dt: d\s+data: \[ (.*?) \]", text, re.S)
json = ", ".join('"%s": {"type_id": "opencv-matrix", "rows": %s, "cols": %s, "dt": "d", "data": [%s]}' % (n, r, c, re.sub(r"\.(?=[,]|$)", ".0", d)) for n, r, c, d in matrices)
xml = "".join('<%s type_id="opencv-matrix">\n  <rows>%s</rows><cols>%s</cols><dt>d</dt>\n  <data>%s</data></%s>\n' % (n, r, c, d.replace(",", " "), n) for n, r, c, d in matrices)
files = {"stereo.json": "{" + json + "}\n", "stereo.xml": '<?xml version="1.0"?>\n<!-- of a pair -->\n<opencv_storage>\n' + xml + "</opencv_storage>\n"}
for name, content in files.items():
    open(name, "w").write(content)
r = random.Random(9)
for i in range(40):
    content = bytearray(r.choice([text, open("camchain.yaml").read(), *files.values()]).encode())
    for _ in range(r.randrange(1, 5)):
        at = r.randrange(len(content))
        content[at:at + r.choice([0, 1, 9])] = r.choice([b"[", b"{", b"<", b"]", b"-", b"\n", b":", b"'", b"1e999", b"\0", b"\t", b"", b"<a>", b"# "]) * r.choice([1, 1, 7])
    open("damaged%d" % i, "wb").write(content[:r.randrange(len(content))] if i % 5 == 0 else content)
END
for file in stereo.xml stereo.json; do contour 0 "rectified: cameras 0.1 m apart, focal length 100.0 pixels" left.pgm right.pgm --calibration $file --unit 0.001; done
for ((i = 0; i < 40; ++i)); do
    code=0
    (ulimit -t 20 -v 4000000; exec "$bin/cusight-contour" left.pgm right.pgm --calibration damaged$i --device cpu --headless --output c.png) >said 2>&1 || code=$?
    case $code in 0 | 3) ;; *) fail "damaged$i: exit code $code: $(cat said)" ;; esac
done

echo "-- the rest"
contour 2 "--rectify and --calibration exclude each other" left.pgm right.pgm --calibration stereo.yml --rectify
contour 2 "need --calibration: points alone" left.pgm right.pgm --rectify --save-cloud cloud.ply
contour 3 "points match in both images, expected at least 30" left.pgm other.pgm --rectify
contour 0 "rectified: from " left.pgm right.pgm --rectify
# Where a rectified image has no source there is nothing to match, and the map is black.
python3 - <<'END'
import random
random.seed(1)
rows, cols = 200, 320
noise = [[random.randrange(256) for _ in range(cols + 40)] for _ in range(rows + 40)]
def write(name, shift, turn):
    with open(name, "wb") as file:
        file.write(b"P5 %d %d 255\n" % (cols, rows))
        for y in range(rows):
            file.write(bytes(noise[(y + x * turn // cols) // 3][(x + shift) // 3 + 10] for x in range(cols)))
write("turned_left.pgm", 0, 0)
write("turned_right.pgm", 12, 24)
END
contour 0 "rectified: from " turned_left.pgm turned_right.pgm --rectify --save-elevation turned.pgm
python3 - <<'END' || fail "the map of turned images: $(tail -n 1 err.txt)"
import struct
data = open("turned.pgm", "rb").read()
values = struct.unpack(">64000H", data[-128000:])
known = [v / 256 - 1 for v in values if v]
near = sum(abs(v - 8.5) < 1.5 for v in known)
assert 0.3 < 1 - len(known) / 64000 < 0.45 and near > 0.9 * len(known), (len(known), near)
END
finish
