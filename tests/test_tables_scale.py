"""Large and wide tables: time and memory stay where they were promised."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import scipy.sparse as sp

from tamis.tables.columns import Values
from tamis.tables.frame import Table, as_table
from tamis.tables.schema import learn_schema


def test_a_thousand_rows_of_thirty_columns_take_no_time() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 30))
    spent = []
    for _ in range(5):
        start = time.process_time()
        table = as_table(X)
        schema = learn_schema(table)
        covered = sum(int(rows.sum()) for rows in schema.truth(table))
        spent.append(time.process_time() - start)
    assert len(schema) == 480
    assert covered == 240 * 1000  # each pair of complements covers every row once
    assert min(spent) < 0.1


def test_memory_does_not_grow_with_the_number_of_columns() -> None:
    n_rows, rng = 200_000, np.random.default_rng(0)

    def fetch(position: int) -> Values:
        return Values("numeric", numbers=np.random.default_rng(position).normal(size=n_rows))

    def peak(width: int) -> int:
        table = Table(tuple(f"c{j}" for j in range(width)), n_rows, "made", True, None, fetch, n_rows)
        tracemalloc.start()
        schema = learn_schema(table, sample_weight=rng.integers(1, 3, n_rows), min_support=0.01)
        for _ in schema.truth(table):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    narrow, wide = peak(2), peak(12)
    assert wide < 1.1 * narrow + 1_000_000
    assert wide < 14 * 8 * n_rows  # a few columns of float64, never a table of rows x conditions


def test_many_levels_and_a_million_rows_of_text_codes() -> None:
    codes = np.random.default_rng(0).zipf(1.5, size=300_000) % 5000
    texts = np.array([f"level {code}" for code in range(5000)])[codes]
    table = as_table({"city": texts})
    start = time.process_time()
    schema = learn_schema(table)
    covered = [int(rows.sum()) for rows in schema.truth(table)]
    assert time.process_time() - start < 5
    assert len(schema) == 2 * 50 + 2
    assert covered[0] + covered[50] == len(texts)
    assert len(str(schema.to_dict())) < 60_000  # the pool is told by the levels it leaves out


def test_a_wide_sparse_table_is_read_column_by_column() -> None:
    matrix = sp.random_array((2000, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    tracemalloc.start()
    schema = learn_schema(as_table(matrix), n_cuts=1, cuts="quantile", max_literals=100_000, min_support=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(schema) > 1000
    assert peak < 2000 * 3000 * 8 / 2
