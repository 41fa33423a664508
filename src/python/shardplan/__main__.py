# SPDX-License-Identifier: Apache-2.0
"""`python -m shardplan`: becomes the program, so signals and exit codes are its own."""

import os
import sys

from shardplan import find_program

if __name__ == "__main__":
    try:
        program = find_program()
        os.execv(program, [program] + sys.argv[1:])
    except OSError as error:
        print("python -m shardplan: {}".format(error), file=sys.stderr)
        sys.exit(2)
