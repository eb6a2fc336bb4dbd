# SPDX-License-Identifier: Apache-2.0
"""`python -m fedqa` is the command `fedqa`."""

from fedqa.cli import main

if __name__ == "__main__":
    main()
