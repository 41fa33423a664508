# SPDX-License-Identifier: Apache-2.0
"""shardplan, a program in C++, as a package of Python.

The wheel brings the program itself; there is no interface to it from Python but
its command line. `python -m shardplan` runs it.
"""

import os
import sysconfig


def find_program():
    """The path of the program that was installed with this package.

    Installers put it into the folder of scripts: of an environment or a user,
    which is three folders above this package and then `bin`, or of the folder
    of `pip install --target`.
    """
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(packages)))
    folders = (
        os.path.join(prefix, "bin"),
        os.path.join(packages, "bin"),
        sysconfig.get_path("scripts"),
    )
    for folder in folders:
        program = os.path.join(folder, "shardplan")
        if os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    raise FileNotFoundError(
        "the program shardplan is in none of " + ", ".join(folders)
    )
