# SPDX-License-Identifier: Apache-2.0
"""What scripts/package writes can be installed, and action.yml does what it says.

    python3 tests/package_test.py PROGRAM [FOLDER]

PROGRAM is any shardplan that runs here. With FOLDER, what scripts/package put
there is judged too, and must be there.
"""

import base64
import csv
import email
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src" / "python"))

import shardplan_wheel  # noqa: E402

FOLDER = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 2 else None
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
VERSION = shardplan_wheel.version()
INSTALL = ROOT / "scripts" / "install-file"


def elf(machine=62, types=(1,)):
    """The headers of a program whose segments have these types."""
    header = bytearray(64)
    header[:7] = b"\x7fELF\x02\x01\x01"
    header[18:20] = machine.to_bytes(2, "little")
    header[32:40] = (64).to_bytes(8, "little")
    header[54:56] = (56).to_bytes(2, "little")
    header[56:58] = len(types).to_bytes(2, "little")
    return bytes(header) + b"".join(
        kind.to_bytes(4, "little") + bytes(52) for kind in types
    )


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, **options)


def digest_of(file):
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def wheel_of_program(folder):
    """A wheel around PROGRAM, which need not be static to be unpacked and run."""
    with unittest.mock.patch.object(
        shardplan_wheel, "machine_of", return_value="x86_64"
    ):
        return shardplan_wheel.write_wheel(PROGRAM, folder, "x86_64")


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def check_wheel(self, path, arch, program=None):
        name, version, *tags = path.stem.split("-")
        self.assertEqual((name, version), ("shardplan", VERSION))
        python, abi, platforms = tags
        self.assertTrue(all(p.endswith("_" + arch) for p in platforms.split(".")))
        info = f"shardplan-{version}.dist-info"
        script = f"shardplan-{version}.data/scripts/shardplan"
        with zipfile.ZipFile(path) as wheel:
            self.assertIsNone(wheel.testzip())
            names = wheel.namelist()
            self.assertEqual(len(set(names)), len(names))
            self.assertEqual(names[-1], f"{info}/RECORD")
            rows = list(csv.reader(io.StringIO(wheel.read(names[-1]).decode())))
            self.assertCountEqual([row[0] for row in rows], names)
            for row_name, digest, size in rows:
                if row_name == names[-1]:
                    self.assertEqual((digest, size), ("", ""))
                    continue
                content = wheel.read(row_name)
                algorithm, value = digest.split("=", 1)
                self.assertEqual(algorithm, "sha256")
                self.assertEqual(
                    base64.urlsafe_b64decode(value + "="),
                    hashlib.sha256(content).digest(),
                )
                self.assertEqual(int(size), len(content))
            metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
            self.assertFalse(metadata.defects)
            self.assertEqual(metadata["Name"], "shardplan")
            self.assertEqual(metadata["Version"], version)
            self.assertTrue(metadata.get_payload().strip())
            about = email.message_from_bytes(wheel.read(f"{info}/WHEEL"))
            self.assertEqual(about["Wheel-Version"], "1.0")
            self.assertEqual(about["Root-Is-Purelib"], "false")
            self.assertEqual(
                about.get_all("Tag"),
                [f"{python}-{abi}-{platform}" for platform in platforms.split(".")],
            )
            for entry in wheel.infolist():
                runs = entry.external_attr >> 16 & 0o111
                self.assertEqual(runs != 0, entry.filename == script)
            content = wheel.read(script)
            self.assertEqual(shardplan_wheel.machine_of(content), arch)
            if program is not None:
                self.assertEqual(content, program)
            return names


class Wheel(InFolder):
    def test_it_is_what_installers_expect(self):
        for arch, machine in (("x86_64", 62), ("aarch64", 183)):
            program = elf(machine) + b"the rest"
            path = shardplan_wheel.write_wheel(
                self.file("program", program), self.folder, arch
            )
            self.check_wheel(path, arch, program)

    def test_the_same_input_gives_the_same_bytes(self):
        program = self.file("program", elf())
        both = [
            shardplan_wheel.write_wheel(program, self.folder / name, "x86_64")
            for name in "ab"
        ]
        os.utime(program, (1, 1))
        self.assertEqual(both[0].read_bytes(), both[1].read_bytes())

    def test_licences_go_with_it(self):
        path = shardplan_wheel.write_wheel(
            self.file("program", elf()),
            self.folder,
            "x86_64",
            self.file("texts", b"all of them"),
        )
        with zipfile.ZipFile(path) as wheel:
            name = f"shardplan-{VERSION}.dist-info/licences.txt"
            self.assertEqual(wheel.read(name), b"all of them")

    def test_what_does_not_run_everywhere_is_refused(self):
        for content, reason in (
            (b"#!/bin/sh\n", "not a 64-bit"),
            (b"", "not a 64-bit"),
            (elf(types=(1, 3)), "dynamic linker"),
            (elf(183), "for aarch64, not for x86_64"),
        ):
            with self.assertRaisesRegex(ValueError, reason):
                shardplan_wheel.write_wheel(
                    self.file("program", content), self.folder / "x", "x86_64"
                )
            self.assertFalse((self.folder / "x").exists())

    def test_the_module_becomes_the_program(self):
        with zipfile.ZipFile(wheel_of_program(self.folder)) as wheel:
            script = f"shardplan-{VERSION}.data/scripts/shardplan"
            program = wheel.read(script)
            # An environment's folders, and those of `pip install --target`.
            for packages, scripts in (
                ("v/lib/python3/site-packages", "v/bin"),
                ("t", "t/bin"),
            ):
                wheel.extractall(self.folder / packages)
                environment = {"PYTHONPATH": str(self.folder / packages), "PATH": ""}
                module = [sys.executable, "-m", "shardplan"]
                none = run(*module, "--version", env=environment)
                self.assertEqual(none.returncode, 2, none)
                self.assertIn("the program shardplan is in none of", none.stderr)
                (self.folder / scripts).mkdir()
                installed = self.file(f"{scripts}/shardplan", program)
                installed.chmod(0o755)
                done = run(*module, "--version", env=environment)
                self.assertEqual(done.stdout, f"shardplan {VERSION}\n", done)
                asked = run(*module, "check", "no such.json", env=environment)
                self.assertEqual(asked.returncode, 2, asked)


class InstallFile(InFolder):
    def install(self, *words, ok=True):
        done = run(INSTALL, *words)
        self.assertEqual(done.returncode == 0, ok, done)
        return done.stderr

    def test_every_kind_of_file(self):
        archive = self.folder / "x.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(PROGRAM, f"shardplan-{VERSION}-linux-x86_64/shardplan")
            tar.add(__file__, f"shardplan-{VERSION}-linux-x86_64/licences.txt")
        for file in (PROGRAM, archive, wheel_of_program(self.folder)):
            into = self.folder / "into" / file.name
            self.install(file, into, digest_of(file).upper())
            done = run(into / "shardplan", "--version")
            self.assertEqual(done.stdout, f"shardplan {VERSION}\n")

    def test_a_name_is_nothing_but_a_name(self):
        """Not an option, not a machine, not a module beside it."""
        plain = self.file("plain.tar.gz", b"")
        with tarfile.open(plain, "w:gz") as tar:
            tar.add(PROGRAM, f"shardplan-{VERSION}-linux-x86_64/shardplan")
        wheel = wheel_of_program(self.folder)
        for source, name in (
            (plain, "host:x.tar.gz"),
            (plain, "user@host:x.tar.gz"),
            (plain, "-x.tar.gz"),
            (wheel, "--help.whl"),
            (wheel, "a b.whl"),
            (PROGRAM, "-r"),
            (PROGRAM, "shardplan"),
        ):
            with self.subTest(name=name):
                folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                (folder / "zipfile.py").write_text("raise SystemExit('ran')\n")
                (folder / name).write_bytes(source.read_bytes())
                done = run(INSTALL, name, "into", digest_of(source), cwd=folder)
                self.assertEqual(done.returncode, 0, done)
                done = run(folder / "into" / "shardplan", "--version")
                self.assertEqual(done.stdout, f"shardplan {VERSION}\n")

    def test_what_is_not_sure_is_refused(self):
        into = self.folder / "into"
        text = self.file("text", b"#!/bin/sh\nexit 1\n")
        wheel = self.file("x.whl", b"PK")
        archive = self.file("x.tar.gz", b"PK")
        for words, reason in (
            (["https://example.invalid/x.whl", into, ""], "SHA-256 is needed"),
            ([PROGRAM, into, ""], "its SHA-256 is needed"),
            ([PROGRAM, into, "0" * 63], "has 64 hexadecimal digits"),
            (["http://example.invalid/x.whl", into, "0" * 64], "only https"),
            (["file:///etc/passwd", into, "0" * 64], "only https"),
            ([self.folder / "none.whl", into, "0" * 64], "no such file"),
            ([PROGRAM, into, "0" * 64], "its SHA-256 is"),
            ([text, into, digest_of(text)], "it does not run here"),
            ([wheel, into, digest_of(wheel)], ""),
            ([archive, into, digest_of(archive)], ""),
            ([PROGRAM], "install-file FILE"),
            ([PROGRAM, into], "install-file FILE"),
        ):
            self.assertIn(reason, self.install(*words, ok=False))
            self.assertFalse(into.exists())


class Action(InFolder):
    """Runs the steps of action.yml as a runner does."""

    def steps(self):
        text = (ROOT / "action.yml").read_text()
        found = re.findall(r"^      run: \|\n((?:        .*\n)+)", text, re.M)
        self.assertEqual(len(found), text.count("run: "))
        return [re.sub("^        ", "", step, flags=re.M) for step in found]

    def perform(self, args, version="", file=PROGRAM, sha256=None):
        paths = self.folder / "paths"
        paths.write_text("")
        environment = {
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_PATH": str(paths),
            "FILE": str(file),
            "SHA256": digest_of(file) if sha256 is None else sha256,
            "VERSION": version,
            "ARGS": args,
        }
        results = []
        for step in self.steps():
            results.append(
                run(
                    *["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
                    env=environment,
                    cwd=self.folder,
                )
            )
            if results[-1].returncode != 0:
                break
            added = paths.read_text().split()
            environment["PATH"] = ":".join(added + [environment["PATH"]])
        return results

    def test_it_installs_and_runs(self):
        results = self.perform("explain\n  SP203", VERSION)
        self.assertEqual([r.returncode for r in results], [0, 0], results)
        self.assertIn("SP203", results[1].stdout)

    def test_it_fails_as_the_program_does(self):
        results = self.perform("check none.json --rules @llama --mesh tp=2")
        self.assertEqual([r.returncode for r in results], [0, 2], results)

    def test_arguments_are_words_and_nothing_else(self):
        results = self.perform("explain $(touch>a) `touch>b` ;touch>c *")
        self.assertEqual(results[1].returncode, 2, results)
        for name in "abc":
            self.assertFalse((self.folder / name).exists())

    def test_nothing_runs_without_its_hash(self):
        evil = self.folder / "shardplan.whl"
        evil.write_text("#!/bin/sh\ntouch ran\n")
        evil.chmod(0o755)
        for sha256 in ("", "0" * 64, digest_of(PROGRAM)):
            results = self.perform("--version", file=evil, sha256=sha256)
            self.assertEqual([r.returncode for r in results], [1], results)
            self.assertFalse((self.folder / "ran").exists())

    def test_another_version_fails(self):
        results = self.perform("--version", "99.0")
        self.assertEqual([r.returncode for r in results], [1], results)
        self.assertIn("not 99.0", results[0].stderr)


class Packaged(InFolder):
    """What scripts/package wrote for this machine."""

    def only(self, pattern):
        (path,) = FOLDER.glob(pattern)
        self.assertLess(path.stat().st_size, 10_000_000, path)
        return path

    def test_each_holds_the_same_program(self):
        arch = os.uname().machine
        wheel = self.only(f"*_{arch}.whl")
        names = self.check_wheel(wheel, arch)
        self.assertIn(f"shardplan-{VERSION}.dist-info/licences.txt", names)
        archive = self.only(f"*-linux-{arch}.tar.gz")
        debian = {"x86_64": "amd64", "aarch64": "arm64"}[arch]
        package = self.only(f"*_{debian}.deb")
        digests = set()
        for file in (wheel, archive):
            done = run(INSTALL, file, self.folder / file.name, digest_of(file))
            self.assertEqual(done.returncode, 0, done)
            digests.add((self.folder / file.name / "shardplan").read_bytes())
        done = run("dpkg-deb", "--extract", package, self.folder / "root")
        self.assertEqual(done.returncode, 0, done)
        digests.add((self.folder / "root/usr/bin/shardplan").read_bytes())
        self.assertEqual(len(digests), 1)
        done = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=FOLDER)
        self.assertEqual(done.returncode, 0, done)
        # It needs no file at all but itself.
        program = self.folder / "root/usr/bin/shardplan"
        headers = run("readelf", "--program-headers", "--dynamic", program).stdout
        self.assertIn("LOAD", headers)
        self.assertNotIn("INTERP", headers)
        self.assertNotIn("NEEDED", headers)


if FOLDER is None:
    del Packaged

if __name__ == "__main__":
    unittest.main()
