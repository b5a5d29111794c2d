"""What messages say besides: what to do."""

from __future__ import annotations

import re

_DEPTHS = {"8U": "uint8", "8S": "int8", "16U": "uint16", "16S": "int16", "32S": "int32", "32F": "float32", "64F": "float64", "16F": "float16"}
_CHANNELS_LAST = (
    "images are (rows, cols, channels): .permute(1, 2, 0).contiguous() in PyTorch, numpy.ascontiguousarray(image.transpose(1, 2, 0)) in NumPy"
)
FIXED_POINT = "float32: cv2.convertMaps(map1, map2, cv2.CV_32FC2)[0] makes it, with the fractions, of OpenCV's two maps in fixed point"
# What functions take whose message cannot come from the library, which has no types of 64-bit and unsigned 32-bit integers. By function
# and, where its arguments differ, by argument.
_TAKEN = {
    "ContourMapper": "uint8 or float32",
    "DiffEncoder.encode": "uint8",
    "DiffEncoder.encode_batch": "uint8",
    "DiffEncoder.reset": "uint8",
    "DiffDecoder.reset": "uint8",
    "EventGenerator.push": "uint8",
    "Integrator": "uint8 or float32",
    "Matcher": "uint8 or float32",
    "Matcher.inspect": "uint8",
    "MotionDetector.step": "uint8",
    "MotionDetector.watch": "uint8",
    "PoseMatcher": "uint8",
    "box_sums boxes": "int32",
    "box_sums table": "int32 or float64",
    "heatmap": "uint8",
    "hsv_count": "uint8",
    "integral": "uint8 or float32",
    "noise_view": "uint8",
    "remap map": "float32",
    "remap src": "uint8 or float32",
    "stereo_census": "uint8 or float32",
    "stereo_contours": "uint16 or float32",
    "stereo_edges": "uint8 or float32",
    "stereo_elevation": "uint8",
    "stereo_fill": "uint16",
    "stereo_filter_speckles": "uint16",
    "stereo_find_shifts": "uint8",
    "stereo_median": "uint16 or float32",
    "stereo_picture contours": "uint8",
    "stereo_picture elevation": "uint16 or float32",
    "yuv_to_bgr": "uint8 or uint16",
    "yuv_to_gray": "uint8 or uint16",
}


def taken(function: str, argument: str) -> str:
    """The types that an argument may have, and how to convert to one; called by the module."""
    types = _TAKEN.get(f"{function} {argument}") or _TAKEN.get(function)
    return f"{types}: {_converted(argument, types.split(' or ')[-1])}" if types else "integers of at most 32 bits or floats"


def _converted(argument: str, dtype: str) -> str:
    return f"{argument}.astype('{dtype}'), in PyTorch {argument}.to(torch.{dtype})"


def for_type(message: str) -> str:
    """What an error of the library about an element type leaves to say, in Python's words."""
    found = re.search(r"([\w.]+(?:\[\d+\])?) (?:has type|is) (\d+[USF])C(\d+), expected (.*)", message)
    if not found:
        unknown = re.match(r"([\w.]+): (\w+) has (?:elements of format|type) .*, expected integers or floats", message)
        types = unknown and (_TAKEN.get(f"{unknown[1]} {unknown[2]}") or _TAKEN.get(unknown[1]))
        return f"; {unknown[1]} takes {types}" if unknown and types else ""
    argument, depth, channels, rest = found.groups()
    expected = re.findall(r"\b(\d+[USF])C(\d+)\b", rest)
    depths = list(dict.fromkeys(_DEPTHS[one] for one, _ in expected))
    counts = {int(count) for one, count in expected}
    if int(channels) > 4 >= max(counts, default=5):
        return f"; {_CHANNELS_LAST}. Several images need a call each"
    if (argument, depth, channels) == ("map", "16S", "2"):
        return f"; that is int16, expected {FIXED_POINT}"
    if _DEPTHS[depth] not in depths:
        scaled = f"; of values from 0 to 1, (255 * {argument})" if depth in ("16F", "32F", "64F") and depths == ["uint8"] else ""
        return f"; that is {_DEPTHS[depth]}, expected {' or '.join(depths)}: {_converted(argument, depths[-1])}{scaled}"
    if counts == {1}:
        return f"; that is {channels} channels, expected one, (rows, cols), such as cv2.cvtColor({argument}, cv2.COLOR_BGR2GRAY)"
    shapes = " or ".join("(rows, cols)" if count == 1 else f"(rows, cols, {count})" for count in sorted(counts))
    return f"; that is {channels} channel{'s' * (channels != '1')}, expected {shapes}"


def for_size(message: str) -> str:
    """The same of errors about sizes."""
    if re.search(r"expected \d+ x \d+ like (the matcher|the encoder|encoder\[|the detector|the mapper)", message):
        return "; frames of another size need an object of their own, made with their shape"
    if "templates are" in message and "expected at most the frame" in message:
        return "; are template and image exchanged? Matcher(part, image.shape), match_template(image, part)"
    return ""
