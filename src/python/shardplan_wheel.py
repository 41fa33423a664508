#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a wheel around a static shardplan; needs Python's standard library alone.

    shardplan_wheel.py PROGRAM FOLDER [--arch ARCH] [--licences FILE]

PROGRAM is `build/release/shardplan-static`, or that of another ARCH (x86_64,
aarch64). The same input gives the same bytes; SOURCE_DATE_EPOCH dates the files
in the wheel. Prints the wheel's path.

It is also what pyproject.toml names to build with, so `pip install .` works where
the C++ can be built: on Debian 12 after scripts/setup.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "shardplan"

# What a static program can run on: every C library, and Linux 3.2 (3.7 on aarch64)
# or later, which each system of manylinux_2_17 has. Earlier tags stand for systems
# with older kernels. Installers before pip 20.3 know only the second name; those of
# Alpine know only the third.
PLATFORMS = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(shardplan VERSION ([0-9.]+)", text).group(1)


def machine_of(program):
    """The ELF machine that a program is for; it must need nothing at run time."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    machine = int.from_bytes(program[18:20], "little")
    table = int.from_bytes(program[32:40], "little")
    size, count = (int.from_bytes(program[at : at + 2], "little") for at in (54, 56))
    for at in range(table, table + size * count, size):
        if int.from_bytes(program[at : at + 4], "little") == 3:  # PT_INTERP
            raise ValueError("it needs a dynamic linker: not a static program")
    return {62: "x86_64", 183: "aarch64"}.get(machine, str(machine))


def metadata():
    return f"""\
Metadata-Version: 2.1
Name: {NAME}
Version: {version()}
Summary: Sharding planner and analyzer for large neural networks
License: Apache-2.0; libraries in it under the licences in licences.txt
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Requires-Python: >=3.7
Description-Content-Type: text/markdown

shardplan checks the partition rules of a large neural network before it reaches a
cluster: from names and shapes, rules and a device mesh it computes where every
parameter goes, what each device holds and what is wrong. This wheel holds one
program, which needs neither Python nor any library.
"""


def write_wheel(program, folder, arch, licences=None):
    """Writes the wheel into the folder; its path."""
    content = pathlib.Path(program).read_bytes()
    machine = machine_of(content)
    if machine != arch:
        raise ValueError(f"it is for {machine}, not for {arch}")
    platforms = [f"{platform}_{arch}" for platform in PLATFORMS]
    tag = "py3-none-" + ".".join(platforms)
    base = f"{NAME}-{version()}"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms)
    package = ROOT / "src" / "python" / NAME
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in package.glob("*.py")}
    script = f"{base}.data/scripts/{NAME}"
    files[script] = content
    info = f"{base}.dist-info"
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: shardplan_wheel\n"
        f"Root-Is-Purelib: false\n{tags}"
    ).encode()
    if licences is not None:
        files[f"{info}/licences.txt"] = pathlib.Path(licences).read_bytes()

    record = f"{info}/RECORD"
    rows = []
    for name, text in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=")
        rows.append(f"{name},sha256={digest.decode()},{len(text)}\n")
    files[record] = "".join(rows + [f"{record},,\n"]).encode()

    # The format of zip files begins with 1980.
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)
    path = pathlib.Path(folder) / f"{base}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        # The format asks for what stands in .dist-info at the end.
        for name in sorted(files, key=lambda n: (n.startswith(info), n == record, n)):
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.create_system = 3  # Unix, whose modes follow
            mode = 0o755 if name == script else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, 9)
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """For installers (PEP 517): builds the release here, then its wheel."""
    del config_settings, metadata_directory
    subprocess.run(
        [ROOT / "scripts" / "build", "release", "shardplan_static"],
        check=True,
        stdout=sys.stderr,
    )
    program = ROOT / "build" / "release" / "shardplan-static"
    arch = machine_of(program.read_bytes())
    return write_wheel(program, wheel_directory, arch).name


class UnsupportedOperation(Exception):
    """For installers (PEP 517): there is no such thing."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("sources come from the repository")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--arch", default="x86_64", choices=["x86_64", "aarch64"])
    parser.add_argument("--licences")
    options = parser.parse_args()
    try:
        print(
            write_wheel(
                options.program, options.folder, options.arch, options.licences
            )
        )
    except (OSError, ValueError) as error:
        sys.exit(f"shardplan_wheel.py: {options.program}: {error}")


if __name__ == "__main__":
    main()
