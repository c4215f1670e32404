"""Reading tables: every format gives the same columns, and every bad file is one sentence."""

import csv
import gzip
import sqlite3
import subprocess
import sys
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tamis.core.errors import TamisError
from tamis.tables.delimited import sniff_delimiter
from tamis.tables.readers import read_table

PLAIN = {"age": [31, None, 50], "height": [1.5, 1.75, None], "town": ["Lyon", None, 'Os"lo, N'], "member": [True, False, None]}
CSV = 'age,height,town,member\n31,1.5,Lyon,true\n,1.75,,false\n50,,"Os""lo, N",\n'


def written(folder, name, text):
    file = folder / name
    file.parent.mkdir(exist_ok=True, parents=True)
    (file.write_bytes if isinstance(text, bytes) else file.write_text)(text)
    return file


def complaint(file, **options):
    with pytest.raises(TamisError) as caught:
        read_table(file, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said


def sqlite_file(folder, *statements, name="data.sqlite"):
    connection = sqlite3.connect(folder / name)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return folder / name


def duckdb_file(folder, *statements):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)
    return folder / "data.duckdb"


@pytest.mark.parametrize(
    "form",
    [
        "csv",
        "csv.gz",
        "csv.bz2",
        "tsv",
        "semicolon",
        "pipe",
        "utf16",
        "bom",
        "crlf",
        "parquet",
        "arrow",
        "stream",
        "feather",
        "duckdb",
        "sqlite",
    ],
)
def test_every_format_gives_the_same_table(tmp_path, form):
    table = pa.table(PLAIN)
    if form in ("csv", "csv.gz", "csv.bz2"):
        import bz2

        pack = {"csv": bytes, "csv.gz": gzip.compress, "csv.bz2": bz2.compress}[form]
        file = written(tmp_path, f"data.{form}", pack(CSV.encode()))
    elif form == "tsv":
        file = written(tmp_path, "data.tsv", CSV.replace(", N", "\f").replace(",", "\t").replace("\f", ", N"))
    elif form in ("semicolon", "pipe"):
        mark = {"semicolon": ";", "pipe": "|"}[form]
        file = written(tmp_path, "data.csv", CSV.replace(", N", "\f").replace(",", mark).replace("\f", ", N"))
    elif form in ("utf16", "bom", "crlf"):
        file = written(
            tmp_path,
            "data.csv",
            {"utf16": CSV.encode("utf-16"), "bom": b"\xef\xbb\xbf" + CSV.encode(), "crlf": CSV.replace("\n", "\r\n").encode()}[form],
        )
    elif form == "parquet":
        file = tmp_path / "data.parquet"
        parquet.write_table(table, file)
    elif form in ("arrow", "stream", "feather"):
        file = tmp_path / ("data.feather" if form == "feather" else "data.arrow")
        make = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
        with make(str(file), table.schema) as sink:
            sink.write_table(table)
    elif form == "duckdb":
        rows = "(31, 1.5::DOUBLE, 'Lyon', true), (NULL, 1.75, NULL, false), (50, NULL, 'Os\"lo, N', NULL)"
        file = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) v(age, height, town, member)")
    else:
        file = sqlite_file(
            tmp_path,
            "CREATE TABLE t (age INTEGER, height REAL, town TEXT, member BOOLEAN)",
            "INSERT INTO t VALUES (31, 1.5, 'Lyon', 1), (NULL, 1.75, '', 0), (50, NULL, 'Os\"lo, N', NULL)",
        )
    assert read_table(file).to_pydict() == PLAIN


def test_types_of_csv_columns(tmp_path):
    file = written(
        tmp_path,
        "a.csv",
        "day,when,na,text,empty,clock\n2024-01-02,2024-01-02 03:04:05,NA,NA,,12:30\n2024-02-02,2024-01-02 03:04:06,3,x,,13:00\n",
    )
    assert read_table(file).to_pydict() == {
        "day": [date(2024, 1, 2), date(2024, 2, 2)],
        "when": [datetime(2024, 1, 2, 3, 4, 5), datetime(2024, 1, 2, 3, 4, 6)],
        "na": [None, 3],
        "text": ["NA", "x"],
        "empty": [None, None],
        "clock": ["12:30:00", "13:00:00"],
    }


def test_decimal_commas_are_numbers_only_when_something_else_separates(tmp_path):
    assert read_table(written(tmp_path, "a.csv", "x;y\n1,5;a\n2,25;b\n")).to_pydict() == {"x": [1.5, 2.25], "y": ["a", "b"]}
    assert read_table(written(tmp_path, "b.csv", "x;y\n1.5;a,b\n2.25;3,4\n")).to_pydict() == {"x": [1.5, 2.25], "y": ["a,b", "3,4"]}


def test_one_column_names_and_newlines_in_quotes(tmp_path):
    assert read_table(written(tmp_path, "a.csv", "x\n1\n2\n")).to_pydict() == {"x": [1, 2]}
    assert read_table(written(tmp_path, "b.csv", '\n ,"tw\no", x \n1,"a\nb",3\n')).to_pydict() == {
        "column_1": [1],
        "tw\no": ["a\nb"],
        "x": [3],
    }


def test_a_late_surprise_widens_the_column(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.tables.delimited.BLOCK", 1 << 16)
    rows = [f"{i},{i},,x" for i in range(20_000)] + ["2.5,many,7,y"]
    table = read_table(written(tmp_path, "a.csv", "a,b,c,d\n" + "\n".join(rows) + "\n"), columns=["b", "a", "c"])
    assert table.column_names == ["a", "b", "c"]
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "int64"]
    assert table.slice(19_999).to_pylist() == [{"a": 19999.0, "b": "19999", "c": None}, {"a": 2.5, "b": "many", "c": 7}]


def test_columns_and_drop_keep_file_order_and_skip_unreadable_ones(tmp_path):
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": [1], "nested": [[1, 2]], "b": ["x"], "raw": [b"\xff"]}), file)
    assert read_table(file, drop=["nested", "raw"]).to_pydict() == {"a": [1], "b": ["x"]}
    assert read_table(file, columns=["b", "a"]).column_names == ["a", "b"]
    assert "'nested'" in complaint(file)
    assert "--drop 'raw'" in complaint(file, columns=["raw"])
    assert complaint(file, columns=["nestd"]) == f"'{file}' has no column 'nestd'; did you mean 'nested'?"
    assert complaint(file, drop=["zzz"]) == f"'{file}' has no column 'zzz'; its columns are 'a', 'nested', 'b', 'raw'."


def test_exotic_arrow_types_become_plain(tmp_path):
    from decimal import Decimal

    levels = pa.array(["a", None, "b"]).dictionary_encode()
    table = pa.table(
        {
            "money": pa.array([Decimal("1.50"), None, Decimal("2.25")]),
            "level": levels,
            "none": pa.nulls(3),
            "half": pa.array([1, 2, None], pa.float16()),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    read = read_table(tmp_path / "a.parquet")
    assert [str(kind) for kind in read.schema.types] == [
        "double",
        "dictionary<values=string, indices=int32, ordered=0>",
        "double",
        "double",
    ]
    assert read.to_pydict() == {"money": [1.5, None, 2.25], "level": ["a", None, "b"], "none": [None] * 3, "half": [1.0, 2.0, None]}


def test_a_frame_index_without_a_name_is_not_a_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1, 2]}, index=[5, 9]).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").to_pydict() == {"a": [1, 2]}


def test_sqlite_cells_of_mixed_types(tmp_path):
    file = sqlite_file(
        tmp_path,
        "CREATE TABLE t (big, mixed, spelled, text, day DATE, stamp TIMESTAMP, loose DATE, flag BOOLEAN)",
        "INSERT INTO t VALUES (1, 1, 3, 5, '2024-01-02', '2024-01-02 03:04:05', 'soon', 1)",
        "INSERT INTO t VALUES (2.5, 'x', 'NA', 'y', NULL, NULL, '2024-01-02', 2), (NULL, NULL, '', '', NULL, NULL, NULL, 0)",
    )
    assert read_table(file).to_pydict() == {
        "big": [1.0, 2.5, None],
        "mixed": ["1", "x", None],
        "spelled": [3, None, None],
        "text": ["5", "y", None],
        "day": [date(2024, 1, 2), None, None],
        "stamp": [datetime(2024, 1, 2, 3, 4, 5), None, None],
        "loose": ["soon", "2024-01-02", None],
        "flag": [1, 2, 0],
    }


def test_sqlite_reads_more_columns_and_rows_than_one_statement_or_batch_holds(tmp_path):
    names = ", ".join(f'"c{i}"' for i in range(450))
    values = ", ".join("n" for _ in range(450))
    file = sqlite_file(
        tmp_path,
        f"CREATE TABLE t ({names})",
        f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) INSERT INTO t SELECT {values} FROM s",
    )
    table = read_table(file)
    assert table.shape == (300, 450)
    assert all(column.to_pylist() == list(range(1, 301)) for column in table.columns[::111])


def test_tables_of_a_database_are_named_chosen_and_listed(tmp_path):
    file = sqlite_file(
        tmp_path,
        'CREATE TABLE "odd ""name" (x)',
        'INSERT INTO "odd ""name" VALUES (1)',
        "CREATE TABLE other (y)",
        "INSERT INTO other VALUES (2)",
        "CREATE VIEW seen AS SELECT y + 1 AS z FROM other",
        name="my.db",
    )
    assert read_table(f'{file}::odd "name').to_pydict() == {"x": [1]}
    assert read_table(file, table="OTHER").to_pydict() == {"y": [2]}
    assert read_table(f"{file}::seen", table="seen").to_pydict() == {"z": [3]}
    assert complaint(file) == f"'{file}' has several tables; name one of 'odd \"name', 'other', 'seen', as in 'my.db::odd \"name'."
    assert complaint(f"{file}::nope") == f"'{file}' has no table 'nope'; its tables are 'odd \"name', 'other', 'seen'."
    assert "give only one" in complaint(f"{file}::seen", table="other")


def test_duckdb_schemas_views_and_types(tmp_path):
    file = duckdb_file(
        tmp_path,
        "CREATE TABLE t AS SELECT 1.5::DECIMAL(9, 2) AS money, 'a'::ENUM('a', 'b') AS level, TIME '10:00' AS clock, 7::HUGEINT AS huge",
        "CREATE SCHEMA s",
        "CREATE TABLE s.u AS SELECT 1 AS x",
        "CREATE VIEW v AS SELECT 2 AS y, [1] AS list",
    )
    assert read_table(f"{file}::t").to_pydict() == {"money": [1.5], "level": ["a"], "clock": ["10:00:00.000000"], "huge": [7.0]}
    assert read_table(f"{file}::s.u").to_pydict() == {"x": [1]}
    assert read_table(file, "v", drop=["list"]).to_pydict() == {"y": [2]}
    assert complaint(f"{file}::w").endswith("its tables are 't', 'v', 's.u'.")


def test_reading_leaves_a_database_alone(tmp_path):
    for file in (
        sqlite_file(tmp_path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)"),
        duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS x"),
    ):
        before = file.read_bytes(), sorted(entry.name for entry in tmp_path.iterdir())
        read_table(file)
        assert (file.read_bytes(), sorted(entry.name for entry in tmp_path.iterdir())) == before


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "is empty (0 bytes)"),
        ("a.csv", "a,b\n", "has no rows"),
        ("a.csv", "\n \n", "holds no text"),
        ("a.csv", "a,b,a\n1,2,3\n", "more than one column named 'a'"),
        ("a.csv", "a,b\n1,2\n1,2,3\n4,5\n", "has 3 cells in line 3 ('1,2,3') where its header has 2"),
        ("a.csv", b"a,b\n1,caf\xe9\n", "line 2 holds the byte 0xe9"),
        ("a.csv", b"a\n" + b"x\n" * 200_000 + b"caf\xe9\n", "is not UTF-8 text"),
        ("a.csv", 'a,b\n1,2\n3,"x\n4,5\n', "opens a quote in column 'b' that is never closed"),
        ("a.csv", b"PAR1\0\0\1", "binary data"),
        ("a.csv.gz", b"a,b\n1,2\n", "cannot be read"),
        ("a.csv.gz", gzip.compress(CSV.encode() * 1000)[:-200], "cannot be read"),
        ("a.parquet", b"PAR1 but not really", "cannot be read as a Parquet file"),
        ("a.arrow", b"ARROW1 but not really", "cannot be read as an Arrow or Feather file"),
        ("a.db", b"something else entirely, long enough", "neither a DuckDB nor a SQLite database"),
        ("a.sqlite", b"SQLite format 3\0" + b"garbage" * 200, "cannot be read as a SQLite database"),
        ("a.csv", b"x" * 200_000, "a first line that cannot be read"),
        ("a.xlsx", b"PK", "ending that is not known"),
        ("a.parquet.gz", b"PK", "ending that is not known"),
        ("a", b"x", "ending that is not known"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, name, content, says):
    file = written(tmp_path, name, content)
    said = complaint(file)
    assert says in said
    assert str(file) in said


def test_missing_files_and_folders(tmp_path):
    written(tmp_path, "train.csv", CSV)
    assert complaint(tmp_path / "tran.csv") == f"There is no file '{tmp_path / 'tran.csv'}'; did you mean 'train.csv'?"
    assert "is a folder" in complaint(tmp_path)
    assert "check its name" in complaint(tmp_path / "no" / "where.parquet")
    assert "is not a database" in complaint(f"{tmp_path / 'train.csv'}::t")


def test_without_duckdb_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    file = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS x")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'tamis[sql]'" in complaint(file)


def test_delimiters():
    assert sniff_delimiter("a,b\n1,2\n") == ","
    assert sniff_delimiter("a;b\n1,5;2,5\n") == ";"
    assert sniff_delimiter("name|note\nx|a, b; c\ny|d\n") == "|"
    assert sniff_delimiter('a\t"b,c"\n1\t2\n') == "\t"
    assert sniff_delimiter("only\n1\n") == ","
    assert sniff_delimiter("") == ","


CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n"), max_size=12)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS, st.integers(-(2**60), 2**60) | st.none()), min_size=1, max_size=20), st.sampled_from(",;\t|"))
def test_csv_round_trip_of_any_text(tmp_path, rows, delimiter):
    file = tmp_path / "round.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(["one", "two", "number"])
        writer.writerows(("t" + one, "t" + two, number) for one, two, number in rows)
    table = read_table(file)
    assert table.column("one").to_pylist() == ["t" + row[0] for row in rows]
    assert table.column("two").to_pylist() == ["t" + row[1] for row in rows]
    assert table.column("number").to_pylist() == [row[2] for row in rows]


def test_reading_does_not_wait_for_what_it_does_not_need(tmp_path):
    file = written(tmp_path, "a.csv", CSV)
    code = f"import sys; from tamis.tables.readers import read_table; read_table({str(file)!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert not {"sklearn", "scipy", "numba", "polars", "narwhals", "duckdb", "matplotlib"} & set(done.stdout.split())
