# SPDX-License-Identifier: Apache-2.0
"""A silo's own databases, asked by SQL that nobody has read before: one SELECT, read-only, within limits.

What stands between a statement and the data, from outside in: `tokens.py` and `statement.py` take it apart and refuse
what they do not know; `enclosure.py` runs it in a process of its own, which is ended when its time is over;
`sqlite_session.py` and `postgres_session.py` let that process read the tables of the schema and nothing else.
"""
