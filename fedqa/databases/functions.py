# SPDX-License-Identifier: Apache-2.0
"""The functions a query may call. What is not listed is refused, whatever it does.

Left out on purpose: whatever reads files, settings or the catalogue, sleeps, opens connections, makes rows or long
texts out of nothing, or searches by regular expressions. In PostgreSQL, where the length of a value has no other bound
than a gigabyte, that includes everything that makes texts longer (`replace`, `concat`, `string_agg`), and `substring`,
which searches by regular expressions if its second value is a text; `substr` does not.
"""


def words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_COMMON = words(
    "avg count max min sum",
    "cume_dist dense_rank first_value lag last_value lead ntile percent_rank rank row_number",
    "abs ceil ceiling exp floor ln log mod power round sign sqrt trunc",
    "length lower ltrim rtrim substr trim upper",
    "cast coalesce date nullif",
)
SQLITE = _COMMON | words(
    "group_concat ifnull iif instr log10 pow replace substring total",
    "datetime julianday strftime time",
)
POSTGRES = _COMMON | words(
    "bool_and bool_or every percentile_cont percentile_disc stddev variance",
    "char_length greatest initcap least left position right split_part strpos to_char",
    "age date_part date_trunc extract make_date now to_date",
)
FUNCTIONS = {"sqlite": SQLITE, "postgres": POSTGRES}
