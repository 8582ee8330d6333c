#!/usr/bin/env python3
"""Images: bench_media against Pillow on the same files, in turns, one thread each.

usage: media_peer.py BENCH_MEDIA [--rounds N]

Needs Pillow 12 (PyPI Pillow==12.3.0; Debian's python3-pil is older). Makes photographs of 3000 × 2000 in a temporary
folder, runs both sides N times in turns (default 3) and prints a Markdown table of the best of each.
"""
import base64
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import PIL
from PIL import Image


def photograph():
    """Smooth colours with grain, so that files have the sizes of real ones."""
    width, height = 3000, 2000
    noise = Image.effect_noise((width, height), 24)
    planes = [Image.radial_gradient("L").resize((width, height), turn) for turn in (1, 2, 3)]
    planes[1] = planes[1].transpose(Image.Transpose.FLIP_LEFT_RIGHT).point(lambda v: v // 2 + 40)
    planes[2] = Image.linear_gradient("L").resize((width, height))
    return Image.merge("RGB", [Image.blend(plane, noise, 0.3) for plane in planes])


def make_files(folder):
    picture = photograph()
    alpha = picture.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(picture.size))
    # The first in the order of names is the one that is resized.
    picture.save(folder / "a_baseline.jpg", quality=88)
    picture.save(folder / "b_progressive.jpg", quality=88, progressive=True)
    picture.convert("CMYK").save(folder / "c_cmyk.jpg", quality=88)
    picture.save(folder / "d_rgb.png", compress_level=6)
    alpha.save(folder / "e_rgba.png", compress_level=6)
    picture.save(folder / "f_lossy.webp", quality=85, method=1)
    picture.resize((1500, 1000)).save(folder / "g_lossless.webp", lossless=True, method=1, quality=20)


def milliseconds(run, n=7):
    best = 1e9
    for _ in range(n):
        begin = time.thread_time()
        run()
        best = min(best, time.thread_time() - begin)
    return best * 1e3


def decode(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    if "A" in image.getbands():
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return image.convert("RGB")


def pillow(folder):
    out = {}
    text = b"Q" * (32 << 20)
    out["base64"] = milliseconds(lambda: base64.b64decode(text))
    lines = b"\r\n".join(text[at:at + 76] for at in range(0, len(text), 76))
    out["base64 in lines"] = milliseconds(lambda: base64.b64decode(lines))
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        out["decode " + path.name] = milliseconds(lambda: decode(data))
    image = decode(sorted(folder.iterdir())[0].read_bytes())
    filters = Image.Resampling
    for name, kernel, height, width in (("bicubic", filters.BICUBIC, 2016, 3008), ("bicubic", filters.BICUBIC, 896, 1344),
                                        ("bicubic", filters.BICUBIC, 256, 384), ("bilinear", filters.BILINEAR, 896, 896),
                                        ("lanczos", filters.LANCZOS, 896, 1344)):
        out["resize %s %dx%d" % (name, height, width)] = milliseconds(lambda: image.resize((width, height), kernel))
    return out


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    rounds = int(arguments[arguments.index("--rounds") + 1]) if "--rounds" in arguments else 3
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_files(folder)
        sizes = {"decode " + path.name: path.stat().st_size for path in folder.iterdir()}
        for _ in range(rounds):
            ours.append(json.loads(subprocess.run([arguments[0], name, "--json"], check=True, capture_output=True).stdout))
            theirs.append(pillow(folder))
    head = ours[0]
    print("%s, level %s, 1 thread; Pillow %s; best of %d rounds of 7" % (head["cpu"], head["isa"], PIL.__version__, rounds))
    print("peaks:", json.dumps(head["peaks"]), "\n")
    print("| what | file MB | ours ms | ours | MB/s of file | Pillow ms | Pillow ÷ ours |\n|---|---|---|---|---|---|---|")
    for what, entry in head.items():
        if not isinstance(entry, dict) or "ms" not in entry:
            continue
        mine = min(run[what]["ms"] for run in ours)
        speed = entry["speed"] * entry["ms"] / mine
        size = sizes.get(what, 0) / 1e6
        other = min(run[what] for run in theirs) if what in theirs[0] else None
        print("| %s | %s | %.1f | %.3g %s | %s | %s | %s |" % (
            what, "%.2f" % size if size else "", mine, speed, entry["unit"], "%.0f" % (size / mine * 1e3) if size else "",
            "%.1f" % other if other else "", "%.2f" % (other / mine) if other else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
