# SPDX-License-Identifier: Apache-2.0
"""SQL for the skill `parse`: as the short sequence of steps that a decoder takes, and back.

A step is a symbol of a fixed grammar, an item of the schema (a table or a column, copied as a whole), words of the
question (copied as a whole), or a word piece, for values that stand nowhere. What a reader of SQL can tell by himself
is not said: a column stands for its alias and name, and where the tables of a FROM are just those whose columns are
used, `FROM*` stands for all of it. So the SQL of ATIS takes some fifty steps instead of some two hundred word pieces.

    SELECT CITYalias0.CITY_NAME FROM CITY AS CITYalias0 WHERE CITYalias0.STATE_NAME = "texas"
    <aliased> SELECT city.city_name FROM* WHERE city.state_name = texas <end>

The first step says how columns are written: by alias (`CITYalias0.CITY_NAME`), by table, or bare; a column that is
written otherwise is marked. Whatever this cannot say, spelling (`<raw>`) can.

    tokens.py     a statement cut into tokens            reading.py    tokens to steps
    parts.py      names, values and queries              rendering.py  steps to a statement
    symbols.py    the fixed grammar's symbols            notation.py   both, checked against each other
    schema.py     tables and columns, numbered           grammar.py    what may come next, for decoding
    spelling.py   texts as word pieces                   forms.py      what a model reads and writes
    choosing.py   which of several queries it is to be   linking.py    which words mean what of the schema
    words.py      words as they are compared             numbers.py    numbers as people say them

Questions are invented by inventing.py, of one table (inventing_tables.py) or several (inventing_joins.py), from what
drawing.py and conditions.py draw, in the silo's own habits (habits.py).
"""
