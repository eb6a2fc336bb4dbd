# SPDX-License-Identifier: Apache-2.0
"""How requests reach silos and replies come back: in this process, or over a network. Same algorithm either way."""
