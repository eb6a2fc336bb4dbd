# SPDX-License-Identifier: Apache-2.0
"""Studies and measurements, run with `fedqa bench NAME`. Each module has `main(quick)` and prints what it measured."""
